//! One turn of a worker: its shared state and its results.

use std::sync::Arc;
use std::task::Waker;

use sessionlog_core::error::{Error, Result};
use sessionlog_core::stamp::Stamp;
use sessionlog_wal::mailbox::EventSender;
use sessionlog_wal::storage::StorageFile;

use super::Shard;
use super::answer::{Ack, Answer};
use super::change::Staging;
use super::job::Job;
use super::shared::SharedState;

/// Closing a file of more bytes than this takes long: its blocks are freed.
const CLOSED_HERE: u64 = 1 << 20;

/// The state that one turn of a shard reads, and the places for its results.
#[derive(Debug)]
pub(crate) struct Turn<'a> {
    pub(crate) shared: &'a SharedState,
    pub(crate) staging: &'a mut Staging,
    pub(crate) out: &'a mut Outbox,
    /// A time after each of the turn's changes was asked for; many changes share it.
    pub(crate) now: &'a Stamp,
    /// The reason that no more lines are taken: as many lines as may wait for their files find no
    /// space there.
    pub(crate) no_room: Option<&'a Error>,
    /// The flush epoch: the first record of a session in each carries its whole sidecar.
    pub(crate) epoch: u64,
    /// The oldest epoch with sidecar images that are certainly still in the journal.
    pub(crate) images_from: u64,
    pub(crate) others: OtherShards<'a>,
}

/// The other shards beside the one that has its turn; empty while another of them is [worked
/// on](Turn::beside).
#[derive(Debug, Default)]
pub(crate) struct OtherShards<'a> {
    pub(crate) before: &'a mut [Shard],
    pub(crate) after: &'a mut [Shard],
}

impl OtherShards<'_> {
    fn get(&mut self, number: usize) -> Option<&mut Shard> {
        match number.checked_sub(self.before.len() + 1) {
            Some(after) => self.after.get_mut(after),
            None => self.before.get_mut(number),
        }
    }
}

impl Turn<'_> {
    /// Works on the shard `number`, in the turn of `own`, which may be the same. The changes of
    /// both are staged in one batch. Returns `None` if the shard cannot be reached.
    pub(crate) fn beside<R>(
        &mut self,
        own: &mut Shard,
        number: usize,
        act: impl FnOnce(&mut Shard, &mut Self) -> R,
    ) -> Option<R> {
        if own.id() == number {
            return Some(act(own, self));
        }
        let mut others = std::mem::take(&mut self.others);
        let acted = others.get(number).map(|shard| act(shard, self));
        self.others = others;
        acted
    }

    /// True if [`beside`](Self::beside) reaches that shard.
    pub(crate) fn reaches(&mut self, own: &Shard, number: usize) -> bool {
        own.id() == number || self.others.get(number).is_some()
    }
}

/// The results of a turn that leave the worker.
#[derive(Debug)]
pub(crate) struct Outbox {
    pub(crate) shared: Arc<SharedState>,
    /// Queued items that are refused: their shard, their number, and the reason.
    pub(crate) refused: Vec<(usize, u64, Error)>,
    pub(crate) wakers: Vec<Waker>,
    pub(crate) jobs: EventSender<Job>,
    /// Number of jobs that were handed out and have not returned a result.
    pub(crate) jobs_out: usize,
    /// The first failure that must stop the store.
    pub(crate) fatal: Option<Arc<str>>,
}

impl Outbox {
    /// Answers a caller, which is woken at the end of the turn, with all others.
    pub(crate) fn answer<T>(&mut self, answer: Answer<T>, result: Result<T>) {
        if let Err(error) = &result {
            self.shared.refused(error);
        }
        self.wakers.extend(answer.fulfil(result));
    }

    /// Answers the caller that waits for a change.
    pub(crate) fn settle(&mut self, ack: Ack, result: &Result<()>) {
        if let Err(error) = result
            && ack.is_awaited()
        {
            self.shared.refused(error);
        }
        match (&ack, result) {
            (Ack::Numbered { shard, number }, Err(error)) => {
                self.refused.push((*shard, *number, error.clone()));
            }
            _ => ack.settle(result, &mut self.wakers),
        }
    }

    /// Closes a file of `len` bytes that is gone from the directory. A small one is closed here: a
    /// caller that learns of the deletion may need the space and the inode.
    pub(crate) fn close(&mut self, file: Arc<dyn StorageFile>, len: u64) {
        if len > CLOSED_HERE {
            self.start(Job::Close(file));
        }
    }

    pub(crate) fn start(&mut self, job: Job) {
        if job.has_result() {
            self.jobs_out += 1;
        }
        self.jobs.send(job);
    }

    /// Stops the store; returns the error for callers with a command that may or may not hold after
    /// this.
    pub(crate) fn stop_store(&mut self, cause: &Error) -> Error {
        let reason = self.fatal.get_or_insert_with(|| cause.reason());
        Error::Poisoned {
            reason: reason.clone(),
        }
    }
}
