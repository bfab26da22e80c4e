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
    /// Whether any of the submissions must survive power loss, or somebody waits
    /// for what was taken before to be synced.
    pub durable: bool,
}

/// What a take found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// The batch was filled.
    Batch,
    /// Nothing was queued, for the whole idle time if one was given, or until a
    /// sync was asked for.
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
    pub expected: usize,
    /// For at most so long once anything is queued.
    pub timeout: Duration,
    /// Whether what was waited for came; `None` if there was nothing to wait
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

    /// Queues one shard's encoded records after everything queued before.
    ///
    /// # Errors
    /// When the store is poisoned or closed. Both are checked under the lock
    /// that queues: checked earlier, a record could slip in after the failure
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

    /// Has what was taken before synced, though nothing more is queued: a take that
    /// sleeps ends, or the next one does not sleep. Somebody waits for buffered
    /// records, which otherwise are synced some milliseconds later.
    pub fn ask_for_sync(&self) {
        let mut state = self.state.lock();
        if state.is_over() {
            return;
        }
        state.batch.durable = true;
        // Who lingers has a batch for it already, and would begin to linger anew.
        if state.committer_wants == Some(0) {
            self.rouse(state);
        }
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
        let wanted = linger.as_ref().map(|l| state.wanted(l.expected));
        loop {
            while !state.has_news() {
                if self.sleep(&mut state, 0, idle) {
                    return state.hand_over(batch);
                }
            }
            if !state.batch.tickets.is_empty()
                && let (Some(linger), Some(wanted)) = (linger.take(), wanted)
            {
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

    /// Most of `expected` bytes on top of what is queued: not quite all of them, for
    /// a caller that has nothing more to say would be waited for in vain.
    fn wanted(&self, expected: usize) -> usize {
        self.batch.bytes.len() + expected - expected / 8
    }

    fn has_news(&self) -> bool {
        !self.batch.tickets.is_empty() || self.batch.durable || self.closed
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
            self.batch.durable = false;
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
mod tests;
