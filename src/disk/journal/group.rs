//! The hand-over of a group commit: many shards queue, one committer takes.
//!
//! Whatever was queued while the last sync ran goes out as one write and one
//! sync. A caller who finds the committer asleep, or away, may take what is queued in
//! its place. Nothing here touches a file, so the models in `loom-tests/` explore
//! exactly this code.

mod batch;

use crate::ground::sync::{Condvar, Mutex, MutexGuard};
use std::mem;
use std::sync::Arc;
use std::time::Duration;

pub use self::batch::{Batch, Lead, Led, Linger, Taken};

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
    /// The committer is to look again for how long it may sleep.
    look: bool,
    /// The committer syncs what was written before, and then looks at what is queued: it
    /// need not be told of anything.
    away: bool,
    /// Changes in the batch that was taken last.
    company: usize,
    /// How many a submission holds: a worker submits those of many callers as one.
    changes: fn(&T) -> usize,
}

impl<T> GroupCommit<T> {
    /// An empty, open queue, of whose submissions each is one change.
    #[must_use]
    pub fn new() -> Self {
        Self::counting(|_| 1)
    }

    /// An empty, open queue, of whose submissions each holds as many as `changes` says.
    pub(crate) fn counting(changes: fn(&T) -> usize) -> Self {
        Self {
            state: Mutex::new(State {
                batch: Batch::new(),
                closed: false,
                poison: None,
                committer_wants: None,
                look: false,
                away: false,
                company: 0,
                changes,
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
        let state = self.queue(records, ticket, durable)?;
        self.tell(state);
        Ok(())
    }

    /// The same for somebody who may see to it as `lead` says.
    ///
    /// # Errors
    /// As [`submit`](Self::submit).
    pub fn submit_to_lead(
        &self,
        records: &[u8],
        ticket: T,
        durable: bool,
        lead: Lead,
    ) -> Result<Led, Refused<T>> {
        let state = self.queue(records, ticket, durable)?;
        let is_free = state.away || state.committer_wants == Some(0);
        if is_free && state.may_be_led(lead) {
            return Ok(Led::Here);
        }
        self.tell(state);
        Ok(Led::Elsewhere)
    }

    fn queue(
        &self,
        records: &[u8],
        ticket: T,
        durable: bool,
    ) -> Result<MutexGuard<'_, State<T>>, Refused<T>> {
        let mut state = self.state.lock();
        if let Some(reason) = state.refusal() {
            return Err(Refused { ticket, reason });
        }
        state.batch.bytes.extend_from_slice(records);
        state.batch.tickets.push(ticket);
        state.batch.durable |= durable;
        Ok(state)
    }

    fn tell(&self, state: MutexGuard<'_, State<T>>) {
        let queued = state.batch.bytes.len();
        if state.committer_wants.is_some_and(|wanted| queued >= wanted) {
            self.rouse(state);
        }
    }

    /// Has what was taken before synced, though nothing more is queued: a
    /// [`wait`](Self::wait) that sleeps ends, or the next one does not sleep. Somebody
    /// waits for buffered records, which otherwise are synced some milliseconds later.
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

    /// Blocks until there is something to take, a sync was asked for, or
    /// [`look_again`](Self::look_again) was called; for at most `idle`, and then for
    /// company as `linger` says. For one committing thread. Whether the company came;
    /// `None` if there was nothing to wait for. It may end without any of that: somebody
    /// took what came. Were it to sleep for as long again then, `idle` would have no end.
    pub fn wait(&self, idle: Option<Duration>, linger: Option<&Linger>) -> Option<bool> {
        let mut state = self.state.lock();
        if !state.has_news() && !state.look {
            self.sleep(&mut state, 0, idle);
        }
        state.look = false;
        let linger = linger.filter(|_| !state.batch.tickets.is_empty())?;
        let mut timed_out = false;
        while state.batch.bytes.len() < linger.wanted && !state.is_over() && !timed_out {
            timed_out = self.sleep(&mut state, linger.wanted, Some(linger.timeout));
        }
        Some(state.batch.bytes.len() >= linger.wanted)
    }

    /// Ends the committer's [`wait`](Self::wait), or the next one: what it may
    /// sleep for is another by now.
    pub fn look_again(&self) {
        let mut state = self.state.lock();
        state.look = true;
        if state.committer_wants == Some(0) {
            self.rouse(state);
        }
    }

    /// Says whether the committer is away, syncing what was written before: others may write
    /// meanwhile, and sync nothing, for a sync beside another takes as long as both. It must
    /// look at what is queued once it is back, which it is not told of.
    pub fn set_away(&self, away: bool) {
        self.state.lock().away = away;
    }

    /// Swaps `batch`, emptied, with everything queued. Whoever calls it keeps others
    /// from doing so until the batch is committed.
    ///
    /// A submission that arrives after this returns is in the next batch.
    pub fn take(&self, batch: &mut Batch<T>) -> Taken {
        batch.empty();
        self.state.lock().hand_over(batch)
    }

    /// [`take`](Self::take) in the committer's place: what somebody may see to who is
    /// free to do as `lead` says, and whom a batch of so many bytes suits. The
    /// committer is told of any other.
    pub fn take_to_lead(
        &self,
        batch: &mut Batch<T>,
        lead: Lead,
        suits: impl FnOnce(usize) -> bool,
    ) -> Taken {
        batch.empty();
        let mut state = self.state.lock();
        if state.batch.tickets.is_empty() {
            return Taken::Nothing;
        }
        if state.may_be_led(lead) && suits(state.batch.bytes.len()) {
            return state.hand_over(batch);
        }
        self.tell(state);
        Taken::Nothing
    }

    /// Whether something is queued that whoever led writes, too. To be asked after others
    /// may lead again: who found that somebody led counts on it. The committer is told of
    /// what has to be synced: who led has their answer, and waits for no second sync.
    pub fn is_left(&self) -> bool {
        let state = self.state.lock();
        let left = !state.batch.tickets.is_empty();
        if left && !state.batch.durable {
            return true;
        }
        if left {
            self.tell(state);
        }
        false
    }

    /// Bytes that are queued.
    #[must_use]
    pub fn queued(&self) -> usize {
        self.state.lock().batch.bytes.len()
    }

    /// Tells the committer, if it sleeps, of what is queued.
    pub fn leave(&self) {
        let state = self.state.lock();
        if state.has_news() {
            self.tell(state);
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

    fn has_news(&self) -> bool {
        !self.batch.tickets.is_empty() || self.batch.durable || self.closed
    }

    /// Nothing more is to be waited for.
    fn is_over(&self) -> bool {
        self.closed || self.poison.is_some()
    }

    fn hand_over(&mut self, batch: &mut Batch<T>) -> Taken {
        if !self.batch.tickets.is_empty() {
            self.company = self.changes();
            mem::swap(&mut self.batch, batch);
            Taken::Batch
        } else if self.closed {
            Taken::Closed
        } else if mem::take(&mut self.batch.durable) {
            Taken::Idle
        } else {
            Taken::Nothing
        }
    }

    /// Whether what is queued may be seen to by a caller.
    fn may_be_led(&self, lead: Lead) -> bool {
        let alone = || self.company <= 1 && self.batch.tickets.len() == 1 && self.changes() <= 1;
        !self.batch.durable || lead == Lead::Sync && !self.away && alone()
    }

    /// How many the batch holds.
    fn changes(&self) -> usize {
        self.batch.tickets.iter().map(self.changes).sum()
    }
}

#[cfg(test)]
mod tests;
