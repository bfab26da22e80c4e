//! The hand-over of a group commit: many shards queue, one committer takes.
//!
//! Whatever was queued while the last sync ran goes out as one write and one
//! sync. Nothing here touches a file, so the models in `loom-tests/` explore
//! exactly this code.

use crate::ground::sync::{Condvar, Mutex, MutexGuard};
use std::mem;
use std::sync::Arc;
use std::time::Duration;

/// Larger buffers are returned after a batch: one huge import must not pin its
/// size for the life of the store.
const KEPT_BYTES: usize = 8 << 20;

/// What goes to disk together, and who waits for it.
///
/// Bytes and tickets change hands under one lock: a ticket is in a batch if
/// and only if its bytes are. Answering the tickets after the bytes are synced
/// is then enough to never acknowledge what a power loss could take back.
#[derive(Debug)]
pub struct Batch<T> {
    /// Encoded records, in the order they were submitted.
    pub bytes: Vec<u8>,
    /// One per submission, in the same order.
    pub tickets: Vec<T>,
    /// Whether any of the submissions must survive power loss.
    pub durable: bool,
}

/// What a take found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// The batch was filled.
    Batch,
    /// Nothing was queued, for the whole idle time where one was given.
    Idle,
    /// Nothing is queued and nothing will be.
    Closed,
}

/// How long a take may wait for company.
///
/// Callers that were just answered come back with their next command a moment
/// later. Taken at once, what others queued meanwhile would go out alone and make
/// them wait for two syncs, again and again.
#[derive(Clone, Copy, Debug)]
pub struct Linger {
    /// Bytes of the batch that was answered last. The take waits until most of
    /// that is there again, on top of what is queued when it starts.
    pub behind: usize,
    /// For at most so long once anything is queued.
    pub timeout: Duration,
    /// Whether what was waited for came; `None` where there was nothing to wait
    /// for. Set by the take.
    pub came: Option<bool>,
}

/// Why a submission was turned away.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The store is closing.
    Closed,
    /// An earlier write or sync failed; the text says which.
    Poisoned(Arc<str>),
}

/// A ticket handed back. Nothing of its submission was queued.
#[derive(Debug)]
pub struct Refused<T> {
    /// The ticket as it was submitted.
    pub ticket: T,
    /// Why.
    pub reason: Refusal,
}

/// The queue between the shards and the one thread that commits.
///
/// Every ticket ends in exactly one place: refused by [`submit`](Self::submit),
/// returned by [`poison`](Self::poison), or in a taken batch.
#[derive(Debug)]
pub struct GroupCommit<T> {
    state: Mutex<State<T>>,
    queued: Condvar,
}

#[derive(Debug)]
struct State<T> {
    batch: Batch<T>,
    closed: bool,
    poison: Option<Arc<str>>,
    /// Bytes at which the committer wants to be woken, if it sleeps. A submission
    /// pays for a notification only then; while a sync runs, nobody listens.
    committer_wants: Option<usize>,
}

impl<T> GroupCommit<T> {
    /// An empty, open queue.
    #[must_use]
    pub fn new() -> Self {
        Self {
            state: Mutex::new(State {
                batch: Batch::new(),
                closed: false,
                poison: None,
                committer_wants: None,
            }),
            queued: Condvar::new(),
        }
    }

    /// Queues one shard's encoded records behind everything queued before.
    ///
    /// # Errors
    /// When the store is poisoned or closed. Both are checked under the lock
    /// that queues: checked earlier, a record could slip in behind the failure
    /// and wait for a committer that is gone.
    pub fn submit(&self, records: &[u8], ticket: T, durable: bool) -> Result<(), Refused<T>> {
        let mut state = self.state.lock();
        if let Some(reason) = state.refusal() {
            return Err(Refused { ticket, reason });
        }
        state.batch.bytes.extend_from_slice(records);
        state.batch.tickets.push(ticket);
        state.batch.durable |= durable;
        let queued = state.batch.bytes.len();
        if state.committer_wants.is_some_and(|wanted| queued >= wanted) {
            self.rouse(state);
        }
        Ok(())
    }

    /// Swaps `batch`, emptied, with everything queued; blocks until there is
    /// something, for at most `idle`, and then for company as `linger` says. For
    /// one committing thread.
    ///
    /// A submission that arrives after this returns is in the next batch.
    pub fn take(
        &self,
        batch: &mut Batch<T>,
        idle: Option<Duration>,
        mut linger: Option<&mut Linger>,
    ) -> Taken {
        batch.empty();
        let mut state = self.state.lock();
        let wanted = linger.as_ref().map(|l| state.wanted(l.behind));
        loop {
            while !state.has_news() {
                if self.sleep(&mut state, 0, idle) {
                    return state.hand_over(batch);
                }
            }
            if let (Some(linger), Some(wanted)) = (linger.take(), wanted) {
                self.linger(&mut state, linger, wanted);
            }
            // Poison can have taken meanwhile what was queued.
            if state.has_news() {
                return state.hand_over(batch);
            }
        }
    }

