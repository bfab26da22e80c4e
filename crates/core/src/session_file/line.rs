//! One line of a session file: classifying it, and encoding a message as one.

use memchr::memchr;

use super::control::{self, Control};
use super::draft::Draft;
use super::encode::{EncodeFields, Visitor, write_object};
use super::message::{Message, TimedMessage};
use super::scan::LineFault;
use super::text::to_text;

/// The longest line that PicoClaw reads, in bytes without its line feed: its scanner's buffer is 10
/// MiB, and the line feed has to fit in. With a longer line it fails to read the session.
pub const PICOCLAW_LINE: usize = (10 << 20) - 1;

/// The contents of a line.
#[derive(Clone, Debug, PartialEq)]
pub enum Decoded {
    /// Nothing: not counted.
    Blank,
    /// Not a record. It counts for `skip`, is kept, and is never shown.
    Corrupt(&'static str),
    /// A control record. It counts for `skip`, is kept, and is never shown.
    Control(Control),
    /// Reasoning without an answer: counted, never shown, dropped when the file
    /// is rewritten.
    Transient(Message),
    /// A message.
    Message(Message),
}

/// [`Decoded`] without the content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// See [`Decoded::Blank`].
    Blank,
    /// See [`Decoded::Corrupt`].
    Corrupt,
    /// See [`Decoded::Control`].
    Control,
    /// See [`Decoded::Transient`].
    Transient,
    /// See [`Decoded::Message`].
    Message,
}

/// Decodes one line, given without its line feed, as PicoClaw does. But a list of parts is accepted
/// as content, and a record whose role starts with `_` is a control record, unless it has the time
/// that PicoClaw gives to messages it adds.
pub fn decode(raw: &[u8]) -> Decoded {
    let Some(record) = record(raw) else {
        return Decoded::Blank;
    };
    let text = to_text(record);
    match Draft::parse(&text) {
        Ok(draft) if draft.is_control() => {
            // Control decoding reads the same text as the draft, so it finds one.
            Decoded::Control(control::decode(&text).unwrap_or(Control::Foreign))
        }
        Ok(draft) if draft.is_transient() => Decoded::Transient(draft.into()),
        Ok(draft) => Decoded::Message(draft.into()),
        Err(LineFault::Shape(reason)) => {
            control::decode(&text).map_or(Decoded::Corrupt(reason), Decoded::Control)
        }
        Err(LineFault::Syntax(reason)) => Decoded::Corrupt(reason),
    }
}

/// The kind of a line, without building its message.
#[must_use]
pub fn classify(raw: &[u8]) -> Kind {
    let Some(record) = record(raw) else {
        return Kind::Blank;
    };
    let text = to_text(record);
    match Draft::parse(&text) {
        Ok(draft) if draft.is_control() => Kind::Control,
        Ok(draft) if draft.is_transient() => Kind::Transient,
        Ok(_) => Kind::Message,
        Err(LineFault::Shape(_)) if control::decode(&text).is_some() => Kind::Control,
        Err(_) => Kind::Corrupt,
    }
}

/// The line of `message` without its line feed, as PicoClaw writes it, followed by its unknown
/// fields. `now` is its time if it has none.
#[must_use]
pub fn encode(message: &Message, now: Option<&str>) -> Vec<u8> {
    let mut line = Vec::new();
    encode_onto(message, now, &mut line);
    line
}

/// [`encode`]s and appends to `lines`.
pub fn encode_onto(message: &Message, now: Option<&str>, lines: &mut Vec<u8>) {
    lines.reserve(256 + message.content.byte_len());
    let created_at = message.created_at().or(now);
    write_object(
        &TimedMessage {
            message,
            created_at,
        },
        lines,
    );
}

/// As [`encode_onto`], for a message that is only text.
pub fn encode_text_onto(role: &str, text: &str, now: &str, lines: &mut Vec<u8>) {
    lines.reserve(256 + text.len());
    write_object(&TextOnly { role, text, now }, lines);
}

struct TextOnly<'a> {
    role: &'a str,
    text: &'a str,
    now: &'a str,
}

impl EncodeFields for TextOnly<'_> {
    fn visit<V: Visitor>(&self, visitor: &mut V) -> std::result::Result<(), V::Error> {
        visitor.text("role", self.role)?;
        visitor.text("content", self.text)?;
        visitor.text("created_at", self.now)
    }
}

/// The lines of `bytes` with their offsets, split at line feeds only; the last one may lack its
/// line feed.
pub fn lines(bytes: &[u8]) -> impl Iterator<Item = (usize, &[u8])> {
    let mut start = 0;
    std::iter::from_fn(move || {
        let rest = bytes.get(start..).filter(|rest| !rest.is_empty())?;
        let length = memchr(b'\n', rest).unwrap_or(rest.len());
        let line = (start, &rest[..length]);
        start += length + 1;
        Some(line)
    })
}

/// A line without its carriage return; `None` if nothing is left.
fn record(raw: &[u8]) -> Option<&[u8]> {
    let record = raw.strip_suffix(b"\r").unwrap_or(raw);
    (!record.is_empty()).then_some(record)
}
