//! Time: the only door to the system clocks.

use std::sync::Arc;
use std::time::Duration;

use arrayvec::ArrayString;
use time::format_description::well_known::Rfc3339;
use time::{OffsetDateTime, UtcOffset};

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
    /// Never one whose last digit is zero: it would be left out, and what was written
    /// with the time could not be written over in place.
    fn now(&self) -> OffsetDateTime {
        let now = OffsetDateTime::now_utc();
        now + Duration::from_nanos(now.nanosecond().is_multiple_of(10).into())
    }

    fn monotonic(&self) -> Duration {
        self.start.elapsed()
    }
}

/// `when` in RFC 3339 with nanoseconds and no trailing zeros, as Go writes a
/// `time.Time`.
#[must_use]
pub fn rfc3339(when: OffsetDateTime) -> String {
    Stamp::of(when).to_string()
}

/// The text of a time, cheap to copy: every change to a session carries one, and
/// a count of references to it would be what all processors fight for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Stamp {
    Short(ArrayString<SHORT>),
    /// What another program wrote, with an offset that no time has.
    Long(Arc<str>),
}

/// The longest time that Go writes, bytes.
const SHORT: usize = 35;

impl Stamp {
    /// `when` as [`rfc3339`] has it.
    pub(crate) fn of(when: OffsetDateTime) -> Self {
        when.checked_to_offset(UtcOffset::UTC)
            .and_then(utc)
            .map_or_else(|| Self::from(ZERO_TIME), Self::Short)
    }

    pub(crate) fn as_str(&self) -> &str {
        match self {
            Self::Short(text) => text,
            Self::Long(text) => text,
        }
    }
}

impl From<&str> for Stamp {
    fn from(text: &str) -> Self {
        ArrayString::from(text).map_or_else(|_| Self::Long(text.into()), Self::Short)
    }
}

impl std::fmt::Display for Stamp {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// `None` for a year that has not four digits.
fn utc(when: OffsetDateTime) -> Option<ArrayString<SHORT>> {
    let (year, month, day) = when.to_calendar_date();
    let year = u32::try_from(year).ok().filter(|&year| year <= 9999)?;
    let mut text = ArrayString::new();
    let mut put = |number: u32, digits: u32, then: &str| {
        for place in (0..digits).rev() {
            let digit = number / 10_u32.pow(place) % 10;
            text.push(char::from(b'0' + digit as u8));
        }
        text.push_str(then);
    };
    put(year, 4, "-");
    put(u8::from(month).into(), 2, "-");
    put(day.into(), 2, "T");
    put(when.hour().into(), 2, ":");
    put(when.minute().into(), 2, ":");
    let (mut fraction, mut digits) = (when.nanosecond(), 9);
    while digits > 0 && fraction % 10 == 0 {
        (fraction, digits) = (fraction / 10, digits - 1);
    }
    put(when.second().into(), 2, if digits > 0 { "." } else { "" });
    put(fraction, digits, "Z");
    Some(text)
}

/// A time in RFC 3339, if it was ever set.
pub(crate) fn parse(text: &str) -> Option<OffsetDateTime> {
    let time = OffsetDateTime::parse(text, &Rfc3339).ok()?;
    Some(time).filter(|_| text != ZERO_TIME)
}

/// The time in nanoseconds since 1970, as far as they go: from 1677 to 2262.
pub(crate) fn nanos(time: OffsetDateTime) -> i64 {
    let nanos = time.unix_timestamp_nanos();
    i64::try_from(nanos).unwrap_or(if nanos < 0 { i64::MIN } else { i64::MAX })
}

/// The same of a time in RFC 3339, if it was ever set, and reads.
pub(crate) fn parse_nanos(text: &str) -> Option<i64> {
    parse(text).map(nanos)
}

/// Go's zero `time.Time`: what PicoClaw writes if no time was ever set.
pub const ZERO_TIME: &str = "0001-01-01T00:00:00Z";

#[cfg(test)]
mod tests {
    use super::{Clock, Stamp, SystemClock, ZERO_TIME, rfc3339};
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

    #[test]
    fn what_another_program_wrote_is_kept_however_long() {
        for text in [
            "",
            ZERO_TIME,
            "2026-01-01T00:00:00.1234567890123456789+99:59",
        ] {
            assert_eq!(Stamp::from(text).as_str(), text);
        }
    }
}