    fn linger(&self, state: &mut MutexGuard<'_, State<T>>, linger: &mut Linger, wanted: usize) {
        while state.batch.bytes.len() < wanted && !state.is_over() {
            let timed_out = self.sleep(state, wanted, Some(linger.timeout));
            linger.came = Some(state.batch.bytes.len() >= wanted);
            if timed_out {
                return;
            }
        }
    }

    /// Sleeps until that many bytes are queued, or the store is closed or
    /// poisoned. True if the time ran out.
    fn sleep(
        &self,
        state: &mut MutexGuard<'_, State<T>>,
        wanted: usize,
        timeout: Option<Duration>,
    ) -> bool {
        state.committer_wants = Some(wanted);
        let timed_out = if let Some(timeout) = timeout {
            self.queued.wait_timeout(state, timeout)
        } else {
            self.queued.wait(state);
            false
        };
        state.committer_wants = None;
        timed_out
    }

    /// As [`take`](Self::take), without ever blocking: `Idle` when nothing is
    /// queued. For engines stepped by hand; a committer has nothing else to do
    /// than wait.
    #[cfg(any(test, feature = "testing"))]
    pub fn try_take(&self, batch: &mut Batch<T>) -> Taken {
        batch.empty();
        self.state.lock().hand_over(batch)
    }

    /// Refuses every later submission because of `reason`; the first reason
    /// given stays. Returns the tickets queued but not taken, for the caller to
    /// fail: their records never reach the disk.
    #[must_use = "the returned tickets must be answered"]
    pub fn poison(&self, reason: Arc<str>) -> Vec<T> {
        let mut state = self.state.lock();
        state.poison.get_or_insert(reason);
        state.batch.bytes.clear();
        state.batch.durable = false;
        let tickets = mem::take(&mut state.batch.tickets);
        self.rouse(state);
        tickets
    }

    /// Why the store is poisoned, if it is.
    #[must_use]
    pub fn poisoned(&self) -> Option<Arc<str>> {
        self.state.lock().poison.clone()
    }

    /// Refuses every later submission. What is queued can still be taken; then
    /// takes return [`Taken::Closed`].
    pub fn close(&self) {
        let mut state = self.state.lock();
        state.closed = true;
        self.rouse(state);
    }

    fn rouse(&self, mut state: MutexGuard<'_, State<T>>) {
        let waits = state.committer_wants.take();
        drop(state);
        if waits.is_some() {
            self.queued.notify_one();
        }
    }
}

impl<T> Default for GroupCommit<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> State<T> {
    /// Poison wins over closing: it is what the caller's data depends on.
    fn refusal(&self) -> Option<Refusal> {
        match &self.poison {
            Some(reason) => Some(Refusal::Poisoned(Arc::clone(reason))),
            None if self.closed => Some(Refusal::Closed),
            None => None,
        }
    }

    /// Most of `behind` bytes on top of what is queued: not quite all of them, for
    /// a caller that has nothing more to say would be waited for in vain.
    fn wanted(&self, behind: usize) -> usize {
        self.batch.bytes.len() + behind - behind / 8
    }

    fn has_news(&self) -> bool {
        !self.batch.tickets.is_empty() || self.closed
    }

    /// Nothing more is to be waited for.
    fn is_over(&self) -> bool {
        self.closed || self.poison.is_some()
    }

    fn hand_over(&mut self, batch: &mut Batch<T>) -> Taken {
        if !self.batch.tickets.is_empty() {
            mem::swap(&mut self.batch, batch);
            Taken::Batch
        } else if self.closed {
            Taken::Closed
        } else {
            Taken::Idle
        }
    }
}

impl<T> Batch<T> {
    /// A batch with nothing in it.
    #[must_use]
    pub fn new() -> Self {
        Self {
            bytes: Vec::new(),
            tickets: Vec::new(),
            durable: false,
        }
    }

    fn empty(&mut self) {
        self.bytes.clear();
        self.bytes.shrink_to(KEPT_BYTES);
        self.tickets.clear();
        self.durable = false;
    }
}

