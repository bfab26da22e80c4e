//! The leader: takes in what all shards queued, commits it as one, and has it settled.
//!
//! One at a time leads: the leader's thread, or, where that pays, a caller who finds it asleep.
//! Whatever was queued while one round ran goes out with the next, as one write and one sync.
//! While the thread syncs what callers asked to have written only, it lets others write.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::Request;
use super::commits::Commits;
use crate::disk::journal::committer::{Batch, Committer};
use crate::disk::journal::pool::SegmentPool;
use crate::disk::journal::syncing::Syncing;
use crate::engine::shard::job::Job;
use crate::engine::shard::worker::Worker;
use crate::engine::shard::worker::alarm::Alarm;
use crate::engine::shard::worker::ready::{News, Ready};
use crate::engine::shard::worker::seat::Seat;
use crate::error::{Error, Result};
use crate::ground::clock::Clock;
use crate::ground::mailbox::EventSender;
use crate::ground::sync::atomic::{AtomicBool, Ordering};
use crate::ground::sync::{Mutex, MutexGuard, thread};

/// How long buffered records may stay unsynced.
const BUFFERED_LINGER: Duration = Duration::from_millis(10);

/// The largest batch that a caller writes, bytes: more takes its time.
const LED: usize = 64 << 10;

/// How often a caller goes on with what others left to it, before the thread has to: a
/// caller has work of its own.
const ROUNDS: usize = 4;

/// What a caller may do in the place of the leader's thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lead {
    /// Nothing.
    Nothing,
    /// Write what nobody waits to have synced.
    Write,
    /// Sync as well, if the last batch held at most one change: those who come back
    /// together go out together, and one of them alone would keep the others
    /// waiting for a second sync.
    Sync,
}

/// The journal, and who leads.
///
/// What is queued is taken in and committed under one hold of the journal: taken before, it
/// could be written after what was queued later, and the records of a session would be out of
/// order. Nobody waits for it but the leader's thread. A caller who finds it taken leaves what
/// they queued: whoever holds it looks once more after giving it up.
#[derive(Debug)]
pub(crate) struct Leader {
    /// `None` once the journal has ended.
    journal: Mutex<Option<Journal>>,
    ready: Arc<Ready>,
    worker: Arc<Seat>,
    clock: Arc<dyn Clock>,
    commits: Commits,
}

/// The journal, and whom it tells.
#[derive(Debug)]
pub(crate) struct Journal {
    /// `None` once it failed: nobody commits on what a failure leaves.
    pub(crate) committer: Option<Committer>,
    pub(crate) batch: Batch,
    /// The records of the batch that was written last, with its number, until the worker has
    /// them.
    pub(crate) wrote: Option<(u64, Bytes)>,
    /// The newest batch that was written, and that is settled.
    pub(crate) written: u64,
    pub(crate) settled: u64,
    /// Whether the supervisor waits for the next sync.
    pub(crate) owes_own: bool,
    pub(crate) outcomes: EventSender<Result<()>>,
    pub(crate) supervise: EventSender<Request>,
    pub(crate) background: EventSender<Job>,
    pub(crate) active: Arc<AtomicBool>,
    pub(crate) ended_cleanly: Arc<AtomicBool>,
    pub(crate) alarm: Alarm,
    pub(crate) pool: Arc<SegmentPool>,
    /// When the oldest record was written that is not synced. Counted from the newest, a
    /// trickle of buffered records would never be synced.
    pub(crate) unsynced_since: Option<Duration>,
    /// Changes in the last batch.
    pub(crate) company: usize,
    /// Bytes of the batches that were written in this round.
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

