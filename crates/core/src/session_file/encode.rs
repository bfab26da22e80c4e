//! The two encodings of a message: Go's bytes for the file, and serde for everything else. Both
//! walk the same [`EncodeFields`], so the order is defined once.

use serde::ser::{Error as _, Serialize, SerializeMap, Serializer};
use serde_json::value::RawValue;

use super::raw::{RawField, is_readable};

/// A structure that can name its fields in canonical order.
pub(super) trait EncodeFields {
    fn visit<V: Visitor>(&self, visitor: &mut V) -> Result<(), V::Error>;
}

/// The name of a known field; it is written unchanged.
pub(super) type FieldName = &'static str;

/// An operation on each field.
pub(super) trait Visitor {
    type Error;

    fn text(&mut self, name: FieldName, text: &str) -> Result<(), Self::Error>;
    fn texts(&mut self, name: FieldName, texts: &[String]) -> Result<(), Self::Error>;
    /// JSON text, under any name.
    fn raw(&mut self, name: &str, json: &str) -> Result<(), Self::Error>;
    /// Nothing if there is no object.
    fn object<T: EncodeFields>(
        &mut self,
        name: FieldName,
        object: Option<&T>,
    ) -> Result<(), Self::Error>;
    /// Nothing if the list is empty.
    fn objects<T: EncodeFields>(
        &mut self,
        name: FieldName,
        objects: &[T],
    ) -> Result<(), Self::Error>;

    fn text_unless_empty(&mut self, name: FieldName, text: &str) -> Result<(), Self::Error> {
        if text.is_empty() {
            return Ok(());
        }
        self.text(name, text)
    }

    fn unknown(&mut self, fields: &[RawField]) -> Result<(), Self::Error> {
        fields
            .iter()
            .try_for_each(|field| self.raw(&field.name, &field.value))
    }
}

/// Appends `fields` as one JSON object, byte for byte as Go's `json.Marshal`.
pub(super) fn write_object(fields: &impl EncodeFields, out: &mut Vec<u8>) {
    out.push(b'{');
    let mut writer = GoWriter { out, first: true };
    let Ok(()) = fields.visit(&mut writer);
    out.push(b'}');
}

struct GoWriter<'a> {
    out: &'a mut Vec<u8>,
    first: bool,
}

impl GoWriter<'_> {
    fn name(&mut self, name: FieldName) {
        self.next();
        self.out.push(b'"');
        self.out.extend_from_slice(name.as_bytes());
        self.out.extend_from_slice(b"\":");
    }

    fn next(&mut self) {
        if !self.first {
            self.out.push(b',');
        }
        self.first = false;
    }

    fn list<T>(&mut self, name: FieldName, items: &[T], mut write: impl FnMut(&T, &mut Vec<u8>)) {
        if items.is_empty() {
            return;
        }
        self.name(name);
        for (index, item) in items.iter().enumerate() {
            self.out.push(if index == 0 { b'[' } else { b',' });
            write(item, self.out);
        }
        self.out.push(b']');
    }
}

impl Visitor for GoWriter<'_> {
    type Error = std::convert::Infallible;

    fn text(&mut self, name: FieldName, text: &str) -> Result<(), Self::Error> {
        self.name(name);
        write_string(text, self.out);
        Ok(())
    }

    fn texts(&mut self, name: FieldName, texts: &[String]) -> Result<(), Self::Error> {
        self.list(name, texts, |text, out| write_string(text, out));
        Ok(())
    }

    fn raw(&mut self, name: &str, json: &str) -> Result<(), Self::Error> {
        self.next();
        write_string(name, self.out);
        self.out.push(b':');
        self.out.extend_from_slice(json.as_bytes());
        Ok(())
    }

    fn object<T: EncodeFields>(
        &mut self,
        name: FieldName,
        object: Option<&T>,
    ) -> Result<(), Self::Error> {
        if let Some(object) = object {
            self.name(name);
            write_object(object, self.out);
        }
        Ok(())
    }

    fn objects<T: EncodeFields>(
        &mut self,
        name: FieldName,
        objects: &[T],
    ) -> Result<(), Self::Error> {
        self.list(name, objects, |object, out| write_object(object, out));
        Ok(())
    }
}

/// A text as it stands in files, quotes included.
#[must_use]
pub fn encode_string(text: &str) -> String {
    let mut out = Vec::new();
    write_string(text, &mut out);
    String::from_utf8_lossy(&out).into_owned()
}

/// Appends `text` as Go writes a string: `<`, `>`, `&`, U+2028 and U+2029
/// escaped, short escapes if JSON has them, DEL and the rest as they are.
pub(super) fn write_string(text: &str, out: &mut Vec<u8>) {
    let mut rest = text.as_bytes();
    out.push(b'"');
    while let Some(at) = may_escape(rest) {
        let length = match rest[at] {
            0xe2 if is_line_separator(&rest[at..]) => 3,
            _ => 1,
        };
        out.extend_from_slice(&rest[..at]);
        let (found, behind) = rest[at..].split_at(length);
        if found == [0xe2] {
            out.push(0xe2);
        } else {
            write_escape(found, out);
        }
        rest = behind;
    }
    out.extend_from_slice(rest);
    out.push(b'"');
}

