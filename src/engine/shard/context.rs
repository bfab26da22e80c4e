//! What every shard of a store shares.

use crate::disk::files;
use crate::ground::sync::atomic::{AtomicU64, Ordering};
use std::path::PathBuf;
use std::sync::Arc;
use std::task::Waker;

use super::backups::Backups;
use super::buffers::Buffers;
use super::command::Answer;
use super::job::Job;
use super::staging::Staging;
use crate::engine::catalog::Catalog;
use crate::engine::stats::Counters;
use crate::error::{Error, Result};
use crate::ground::clock::{Clock, Stamp};
use crate::ground::mailbox::EventSender;
use crate::ground::storage::Storage;

/// What every shard of a store shares.
#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) storage: Arc<dyn Storage>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) dir: PathBuf,
    /// Where damaged files are set aside.
    pub(crate) quarantine: PathBuf,
    pub(crate) backups: Backups,
    pub(crate) catalog: Catalog,
    pub(crate) counters: Arc<Counters>,
    pub(crate) auto_compact: bool,
    /// The largest sidecar that a command may make, encoded, bytes.
    pub(crate) max_sidecar: usize,
    pub(crate) temp_counter: AtomicU64,
    /// Counts the files that became backups, or stopped being some: the flush
    /// after one syncs everything.
    pub(crate) rebased: AtomicU64,
    /// Counts the copies made of sidecars.
    pub(crate) copied: AtomicU64,
}

impl Context {
    pub(crate) fn next_temp(&self) -> String {
        files::temp_name(self.temp_counter.fetch_add(1, Ordering::Relaxed))
    }

    /// Names among the backups are about to change, or did.
    pub(crate) fn names_changed(&self) {
        self.rebased.fetch_add(1, Ordering::AcqRel);
    }
}

/// Where a shard puts what one turn brings forth.
#[derive(Debug)]
pub(crate) struct Turn<'a> {
    pub(crate) context: &'a Context,
    pub(crate) staging: &'a mut Staging,
    /// Room for the lines of tails.
    pub(crate) buffers: &'a mut Buffers,
    pub(crate) out: &'a mut Outbox,
    /// The time that all changes of one turn share.
    pub(crate) now: &'a Stamp,
    /// The flush epoch: the first record of a session in each carries its whole
    /// sidecar.
    pub(crate) epoch: u64,
    /// The oldest epoch whose sidecar images are still in the journal for sure.
    pub(crate) images_from: u64,
}

/// What leaves a worker at the end of a turn.
#[derive(Debug)]
pub(crate) struct Outbox {
    pub(crate) worker: usize,
    pub(crate) wakers: Vec<Waker>,
    pub(crate) jobs: EventSender<Job>,
    /// Jobs handed out whose results have not come back.
    pub(crate) jobs_out: usize,
    /// The first failure that must stop the store.
    pub(crate) fatal: Option<Arc<str>>,
}

impl Outbox {
    /// Answers a caller; woken at the end of the turn, with everyone else's.
    pub(crate) fn answer<T>(&mut self, answer: Answer<T>, result: Result<T>) {
        self.wakers.extend(answer.fulfil(result));
    }

    pub(crate) fn start(&mut self, job: Job) {
        if job.has_result() {
            self.jobs_out += 1;
        }
        self.jobs.send(job);
    }

    /// Stops the store; what a caller is told whose command may or may not
    /// hold after this.
    pub(crate) fn stop_store(&mut self, cause: &Error) -> Error {
        let reason = self.fatal.get_or_insert_with(|| cause.reason());
        Error::Poisoned {
            reason: reason.clone(),
        }
    }
}
