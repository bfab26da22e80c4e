//! The leader: takes in the items that all shards queued, commits them as one batch, and has them
//! settled.
//!
//! One thread leads at a time: the leader's own, or, where that pays, a caller that finds it
//! asleep. Items queued while one round runs go out with the next, as one write and one sync. While
//! the leader's thread syncs batches that callers only asked to have written, it lets other threads
//! write.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use sessionlog_core::error::{Error, Result};
use sessionlog_wal::clock::Clock;
use sessionlog_wal::journal::committer::{Batch, Committer};
use sessionlog_wal::journal::pool::SegmentPool;
use sessionlog_wal::journal::syncing::Syncing;
use sessionlog_wal::mailbox::EventSender;
use sessionlog_wal::sync::atomic::{AtomicBool, Ordering};
use sessionlog_wal::sync::{Mutex, MutexGuard, thread};

use super::SupervisorRequest;
use super::commits::Commits;
use crate::engine::shard::job::Job;
use crate::engine::shard::worker::Worker;
use crate::engine::shard::worker::alarm::Alarm;
use crate::engine::shard::worker::ready::{News, Ready};
use crate::engine::shard::worker::seat::Seat;

/// The time that buffered records may stay unsynced.
const BUFFERED_LINGER: Duration = Duration::from_millis(10);

/// The largest batch that a caller writes, bytes: a larger one takes too long.
const LED: usize = 64 << 10;

/// Number of rounds in which a caller goes on with work that others left to it, before the thread
/// has to: a caller has work of its own.
const ROUNDS: usize = 4;

/// The work that a caller may do in the place of the leader's thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lead {
    /// Nothing.
    Nothing,
    /// Write batches that no caller waits to have synced.
    Write,
    /// Sync as well, if the last batch held at most one change. Callers that come back together go
    /// out together, and one of them alone would keep the others waiting for a second sync.
    Sync,
}

/// The journal, and its leader.
///
/// Queued items are taken in and committed under one hold of the journal. Taken in before, an item
/// could be written after one that was queued later, and the records of a session would be out of
/// order. Only the leader's thread waits for the journal. A caller that finds it taken leaves its
/// items queued: the holder looks once more after giving it up.
#[derive(Debug)]
pub(crate) struct Leader {
    /// `None` once the journal has ended.
    journal: Mutex<Option<Journal>>,
    ready: Arc<Ready>,
    worker: Arc<Seat>,
    clock: Arc<dyn Clock>,
    commits: Commits,
}

/// The journal, and the parts that it reports to.
#[derive(Debug)]
pub(crate) struct Journal {
    /// `None` once it failed: no commit may follow a failure.
    pub(crate) committer: Option<Committer>,
    pub(crate) batch: Batch,
    /// The records of the batch written last, with its number, until the worker has them.
    pub(crate) wrote: Option<(u64, Bytes)>,
    /// The newest batch that was written, and the newest that is settled.
    pub(crate) written: u64,
    pub(crate) settled: u64,
    /// True if the supervisor waits for the next sync.
    pub(crate) owes_own: bool,
    pub(crate) outcomes: EventSender<Result<()>>,
    pub(crate) supervise: EventSender<SupervisorRequest>,
    pub(crate) background: EventSender<Job>,
    pub(crate) active: Arc<AtomicBool>,
    pub(crate) ended_cleanly: Arc<AtomicBool>,
    pub(crate) alarm: Alarm,
    pub(crate) pool: Arc<SegmentPool>,
    /// The time at which the oldest unsynced record was written. Counted from the newest, a trickle
    /// of buffered records would never be synced.
    pub(crate) unsynced_since: Option<Duration>,
    /// Number of changes in the last batch.
    pub(crate) company: usize,
    /// Lengths of the batches that were written in this round, bytes.
    pub(crate) committed: Vec<usize>,
}

impl Leader {
    pub(crate) fn new(
        ready: Arc<Ready>,
        worker: Arc<Seat>,
        clock: Arc<dyn Clock>,
        commits: Commits,
    ) -> Self {
        Self {
            journal: Mutex::tried(None),
            ready,
            worker,
            clock,
            commits,
        }
    }

    /// Runs the leader's thread: leads until the store is closed. A store that failed still has
    /// callers to answer.
    pub(crate) fn run(&self) {
        loop {
            let news = self.ready.wait(self.sync_left());
            if self.act_on(news) == LeaderStep::Ended {
                return;
            }
            if self.sync_left().is_some_and(|left| left.is_zero())
                && let Some(aside) = self.begin_aside()
            {
                self.lead_beside();
                self.end_aside(aside);
            }
        }
    }

