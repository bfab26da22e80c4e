//! Limits of the work done at a time.

/// Limits of the work done at a time, and of the records in flight.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TurnLimits {
    /// Events handled in one turn of the worker's thread.
    pub(super) events: usize,
    /// Records staged beyond which no further inbox is emptied, bytes.
    pub(super) batch: usize,
    /// Records in flight beyond which no inbox is emptied, bytes: back-pressure
    /// reaches the callers through their inbox.
    pub(super) in_flight: usize,
}

impl TurnLimits {
    /// The limits of every store that is opened.
    pub(crate) const USUAL: Self = Self {
        events: 256,
        batch: 8 << 20,
        in_flight: 64 << 20,
    };

    /// Limits that two or three commands reach.
    #[cfg(feature = "testing")]
    pub(crate) const SMALL: Self = Self {
        events: 2,
        batch: 1,
        in_flight: 300,
    };
}
