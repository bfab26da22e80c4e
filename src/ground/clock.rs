//! Time: the only door to the system clocks.

mod stamp;

use std::time::Duration;

use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

pub(crate) use stamp::{Stamp, StampText};

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

/// `when` in RFC 3339 with nanoseconds and no trailing zeros, as Go writes a
/// `time.Time`.
#[must_use]
pub fn rfc3339(when: OffsetDateTime) -> String {
    StampText::of(when).to_string()
}

/// Parses a time in RFC 3339; `None` if it was never set.
pub(crate) fn parse(text: &str) -> Option<OffsetDateTime> {
    let time = OffsetDateTime::parse(text, &Rfc3339).ok()?;
    Some(time).filter(|_| text != ZERO_TIME)
}

/// The time in nanoseconds since 1970, limited to the range from 1677 to 2262.
pub(crate) fn nanos(time: OffsetDateTime) -> i64 {
    let nanos = time.unix_timestamp_nanos();
    i64::try_from(nanos).unwrap_or(if nanos < 0 { i64::MIN } else { i64::MAX })
}

/// The same for a text in RFC 3339; `None` if it was never set or cannot be parsed.
pub(crate) fn parse_nanos(text: &str) -> Option<i64> {
    parse(text).map(nanos)
}

/// Go's zero `time.Time`: what PicoClaw writes if no time was ever set.
pub const ZERO_TIME: &str = "0001-01-01T00:00:00Z";

#[cfg(test)]
mod tests {
    use super::{Clock, SystemClock, rfc3339};
    use proptest::prelude::*;
    use time::OffsetDateTime;
    use time::format_description::well_known::Rfc3339;

    proptest! {
        #[test]
        fn a_time_is_written_as_the_standard_says(
            seconds in -62_135_596_800_i64..=253_402_300_799,
            nanos in prop_oneof![Just(0_u32), 0..1_000_000_000_u32, (0..1_000_u32).prop_map(|n| n * 1_000_000)],
        ) {
            let when = OffsetDateTime::from_unix_timestamp(seconds).unwrap();
            let when = when.replace_nanosecond(nanos).unwrap();
            prop_assert_eq!(rfc3339(when), when.format(&Rfc3339).unwrap());
        }
    }

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
