//! JSON as Python's reader takes it, and values as pydantic validates them.

use std::borrow::Cow;

use crate::session_file::scan::Scanner;
use crate::session_file::text::Text;

/// The members of an object, with their values as JSON text.
pub(super) struct Members<'a>(Vec<(Cow<'a, str>, &'a str)>);

impl<'a> Members<'a> {
    /// `None` if `raw` is no object.
    pub(super) fn of(raw: &'a str) -> Option<Self> {
        let mut scanner = Scanner::lax(raw);
        let mut members = Vec::new();
        let read = scanner.object(|scanner, name| {
            members.push((name, scanner.value()?));
            Ok(())
        });
        read.and_then(|()| scanner.finish()).ok()?;
        Some(Self(members))
    }

    /// The value of a name; the last one of equal names.
    pub(super) fn get(&self, name: &str) -> Option<&'a str> {
        let mut members = self.0.iter().rev();
        members
            .find(|(found, _)| found == name)
            .map(|(_, raw)| *raw)
    }

    pub(super) fn text(&self, name: &str) -> Option<Cow<'a, str>> {
        self.get(name).and_then(text)
    }
}

pub(super) fn items(raw: &str) -> Option<Vec<&str>> {
    let mut scanner = Scanner::lax(raw);
    let mut items = Vec::new();
    let read = scanner.array(|scanner| {
        items.push(scanner.value()?);
        Ok(())
    });
    read.and_then(|()| scanner.finish()).ok()?;
    Some(items)
}

pub(super) fn text(raw: &str) -> Option<Cow<'_, str>> {
    Scanner::lax(raw).text().ok()?.map(Text::value)
}

/// An integer as Python accepts it: booleans are, `7.0` is not. Values beyond an `i64` become its
/// limit.
pub(super) fn integer(raw: Option<&str>) -> Option<i64> {
    let raw = raw?;
    match raw {
        "true" => return Some(1),
        "false" => return Some(0),
        _ => {}
    }
    let digits = raw.strip_prefix('-').unwrap_or(raw);
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let end = if raw.starts_with('-') {
        i64::MIN
    } else {
        i64::MAX
    };
    Some(raw.parse().unwrap_or(end))
}

/// Text and numbers that pydantic accepts as a boolean.
pub(super) fn lax_bool(raw: &str) -> Option<bool> {
    const ON: [&str; 6] = ["1", "on", "t", "true", "y", "yes"];
    const OFF: [&str; 6] = ["0", "off", "f", "false", "n", "no"];
    if let Some(text) = text(raw) {
        let among = |words: [&str; 6]| words.iter().any(|word| text.eq_ignore_ascii_case(word));
        return match (among(ON), among(OFF)) {
            (true, _) => Some(true),
            (_, true) => Some(false),
            _ => None,
        };
    }
    match raw {
        "true" => Some(true),
        "false" => Some(false),
        number => match number.parse::<f64>().ok()? {
            0.0 => Some(false),
            1.0 => Some(true),
            _ => None,
        },
    }
}

/// True if a line, which is an object, has an integer of more digits than Python converts.
pub(super) fn has_huge_integer(line: &str) -> bool {
    const DIGITS: usize = 4_300;
    if line.len() <= DIGITS {
        return false;
    }
    let mut in_string = false;
    let mut escaped = false;
    // Digits of the current number, while it may be an integer.
    let mut digits = Some(0);
    for byte in line.bytes() {
        if in_string {
            in_string = escaped || byte != b'"';
            escaped = !escaped && byte == b'\\';
            continue;
        }
        match byte {
            b'0'..=b'9' => digits = digits.map(|count| count + 1),
            b'.' | b'e' | b'E' | b'+' => digits = None,
            b'-' => {}
            _ if digits.is_some_and(|count| count > DIGITS) => return true,
            _ => (digits, in_string) = (Some(0), byte == b'"'),
        }
    }
    false
}