    /// The leader's thread: leads until the store is closed. A store that failed has callers to
    /// answer still.
    pub(crate) fn run(&self) {
        loop {
            let news = self.ready.wait(self.sync_left());
            if self.act_on(news) == Step::Ended {
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

    /// Writes what was queued while the thread was about to sync aside: who rang then found it
    /// neither asleep nor away, and who comes later finds that somebody rang.
    fn lead_beside(&self) {
        if self.ready.is_rung()
            && let Some(seat) = self.journal.try_lock()
        {
            let _left = self.lead_once(seat, Lead::Write);
        }
    }

    /// Puts the journal where it is led.
    pub(crate) fn seat(&self, journal: Journal) {
        *self.journal.lock() = Some(journal);
    }

    /// What the thread does when it looks, without waiting.
    #[cfg(feature = "testing")]
    pub(crate) fn step(&self) -> Step {
        self.act_on(self.ready.news())
    }

    /// The journal, as it is when nobody leads any more.
    #[cfg(all(feature = "testing", sessionlog_loom))]
    pub(crate) fn take(&self) -> Option<Journal> {
        self.journal.lock().take()
    }

    /// Has callers find the thread asleep, or not.
    #[cfg(all(feature = "testing", not(sessionlog_loom)))]
    pub(crate) fn set_asleep(&self, asleep: bool) {
        self.ready.set_asleep(asleep);
    }

    fn act_on(&self, news: News) -> Step {
        match news {
            News::Look => {
                self.lead_all();
                Step::Led
            }
            News::Nothing => Step::Nothing,
            News::Closed => {
                let journal = self.journal.lock().take();
                if let Some(journal) = journal {
                    journal.end();
                }
                Step::Ended
            }
        }
    }

    /// How long until what is written is to be synced, if anything is.
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

    /// A round. A panic ends the journal, and goes no further: it may be on a caller's thread.
    fn contained(&self, journal: &mut Journal, lead: Lead) -> bool {
        let done = catch_unwind(AssertUnwindSafe(|| self.round(journal, lead)));
        done.unwrap_or_else(|_| {
            journal.fail(&"the leader panicked".into(), &self.worker);
            false
        })
    }

    /// Sees to what the caller queued, as far as `lead` goes; else has the leader's thread look.
    pub(crate) fn attend(&self, lead: Lead) {
        if lead == Lead::Nothing || !self.ready.may_lead() {
            return self.ready.rouse();
        }
        self.lead_as(lead);
    }

    /// Sees to what is staged, if nobody waits for it to be synced; else has the leader's thread
    /// look.
    pub(crate) fn attend_staged(&self) {
        // Before it is asked who leads: they look for it once more.
        self.ready.leave_staged();
        if self.ready.may_lead() {
            self.lead_as(Lead::Write);
        } else {
            self.ready.look();
        }
    }

    /// Leads, as far as that goes, unless somebody does: whoever leads looks once more.
    fn lead_as(&self, lead: Lead) {
        // A waker that waits for the store would wait for this thread.
        let _serving = thread::serve();
        for _ in 0..ROUNDS {
            let Some(seat) = self.journal.try_lock() else {
                return;
            };
            if !self.lead_once(seat, lead) {
                break;
            }
            if !self.ready.is_left() {
                return;
            }
        }
        self.ready.look();
    }

    /// Leads one round. Whether nothing is left for the thread.
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
        // The thread is told for how long it may sleep.
        goes_on && !(began && journal.syncs_at().is_some())
    }

    /// Takes in, stages, writes, syncs and settles what is queued. False if something is left
    /// that this `lead` may not do.
    fn round(&self, journal: &mut Journal, lead: Lead) -> bool {
        let began = self.clock.monotonic();
        let rung = self.ready.take();
        let Journal {
            committer, batch, ..
        } = &mut *journal;
        *batch = Batch::default();
        let poison = self.ready.poisoned();
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
            (left, may.then(|| worker.hand_over(batch)))
        });
        let Some((left, handed)) = taken else {
            // There is no worker any more, and nobody who waits for one.
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
        self.worker.lead(Worker::answer);
        left == 0
    }

    /// Commits the batch that was handed over, and what the supervisor handed over.
    ///
    /// # Errors
    /// Those that poison the store.
    fn commit(&self, journal: &mut Journal, number: u64, lead: Lead) -> Result<()> {
        if journal.committer.is_none() {
            // What a job that ended since would have changed.
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
                    // Whoever looks at the store is told of it, and a flush frees what it can.
                    journal.went_active();
                }
                Err(other) => return Err(other),
            }
        }
        // Who may only write leaves it to the thread, which was told.
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

    /// Syncs all that was written, and has it settled.
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
        // Of the supervisor's own records nothing is to be flushed.
        if upto > journal.settled {
            journal.settled = upto;
            journal.went_active();
        }
        journal.tell_own(Ok(()));
        Ok(())
    }

    /// Begins a sync of what was only written, if anything was. Others write meanwhile: who
    /// asked for no sync waits for none.
    pub(crate) fn begin_aside(&self) -> Option<Aside> {
        let mut seat = self.journal.lock();
        let journal = seat.as_mut()?;
        let upto = journal.written;
        let syncing = journal.begin_sync()?;
        self.ready.set_away(true);
        Some(Aside { syncing, upto })
    }

    /// Syncs, and says what came of it.
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

/// A sync beside which others write.
#[derive(Debug)]
#[must_use = "whoever waits for what it syncs is told when it is ended"]
pub(crate) struct Aside {
    syncing: Syncing,
    /// The newest batch that it syncs.
    upto: u64,
}

/// What the leader's thread did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    Nothing,
    Led,
    Ended,
}

impl Journal {
    /// When what is written is to be synced, if anything is.
    fn syncs_at(&self) -> Option<Duration> {
        self.unsynced_since.map(|since| since + BUFFERED_LINGER)
    }

    /// Begins a sync of what was written, if anything was, as [`Committer::begin_sync`].
    fn begin_sync(&mut self) -> Option<Syncing> {
        // What is written from here on is synced by the next.
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
            self.supervise.send(Request::SegmentFull);
        }
        written
    }

    /// Something was written that a flush is to cover. Said after the watermark was raised: a
    /// flush that did not see it there, which clears the flag first, is followed by another.
    fn went_active(&self) {
        if !self.active.swap(true, Ordering::AcqRel) {
            self.supervise.send(Request::Active);
        }
    }

    /// Writes records of the supervisor's, and tells it if there is no space for them.
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

    /// The store stops writing.
    fn fail(&mut self, reason: &Arc<str>, worker: &Seat) {
        self.committer = None;
        self.unsynced_since = None;
        self.pool.hurry();
        self.alarm.raise(reason);
        worker.lead(|worker| {
            worker.poison(reason);
            worker.answer();
        });
        self.supervise.send(Request::Failed);
    }

    /// Gives the segments up, if the supervisor ended the journal in order.
    fn end(self) {
        // Who closes the store waits for a segment that is being made.
        self.pool.hurry();
        if self.ended_cleanly.load(Ordering::Relaxed)
            && let Some(committer) = self.committer
            && let Err(error) = committer.finish()
        {
            tracing::warn!(%error, "journal segments stay until the next open");
        }
    }
}
