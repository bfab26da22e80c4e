//! Time: the only door to the system clocks.

use std::time::Duration;

use time::OffsetDateTime;

/// The source of time for the engine.
pub trait Clock: Send + Sync + std::fmt::Debug {
    /// The wall clock, for `created_at` and `updated_at`.
    fn now(&self) -> OffsetDateTime;

    /// Time since some fixed moment; never goes back. For deadlines.
    fn monotonic(&self) -> Duration;
}

/// The system's clocks.
#[derive(Debug)]
pub struct SystemClock {
    #[expect(clippy::disallowed_types, reason = "this is the seam")]
    start: std::time::Instant,
}

#[expect(clippy::disallowed_types, reason = "this is the seam")]
impl Default for SystemClock {
    fn default() -> Self {
        Self {
            start: std::time::Instant::now(),
        }
    }
}

impl Clock for SystemClock {
    /// Never ends in the digit zero: that digit would be left out, and data written with the time
    /// could not be overwritten in place.
    fn now(&self) -> OffsetDateTime {
        let now = OffsetDateTime::now_utc();
        if now.nanosecond().is_multiple_of(10) {
            now + Duration::from_nanos(1)
        } else {
            now
        }
    }

    fn monotonic(&self) -> Duration {
        self.start.elapsed()
    }
}

#[cfg(test)]
mod tests {
    use super::{Clock, SystemClock};
    use sessionlog_core::stamp::rfc3339;

    #[test]
    fn the_times_of_the_system_have_texts_of_one_length() {
        let clock = SystemClock::default();
        for _ in 0..1_000 {
            assert_eq!(
                rfc3339(clock.now()).len(),
                "2026-01-02T03:04:05.123456789Z".len()
            );
        }
    }
}