    /// Writes items that were queued while the thread was about to sync aside. A caller that rang
    /// then found the thread neither asleep nor away, and later callers find that the bell was rung
    /// already.
    fn lead_beside(&self) {
        if self.ready.is_rung()
            && let Some(seat) = self.journal.try_lock()
        {
            let _left = self.lead_once(seat, Lead::Write);
        }
    }

    /// Puts the journal in its place.
    pub(crate) fn seat(&self, journal: Journal) {
        *self.journal.lock() = Some(journal);
    }

    /// Does what the thread does when it looks, without waiting.
    #[cfg(feature = "testing")]
    pub(crate) fn step(&self) -> LeaderStep {
        self.act_on(self.ready.news())
    }

    /// Takes the journal, once no thread leads any more.
    #[cfg(all(feature = "testing", sessionlog_loom))]
    pub(crate) fn take(&self) -> Option<Journal> {
        self.journal.lock().take()
    }

    /// Sets whether callers find the thread asleep.
    #[cfg(all(feature = "testing", not(sessionlog_loom)))]
    pub(crate) fn set_asleep(&self, asleep: bool) {
        self.ready.set_asleep(asleep);
    }

    fn act_on(&self, news: News) -> LeaderStep {
        match news {
            News::Look => {
                self.lead_all();
                LeaderStep::Led
            }
            News::Nothing => LeaderStep::Nothing,
            News::Closed => {
                let journal = self.journal.lock().take();
                if let Some(journal) = journal {
                    journal.end();
                }
                LeaderStep::Ended
            }
        }
    }

    /// Returns the time left until written records are to be synced, if there are any.
    fn sync_left(&self) -> Option<Duration> {
        let journal = self.journal.lock();
        let at = journal.as_ref()?.syncs_at()?;
        Some(at.saturating_sub(self.clock.monotonic()))
    }

    fn lead_all(&self) {
        let mut seat = self.journal.lock();
        let Some(journal) = seat.as_mut() else {
            return;
        };
        self.contained(journal, Lead::Sync);
    }

    /// Runs a round. A panic ends the journal and goes no further: it may be on a caller's thread.
    fn contained(&self, journal: &mut Journal, lead: Lead) -> bool {
        let done = catch_unwind(AssertUnwindSafe(|| self.round(journal, lead)));
        done.unwrap_or_else(|_| {
            journal.fail(&"the leader panicked".into(), &self.worker);
            false
        })
    }

    /// Handles the items that the caller queued, as far as `lead` goes; else has the leader's
    /// thread look.
    pub(crate) fn attend(&self, lead: Lead) {
        if lead == Lead::Nothing || !self.ready.may_lead() {
            return self.ready.rouse();
        }
        self.lead_as(lead);
    }

    /// Handles the staged records, if no caller waits for a sync of them; else has the leader's
    /// thread look.
    pub(crate) fn attend_staged(&self) {
        // Before asking if another thread leads: that thread looks for them once more.
        self.ready.leave_staged();
        if self.ready.may_lead() {
            self.lead_as(Lead::Write);
        } else {
            self.ready.look();
        }
    }

    /// Leads, as far as that goes, unless another thread does: the present leader looks once more.
    fn lead_as(&self, lead: Lead) {
        // A waker that waits for the store would wait for this thread.
        let _serving = thread::serve();
        for _ in 0..ROUNDS {
            let Some(seat) = self.journal.try_lock() else {
                return;
            };
            // The worker's thread may be waiting for a file. A caller does not begin to wait for it.
            if self.worker.is_taken() {
                break;
            }
            if !self.lead_once(seat, lead) {
                break;
            }
            if !self.ready.is_left() {
                return;
            }
        }
        self.ready.look();
    }

    /// Leads one round. Returns true if nothing is left for the thread.
    fn lead_once(&self, mut seat: MutexGuard<'_, Option<Journal>>, lead: Lead) -> bool {
        let Some(journal) = seat.as_mut() else {
            return false;
        };
        let lead = match lead {
            Lead::Sync if journal.company <= 1 && !self.ready.is_away() => Lead::Sync,
            _ => Lead::Write,
        };
        let began = journal.syncs_at().is_none();
        let goes_on = self.contained(journal, lead);
        // The thread is told how long it may sleep.
        goes_on && !(began && journal.syncs_at().is_some())
    }