/// The offset of the first byte that is escaped, or begins an escaped character. Most texts have
/// none: whole blocks are checked without a branch for each byte, the last of them from the end.
fn may_escape(text: &[u8]) -> Option<usize> {
    const BLOCK: usize = 16;
    let is_plain = |block: &&[u8; BLOCK]| !block.iter().fold(false, |any, &b| any | is_special(b));
    let (blocks, rest) = text.as_chunks();
    let plain = BLOCK * blocks.iter().take_while(is_plain).count();
    let is_left = plain + rest.len() == text.len();
    if is_left && text.last_chunk().is_some_and(|last| is_plain(&last)) {
        return None;
    }
    let at = text[plain..].iter().position(|&byte| is_special(byte))?;
    Some(plain + at)
}

#[expect(
    clippy::needless_bitwise_bool,
    reason = "without branches a block's bytes are looked at together"
)]
fn is_special(byte: u8) -> bool {
    // If two bytes differ in one bit, one comparison finds both: " and &, < and >.
    (byte < 0x20) | (byte | 4 == b'&') | (byte | 2 == b'>') | (byte == b'\\') | (byte == 0xe2)
}

/// Appends JSON text with the escapes that Go adds to it: those that matter inside HTML.
pub(super) fn write_html_safe(json: &[u8], out: &mut Vec<u8>) {
    let mut copied = 0;
    for at in 0..json.len() {
        let length = match json[at] {
            b'<' | b'>' | b'&' => 1,
            0xe2 if is_line_separator(&json[at..]) => 3,
            _ => continue,
        };
        out.extend_from_slice(&json[copied..at]);
        write_escape(&json[at..at + length], out);
        copied = at + length;
    }
    out.extend_from_slice(&json[copied..]);
}

fn is_line_separator(bytes: &[u8]) -> bool {
    matches!(bytes, [0xe2, 0x80, 0xa8 | 0xa9, ..])
}

fn write_escape(bytes: &[u8], out: &mut Vec<u8>) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    let short = match bytes {
        [b'"'] => b"\\\"",
        [b'\\'] => b"\\\\",
        [0x08] => b"\\b",
        [0x0c] => b"\\f",
        [b'\n'] => b"\\n",
        [b'\r'] => b"\\r",
        [b'\t'] => b"\\t",
        [0xe2, 0x80, last] => {
            out.extend_from_slice(b"\\u202");
            out.push(HEX[usize::from(last & 0xf)]);
            return;
        }
        other => {
            let byte = other[0];
            out.extend_from_slice(b"\\u00");
            out.push(HEX[usize::from(byte >> 4)]);
            out.push(HEX[usize::from(byte & 0xf)]);
            return;
        }
    };
    out.extend_from_slice(short);
}

/// Serialises `fields` as a map.
///
/// A raw value that `serde_json` could not read back (nested too deep, or with a
/// number no `f64` holds) is left out: it must not make the message around it
/// unreadable. The line on disk keeps it.
pub(super) fn serialize<S: Serializer>(
    fields: &impl EncodeFields,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    AsMap { fields, level: 1 }.serialize(serializer)
}

struct AsMap<'a, T> {
    fields: &'a T,
    level: usize,
}

impl<T: EncodeFields> Serialize for AsMap<'_, T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut visitor = SerdeVisitor {
            map: serializer.serialize_map(None)?,
            level: self.level,
        };
        self.fields.visit(&mut visitor)?;
        visitor.map.end()
    }
}

struct AsList<'a, T> {
    items: &'a [T],
    level: usize,
}

impl<T: EncodeFields> Serialize for AsList<'_, T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let level = self.level;
        serializer.collect_seq(self.items.iter().map(|fields| AsMap { fields, level }))
    }
}

struct SerdeVisitor<M> {
    map: M,
    level: usize,
}

impl<M: SerializeMap> Visitor for SerdeVisitor<M> {
    type Error = M::Error;

    fn text(&mut self, name: FieldName, text: &str) -> Result<(), M::Error> {
        self.map.serialize_entry(name, text)
    }

    fn texts(&mut self, name: FieldName, texts: &[String]) -> Result<(), M::Error> {
        if texts.is_empty() {
            return Ok(());
        }
        self.map.serialize_entry(name, texts)
    }

    fn raw(&mut self, name: &str, json: &str) -> Result<(), M::Error> {
        if !is_readable(json, self.level) {
            return Ok(());
        }
        let raw: &RawValue = serde_json::from_str(json).map_err(M::Error::custom)?;
        self.map.serialize_entry(name, raw)
    }

    fn object<T: EncodeFields>(
        &mut self,
        name: FieldName,
        object: Option<&T>,
    ) -> Result<(), M::Error> {
        let level = self.level + 1;
        match object {
            Some(fields) => self.map.serialize_entry(name, &AsMap { fields, level }),
            None => Ok(()),
        }
    }

    fn objects<T: EncodeFields>(&mut self, name: FieldName, items: &[T]) -> Result<(), M::Error> {
        let level = self.level + 2;
        if items.is_empty() {
            return Ok(());
        }
        self.map.serialize_entry(name, &AsList { items, level })
    }
}
