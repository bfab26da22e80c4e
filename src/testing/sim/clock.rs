//! Time that passes when a test says so.

use std::time::Duration;

use sessionlog_wal::clock::Clock;
use sessionlog_wal::sync::atomic::{AtomicU64, Ordering};
use time::OffsetDateTime;

/// A clock that is set by hand, and moves a little whenever the wall time is
/// asked for: no two time stamps are the same, nor of the same length.
#[derive(Debug, Default)]
pub(super) struct ManualClock {
    micros: AtomicU64,
}

impl ManualClock {
    pub(super) fn advance(&self, by: Duration) {
        self.micros
            .fetch_add(by.as_micros() as u64, Ordering::Relaxed);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> OffsetDateTime {
        self.advance(Duration::from_micros(10_010));
        OffsetDateTime::UNIX_EPOCH + Duration::from_hours(490_000) + self.monotonic()
    }

    fn monotonic(&self) -> Duration {
        Duration::from_micros(self.micros.load(Ordering::Relaxed))
    }
}
