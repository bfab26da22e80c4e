//! The progress of the journal.

use crate::sync::atomic::{AtomicU64, Ordering};

/// The progress of the journal, shared with all threads that need a watermark.
#[derive(Debug, Default)]
pub struct Progress {
    /// The last batch written. It changes before the signals of that batch are sent, and these
    /// carry it to the receivers: it needs no ordering of its own.
    pub(super) written: AtomicU64,
    /// The last batch synced. It changes only after the signals of that batch were sent: a flush
    /// reads this and then asks the shards what they applied. Raised before the signals, it would
    /// let the flush retire records that no file holds yet.
    pub(super) synced: AtomicU64,
}

impl Progress {
    /// The last batch synced, its signals sent.
    pub fn synced(&self) -> u64 {
        self.synced.load(Ordering::Acquire)
    }

    /// True if a caller may have been answered from a batch that is not synced.
    pub fn owes_sync(&self) -> bool {
        self.written.load(Ordering::Relaxed) > self.synced()
    }
}
