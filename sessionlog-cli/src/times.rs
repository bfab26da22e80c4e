//! Times as people write and read them, in the time zone of the machine.

use jiff::civil::{Date, DateTime};
use jiff::{Span, Timestamp, ZonedDateTime};
use sessionlog::OffsetDateTime;
use std::time::Duration;

/// The forms that `--since` and `--until` accept, for help texts.
pub(crate) const FORMS: &str = "today, yesterday, 2h, \"3 days\", 2026-11-23, \
    \"2026-11-23 14:30\" (local time) or 2026-11-23T14:30:00Z";

/// Parses a point of time: a day's beginning, a time, or a time ago.
pub(crate) fn parse(text: &str) -> Result<OffsetDateTime, String> {
    let now = ZonedDateTime::now();
    let text = text.trim();
    let day = match text {
        "today" => Some(now.start_of_day()),
        "yesterday" => Some(now.yesterday().and_then(|then| then.start_of_day())),
        _ => None,
    };
    let found = match day {
        Some(day) => day.map(|day| day.timestamp()),
        None => other(text, &now),
    };
    let time = found.map_err(|_| format!("not a time; use {FORMS}"))?;
    OffsetDateTime::from_unix_timestamp_nanos(time.as_nanosecond()).map_err(|e| e.to_string())
}

fn other(text: &str, now: &ZonedDateTime) -> Result<Timestamp, jiff::Error> {
    let zone = now.time_zone().clone();
    if text == "now" {
        return Ok(now.timestamp());
    }
    if let Ok(time) = text.parse::<Timestamp>() {
        return Ok(time);
    }
    // A text with a date would also parse as a date with a time of midnight.
    if let Ok(time) = text.parse::<DateTime>() {
        return time.to_zoned_datetime(zone).map(|time| time.timestamp());
    }
    if let Ok(date) = text.parse::<Date>() {
        return date.to_zoned_datetime(zone).map(|time| time.timestamp());
    }
    let span: Span = text.trim_end_matches("ago").trim().parse()?;
    now.checked_sub(span).map(|then| then.timestamp())
}

/// Parses a length of time: `90d`, `2 weeks`, `36h`.
pub(crate) fn parse_length(text: &str) -> Result<Duration, String> {
    let wrong = |_| format!("{text:?} is no length of time; use 36h, 90d, \"2 weeks\" or 6mo");
    let span: Span = text.trim().parse().map_err(wrong)?;
    let now = ZonedDateTime::now();
    let then = now.checked_sub(span.abs()).map_err(wrong)?;
    let length = then.duration_until(&now);
    length.try_into().map_err(wrong)
}

/// Returns a time of a sidecar or a message for a person, by the local clock; unchanged if it does
/// not parse, `-` if it was never set.
pub(crate) fn shown(text: &str) -> String {
    if text.is_empty() || text.starts_with("0001-01-01") {
        return String::from("-");
    }
    match text.parse::<Timestamp>() {
        Ok(time) => local(time),
        Err(_) => crate::safe::short(text, 20),
    }
}

/// Returns a time for a person, by the local clock.
pub(crate) fn local(time: Timestamp) -> String {
    let zoned = time.to_zoned_datetime(jiff::tz::TimeZone::system());
    zoned.strftime("%Y-%m-%d %H:%M:%S").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_read_as_people_write_them() {
        for text in [
            "today",
            "yesterday",
            "now",
            "2h",
            "3 days",
            "3 days ago",
            "2026-11-23",
            "2026-11-23 14:30",
            "2026-11-23T14:30:00Z",
            "2026-11-23T14:30:00+01:00",
        ] {
            assert!(parse(text).is_ok(), "{text}");
        }
        for text in ["", "soon", "14", "tomorrow's"] {
            assert!(parse(text).is_err(), "{text}");
        }
        let utc = parse("2026-11-23T14:30:00+01:00").unwrap();
        assert_eq!(utc.unix_timestamp(), 1_795_440_600);
    }

    #[test]
    fn lengths_read_as_people_write_them() {
        assert_eq!(parse_length("36h"), Ok(Duration::from_hours(36)));
        assert!(parse_length("90d").unwrap() > Duration::from_hours(89 * 24));
        assert!(parse_length("soon").is_err());
    }
}
