//! Times as texts: what a session's sidecar and lines say of when they were written.

use std::cell::Cell;
use std::fmt;
use std::sync::Arc;

use arrayvec::ArrayString;
use time::format_description::well_known::Rfc3339;
use time::{OffsetDateTime, UtcOffset};

/// `when` in RFC 3339 with nanoseconds and no trailing zeros, as Go writes a
/// `time.Time`.
#[must_use]
pub fn rfc3339(when: OffsetDateTime) -> String {
    StampText::of(when).to_string()
}

/// Parses a time in RFC 3339; `None` if it was never set.
#[must_use]
pub fn parse(text: &str) -> Option<OffsetDateTime> {
    let time = OffsetDateTime::parse(text, &Rfc3339).ok()?;
    Some(time).filter(|_| text != ZERO_TIME)
}

/// The time in nanoseconds since 1970, limited to the range from 1677 to 2262.
#[must_use]
pub fn nanos(time: OffsetDateTime) -> i64 {
    let nanos = time.unix_timestamp_nanos();
    i64::try_from(nanos).unwrap_or(if nanos < 0 { i64::MIN } else { i64::MAX })
}

/// The same for a text in RFC 3339; `None` if it was never set or cannot be parsed.
pub fn parse_nanos(text: &str) -> Option<i64> {
    parse(text).map(nanos)
}

/// Go's zero `time.Time`: what PicoClaw writes if no time was ever set.
pub const ZERO_TIME: &str = "0001-01-01T00:00:00Z";

/// A time as some program wrote it, in little memory: a session holds five of them, and each of its
/// changes one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stamp {
    /// No time was ever set.
    Never,
    /// Nanoseconds since 1970, written as [`rfc3339`] does.
    At(i64),
    /// Any other text, unchanged.
    Odd(Arc<String>),
}

impl Stamp {
    /// The stamp of `when`.
    #[must_use]
    pub fn of(when: OffsetDateTime) -> Self {
        match i64::try_from(when.unix_timestamp_nanos()) {
            Ok(at) => Self::At(at),
            Err(_) => Self::from(StampText::of(when).as_str()),
        }
    }

    /// Its text.
    pub fn text(&self) -> StampText {
        match self {
            Self::Never => StampText::Short(zero()),
            Self::At(at) => instant(*at).map_or_else(|| StampText::Short(zero()), StampText::of),
            Self::Odd(text) => StampText::Long(text.clone()),
        }
    }

    /// Nanoseconds since 1970; `None` if it was never set or cannot be parsed.
    #[must_use]
    pub fn nanos(&self) -> Option<i64> {
        match self {
            Self::Never => None,
            Self::At(at) => Some(*at),
            Self::Odd(text) => parse_nanos(text),
        }
    }
}

impl From<&str> for Stamp {
    fn from(text: &str) -> Self {
        if text == ZERO_TIME {
            return Self::Never;
        }
        let at = parse(text).map(|when| Self::At(nanos(when)));
        at.filter(|at| at.text().as_str() == text)
            .unwrap_or_else(|| Self::Odd(Arc::new(text.into())))
    }
}

impl fmt::Display for Stamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.text().fmt(f)
    }
}

/// The text of a time, made without an allocation if it has our form.
#[derive(Clone, Debug)]
pub enum StampText {
    /// In our form.
    Short(ArrayString<SHORT>),
    /// As another program wrote it.
    Long(Arc<String>),
}

/// The length of the longest time with a year of four digits, in bytes.
const SHORT: usize = "2026-01-02T03:04:05.123456789Z".len();

impl StampText {
    /// The text of `when`, as in [`rfc3339`].
    pub fn of(when: OffsetDateTime) -> Self {
        let utc = when.checked_to_offset(UtcOffset::UTC).and_then(utc);
        Self::Short(utc.unwrap_or_else(zero))
    }

    /// Returns the text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match self {
            Self::Short(text) => text,
            Self::Long(text) => text,
        }
    }
}

impl fmt::Display for StampText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

fn instant(at: i64) -> Option<OffsetDateTime> {
    OffsetDateTime::from_unix_timestamp_nanos(at.into()).ok()
}

fn zero() -> ArrayString<SHORT> {
    let mut text = ArrayString::new();
    text.push_str(ZERO_TIME);
    text
}

/// `None` for a year that does not have four digits.
fn utc(when: OffsetDateTime) -> Option<ArrayString<SHORT>> {
    thread_local! {
        /// The last second, and its text: consecutive times usually share it.
        static LAST: Cell<Option<(i64, [u8; SHORT])>> = const { Cell::new(None) };
    }
    let second = when.unix_timestamp();
    let last = LAST.get().filter(|last| last.0 == second);
    let mut text = match last {
        Some((_, text)) => text,
        None => second_text(when)?,
    };
    LAST.set(Some((second, text)));
    put(&mut text[20..29], when.nanosecond());
    let zeros = text[20..29]
        .iter()
        .rev()
        .take_while(|&&digit| digit == b'0');
    let end = match zeros.count() {
        9 => 19,
        zeros => 29 - zeros,
    };
    text[end] = b'Z';
    let text = std::str::from_utf8(&text[..=end]).ok()?;
    ArrayString::from(text).ok()
}

fn second_text(when: OffsetDateTime) -> Option<[u8; SHORT]> {
    let (year, month, day) = when.to_calendar_date();
    let year = u32::try_from(year).ok().filter(|&year| year <= 9999)?;
    let mut text = *b"0000-00-00T00:00:00.000000000Z";
    put(&mut text[..4], year);
    put(&mut text[5..7], u8::from(month).into());
    put(&mut text[8..10], day.into());
    put(&mut text[11..13], when.hour().into());
    put(&mut text[14..16], when.minute().into());
    put(&mut text[17..19], when.second().into());
    Some(text)
}

/// Fills `place` with the last digits of `number`.
fn put(place: &mut [u8], mut number: u32) {
    for digit in place.iter_mut().rev() {
        *digit = b'0' + (number % 10) as u8;
        number /= 10;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_another_program_wrote_is_kept_to_the_letter() {
        for text in [
            "",
            ZERO_TIME,
            "2026-01-02T03:04:05.5Z",
            "2026-01-02T03:04:05.50Z",
            "2026-01-02t03:04:05z",
            "2026-01-02T03:04:05+00:00",
            "2026-01-02T03:04:60Z",
            "1500-01-02T03:04:05.123456789Z",
            "2026-01-01T00:00:00.1234567890123456789+99:59",
        ] {
            assert_eq!(Stamp::from(text).to_string(), text);
        }
    }

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

    proptest! {
        #[test]
        fn equal_texts_are_equal_stamps_however_they_came(
            seconds in -62_135_596_800_i64..=253_402_300_799,
            nanos in 0..1_000_000_000_u32,
        ) {
            let when = OffsetDateTime::from_unix_timestamp(seconds).unwrap();
            let when = when.replace_nanosecond(nanos).unwrap();
            let (stamp, text) = (Stamp::of(when), StampText::of(when));
            prop_assert_eq!(stamp.to_string(), text.as_str());
            prop_assert_eq!(Stamp::from(text.as_str()), stamp.clone());
            prop_assert_eq!(stamp.nanos(), parse_nanos(text.as_str()));
        }
    }
}
