//! Times as Go's `time.Time` reads and writes them in JSON.

use std::borrow::Cow;

/// The canonical text of a time, or `None` if Go would not read it.
///
/// Go reads more than RFC 3339: one-digit hours, comma fractions, offsets up to `24:60`. It writes
/// at most nine digits of a fraction, no trailing zeros, and `Z` for a zero offset. It can read but
/// not write an offset of 24 hours or more; such a text is kept unchanged, because a record that
/// can be read must stay writable.
#[must_use]
pub fn canonical(text: &str) -> Option<Cow<'_, str>> {
    let time = TimePieces::read(text)?;
    if time.tidy || time.offset.minutes >= 24 * 60 {
        return Some(Cow::Borrowed(text));
    }
    let date = &text[..10];
    let hour = time.hour;
    let minute_second = time.minute_second;
    let point = if time.fraction.is_empty() { "" } else { "." };
    let fraction = time.fraction;
    let zone = time.offset.to_text();
    Some(Cow::Owned(format!(
        "{date}T{hour:02}{minute_second}{point}{fraction}{zone}"
    )))
}

/// A valid time, split into the pieces of its canonical text.
struct TimePieces<'a> {
    hour: u32,
    /// `:MM:SS`.
    minute_second: &'a str,
    /// At most nine digits, the last one not a zero.
    fraction: &'a str,
    offset: Offset,
    /// The text is canonical already.
    tidy: bool,
}

struct Offset {
    negative: bool,
    minutes: u32,
}

impl Offset {
    fn to_text(&self) -> String {
        if self.minutes == 0 {
            return String::from("Z");
        }
        let sign = if self.negative { '-' } else { '+' };
        format!("{sign}{:02}:{:02}", self.minutes / 60, self.minutes % 60)
    }
}

impl<'a> TimePieces<'a> {
    fn read(text: &'a str) -> Option<Self> {
        let rest = date(text)?.strip_prefix('T')?;
        let hour_length = if rest.as_bytes().get(1)?.is_ascii_digit() {
            2
        } else {
            1
        };
        let hour = digits(rest, hour_length, 23)?;
        let (minute_second, rest) = rest[hour_length..].split_at_checked(6)?;
        digits(minute_second.strip_prefix(':')?, 2, 59)?;
        digits(minute_second[3..].strip_prefix(':')?, 2, 59)?;
        let (fraction, tidy_fraction, rest) = fraction(rest);
        let (offset, tidy_offset) = offset(rest)?;
        Some(Self {
            hour,
            minute_second,
            fraction,
            offset,
            tidy: hour_length == 2 && tidy_fraction && tidy_offset,
        })
    }
}

/// Checks `YYYY-MM-DD` and returns what follows it.
fn date(text: &str) -> Option<&str> {
    let (date, rest) = text.split_at_checked(10)?;
    let year = digits(date, 4, 9999)?;
    let month = digits(date[4..].strip_prefix('-')?, 2, 12)?;
    let day = digits(date[7..].strip_prefix('-')?, 2, 31)?;
    (month >= 1 && day >= 1 && day <= days_in(month, year)).then_some(rest)
}

