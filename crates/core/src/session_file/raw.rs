//! JSON text that is kept as text, so that numbers and unknown fields stay unchanged.

use std::fmt::Write;

use super::scan::{Scanner, is_space};
use super::text::escaped_char;

/// Levels of nesting that `serde_json` reads back by default.
const READABLE_DEPTH: usize = 127;

/// An unknown field, with its value as JSON text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RawField {
    pub(super) name: Box<str>,
    pub(super) value: Box<str>,
}

impl RawField {
    pub(super) fn new(name: &str, value: &str) -> Self {
        Self {
            name: name.into(),
            value: tidy(value).into(),
        }
    }
}

/// `raw`, a scanned value, without white space between its tokens, and without things that only the
/// lenient reader accepts: lone surrogates become `\ufffd`, raw control characters are escaped,
/// `NaN` and infinities become `null`. A line with a raw line feed in it would be two lines.
pub(super) fn tidy(raw: &str) -> String {
    let mut out = String::with_capacity(raw.len());
    let mut rest = raw;
    while let Some(first) = rest.bytes().next() {
        let length = match first {
            b'"' => string(rest, &mut out),
            b'N' | b'I' => special_number(rest, &mut out),
            b'-' if rest[1..].starts_with('I') => special_number(rest, &mut out),
            _ if is_space(first) => 1,
            _ => token(rest, &mut out),
        };
        rest = &rest[length..];
    }
    out
}

/// True if `serde_json` can read `raw` as a value inside `outer` containers: no deeper than its
/// limit, and no number beyond an `f64`.
pub(super) fn is_readable(raw: &str, outer: usize) -> bool {
    let mut scanner = Scanner::new(raw);
    let nested = scanner.value().is_ok() && scanner.deepest() + outer <= READABLE_DEPTH;
    nested && serde_json::from_str::<serde_json::Value>(raw).is_ok()
}

fn string(rest: &str, out: &mut String) -> usize {
    out.push('"');
    let mut at = 1;
    let mut copied = 1;
    let bytes = rest.as_bytes();
    while let Some(byte) = bytes.get(at).filter(|byte| **byte != b'"') {
        match byte {
            b'\\' => {
                let (character, length) = escaped_char(&rest[at..]);
                if character == char::REPLACEMENT_CHARACTER {
                    out.push_str(&rest[copied..at]);
                    out.push_str("\\ufffd");
                    copied = at + length;
                }
                at += length;
            }
            0..=0x1f => {
                out.push_str(&rest[copied..at]);
                // Writing to a string cannot fail.
                let _ = write!(out, "\\u{byte:04x}");
                at += 1;
                copied = at;
            }
            _ => at += 1,
        }
    }
    out.push_str(&rest[copied..at]);
    out.push('"');
    at + 1
}

fn special_number(rest: &str, out: &mut String) -> usize {
    out.push_str("null");
    let letters = |byte: &u8| byte.is_ascii_alphabetic() || *byte == b'-';
    rest.bytes().take_while(letters).count()
}

/// Copies a piece without string, sign or white space after its first byte.
fn token(rest: &str, out: &mut String) -> usize {
    let plain = |byte: &u8| !matches!(byte, b'"' | b'-' | b'N' | b'I') && !is_space(*byte);
    let length = 1 + rest.bytes().skip(1).take_while(plain).count();
    out.push_str(&rest[..length]);
    length
}
