//! Counts by size.

mod recorder;

pub use self::recorder::Recorder;

use std::fmt;

use serde::{Deserialize, Serialize};

/// Counts by size: of latencies in nanoseconds, or of numbers of bytes or records.
///
/// Sizes are counted in buckets, four for every power of two; sizes below 8 have one each. So a
/// quantile is at most an eighth above or below a recorded size, and [`max`](Self::max) and
/// [`mean`](Self::mean) are exact. `serde` writes the buckets that are not empty, by the least size
/// of each.
///
/// ```
/// # use sessionlog::{Store, StoreStats};
/// # fn main() -> sessionlog::Result<()> {
/// # let scratch = tempfile::tempdir().unwrap();
/// # let store = Store::open(scratch.path())?;
/// # let chats = store.handle();
/// let before = chats.stats();
/// chats.add_message("cli", "user", "hi").wait()?;
/// chats.add_message("cli", "user", "hi").wait()?;
/// let since = chats.stats().since(&before);
/// assert_eq!(since.sync_nanos.count(), 2);
/// assert!(since.sync_nanos.p50() <= since.sync_nanos.max());
/// # store.close()
/// # }
/// ```
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, from = "Written", into = "Written")]
pub struct Histogram {
    /// The buckets that are not empty, in order, each with its count.
    buckets: Vec<(usize, u64)>,
    sum: u64,
    max: u64,
}

/// The serialised form.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
struct Written {
    sum: u64,
    max: u64,
    /// The least size of each bucket, and its count.
    buckets: Vec<(u64, u64)>,
}

impl Histogram {
    /// The number of recorded sizes.
    #[must_use]
    pub fn count(&self) -> u64 {
        let counts = self.buckets.iter().map(|(_, count)| count);
        counts.fold(0, |all, count| all.saturating_add(*count))
    }

    /// The sum of all sizes. Wraps after 2⁶⁴: nanoseconds do after five centuries.
    #[must_use]
    pub fn sum(&self) -> u64 {
        self.sum
    }

    /// The largest size; 0 if none was recorded. For a [difference](Self::since) at most a quarter
    /// above it.
    #[must_use]
    pub fn max(&self) -> u64 {
        self.max
    }

    /// The mean; 0 if no size was recorded.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a mean is not exact to 2⁻⁵³")]
    pub fn mean(&self) -> f64 {
        match self.count() {
            0 => 0.0,
            count => self.sum as f64 / count as f64,
        }
    }

    /// The size that half of them do not exceed; 0 if none was recorded.
    #[must_use]
    pub fn p50(&self) -> u64 {
        self.quantile(0.5)
    }

    /// The size that 90 of 100 do not exceed; 0 if none was recorded.
    #[must_use]
    pub fn p90(&self) -> u64 {
        self.quantile(0.9)
    }

    /// The size that 99 of 100 do not exceed; 0 if none was recorded.
    #[must_use]
    pub fn p99(&self) -> u64 {
        self.quantile(0.99)
    }

    /// The quantile for `q`, 0.0 to 1.0: the smallest recorded size that this part of them does not
    /// exceed, or up to an eighth more or less. 0 if none was recorded.
    #[must_use]
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_sign_loss,
        reason = "a rank among 2⁵³ sizes may be off by one; no part is negative"
    )]
    pub fn quantile(&self, q: f64) -> u64 {
        let rank = (self.count() as f64 * q.clamp(0.0, 1.0)).ceil() as u64;
        let mut passed = 0_u64;
        for &(bucket, count) in &self.buckets {
            passed = passed.saturating_add(count);
            if passed >= rank.max(1) {
                return middle_of(bucket).min(self.max);
            }
        }
        self.max
    }

    /// The buckets that are not empty, in order: the largest size of each, and its count. For
    /// drawing them.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64)> {
        self.buckets
            .iter()
            .map(|&(bucket, count)| (last_of(bucket), count))
    }

    /// Adds the counts of another histogram.
    pub fn merge(&mut self, other: &Self) {
        for &(bucket, count) in &other.buckets {
            self.add(bucket, count);
        }
        self.sum = self.sum.wrapping_add(other.sum);
        self.max = self.max.max(other.max);
    }

    /// The counts since `earlier`, an older sample of the same histogram. Its [`max`](Self::max) is
    /// known by its bucket only.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let mut since = Self::default();
        for &(bucket, count) in &self.buckets {
            since.add(bucket, count.saturating_sub(earlier.count_in(bucket)));
        }
        since.sum = self.sum.wrapping_sub(earlier.sum);
        let last = since.buckets.last();
        since.max = last.map_or(0, |&(bucket, _)| last_of(bucket).min(self.max));
        since
    }

    fn count_in(&self, bucket: usize) -> u64 {
        let found = self.buckets.binary_search_by_key(&bucket, |(at, _)| *at);
        found.map_or(0, |at| self.buckets[at].1)
    }

    fn add(&mut self, bucket: usize, count: u64) {
        if count == 0 {
            return;
        }
        match self.buckets.binary_search_by_key(&bucket, |(at, _)| *at) {
            Ok(at) => self.buckets[at].1 = self.buckets[at].1.saturating_add(count),
            Err(at) => self.buckets.insert(at, (bucket, count)),
        }
    }
}

/// Shows the values that people ask for, not every bucket.
impl fmt::Debug for Histogram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { max, .. } = self;
        let (count, p50, p99) = (self.count(), self.p50(), self.p99());
        write!(f, "{count} (p50 {p50}, p99 {p99}, max {max})")
    }
}

impl From<Written> for Histogram {
    fn from(written: Written) -> Self {
        let mut read = Self {
            buckets: Vec::new(),
            sum: written.sum,
            max: written.max,
        };
        for (least, count) in written.buckets {
            read.add(bucket_of(least), count);
        }
        read
    }
}

impl From<Histogram> for Written {
    fn from(histogram: Histogram) -> Self {
        let buckets = histogram.buckets.iter();
        Self {
            sum: histogram.sum,
            max: histogram.max,
            buckets: buckets.map(|&(at, count)| (least_of(at), count)).collect(),
        }
    }
}

/// The number of buckets for every power of two, as a power of two.
const FINE: u32 = 2;

/// The number of buckets for 64 bits.
const BUCKETS: usize = (65 - FINE as usize) << FINE;

/// The bucket that counts a size.
fn bucket_of(size: u64) -> usize {
    let coarse = size.max(1).ilog2().saturating_sub(FINE);
    if size >> FINE == 0 {
        return size as usize;
    }
    let fine = (size >> coarse) as usize & ((1 << FINE) - 1);
    ((coarse as usize + 1) << FINE) + fine
}

/// The least size that a bucket counts.
fn least_of(bucket: usize) -> u64 {
    match bucket >> FINE {
        0 => bucket as u64,
        coarse => ((1 << FINE) + (bucket as u64 & ((1 << FINE) - 1))) << (coarse - 1),
    }
}

/// The largest size that a bucket counts.
fn last_of(bucket: usize) -> u64 {
    match bucket + 1 {
        BUCKETS => u64::MAX,
        next => least_of(next) - 1,
    }
}

fn middle_of(bucket: usize) -> u64 {
    let least = least_of(bucket);
    least + (last_of(bucket) - least) / 2
}

#[cfg(test)]
mod tests;
