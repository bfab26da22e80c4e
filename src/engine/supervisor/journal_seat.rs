//! The seat of the committer: whoever holds it commits what is queued.
//!
//! The committer has a thread of its own, which waking costs ten times as much as a write
//! to the page cache. Whoever drove a worker and finds it asleep takes its seat instead, and
//! goes on only with what costs no more than that: records that nobody waits to have synced,
//! in a segment that has room for them. A caller who waits anyway may sync as well. While
//! the thread syncs what was written so, the seat is free: who asked for no sync waits for
//! none.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::task::Waker;

use super::commits::Commits;
use super::journal::Journal;
use crate::disk::journal::committer::Ticket;
use crate::disk::journal::group::{GroupCommit, Lead, Linger, Taken};
use crate::disk::journal::pace::Pace;
use crate::engine::shard::worker::alarm::Alarm;
use crate::engine::shard::worker::seat::Leads;
use crate::ground::clock::Clock;
use crate::ground::sync::wake::Runtime;
use crate::ground::sync::{Mutex, MutexGuard, thread};

/// How often a caller goes on with what others left to it, before the thread has to: a
/// caller has work of its own.
const ROUNDS: usize = 4;

/// The largest batch that a caller writes, bytes: more takes its time.
const LED: usize = 64 << 10;

/// The journal, and who may drive it.
///
/// A batch is taken and committed under one hold of the seat: taken before, it could be
/// written after one that was queued later, and the records of a session would be out of
/// order. Nobody waits for the seat but the committer's thread. A caller who finds it
/// taken leaves what it queued: the one who holds it looks once more after giving it up.
#[derive(Debug)]
pub(crate) struct JournalSeat {
    /// `None` before the thread runs, and once the journal has ended or failed.
    journal: Mutex<Option<Journal>>,
    group: Arc<GroupCommit<Ticket>>,
    alarm: Alarm,
    clock: Arc<dyn Clock>,
    runtime: Runtime,
    commits: Commits,
}

/// Who holds the seat.
type Seated<'a> = MutexGuard<'a, Option<Journal>>;

impl JournalSeat {
    /// An empty seat.
    pub(crate) fn new(
        alarm: &Alarm,
        clock: &Arc<dyn Clock>,
        runtime: &Runtime,
        commits: Commits,
    ) -> Self {
        Self {
            journal: Mutex::tried(None),
            group: alarm.group.clone(),
            alarm: alarm.clone(),
            clock: clock.clone(),
            runtime: runtime.clone(),
            commits,
        }
    }

    /// The committer's thread: commits until the store is closed or fails.
    pub(crate) fn run(&self, journal: Journal) {
        let mut seat = self.journal.lock();
        *seat = Some(journal);
        let (mut pace, mut linger) = (Pace::default(), None);
        while let Some(journal) = seat.as_mut() {
            let now = self.clock.monotonic();
            let due = journal.syncs_at().is_some_and(|at| at <= now);
            let taken = match linger {
                Some(_) if !due => Taken::Nothing,
                _ => self.group.take(&mut journal.batch),
            };
            match taken {
                Taken::Closed => {
                    let journal = seat.take();
                    drop(seat);
                    return journal.map_or((), Journal::end);
                }
                Taken::Nothing if !due => {
                    let came;
                    (seat, came) = self.wait(seat, linger.take().as_ref());
                    pace.learn(came);
                }
                Taken::Idle | Taken::Nothing => {
                    linger = None;
                    seat = self.sync_aside(seat);
                }
                Taken::Batch => {
                    let bytes = journal.batch.bytes.len();
                    let wakers = act(&mut seat, |journal| journal.turn(now));
                    let queued = seat.as_ref().map_or(0, |journal| journal.queued);
                    self.commits.done(now, bytes);
                    self.runtime.wake_all(wakers);
                    let took = self.clock.monotonic().saturating_sub(now);
                    linger = pace.linger(bytes, queued, took);
                    if due {
                        // Those who keep it busy would have what is buffered never synced.
                        seat = self.sync_aside(seat);
                    }
                }
            }
        }
    }

    /// Syncs what was written, without the seat: who writes what nobody waits to have synced
    /// would wait for all of it.
    fn sync_aside<'a>(&'a self, mut seat: Seated<'a>) -> Seated<'a> {
        let Some(syncing) = seat.as_mut().and_then(Journal::begin_sync) else {
            return seat;
        };
        self.group.set_away(true);
        drop(seat);
        let synced = catch_unwind(AssertUnwindSafe(|| syncing.run()));
        let mut seat = self.journal.lock();
        self.group.set_away(false);
        let wakers = act(&mut seat, |journal| {
            let synced = synced.unwrap_or_else(|panic| resume_unwind(panic));
            journal.end_sync(&syncing, synced)
        });
        self.runtime.wake_all(wakers);
        seat
    }

    /// Gives the seat up until there is something to do. For how long, the journal says
    /// as long as nobody else writes to it; who does has it asked again.
    fn wait<'a>(&'a self, seat: Seated<'a>, linger: Option<&Linger>) -> (Seated<'a>, Option<bool>) {
        let syncs_at = seat.as_ref().and_then(Journal::syncs_at);
        drop(seat);
        let left = syncs_at.map(|at| at.saturating_sub(self.clock.monotonic()));
        let came = self.group.wait(left, linger);
        (self.journal.lock(), came)
    }

    /// Whether there may be more.
    fn lead_once(&self, lead: Lead) -> bool {
        let Some(mut seat) = self.journal.try_lock() else {
            return false;
        };
        let Some(journal) = seat.as_mut() else {
            return false;
        };
        let suits = |len| len <= LED && journal.committer.has_room(len);
        let taken = self.group.take_to_lead(&mut journal.batch, lead, suits);
        if taken != Taken::Batch {
            return true;
        }
        let began = journal.syncs_at().is_none();
        let now = self.clock.monotonic();
        let bytes = journal.batch.bytes.len();
        let turned = catch_unwind(AssertUnwindSafe(|| journal.turn(now)));
        self.commits.done(now, bytes);
        let begins = began && journal.syncs_at().is_some();
        // Nobody else commits after a failure, which left who knows what.
        let goes_on = matches!(turned, Ok((true, _)));
        let failed = if goes_on { None } else { seat.take() };
        drop(seat);
        if begins {
            self.group.look_again();
        }
        match turned {
            Ok((_, wakers)) => self.runtime.wake_all(wakers),
            Err(_) => self.alarm.raise(&"the committer panicked".into()),
        }
        drop(failed);
        goes_on
    }
}

impl Leads for JournalSeat {
    fn lead(&self, lead: Lead) {
        // A waker that waits for the store would wait for this thread.
        let _serving = thread::serve();
        for _ in 0..ROUNDS {
            if !self.lead_once(lead) || !self.group.is_left() {
                return;
            }
        }
        self.group.leave();
    }
}

/// Has the journal do something, if it is there; whom to wake. Nobody else commits on what
/// a failure or a panic leaves.
fn act(
    seat: &mut Option<Journal>,
    act: impl FnOnce(&mut Journal) -> (bool, Vec<Waker>),
) -> Vec<Waker> {
    let Some(journal) = seat else {
        return Vec::new();
    };
    match catch_unwind(AssertUnwindSafe(|| act(journal))) {
        Ok((goes_on, wakers)) => {
            if !goes_on {
                *seat = None;
            }
            wakers
        }
        Err(panic) => {
            *seat = None;
            resume_unwind(panic)
        }
    }
}

#[cfg(test)]
mod tests;
