//! Numbers as a person reads them.

use std::time::Duration;

/// `12,345`
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
pub(crate) fn bytes(count: u64) -> String {
    let count = count as f64;
    match count {
        _ if count < 1e3 => format!("{count} B"),
        _ if count < 1e6 => format!("{:.1} kB", count / 1e3),
        _ if count < 1e9 => format!("{:.1} MB", count / 1e6),
        _ => format!("{:.2} GB", count / 1e9),
    }
}

pub(crate) fn duration(time: Duration) -> String {
    let seconds = time.as_secs_f64();
    match seconds {
        _ if seconds < 1e-3 => format!("{:.0} µs", seconds * 1e6),
        _ if seconds < 1.0 => format!("{:.1} ms", seconds * 1e3),
        _ => format!("{seconds:.2} s"),
    }
}

#[expect(
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "a rate is rounded to whole numbers, and is never negative"
)]
pub(crate) fn per_second(count: u64, time: Duration) -> String {
    grouped((count as f64 / time.as_secs_f64().max(1e-9)).round() as u64)
}

#[expect(clippy::cast_precision_loss, reason = "one decimal is shown")]
pub(crate) fn ratio(part: u64, whole: u64) -> String {
    if whole == 0 {
        return String::from("no sync,");
    }
    format!("{:.1}", part as f64 / whole as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_as_a_person_writes_them() {
        assert_eq!(grouped(0), "0");
        assert_eq!(grouped(999), "999");
        assert_eq!(grouped(1_234_567), "1,234,567");
        assert_eq!(bytes(999), "999 B");
        assert_eq!(bytes(2_220_000), "2.2 MB");
        assert_eq!(duration(Duration::from_micros(412)), "412 µs");
        assert_eq!(duration(Duration::from_millis(1_500)), "1.50 s");
    }
}
