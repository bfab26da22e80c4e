//! How long commits take.

use std::sync::Arc;
use std::time::Duration;

use crate::engine::stats::Counters;
use crate::ground::clock::Clock;
use crate::ground::seldom::Seldom;

/// Looks how long commits take. Whoever holds the journal tells it of each.
#[derive(Debug)]
pub(crate) struct Commits {
    counters: Arc<Counters>,
    clock: Arc<dyn Clock>,
    /// How long one may take.
    slow: Duration,
    told: Seldom,
}

impl Commits {
    pub(crate) fn new(counters: &Arc<Counters>, clock: &Arc<dyn Clock>, slow: Duration) -> Self {
        Self {
            counters: counters.clone(),
            clock: clock.clone(),
            slow,
            told: Seldom::default(),
        }
    }

    /// A batch of so many bytes is committed, and was begun then.
    pub(super) fn done(&self, began: Duration, bytes: usize) {
        let now = self.clock.monotonic();
        let took = now.saturating_sub(began);
        self.counters.commit.record_time_alone(took);
        if took >= self.slow {
            self.tell(took, bytes, now);
        }
    }

    /// Not of each: a device that is slow is slow for every commit.
    #[cold]
    fn tell(&self, took: Duration, bytes: usize, now: Duration) {
        self.counters.slow_commits.add(1);
        if self.told.is_due(now) {
            let so_far = self.counters.slow_commits.read();
            tracing::warn!(?took, bytes, so_far, "a commit is slow");
        }
    }
}
