//! Time: the only door to the system clocks.

use std::time::Duration;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// Where the engine reads the time.
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
    fn now(&self) -> OffsetDateTime {
        OffsetDateTime::now_utc()
    }

    fn monotonic(&self) -> Duration {
        self.start.elapsed()
    }
}

/// `when` in RFC 3339 with nanoseconds and no trailing zeros, as Go writes a
/// `time.Time`.
#[must_use]
pub fn rfc3339(when: OffsetDateTime) -> String {
    when.format(&Rfc3339)
        .unwrap_or_else(|_| String::from(ZERO_TIME))
}

/// Go's zero `time.Time`: what PicoClaw writes where no time was ever set.
pub const ZERO_TIME: &str = "0001-01-01T00:00:00Z";
