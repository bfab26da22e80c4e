//! Strings as Go takes them: escapes, bytes that are not UTF-8, and names that
//! differ only in case.

use std::borrow::Cow;

use memchr::memchr;

use super::scan::{CUT_SHORT, LineFault, ScanResult};

/// A string as it stands in the line, between its quotes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Text<'a> {
    body: &'a str,
    escaped: bool,
}

impl<'a> Text<'a> {
    /// `body` as scanned; `escaped` if there is a backslash in it.
    pub(super) fn new(body: &'a str, escaped: bool) -> Self {
        Self { body, escaped }
    }

    /// Its value; copies only if there are escapes to resolve.
    pub(super) fn value(self) -> Cow<'a, str> {
        if self.escaped {
            Cow::Owned(unescape(self.body))
        } else {
            Cow::Borrowed(self.body)
        }
    }

    /// The text between the quotes, escapes and all.
    pub(super) fn body(self) -> &'a str {
        self.body
    }

    pub(super) fn is_empty(self) -> bool {
        self.body.is_empty()
    }
}

/// The number of bytes at the start that are neither quote, backslash nor control character. Eight
/// at a time: long contents are the bulk of every file.
pub(super) fn plain_prefix(bytes: &[u8]) -> usize {
    let (words, tail) = bytes.as_chunks::<8>();
    for (index, word) in words.iter().enumerate() {
        let marks = special_bytes(u64::from_le_bytes(*word));
        if marks != 0 {
            return index * 8 + marks.trailing_zeros() as usize / 8;
        }
    }
    let plain = |byte: &&u8| !matches!(byte, b'"' | b'\\' | 0..=0x1f);
    words.len() * 8 + tail.iter().take_while(plain).count()
}

/// Sets the high bit of the first byte that is a quote, a backslash or below
/// 0x20; bits above that one are meaningless.
fn special_bytes(word: u64) -> u64 {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x8080_8080_8080_8080;
    let zero = |word: u64| word.wrapping_sub(ONES) & !word;
    let control = word.wrapping_sub(ONES * 0x20) & !word;
    let quote = zero(word ^ (ONES * u64::from(b'"')));
    let backslash = zero(word ^ (ONES * u64::from(b'\\')));
    (control | quote | backslash) & HIGH
}

/// The length of the escape that `bytes` starts with.
pub(super) fn escape_length(bytes: &[u8]) -> ScanResult<usize> {
    match bytes.get(1) {
        Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => Ok(2),
        Some(b'u') => match bytes.get(2..6) {
            Some(digits) if digits.iter().all(u8::is_ascii_hexdigit) => Ok(6),
            Some(_) => Err(LineFault::Syntax("a malformed \\u escape")),
            None => Err(CUT_SHORT),
        },
        Some(_) => Err(LineFault::Syntax("an unknown escape")),
        None => Err(CUT_SHORT),
    }
}

/// Resolves the escapes of a scanned string; lone surrogates become U+FFFD.
fn unescape(body: &str) -> String {
    let mut out = String::with_capacity(body.len());
    let mut rest = body;
    while let Some(at) = memchr(b'\\', rest.as_bytes()) {
        out.push_str(&rest[..at]);
        let (character, length) = escaped_char(&rest[at..]);
        out.push(character);
        rest = &rest[at + length..];
    }
    out.push_str(rest);
    out
}

/// Arguments of a tool call in a form that people can read: escaped characters are decoded, since
/// many programs escape everything that is not ASCII. Other escapes, and those that no text can
/// hold, stay.
#[must_use]
pub fn legible(json: &str) -> Cow<'_, str> {
    if !json.contains("\\u") {
        return Cow::Borrowed(json);
    }
    let mut out = String::with_capacity(json.len());
    let mut rest = json;
    while let Some(at) = memchr(b'\\', rest.as_bytes()) {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let is_number = rest.as_bytes().get(1) == Some(&b'u');
        let (character, length) = escaped_char(rest);
        let shows = !character.is_control()
            && !matches!(character, '"' | '\\' | char::REPLACEMENT_CHARACTER);
        let length = if is_number && shows {
            out.push(character);
            length
        } else {
            let pair = rest.char_indices().nth(2).map_or(rest.len(), |(at, _)| at);
            out.push_str(&rest[..pair]);
            pair
        };
        rest = &rest[length..];
    }
    out.push_str(rest);
    Cow::Owned(out)
}

/// The character that an escape stands for, and the number of bytes of the escape.
pub(super) fn escaped_char(escape: &str) -> (char, usize) {
    let simple = match escape.as_bytes().get(1) {
        Some(b'b') => '\u{8}',
        Some(b'f') => '\u{c}',
        Some(b'n') => '\n',
        Some(b'r') => '\r',
        Some(b't') => '\t',
        Some(b'u') => return unicode_escape(escape),
        Some(other) => char::from(*other),
        None => char::REPLACEMENT_CHARACTER,
    };
    (simple, 2)
}

fn unicode_escape(escape: &str) -> (char, usize) {
    let Some(first) = code_unit(escape) else {
        return (char::REPLACEMENT_CHARACTER, 6);
    };
    if let Some(character) = char::from_u32(first) {
        return (character, 6);
    }
    let second = escape.get(6..).and_then(code_unit);
    match (first, second) {
        (0xd800..=0xdbff, Some(low @ 0xdc00..=0xdfff)) => {
            let code = 0x1_0000 + ((first - 0xd800) << 10) + (low - 0xdc00);
            let character = char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER);
            (character, 12)
        }
        _ => (char::REPLACEMENT_CHARACTER, 6),
    }
}

fn code_unit(escape: &str) -> Option<u32> {
    let digits = escape.strip_prefix("\\u")?.get(..4)?;
    u32::from_str_radix(digits, 16).ok()
}

/// `raw` without a byte order mark in front. Editors put one at the start of a file, and joined
/// files have it in the middle.
#[must_use]
pub fn without_mark(raw: &[u8]) -> &[u8] {
    raw.strip_prefix("\u{feff}".as_bytes()).unwrap_or(raw)
}

/// `raw` as text without its byte order mark; every byte of invalid UTF-8 is replaced by one
/// U+FFFD, as Go counts them.
pub(super) fn to_text(raw: &[u8]) -> Cow<'_, str> {
    let raw = without_mark(raw);
    match simdutf8::basic::from_utf8(raw) {
        Ok(text) => Cow::Borrowed(text),
        Err(_) => Cow::Owned(replace_invalid(raw)),
    }
}

fn replace_invalid(raw: &[u8]) -> String {
    let mut out = String::with_capacity(raw.len() + 8);
    for chunk in raw.utf8_chunks() {
        out.push_str(chunk.valid());
        out.extend(chunk.invalid().iter().map(|_| char::REPLACEMENT_CHARACTER));
    }
    out
}

/// True if Go takes `name` for the field `field`: equal except for case, where U+017F is an s and
/// U+212A a k.
pub(super) fn same_name(name: &str, field: &str) -> bool {
    name == field || {
        let folded = name.chars().map(|character| match character {
            '\u{17f}' => 's',
            '\u{212a}' => 'k',
            other => other.to_ascii_lowercase(),
        });
        folded.eq(field.chars())
    }
}

/// The field of `fields` that `name` means, or `""`.
pub(super) fn known_field(name: &str, fields: &[&'static str]) -> &'static str {
    let exact = fields.iter().find(|field| **field == name);
    exact
        .or_else(|| fields.iter().find(|field| same_name(name, field)))
        .copied()
        .unwrap_or("")
}
