//! Tells the leader that there is something to commit.

use std::sync::Arc;
use std::time::Duration;

use sessionlog_core::error::{Error, Result};
use sessionlog_wal::sync::atomic::{AtomicU64, Ordering};
use sessionlog_wal::sync::{Condvar, Mutex, MutexGuard};

use crate::engine::shard::number::SHARDS;

// One bit per shard.
const _: () = assert!(SHARDS <= u64::BITS as usize);

/// The shards that have something queued, and the state of the leader's thread.
#[derive(Debug, Default)]
pub(crate) struct Ready {
    rung: AtomicU64,
    leader: Mutex<LeaderState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct LeaderState {
    place: ThreadState,
    /// True if the worker's thread staged something.
    staged: bool,
    /// True if the leader is to look, though no shard rang.
    look: bool,
    closed: bool,
    poison: Option<Arc<str>>,
    /// Records of the supervisor; everything before them is synced with them.
    own: Option<Vec<u8>>,
}

/// The state of the leader's thread.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum ThreadState {
    /// It leads, or is about to look.
    #[default]
    Awake,
    Asleep,
    /// It syncs earlier writes, and lets other threads write meanwhile.
    Away,
}

/// The news for the leader's thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum News {
    /// There may be something to commit.
    Look,
    /// Nothing happened within the timeout.
    Nothing,
    /// The store ends.
    Closed,
}

impl Ready {
    /// Notes that a shard has something queued. Returns true if the caller has to have the leader
    /// look: no earlier ring is still waiting for that.
    #[must_use = "whoever rings first has the leader look"]
    pub(crate) fn ring(&self, shard: usize) -> bool {
        self.rung.fetch_or(1 << shard, Ordering::AcqRel) == 0
    }

    /// Notes that shards that were taken still have something queued.
    pub(crate) fn ring_all(&self, shards: u64) {
        self.rung.fetch_or(shards, Ordering::AcqRel);
    }

    /// Returns true if a shard rang and was not looked at. Writes, as a ring does, though nothing
    /// changes: of a ring and a look, the later one then sees all that the other's thread did
    /// before.
    pub(crate) fn is_rung(&self) -> bool {
        self.rung.fetch_or(0, Ordering::AcqRel) != 0
    }

    /// Begins a round, under the journal's lock. Returns the shards that rang, one bit each, and the
    /// reason that the store is poisoned, if it is. Taken and cleared in one step: otherwise a ring
    /// in between would be lost, with the item queued with it. What was left staged is the round's,
    /// and only a round clears that: a thread that asked [`is_left`](Self::is_left) and then finds
    /// another one leading would take it from that one, and nobody would see to it.
    pub(crate) fn begin_round(&self) -> (u64, Option<Arc<str>>) {
        let rung = self.rung.swap(0, Ordering::AcqRel);
        let mut leader = self.leader.lock();
        leader.staged = false;
        (rung, leader.poison.clone())
    }

    /// Has the leader's thread look at the shards that rang, if it sleeps.
    pub(crate) fn rouse(&self) {
        let leader = self.leader.lock();
        if leader.place == ThreadState::Asleep {
            self.wake(leader);
        }
    }

    /// Has the leader's thread look at staged records, or at how long it may sleep.
    pub(crate) fn look(&self) {
        let mut leader = self.leader.lock();
        leader.look = true;
        self.wake(leader);
    }

    fn wake(&self, mut leader: MutexGuard<'_, LeaderState>) {
        let sleeps = leader.place == ThreadState::Asleep;
        if sleeps {
            leader.place = ThreadState::Awake;
        }
        drop(leader);
        if sleeps {
            self.changed.notify_one();
        }
    }

    /// Notes that something was staged without a ring. The present leader sees to it, or the
    /// leader's thread before it sleeps.
    pub(crate) fn leave_staged(&self) {
        self.leader.lock().staged = true;
    }

    /// Returns true if something is left to the last leader. Asked after the journal was given up,
    /// because a caller that found it taken counts on that.
    pub(crate) fn is_left(&self) -> bool {
        self.leader.lock().staged || self.is_rung()
    }