    /// Takes in, stages, writes, syncs and settles queued items. Returns false if something is left
    /// that this `lead` may not do.
    fn round(&self, journal: &mut Journal, lead: Lead) -> bool {
        let began = self.clock.monotonic();
        let (rung, poison) = self.ready.begin_round();
        let Journal {
            committer, batch, ..
        } = &mut *journal;
        *batch = Batch::default();
        if poison.is_some() {
            *committer = None;
        }
        let room = |len| committer.as_ref().is_some_and(|c| c.has_room(len));
        let taken = self.worker.lead(|worker| {
            if let Some(reason) = &poison {
                worker.poison(reason);
            }
            let left = worker.take_in(rung);
            let (writable, bytes) = worker.staged();
            let changes = worker.staged_changes();
            let may = match lead {
                Lead::Sync => true,
                _ => writable && bytes <= LED && (changes == 0 || room(bytes)),
            };
            let handed = may.then(|| worker.hand_over(batch));
            // Now: the worker's thread has been told what was held back for it, and takes the seat
            // for as long as opening a file takes.
            if handed == Some(0) {
                worker.answer();
            }
            (left, handed)
        });
        let Some((left, handed)) = taken else {
            // There is no worker any more, and no caller waits for one.
            return self.commit_own(journal);
        };
        if left != 0 {
            self.ready.ring_all(left);
        }
        let Some(number) = handed else {
            return false;
        };
        if let Err(error) = self.commit(journal, number, lead) {
            journal.fail(&error.reason(), &self.worker);
        }
        for bytes in journal.committed.drain(..) {
            self.commits.done(began, bytes);
        }
        if number > 0 {
            self.worker.lead(Worker::answer);
        }
        left == 0
    }

    /// Commits the batch that was handed over, and the supervisor's records.
    ///
    /// # Errors
    /// The errors that poison the store.
    fn commit(&self, journal: &mut Journal, number: u64, lead: Lead) -> Result<()> {
        if journal.committer.is_none() {
            // A job that ended since would have changed this.
            if let Some(reason) = self.ready.poisoned().filter(|_| number > 0) {
                let error = Error::Poisoned { reason };
                self.worker
                    .lead(|worker| worker.refuse_from(number, &error));
            }
            return Ok(());
        }
        let durable = journal.batch.durable;
        if number > 0 {
            match journal.write() {
                Ok(()) => {
                    let records = std::mem::take(&mut journal.batch.bytes).freeze();
                    journal.wrote = Some((number, records));
                    journal.written = number;
                }
                Err(passing) if passing.may_pass() => {
                    self.worker
                        .lead(|worker| worker.refuse_from(number, &passing));
                    // A reader of the statistics is told, and a flush frees as much as it can.
                    journal.went_active();
                }
                Err(other) => return Err(other),
            }
        }
        // A caller that may only write leaves it to the thread, which was told.
        let own = (lead == Lead::Sync)
            .then(|| self.ready.take_own())
            .flatten();
        let syncs = durable || own.is_some();
        if let Some(records) = own {
            journal.write_own(&records)?;
        }
        let written = number > 0 && journal.written == number;
        if syncs {
            self.sync(journal)?;
        } else if written {
            let wrote = journal.wrote.take();
            self.worker.lead(|worker| {
                worker.wrote(wrote);
                worker.show_up_to(number);
            });
            let since = journal.unsynced_since;
            journal.unsynced_since = since.or_else(|| Some(self.clock.monotonic()));
            journal.went_active();
        }
        Ok(())
    }

    fn commit_own(&self, journal: &mut Journal) -> bool {
        if journal.committer.is_some()
            && let Some(records) = self.ready.take_own()
        {
            let done = journal
                .write_own(&records)
                .and_then(|()| self.sync(journal));
            if let Err(error) = done {
                journal.fail(&error.reason(), &self.worker);
            }
        }
        true
    }

    /// Syncs all written batches, and has them settled.
    fn sync(&self, journal: &mut Journal) -> Result<()> {
        let Some(syncing) = journal.begin_sync() else {
            journal.tell_own(Ok(()));
            return Ok(());
        };
        let synced = syncing.run();
        self.end_sync(journal, &syncing, synced, journal.written)
    }

    fn end_sync(
        &self,
        journal: &mut Journal,
        syncing: &Syncing,
        synced: io::Result<()>,
        upto: u64,
    ) -> Result<()> {
        let Some(committer) = &mut journal.committer else {
            return Err(Error::Closed);
        };
        let wrote = journal.wrote.take();
        committer.end_sync(syncing, synced, || {
            self.worker.lead(|worker| {
                worker.wrote(wrote);
                worker.settle_up_to(upto);
            });
        })?;
        // The supervisor's own records need no flush.
        if upto > journal.settled {
            journal.settled = upto;
            journal.went_active();
        }
        journal.tell_own(Ok(()));
        Ok(())
    }

