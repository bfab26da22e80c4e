//! Latencies of hours in a few kilobytes.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::support::sample::{Latency, float};

/// Buckets to each doubling: a quantile is at most a sixteenth too high.
const STEPS: usize = 16;
const DOUBLINGS: usize = 48;

pub(super) struct Histogram(Vec<AtomicUsize>);

impl Default for Histogram {
    fn default() -> Self {
        Self(
            (0..STEPS * DOUBLINGS)
                .map(|_| AtomicUsize::new(0))
                .collect(),
        )
    }
}

impl Histogram {
    pub(super) fn add(&self, latency: Duration) {
        let bucket = bucket(latency.as_nanos() as usize).min(self.0.len() - 1);
        self.0[bucket].fetch_add(1, Ordering::Relaxed);
    }

    /// What was added since the last time.
    pub(super) fn take(&self) -> Latency {
        let counts = self.0.iter().map(|count| count.swap(0, Ordering::Relaxed));
        let counts: Vec<usize> = counts.collect();
        Latency {
            count: counts.iter().sum(),
            p50_ms: quantile_ms(&counts, 500),
            p99_ms: quantile_ms(&counts, 990),
            p999_ms: quantile_ms(&counts, 999),
            max_ms: quantile_ms(&counts, 1000),
        }
    }
}

/// The exponent of two, then the four bits after the leading one.
fn bucket(nanos: usize) -> usize {
    let nanos = nanos.max(STEPS);
    let exponent = nanos.ilog2() as usize - STEPS.ilog2() as usize;
    exponent * STEPS + (nanos >> exponent) - STEPS
}

/// The upper end of a bucket, in nanoseconds.
fn end(bucket: usize) -> usize {
    (bucket % STEPS + STEPS + 1) << (bucket / STEPS)
}

fn quantile_ms(counts: &[usize], per_mille: usize) -> f64 {
    let rank = (counts.iter().sum::<usize>() * per_mille).div_ceil(1000);
    let mut seen = 0;
    for (bucket, count) in counts.iter().enumerate() {
        seen += count;
        if *count > 0 && seen >= rank {
            return float(end(bucket)) / 1e6;
        }
    }
    0.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantile_is_at_most_a_sixteenth_too_high() {
        for nanos in [16, 17, 100, 12_345, 1_000_000, 987_654_321] {
            let end = end(bucket(nanos));
            assert!(
                end > nanos && end <= nanos + nanos / 16 + 1,
                "{nanos}: {end}"
            );
        }
    }

    #[test]
    fn quantiles_are_those_of_what_was_added() {
        let histogram = Histogram::default();
        for micros in 1..=1000 {
            histogram.add(Duration::from_micros(micros));
        }
        let latency = histogram.take();
        assert_eq!(latency.count, 1000);
        assert!((0.5..0.54).contains(&latency.p50_ms), "{latency:?}");
        assert!((0.99..1.06).contains(&latency.p99_ms), "{latency:?}");
        assert_eq!(histogram.take().count, 0);
    }
}
