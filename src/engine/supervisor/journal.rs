//! The committer's thread.

use std::sync::Arc;
use std::time::Duration;

use super::Request;
use super::guard::Guard;
use crate::disk::journal::committer::{Committer, Outcome, Signal, Ticket};
use crate::disk::journal::group::{Batch, Taken};
use crate::disk::journal::pace::Pace;
use crate::disk::journal::pool::SegmentPool;
use crate::engine::shard::job::Job;
use crate::engine::shard::worker::alarm::Alarm;
use crate::engine::shard::worker::event::Event;
use crate::engine::shard::worker::seat::Seat;
use crate::error::{Error, Result};
use crate::ground::clock::Clock;
use crate::ground::mailbox::EventSender;
use crate::ground::sync::atomic::{AtomicBool, Ordering};
use crate::ground::sync::wake;

/// How long buffered records may stay unsynced.
const BUFFERED_LINGER: Duration = Duration::from_millis(10);

pub(crate) fn run_journal(journal: Journal, clock: &dyn Clock, guard: Guard) {
    journal.run(clock);
    guard.disarm();
}

/// The committer's thread.
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
    pub(crate) runtime: wake::Runtime,
    pub(crate) pool: Arc<SegmentPool>,
}

impl Journal {
    fn run(mut self, clock: &dyn Clock) {
        let mut written_since: Option<Duration> = None;
        let mut pace = Pace::default();
        let mut linger = None;
        loop {
            // Counted from the oldest record that waits: were it counted from
            // the newest, a trickle of buffered records would never be synced.
            let left = written_since
                .map(|since| (since + BUFFERED_LINGER).saturating_sub(clock.monotonic()));
            let taken = match left {
                Some(Duration::ZERO) => Taken::Idle,
                _ => self
                    .alarm
                    .group
                    .take(&mut self.batch, left, linger.as_mut()),
            };
            if let Some(linger) = linger.take() {
                pace.learn(&linger);
            }
            if taken == Taken::Closed {
                return self.end();
            }
            let started = clock.monotonic();
            // Of nothing taken nobody comes back.
            let bytes = match taken {
                Taken::Batch => self.batch.bytes.len(),
                Taken::Idle | Taken::Closed => 0,
            };
            if !self.turn(taken) {
                return;
            }
            linger = pace.linger(bytes, clock.monotonic().saturating_sub(started));
            written_since = match written_since {
                _ if !self.committer.has_unsynced() => None,
                None => Some(clock.monotonic()),
                since => since,
            };
        }
    }

    /// Commits what was taken, or syncs what was written if nothing came.
    /// `false` once the store is poisoned.
    pub(crate) fn turn(&mut self, taken: Taken) -> bool {
        let committed = self.commit(taken);
        if let Err(error) = &committed {
            self.fail(error);
        }
        committed.is_ok()
    }

    /// Gives the segments up, if the supervisor ended the journal in order.
    pub(crate) fn end(self) {
        if self.ended_cleanly.load(Ordering::Relaxed)
            && let Err(error) = self.committer.finish()
        {
            tracing::warn!(%error, "journal segments stay until the next open");
        }
    }

    fn commit(&mut self, taken: Taken) -> Result<()> {
        let Self {
            committer,
            batch,
            alarm,
            outcomes,
            seats,
            ..
        } = self;
        let mut answered = Vec::new();
        let mut tell = |signal: Signal| {
            let left = match seats.get(signal.producer) {
                Some(seat) => seat.settle(signal, &mut answered),
                None => Err(signal),
            };
            if let Err(signal) = left {
                tell(alarm, outcomes, signal);
            }
        };
        if taken == Taken::Idle {
            let synced = committer.sync(&mut tell);
            self.runtime.wake_all(answered);
            return synced;
        }
        let workers = alarm.workers.len();
        let writes = batch.tickets.iter().any(|t| t.producer < workers);
        let segment = committer.segment_number();
        let committed = committer.commit(batch, &mut tell);
        self.runtime.wake_all(answered);
        committed?;
        if committer.segment_number() != segment {
            self.background.send(Job::PrepareSegment(self.pool.clone()));
            self.supervise.send(Request::SegmentFull);
        }
        if writes && !self.active.swap(true, Ordering::AcqRel) {
            self.supervise.send(Request::Active);
        }
        Ok(())
    }

    fn fail(&mut self, error: &Error) {
        let reason = error.reason();
        self.alarm.raise(&reason);
        let (alarm, outcomes) = (&self.alarm, &self.outcomes);
        self.committer
            .fail(&reason, &mut |signal| tell(alarm, outcomes, signal));
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