    /// Begins a sync of batches that were only written, if there are any. Other threads write
    /// meanwhile: callers that asked for no sync wait for none.
    pub(crate) fn begin_aside(&self) -> Option<Aside> {
        let mut seat = self.journal.lock();
        let journal = seat.as_mut()?;
        let upto = journal.written;
        let syncing = journal.begin_sync()?;
        self.ready.set_away(true);
        Some(Aside { syncing, upto })
    }

    /// Syncs, and reports the result.
    pub(crate) fn end_aside(&self, aside: Aside) {
        let Aside { syncing, upto } = aside;
        let synced = catch_unwind(AssertUnwindSafe(|| syncing.run()));
        let mut seat = self.journal.lock();
        self.ready.set_away(false);
        let Some(journal) = seat.as_mut() else {
            return;
        };
        let ended = catch_unwind(AssertUnwindSafe(|| {
            let synced = synced.unwrap_or_else(|panic| resume_unwind(panic));
            self.end_sync(journal, &syncing, synced, upto)
        }));
        match ended {
            Ok(Ok(())) => {}
            Ok(Err(error)) => journal.fail(&error.reason(), &self.worker),
            Err(_) => journal.fail(&"the leader panicked".into(), &self.worker),
        }
    }
}

/// A sync beside which other threads write.
#[derive(Debug)]
#[must_use = "whoever waits for what it syncs is told when it is ended"]
pub(crate) struct Aside {
    syncing: Syncing,
    /// The newest batch that it syncs.
    upto: u64,
}

/// The result of a step of the leader's thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LeaderStep {
    Nothing,
    Led,
    Ended,
}

impl Journal {
    /// Returns the time at which written records are to be synced, if there are any.
    fn syncs_at(&self) -> Option<Duration> {
        self.unsynced_since.map(|since| since + BUFFERED_LINGER)
    }

    /// Begins a sync of written batches, if there are any, as [`Committer::begin_sync`].
    fn begin_sync(&mut self) -> Option<Syncing> {
        // Later batches are synced by the next.
        self.unsynced_since = None;
        self.committer.as_mut()?.begin_sync()
    }

    /// Writes the batch.
    ///
    /// # Errors
    /// As [`Committer::write`].
    fn write(&mut self) -> Result<()> {
        let Some(committer) = &mut self.committer else {
            return Err(Error::Closed);
        };
        let segment = committer.segment_number();
        self.company = self.batch.changes;
        let bytes = self.batch.bytes.len();
        let written = committer.write(&mut self.batch);
        if written.is_ok() {
            self.committed.push(bytes);
        }
        if committer.segment_number() != segment {
            self.background.send(Job::PrepareSegment(self.pool.clone()));
            self.supervise.send(SupervisorRequest::SegmentFull);
        }
        written
    }

    /// Reports that something was written that a flush must cover. This comes after the watermark
    /// was raised: a flush that did not see the watermark, and clears the flag first, is followed
    /// by another.
    fn went_active(&self) {
        if !self.active.swap(true, Ordering::AcqRel) {
            self.supervise.send(SupervisorRequest::Active);
        }
    }

    /// Writes records of the supervisor, and tells it if there is no space for them.
    fn write_own(&mut self, records: &[u8]) -> Result<()> {
        self.owes_own = true;
        if records.is_empty() {
            return Ok(());
        }
        self.batch = Batch {
            bytes: records.into(),
            own: true,
            durable: true,
            ..Batch::default()
        };
        match self.write() {
            Err(passing) if passing.may_pass() => {
                self.tell_own(Err(passing));
                Ok(())
            }
            other => other,
        }
    }

    fn tell_own(&mut self, outcome: Result<()>) {
        if std::mem::take(&mut self.owes_own) {
            self.outcomes.send(outcome);
        }
    }

    /// Stops the store from writing.
    fn fail(&mut self, reason: &Arc<str>, worker: &Seat) {
        self.committer = None;
        self.unsynced_since = None;
        self.pool.hurry();
        self.alarm.raise(reason);
        worker.lead(|worker| {
            worker.poison(reason);
            worker.answer();
        });
        self.supervise.send(SupervisorRequest::Failed);
    }

    /// Gives the segments up, if the supervisor ended the journal in order.
    fn end(self) {
        // The thread that closes the store waits for a segment that is being made.
        self.pool.hurry();
        if self.ended_cleanly.load(Ordering::Relaxed)
            && let Some(committer) = self.committer
            && let Err(error) = committer.finish()
        {
            tracing::warn!(%error, "journal segments stay until the next open");
        }
    }
}
