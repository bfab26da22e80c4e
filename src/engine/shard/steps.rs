//! The size of the steps in which a new session file is written and synced.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Bytes. If syncs are quick, writing a larger step would take longer than a sync.
const SMALLEST: usize = 16 << 10;

/// Bytes. If syncs are slow, smaller steps would only prolong a rewrite.
const LARGEST: usize = 256 << 10;

/// Bytes that a disk takes in a microsecond, roughly.
const RATE: usize = 256;

/// Steps whose bytes take about as long as a sync. The journal's syncs, and with them every caller,
/// wait for a write-back on the same disk: on a disk that syncs in 40 µs, 64 KiB at a time made the
/// p99 of others five times as long, and 16 KiB twice. On a disk that takes milliseconds, many
/// small steps would help no caller.
#[derive(Debug, Default)]
pub(super) struct Steps {
    /// Times of the last few syncs: one sync that found its bytes written already must not make all
    /// later steps small.
    last: VecDeque<Duration>,
}

/// The quickest sync of the last rewrite, microseconds; 0 before the first. The next rewrite begins
/// with steps of that size: for a short file, each step less saves a sync.
#[derive(Debug, Default)]
pub(crate) struct LastRewrite(AtomicU64);

/// Number of syncs that are looked back at.
const RECENT: usize = 8;

impl Steps {
    pub(super) fn after(rewrite: &LastRewrite) -> Self {
        let mut steps = Self::default();
        match rewrite.0.load(Ordering::Relaxed) {
            0 => {}
            micros => steps.took(Duration::from_micros(micros)),
        }
        steps
    }

    /// Ends the rewrite.
    pub(super) fn end(&self, rewrite: &LastRewrite) {
        rewrite.0.store(self.quickest(), Ordering::Relaxed);
    }

    /// Returns the number of bytes of the next step.
    pub(super) fn size(&self) -> usize {
        let micros = usize::try_from(self.quickest()).unwrap_or(LARGEST);
        micros.saturating_mul(RATE).clamp(SMALLEST, LARGEST)
    }

    /// Returns the quickest recent sync, microseconds.
    fn quickest(&self) -> u64 {
        let quickest = self.last.iter().min().copied().unwrap_or_default();
        u64::try_from(quickest.as_micros()).unwrap_or(u64::MAX)
    }

    /// Notes how long a step's sync took.
    pub(super) fn took(&mut self, time: Duration) {
        if self.last.len() == RECENT {
            self.last.pop_front();
        }
        self.last.push_back(time);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_as_large_as_syncs_are_slow_and_one_that_had_to_wait_counts_for_nothing() {
        let after = |micros: &[u64]| {
            let mut steps = Steps::default();
            for time in micros.iter().copied().map(Duration::from_micros) {
                steps.took(time);
            }
            steps.size()
        };
        assert_eq!(Steps::default().size(), SMALLEST);
        assert_eq!(after(&[40, 40, 9_000]), SMALLEST);
        assert_eq!(after(&[300, 250, 900]), 250 * RATE);
        assert_eq!(after(&[4_000, 4_100, 4_200]), LARGEST);
        let recovered = [&[40][..], &[4_000; RECENT]].concat();
        assert_eq!(after(&recovered), LARGEST);
    }

    #[test]
    fn a_rewrite_begins_with_steps_as_large_as_the_last_one_ended_with() {
        let rewrite = LastRewrite::default();
        assert_eq!(Steps::after(&rewrite).size(), SMALLEST);
        let mut steps = Steps::default();
        steps.took(Duration::from_micros(300));
        steps.end(&rewrite);
        assert_eq!(Steps::after(&rewrite).size(), 300 * RATE);
    }
}
