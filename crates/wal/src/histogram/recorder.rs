//! Counting sizes while other threads read.

use std::sync::atomic::{AtomicU64, Ordering};

use super::{BUCKETS, Histogram, bucket_of};

/// Counts sizes. A reader may find a size in one of bucket, sum and maximum and not in the others
/// yet: no protocol depends on it, so its atomics are not the model's.
#[derive(Debug)]
pub struct Recorder {
    counts: Box<[AtomicU64]>,
    sum: AtomicU64,
    max: AtomicU64,
}

impl Recorder {
    /// Counts a size; other threads may count at the same time.
    pub fn record(&self, size: u64) {
        self.counts[bucket_of(size)].fetch_add(1, Ordering::Relaxed);
        self.sum.fetch_add(size, Ordering::Relaxed);
        self.max.fetch_max(size, Ordering::Relaxed);
    }

    /// Counts a size for a thread that alone may count at the time, such as the holder of the
    /// journal: a tenth of the cost. If two threads did so at once, one count would be lost.
    pub(crate) fn record_alone(&self, size: u64) {
        let add = |to: &AtomicU64, by: u64| {
            let was = to.load(Ordering::Relaxed);
            to.store(was.wrapping_add(by), Ordering::Relaxed);
        };
        add(&self.counts[bucket_of(size)], 1);
        add(&self.sum, size);
        if size > self.max.load(Ordering::Relaxed) {
            self.max.store(size, Ordering::Relaxed);
        }
    }

    /// The counts so far.
    pub fn read(&self) -> Histogram {
        let counts = self
            .counts
            .iter()
            .map(|count| count.load(Ordering::Relaxed));
        Histogram {
            buckets: counts.enumerate().filter(|(_, count)| *count > 0).collect(),
            sum: self.sum.load(Ordering::Relaxed),
            max: self.max.load(Ordering::Relaxed),
        }
    }
}

impl Default for Recorder {
    fn default() -> Self {
        Self {
            counts: (0..BUCKETS).map(|_| AtomicU64::new(0)).collect(),
            sum: AtomicU64::new(0),
            max: AtomicU64::new(0),
        }
    }
}
