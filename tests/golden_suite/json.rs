//! JSON as Go's `encoding/json` reads and writes it.
//!
//! Independent of the crate under test: names keep their order and their
//! duplicates, numbers their text, and what is not UTF-8 becomes U+FFFD byte by
//! byte.

use serde_json::{Map, Value};

use super::schema::{self, Field};

/// A parsed value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Json {
    Null,
    Bool(bool),
    Number(String),
    Text(String),
    List(Vec<Json>),
    Object(Vec<(String, Json)>),
}

/// Nesting that Go refuses.
const MAX_DEPTH: usize = 10_000;

impl Json {
    /// Parses exactly one value with nothing but white space around it.
    pub(crate) fn parse(text: &[u8]) -> Option<Self> {
        let mut parser = Parser { text, at: 0 };
        let value = parser.value(0)?;
        parser.space();
        (parser.at == text.len()).then_some(value)
    }

    /// Whether any object in a record has a field that `fields` does not name.
    pub(crate) fn has_unknown(&self, fields: &'static [Field]) -> bool {
        let value = self.to_value();
        schema::project(fields, &value) != value
    }

    /// An object's fields as kimi-cli sees them; nothing for another value.
    pub(crate) fn top_level(&self) -> Map<String, Value> {
        match self {
            Self::Object(pairs) if pairs.iter().any(|(name, _)| name == "role") => pairs
                .iter()
                .map(|(k, v)| (k.clone(), v.to_value()))
                .collect(),
            _ => Map::new(),
        }
    }

    /// The same value with the last of each duplicated name.
    pub(crate) fn to_value(&self) -> Value {
        match self {
            Self::Null => Value::Null,
            Self::Bool(on) => Value::Bool(*on),
            Self::Number(text) => {
                serde_json::from_str(text).unwrap_or_else(|_| text.clone().into())
            }
            Self::Text(text) => Value::String(text.clone()),
            Self::List(items) => items.iter().map(Self::to_value).collect(),
            Self::Object(pairs) => pairs
                .iter()
                .map(|(k, v)| (k.clone(), v.to_value()))
                .collect(),
        }
    }
}

struct Parser<'a> {
    text: &'a [u8],
    at: usize,
}

impl Parser<'_> {
    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\r' | b'\n')) {
            self.at += 1;
        }
    }

    fn take(&mut self, word: &str) -> Option<()> {
        self.text[self.at..]
            .starts_with(word.as_bytes())
            .then(|| self.at += word.len())
    }

    fn value(&mut self, depth: usize) -> Option<Json> {
        self.space();
        match self.peek()? {
            b'n' => self.take("null").map(|()| Json::Null),
            b't' => self.take("true").map(|()| Json::Bool(true)),
            b'f' => self.take("false").map(|()| Json::Bool(false)),
            b'"' => self.string().map(Json::Text),
            b'[' if depth < MAX_DEPTH => self.list(depth + 1),
            b'{' if depth < MAX_DEPTH => self.object(depth + 1),
            _ => self.number(),
        }
    }

    fn list(&mut self, depth: usize) -> Option<Json> {
        let mut items = Vec::new();
        self.members(b']', |parser| {
            items.push(parser.value(depth)?);
            Some(())
        })?;
        Some(Json::List(items))
    }

    fn object(&mut self, depth: usize) -> Option<Json> {
        let mut pairs = Vec::new();
        self.members(b'}', |parser| {
            parser.space();
            let name = parser.string()?;
            parser.space();
            parser.take(":")?;
            pairs.push((name, parser.value(depth)?));
            Some(())
        })?;
        Some(Json::Object(pairs))
    }

    fn members(&mut self, end: u8, mut member: impl FnMut(&mut Self) -> Option<()>) -> Option<()> {
        self.at += 1;
        self.space();
        if self.peek()? == end {
            self.at += 1;
            return Some(());
        }
        loop {
            member(self)?;
            self.space();
            let next = self.peek()?;
            self.at += 1;
            match next {
                b',' => {}
                _ if next == end => return Some(()),
                _ => return None,
            }
        }
    }

    fn digits(&mut self) -> Option<()> {
        let start = self.at;
        while self.peek().is_some_and(|b| b.is_ascii_digit()) {
            self.at += 1;
        }
        (self.at > start).then_some(())
    }

    fn number(&mut self) -> Option<Json> {
        let start = self.at;
        let _ = self.take("-");
        if self.take("0").is_none() {
            self.digits()?;
        }
        if self.take(".").is_some() {
            self.digits()?;
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            self.digits()?;
        }
        Some(Json::Number(
            std::str::from_utf8(&self.text[start..self.at])
                .ok()?
                .to_owned(),
        ))
    }

    fn string(&mut self) -> Option<String> {
        self.take("\"")?;
        let mut out = String::new();
        loop {
            match self.peek()? {
                b'"' => {
                    self.at += 1;
                    return Some(out);
                }
                b'\\' => {
                    self.at += 1;
                    out.push(self.escape()?);
                }
                0..=0x1f => return None,
                _ => self.plain(&mut out),
            }
        }
    }

    /// Takes characters up to the next quote, escape or control.
    fn plain(&mut self, out: &mut String) {
        let rest = &self.text[self.at..];
        let end = rest
            .iter()
            .position(|b| matches!(b, b'"' | b'\\' | 0..=0x1f))
            .unwrap_or(rest.len());
        match std::str::from_utf8(&rest[..end]) {
            Ok(text) => {
                out.push_str(text);
                self.at += end;
            }
            Err(_) => out.push(self.character()),
        }
    }

    fn character(&mut self) -> char {
        let rest = &self.text[self.at..];
        for len in 1..=rest.len().min(4) {
            if let Ok(text) = std::str::from_utf8(&rest[..len]) {
                self.at += len;
                return text.chars().next().unwrap_or(char::REPLACEMENT_CHARACTER);
            }
        }
        self.at += 1;
        char::REPLACEMENT_CHARACTER
    }

    fn escape(&mut self) -> Option<char> {
        let kind = self.peek()?;
        self.at += 1;
        Some(match kind {
            b'"' | b'\\' | b'/' => char::from(kind),
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => {
                let high = self.unit()?;
                let before = self.at;
                if (0xd800..0xdc00).contains(&high) && self.take("\\u").is_some() {
                    let low = self.unit()?;
                    if (0xdc00..0xe000).contains(&low) {
                        return char::from_u32(0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00));
                    }
                    self.at = before;
                }
                char::from_u32(high).unwrap_or(char::REPLACEMENT_CHARACTER)
            }
            _ => return None,
        })
    }

    fn unit(&mut self) -> Option<u32> {
        let hex = std::str::from_utf8(self.text.get(self.at..self.at + 4)?).ok()?;
        self.at += 4;
        hex.bytes()
            .all(|b| b.is_ascii_hexdigit())
            .then(|| u32::from_str_radix(hex, 16).ok())?
    }
}

/// A string as Go writes it: HTML characters and line separators escaped.
pub(crate) fn quote(text: &str) -> String {
    use std::fmt::Write as _;
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\0'..='\u{1f}' | '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
                write!(out, "\\u{:04x}", u32::from(c)).expect("a String takes everything");
            }
            _ => out.push(c),
        }
    }
    out.push('"');
    out
}