impl<T> Default for Batch<T> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::{Batch, GroupCommit, KEPT_BYTES, Linger, Refusal, Taken};
    use crate::ground::sync::thread;
    use std::sync::Arc;
    use std::time::Duration;

    #[test]
    fn a_batch_holds_everything_queued_in_order() {
        let group = GroupCommit::new();
        group.submit(b"one ", 1, false).unwrap();
        group.submit(b"two ", 2, true).unwrap();
        group.submit(b"", 3, false).unwrap();

        let mut batch = Batch::new();
        assert_eq!(group.take(&mut batch, None, None), Taken::Batch);
        assert_eq!(batch.bytes, b"one two ");
        assert_eq!(batch.tickets, [1, 2, 3]);
        assert!(batch.durable);
    }

    #[test]
    fn a_batch_is_durable_only_for_its_own_submissions() {
        let group = GroupCommit::new();
        let mut batch = Batch::new();
        group.submit(b"a", 1, true).unwrap();
        assert_eq!(group.try_take(&mut batch), Taken::Batch);
        group.submit(b"b", 2, false).unwrap();
        assert_eq!(group.try_take(&mut batch), Taken::Batch);
        assert_eq!((batch.bytes.as_slice(), batch.durable), (&b"b"[..], false));
    }

    #[test]
    fn nothing_queued_is_idle_and_leaves_the_batch_empty() {
        let group = GroupCommit::<u8>::new();
        let mut batch = Batch {
            bytes: b"old".to_vec(),
            tickets: vec![9],
            durable: true,
        };
        assert_eq!(group.try_take(&mut batch), Taken::Idle);
        assert!(batch.bytes.is_empty() && batch.tickets.is_empty() && !batch.durable);
        let brief = Some(Duration::from_millis(1));
        assert_eq!(group.take(&mut batch, brief, None), Taken::Idle);
    }

    #[test]
    fn a_sleeping_committer_is_roused_by_a_submission_and_by_closing() {
        let group = Arc::new(GroupCommit::new());
        let committer = {
            let group = Arc::clone(&group);
            thread::spawn("committer", move || {
                let mut batch = Batch::new();
                assert_eq!(group.take(&mut batch, None, None), Taken::Batch);
                assert_eq!(batch.tickets, [1]);
                assert_eq!(group.take(&mut batch, None, None), Taken::Closed);
            })
        };
        group.submit(b"a", 1, true).unwrap();
        group.close();
        committer.unwrap().join().unwrap();
    }

    #[test]
    fn closing_refuses_new_submissions_and_keeps_queued_ones() {
        let group = GroupCommit::new();
        group.submit(b"a", 1, true).unwrap();
        group.close();
        let refused = group.submit(b"b", 2, true).unwrap_err();
        assert_eq!((refused.ticket, refused.reason), (2, Refusal::Closed));

        let mut batch = Batch::new();
        assert_eq!(group.take(&mut batch, None, None), Taken::Batch);
        assert_eq!(batch.bytes, b"a");
        assert_eq!(group.take(&mut batch, None, None), Taken::Closed);
    }

    #[test]
    fn poison_returns_queued_tickets_and_its_first_reason_stays() {
        let group = GroupCommit::new();
        group.submit(b"a", 1, true).unwrap();
        assert_eq!(group.poison(Arc::from("sync failed")), [1]);
        assert!(group.poison(Arc::from("write failed")).is_empty());
        assert_eq!(group.poisoned().as_deref(), Some("sync failed"));

        group.close();
        let refused = group.submit(b"b", 2, true).unwrap_err();
        let reason = Refusal::Poisoned(Arc::from("sync failed"));
        assert_eq!((refused.ticket, refused.reason), (2, reason));
        assert_eq!(group.try_take(&mut Batch::new()), Taken::Closed);
    }

    fn lingering(behind: usize) -> Linger {
        Linger {
            behind,
            timeout: Duration::from_mins(1),
            came: None,
        }
    }

    #[test]
    fn a_lingering_take_waits_until_those_answered_before_are_back() {
        let group = Arc::new(GroupCommit::new());
        group.submit(b"a", 1, true).unwrap();
        let other = {
            let group = Arc::clone(&group);
            // Queued before the take looks, its bytes would not be those that come
            // back: the take would wait for as many more.
            thread::spawn("other", move || {
                while group.state.lock().committer_wants.is_none() {
                    std::thread::yield_now();
                }
                group.submit(b"bb", 2, true).unwrap();
            })
        };
        let (mut batch, mut linger) = (Batch::new(), lingering(2));
        assert_eq!(
            group.take(&mut batch, None, Some(&mut linger)),
            Taken::Batch
        );
        other.unwrap().join().unwrap();
        assert_eq!((&batch.tickets[..], linger.came), (&[1, 2][..], Some(true)));
    }

    #[test]
    fn a_lingering_take_ends_where_the_store_closes_or_is_poisoned() {
        let group = Arc::new(GroupCommit::new());
        group.submit(b"a", 1, true).unwrap();
        let other = {
            let group = Arc::clone(&group);
            thread::spawn("other", move || group.close())
        };
        let mut batch = Batch::new();
        let taken = group.take(&mut batch, None, Some(&mut lingering(9)));
        assert_eq!((taken, batch.tickets.len()), (Taken::Batch, 1));
        other.unwrap().join().unwrap();

        let group = Arc::new(GroupCommit::new());
        group.submit(b"a", 1, true).unwrap();
        let other = {
            let group = Arc::clone(&group);
            thread::spawn("other", move || {
                drop(group.poison(Arc::from("sync failed")));
                group.close();
            })
        };
        let taken = group.take(&mut batch, None, Some(&mut lingering(9)));
        other.unwrap().join().unwrap();
        assert_ne!(taken, Taken::Idle, "nobody asked it to come back");
    }

    #[test]
    fn a_huge_buffer_is_not_kept() {
        let group = GroupCommit::new();
        let mut batch = Batch::new();
        group.submit(&vec![0; 2 * KEPT_BYTES], 1, true).unwrap();
        assert_eq!(group.try_take(&mut batch), Taken::Batch);
        assert_eq!(group.try_take(&mut batch), Taken::Idle);
        assert!(batch.bytes.capacity() <= KEPT_BYTES);
    }
}