fn days_in(month: u32, year: u32) -> u32 {
    let leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    match month {
        2 if leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// The significant digits of a fraction, whether the text has exactly these, and the rest. A lone
/// point is not a fraction.
fn fraction(text: &str) -> (&str, bool, &str) {
    let Some(digits) = text.strip_prefix(['.', ',']) else {
        return ("", true, text);
    };
    let length = digits.bytes().take_while(u8::is_ascii_digit).count();
    if length == 0 {
        return ("", true, text);
    }
    let counted = digits[..length.min(9)].trim_end_matches('0');
    let tidy = text.starts_with('.') && counted.len() == length;
    (counted, tidy, &digits[length..])
}

/// Parses the rest of the text as an offset; the second value is true if it is canonical.
fn offset(text: &str) -> Option<(Offset, bool)> {
    if text == "Z" {
        let utc = Offset {
            negative: false,
            minutes: 0,
        };
        return Some((utc, true));
    }
    if text.len() != 6 {
        return None;
    }
    let negative = text.starts_with('-');
    let hours = text.strip_prefix(['+', '-'])?;
    let hour = digits(hours, 2, 24)?;
    let minute = digits(hours[2..].strip_prefix(':')?, 2, 60)?;
    let minutes = hour * 60 + minute;
    let tidy = minutes != 0 && minute < 60;
    Some((Offset { negative, minutes }, tidy))
}

/// The number in the first `count` bytes, all digits, at most `max`.
fn digits(text: &str, count: usize, max: u32) -> Option<u32> {
    let digits = text.as_bytes().get(..count)?;
    let number = digits.iter().try_fold(0, |number, byte| {
        byte.is_ascii_digit()
            .then(|| number * 10 + u32::from(byte - b'0'))
    })?;
    (number <= max).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::canonical;
    use proptest::prelude::*;

    #[test]
    fn times_go_reads_are_written_as_go_writes_them() {
        let cases = [
            ("2025-01-02T03:04:05Z", "2025-01-02T03:04:05Z"),
            ("2025-01-02T3:04:05Z", "2025-01-02T03:04:05Z"),
            ("2025-01-02T03:04:05,5Z", "2025-01-02T03:04:05.5Z"),
            ("2025-01-02T03:04:05.000Z", "2025-01-02T03:04:05Z"),
            ("2025-01-02T03:04:05.1000000009Z", "2025-01-02T03:04:05.1Z"),
            ("2025-01-02T03:04:05-00:00", "2025-01-02T03:04:05Z"),
            ("2025-01-02T03:04:05+05:60", "2025-01-02T03:04:05+06:00"),
            ("2025-01-02T03:04:05+00:60", "2025-01-02T03:04:05+01:00"),
            ("2000-02-29T00:00:00-23:59", "2000-02-29T00:00:00-23:59"),
        ];
        for (text, expected) in cases {
            assert_eq!(canonical(text).as_deref(), Some(expected), "{text}");
        }
    }

    #[test]
    fn a_time_go_cannot_write_keeps_its_text() {
        for text in [
            "2025-01-02T3:04:05.50+24:00",
            "2025-01-02T03:04:05-24:60",
            "2025-01-02T03:04:05+23:60",
        ] {
            assert_eq!(canonical(text).as_deref(), Some(text));
        }
    }

    #[test]
    fn times_go_refuses_are_refused() {
        for text in [
            "",
            "Z",
            "2025-01-02",
            "2025-01-02T03:04:05",
            "2025-01-02T03:04Z",
            "2025-13-02T03:04:05Z",
            "2025-00-02T03:04:05Z",
            "2025-01-00T03:04:05Z",
            "2025-04-31T03:04:05Z",
            "1900-02-29T03:04:05Z",
            "2025-01-02T24:00:00Z",
            "2025-01-02T003:04:05Z",
            "2025-01-02T03:60:05Z",
            "2025-01-02T03:04:05.Z",
            "2025-01-02T03:04:05+25:00",
            "2025-01-02T03:04:05+00:61",
            "2025-01-02T03:04:05+0800",
            "2025-01-02T03:04:05Zz",
            "2025-01-02T03:04:05é",
            "2025-01-02T03:04:05+é0:0",
            "2025-01-02Té3:04:05Z",
            "2025-01-0éT03:04:05Z",
        ] {
            assert_eq!(canonical(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_refused_or_stable(text in "[0-9]{4}-[01][0-9]-[0-3][0-9]T[0-2]?[0-9]:[0-6][0-9]:[0-6][0-9]([.,][0-9]{0,12})?(Z|[+-][0-2][0-9]:[0-6][0-9])") {
            if let Some(once) = canonical(&text) {
                let twice = canonical(&once).map(std::borrow::Cow::into_owned);
                prop_assert_eq!(twice.as_deref(), Some(&*once));
            }
        }
    }
}
