//! The committer, and whom it tells of what became of their records.

use std::io;
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use super::Request;
use super::guard::Guard;
use super::journal_seat::JournalSeat;
use crate::disk::journal::committer::{Committer, Outcome, Signal, Ticket};
use crate::disk::journal::group::Batch;
use crate::disk::journal::pool::SegmentPool;
use crate::disk::journal::syncing::Syncing;
use crate::engine::shard::job::Job;
use crate::engine::shard::worker::alarm::Alarm;
use crate::engine::shard::worker::event::Event;
use crate::engine::shard::worker::seat::Seat;
use crate::error::{Error, Result};
use crate::ground::mailbox::EventSender;
use crate::ground::sync::atomic::{AtomicBool, Ordering};

/// How long buffered records may stay unsynced.
const BUFFERED_LINGER: Duration = Duration::from_millis(10);

/// Records of a worker that the committer settles itself, bytes at most, if more is queued:
/// it is done before the worker's thread is awake. With more, the threads share the work,
/// and the next commit does not wait for it.
const SETTLED_BUSY: usize = 4 << 10;

/// If nothing is queued, the next commit waits for those who are answered, and waking the
/// worker's thread only keeps them longer. Of more, the workers settle each their own.
const SETTLED_IDLE: usize = 32 << 10;

/// Runs the committer's thread.
pub(crate) fn run_journal(seat: &JournalSeat, journal: Journal, guard: Guard) {
    seat.run(journal);
    guard.disarm();
}

/// The committer, and whom it tells.
#[derive(Debug)]
pub(crate) struct Journal {
    pub(crate) committer: Committer,
    pub(crate) batch: Batch<Ticket>,
    pub(crate) outcomes: EventSender<Outcome>,
    pub(crate) supervise: EventSender<Request>,
    pub(crate) background: EventSender<Job>,
    pub(crate) active: Arc<AtomicBool>,
    pub(crate) ended_cleanly: Arc<AtomicBool>,
    pub(crate) alarm: Alarm,
    pub(crate) seats: Vec<Arc<Seat>>,
    pub(crate) pool: Arc<SegmentPool>,
    /// When the oldest record was written that is not synced. Counted from the newest, a
    /// trickle of buffered records would never be synced.
    pub(crate) unsynced_since: Option<Duration>,
    /// Bytes that were queued when the last batch began to be answered.
    pub(crate) queued: usize,
}

impl Journal {
    /// When what is written is to be synced, if anything is.
    pub(crate) fn syncs_at(&self) -> Option<Duration> {
        self.unsynced_since.map(|since| since + BUFFERED_LINGER)
    }

    /// Commits what was taken. `false` once the store is poisoned; and whom to wake, after
    /// the journal is somebody else's.
    #[must_use = "whoever is not woken sleeps for ever"]
    pub(crate) fn turn(&mut self, now: Duration) -> (bool, Vec<Waker>) {
        let mut answered = Vec::new();
        let committed = self.commit(&mut answered);
        if let Err(error) = &committed {
            self.fail(error);
        }
        self.unsynced_since = match self.unsynced_since {
            _ if !self.committer.has_unsynced() => None,
            None => Some(now),
            since => since,
        };
        (committed.is_ok(), answered)
    }

    /// Begins a sync of what was written, if anything was, as [`Committer::begin_sync`].
    pub(crate) fn begin_sync(&mut self) -> Option<Syncing> {
        // What is written from here on is synced by the next.
        self.unsynced_since = None;
        self.committer.begin_sync()
    }

    /// Says what came of a sync that ran, as [`turn`](Self::turn) does.
    #[must_use = "whoever is not woken sleeps for ever"]
    pub(crate) fn end_sync(
        &mut self,
        syncing: &Syncing,
        synced: io::Result<()>,
    ) -> (bool, Vec<Waker>) {
        let mut answered = Vec::new();
        let ended = self.tell_of(&mut answered, |committer, _, tell| {
            committer.end_sync(syncing, synced, tell)
        });
        if let Err(error) = &ended {
            self.fail(error);
        }
        (ended.is_ok(), answered)
    }

    /// Gives the segments up, if the supervisor ended the journal in order.
    pub(crate) fn end(self) {
        // Who closes the store waits for a segment that is being made.
        self.pool.hurry();
        if self.ended_cleanly.load(Ordering::Relaxed)
            && let Err(error) = self.committer.finish()
        {
            tracing::warn!(%error, "journal segments stay until the next open");
        }
    }

    fn commit(&mut self, answered: &mut Vec<Waker>) -> Result<()> {
        let workers = self.alarm.workers.len();
        let writes = self.batch.tickets.iter().any(|t| t.producer < workers);
        let segment = self.committer.segment_number();
        self.tell_of(answered, |committer, batch, tell| {
            committer.commit(batch, tell)
        })?;
        if self.committer.segment_number() != segment {
            self.background.send(Job::PrepareSegment(self.pool.clone()));
            self.supervise.send(Request::SegmentFull);
        }
        if writes && !self.active.swap(true, Ordering::AcqRel) {
            self.supervise.send(Request::Active);
        }
        Ok(())
    }

    /// Has the committer do something, and those settle who are told of it, if they can.
    fn tell_of(
        &mut self,
        answered: &mut Vec<Waker>,
        act: impl FnOnce(&mut Committer, &mut Batch<Ticket>, &mut dyn FnMut(Signal)) -> Result<()>,
    ) -> Result<()> {
        let (alarm, outcomes, seats) = (&self.alarm, &self.outcomes, &self.seats);
        let mut queued = None;
        let acted = act(&mut self.committer, &mut self.batch, &mut |signal| {
            // Before the first of them is told: they queue again at once.
            let most = match *queued.get_or_insert_with(|| alarm.group.queued()) {
                0 => SETTLED_IDLE,
                _ => SETTLED_BUSY,
            };
            let left = match seats.get(signal.producer) {
                Some(seat) => seat.settle(signal, most, answered),
                None => Err(signal),
            };
            if let Err(signal) = left {
                tell(alarm, outcomes, signal);
            }
        });
        self.queued = queued.unwrap_or_default();
        acted
    }

    fn fail(&mut self, error: &Error) {
        self.pool.hurry();
        let reason = error.reason();
        self.alarm.raise(&reason);
        let (alarm, outcomes) = (&self.alarm, &self.outcomes);
        self.committer
            .fail(&reason, &mut |signal| tell(alarm, outcomes, signal));
        self.supervise.send(Request::Failed);
    }
}

fn tell(alarm: &Alarm, outcomes: &EventSender<Outcome>, signal: Signal) {
    match alarm.workers.get(signal.producer) {
        Some(worker) => {
            worker.send(Event::Journal(signal));
        }
        None => {
            outcomes.send(signal.outcome);
        }
    }
}
