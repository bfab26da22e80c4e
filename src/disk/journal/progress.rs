//! How far the journal is.

use crate::ground::sync::atomic::{AtomicU64, Ordering};

/// How far the journal is; shared with whoever needs a watermark.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    /// The last batch written. Moves before the signals of that batch are sent,
    /// which carry it to whoever is told: it needs no order of its own.
    pub(super) written: AtomicU64,
    /// The last batch synced. Moves only after the signals of that batch were
    /// sent: a flush reads this and then asks the shards what they applied. Told
    /// before the signals, it would retire records that no file holds yet.
    pub(super) synced: AtomicU64,
}

impl Progress {
    /// The last batch synced, its signals sent.
    pub(crate) fn synced(&self) -> u64 {
        self.synced.load(Ordering::Acquire)
    }

    /// Whether anyone may have been told of a batch that is not synced.
    pub(crate) fn owes_sync(&self) -> bool {
        self.written.load(Ordering::Relaxed) > self.synced()
    }
}