    /// True if the leader's thread sleeps, or lets other threads write.
    pub(crate) fn may_lead(&self) -> bool {
        let leader = self.leader.lock();
        leader.place != ThreadState::Awake && !leader.closed && leader.poison.is_none()
    }

    /// Sets whether other threads may write while the leader's thread syncs earlier writes.
    pub(crate) fn set_away(&self, away: bool) {
        self.leader.lock().place = if away {
            ThreadState::Away
        } else {
            ThreadState::Awake
        };
    }

    /// True if the leader is away.
    pub(crate) fn is_away(&self) -> bool {
        self.leader.lock().place == ThreadState::Away
    }

    /// Sets whether callers find the leader's thread asleep.
    #[cfg(all(feature = "testing", not(sessionlog_loom)))]
    pub(crate) fn set_asleep(&self, asleep: bool) {
        let place = &mut self.leader.lock().place;
        match (asleep, *place) {
            (true, ThreadState::Awake) => *place = ThreadState::Asleep,
            (false, ThreadState::Asleep) => *place = ThreadState::Awake,
            _ => {}
        }
    }

    /// Blocks the leader's thread until there is something to look at, for at most `timeout`.
    pub(crate) fn wait(&self, timeout: Option<Duration>) -> News {
        let mut leader = self.leader.lock();
        if leader.is_quiet() {
            leader.place = ThreadState::Asleep;
            // After the leader is marked as asleep: a later ring sees that.
            if self.is_rung() {
                leader.place = ThreadState::Awake;
                return News::Look;
            }
            match timeout {
                Some(timeout) => {
                    self.changed.wait_timeout(&mut leader, timeout);
                }
                None => self.changed.wait(&mut leader),
            }
            leader.place = ThreadState::Awake;
        }
        leader.news(self.is_rung())
    }

    /// Returns the news, without waiting.
    #[cfg(feature = "testing")]
    pub(crate) fn news(&self) -> News {
        self.leader.lock().news(self.is_rung())
    }

    /// Hands over records of the supervisor, to be committed after all that is queued, and synced.
    ///
    /// # Errors
    /// `Poisoned`, `Closed`.
    pub(crate) fn submit(&self, records: &[u8]) -> Result<()> {
        let mut leader = self.leader.lock();
        if let Some(reason) = &leader.poison {
            let reason = reason.clone();
            return Err(Error::Poisoned { reason });
        }
        if leader.closed {
            return Err(Error::Closed);
        }
        let own = leader.own.get_or_insert_default();
        own.extend_from_slice(records);
        self.wake(leader);
        Ok(())
    }

    /// Takes the supervisor's records, if it handed any over.
    pub(crate) fn take_own(&self) -> Option<Vec<u8>> {
        self.leader.lock().own.take()
    }

    /// Refuses all later records because of `reason`; the first reason given stays. The leader
    /// looks, because queued items have to be answered.
    pub(crate) fn poison(&self, reason: Arc<str>) {
        let mut leader = self.leader.lock();
        leader.poison.get_or_insert(reason);
        leader.own = None;
        leader.look = true;
        self.wake(leader);
    }

    /// Returns the reason that the store is poisoned, if it is.
    pub(crate) fn poisoned(&self) -> Option<Arc<str>> {
        self.leader.lock().poison.clone()
    }

    /// Ends the leader's thread once it finds nothing to do.
    pub(crate) fn close(&self) {
        let mut leader = self.leader.lock();
        leader.closed = true;
        self.wake(leader);
    }
}

impl LeaderState {
    fn is_quiet(&self) -> bool {
        !self.look && !self.staged && !self.closed && self.own.is_none()
    }

    fn news(&mut self, is_rung: bool) -> News {
        let looks = std::mem::take(&mut self.look) | std::mem::take(&mut self.staged);
        if looks || is_rung || self.own.is_some() {
            News::Look
        } else if self.closed {
            News::Closed
        } else {
            News::Nothing
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Ready;

    #[test]
    fn what_was_staged_is_left_for_all_who_ask_until_a_round_begins() {
        let ready = Ready::default();
        ready.leave_staged();
        assert!(ready.is_left() && ready.is_left());
        let _ = ready.begin_round();
        assert!(!ready.is_left());
    }
}
