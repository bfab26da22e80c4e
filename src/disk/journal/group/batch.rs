//! What goes to disk together, and who sees to it.

use std::time::Duration;

/// Larger buffers are returned after a batch: one huge import must not pin its
/// size for the life of the store.
pub(super) const KEPT_BYTES: usize = 8 << 20;

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
    /// Nothing is queued, and a sync was asked for.
    Idle,
    /// Nothing is queued.
    Nothing,
    /// Nothing is queued and nothing will be.
    Closed,
}

/// How long a committer may wait for company.
///
/// Callers that were just answered come back with their next command a moment
/// later. Taken at once, what others queued meanwhile would go out alone and make
/// them wait for two syncs, again and again.
#[derive(Clone, Copy, Debug)]
pub struct Linger {
    /// The wait ends when so many bytes are queued. Counted from when the last batch
    /// began to be answered: who is back before the wait begins would be waited for in vain.
    pub wanted: usize,
    /// For at most so long once anything is queued.
    pub timeout: Duration,
}

/// What a caller may do for a group commit in the committer's place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lead {
    /// Write what nobody waits to have synced.
    Write,
    /// Sync as well, if the last batch held at most one change: those who come back
    /// together go out together, and one of them alone would keep the others
    /// waiting for a second sync.
    Sync,
}

/// Who sees to what was submitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Led {
    /// The committer, or a caller who leads already.
    Elsewhere,
    /// Whoever submitted it: the committer sleeps, or syncs what was written before, and was
    /// not told.
    Here,
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

    pub(super) fn empty(&mut self) {
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
