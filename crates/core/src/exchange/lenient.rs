//! Messages of other tools that the store does not take as they are: times in other forms, and
//! halves of surrogate pairs.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde_json::Value;
use serde_json::value::RawValue;
use time::OffsetDateTime;

use crate::error::Result;
use crate::session_file::Message;
use crate::session_file::canonical_time;
use crate::stamp;

/// Parses a message from JSON. A time in another form is converted; text that is no time is
/// removed.
///
/// # Errors
/// `InvalidMessage`.
pub(super) fn message(json: &str) -> Result<Message> {
    let read = Message::from_json(json.as_bytes());
    let Err(error) = read else {
        return read;
    };
    let fields: serde_json::Result<BTreeMap<String, Box<RawValue>>> = serde_json::from_str(json);
    let Ok(mut fields) = fields else {
        return Err(error);
    };
    let Some(time) = fields.remove("created_at") else {
        return Err(error);
    };
    let time: Value = serde_json::from_str(time.get()).unwrap_or_default();
    let json = serde_json::to_string(&fields).unwrap_or_default();
    let message = Message::from_json(json.as_bytes())?;
    Ok(message.dated(rfc3339(&time).as_deref()))
}

/// The same for a value.
///
/// # Errors
/// `InvalidMessage`.
pub(super) fn value(value: &Value) -> Result<Message> {
    message(&value.to_string())
}

/// A time converted to RFC 3339. Accepts a time without an offset (taken as UTC), in lower case,
/// with a blank for the `T`, a day alone, and seconds, milli-, micro- or nanoseconds since 1970.
pub(super) fn rfc3339(time: &Value) -> Option<String> {
    if let Some(number) = time.as_f64() {
        return of_epoch(number);
    }
    let text = time.as_str()?.trim();
    if let Ok(number) = text.parse::<f64>() {
        return of_epoch(number);
    }
    let text = text.to_ascii_uppercase();
    let text = text.strip_suffix(" UTC").unwrap_or(&text);
    let (date, clock) = text.split_at_checked(10)?;
    let clock = clock.strip_prefix(['T', ' ']).unwrap_or("00:00:00Z");
    let clock = clock.replace(' ', "");
    let offset = clock.find(['Z', '+', '-']);
    let (hours, offset) = clock.split_at(offset.unwrap_or(clock.len()));
    let seconds = if hours.len() == 5 { ":00" } else { "" };
    let offset = match offset {
        "" => "Z".into(),
        short if short.len() == 5 && short.is_ascii() && !short.contains(':') => {
            format!("{}:{}", &short[..3], &short[3..])
        }
        offset => offset.to_owned(),
    };
    canonical_time(&format!("{date}T{hours}{seconds}{offset}")).map(Cow::into_owned)
}

fn of_epoch(number: f64) -> Option<String> {
    // Seconds reach 100,000,000,000 in the year 5138, milliseconds did in 1973.
    let scale = match number.abs() {
        n if n < 1e11 => 1e9,
        n if n < 1e14 => 1e6,
        n if n < 1e17 => 1e3,
        _ => 1.0,
    };
    let nanos = number * scale;
    if !nanos.is_finite() || number == 0.0 {
        return None;
    }
    // Whole microseconds: an f64 does not hold more of the present.
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the range is checked by the conversion"
    )]
    let micros = (nanos / 1e3).round() as i128;
    let time = OffsetDateTime::from_unix_timestamp_nanos(micros.checked_mul(1_000)?).ok()?;
    Some(stamp::rfc3339(time))
}

/// The text without byte order mark, and with each escaped half of a surrogate pair replaced by
/// U+FFFD, since no JSON reader takes them; and the number of replacements.
pub(super) fn tidy(text: &str) -> (Cow<'_, str>, usize) {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut out = String::new();
    let (mut copied, mut at, mut halves) = (0, 0, 0);
    while let Some(found) = memchr::memchr(b'\\', &text.as_bytes()[at..]) {
        let escape = at + found;
        let unit = unit(text, escape);
        at = match unit {
            None => escape + 2,
            Some(0xd800..0xdc00)
                if matches!(self::unit(text, escape + 6), Some(0xdc00..0xe000)) =>
            {
                escape + 12
            }
            Some(0xd800..0xe000) => {
                out.push_str(&text[copied..escape]);
                out.push_str("\\ufffd");
                halves += 1;
                copied = escape + 6;
                copied
            }
            Some(_) => escape + 6,
        };
        if at >= text.len() {
            break;
        }
    }
    if halves == 0 {
        return (Cow::Borrowed(text), 0);
    }
    out.push_str(&text[copied..]);
    (Cow::Owned(out), halves)
}

/// The code unit of an escape at this place, if there is one.
fn unit(text: &str, at: usize) -> Option<u16> {
    let digits = text.get(at..at + 6)?.strip_prefix("\\u")?;
    u16::from_str_radix(digits, 16).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{rfc3339, tidy};

    #[test]
    fn times_are_read_in_the_forms_that_others_write() {
        for (time, canonical) in [
            (json!("2024-03-01T09:00:00"), Some("2024-03-01T09:00:00Z")),
            (
                json!("2024-03-01 09:00:00.120000"),
                Some("2024-03-01T09:00:00.12Z"),
            ),
            (json!("2024-03-01t09:00:00z"), Some("2024-03-01T09:00:00Z")),
            (
                json!("2024-03-01T09:00:00+0200"),
                Some("2024-03-01T09:00:00+02:00"),
            ),
            (
                json!("2024-03-01T09:00:00-05:00"),
                Some("2024-03-01T09:00:00-05:00"),
            ),
            (json!("2024-03-01 09:00"), Some("2024-03-01T09:00:00Z")),
            (
                json!("2024-03-01 09:00:00 UTC"),
                Some("2024-03-01T09:00:00Z"),
            ),
            (json!("2024-03-01"), Some("2024-03-01T00:00:00Z")),
            (json!(1_709_283_600), Some("2024-03-01T09:00:00Z")),
            (json!(1_709_283_600_500_u64), Some("2024-03-01T09:00:00.5Z")),
            (json!("1709283600.25"), Some("2024-03-01T09:00:00.25Z")),
            (json!(""), None),
            (json!(0), None),
            (json!("yesterday, at noon"), None),
            (json!("é024-03-01 09:00"), None),
            (json!("2024-03-01T09:00:00+1é2"), None),
            (json!(1e300), None),
            (json!("-1e300"), None),
            (json!(null), None),
        ] {
            assert_eq!(rfc3339(&time).as_deref(), canonical, "{time}");
        }
    }

    #[test]
    fn halves_of_pairs_are_replaced_and_counted() {
        for (text, tidied, halves) in [
            ("\u{feff}x", "x", 0),
            (r#""\ud83d\ude00""#, r#""\ud83d\ude00""#, 0),
            (r#""a\ud83d b\ude00""#, r#""a\ufffd b\ufffd""#, 2),
            (r#""\\ud83d""#, r#""\\ud83d""#, 0),
            (r#""\ud83d\ud83d\ude00""#, r#""\ufffd\ud83d\ude00""#, 1),
            ("\\", "\\", 0),
        ] {
            let (tidy, found) = tidy(text);
            assert_eq!((&*tidy, found), (tidied, halves), "{text}");
        }
    }
}
