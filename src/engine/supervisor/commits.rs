//! Measures commits.

use std::sync::Arc;
use std::time::Duration;

use sessionlog_wal::clock::Clock;
use sessionlog_wal::seldom::Seldom;

use crate::engine::stats::Counters;

/// Measures the time that commits take. The holder of the journal reports each.
#[derive(Debug)]
pub(crate) struct Commits {
    counters: Arc<Counters>,
    clock: Arc<dyn Clock>,
    /// The time from which on a commit is slow.
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

    /// Notes that a batch of `bytes` bytes, begun at `began`, is committed.
    pub(super) fn done(&self, began: Duration, bytes: usize) {
        let now = self.clock.monotonic();
        let took = now.saturating_sub(began);
        self.counters.commit_nanos.record_time_alone(took);
        if took >= self.slow {
            self.tell(took, bytes, now);
        }
    }

    /// Not every one is logged: on a slow device, every commit is slow.
    #[cold]
    fn tell(&self, took: Duration, bytes: usize, now: Duration) {
        self.counters.slow_commits.add(1);
        if self.told.is_due(now) {
            let so_far = self.counters.slow_commits.read();
            tracing::warn!(?took, bytes, so_far, "a commit is slow");
        }
    }
}
