//! How much a worker does at a time.

/// How much a worker does at a time, and how much may be on its way.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// Events handled in one turn.
    pub(super) events: usize,
    /// Commands taken from the mailboxes at a time.
    pub(super) drained: usize,
    /// Commands that whoever finds the seat free takes in for others: more are the
    /// worker's thread's.
    pub(super) taken_here: usize,
    /// Records in flight beyond which no mailbox is drained, bytes: back-pressure
    /// reaches the callers through their mailbox.
    pub(super) in_flight: usize,
}

impl Limits {
    /// Those of every store that is opened.
    pub(crate) const USUAL: Self = Self {
        events: 256,
        drained: 256,
        taken_here: 256,
        in_flight: 64 << 20,
    };

    /// Reached by two or three commands.
    #[cfg(feature = "testing")]
    pub(crate) const SMALL: Self = Self {
        events: 2,
        drained: 1,
        taken_here: 1,
        in_flight: 300,
    };
}
