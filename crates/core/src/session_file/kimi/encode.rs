//! Lines as kimi-cli writes them.

use std::fmt::Write;

use super::message::{json_string, reencode_parts};
use super::{KimiRecord, decode};
use crate::error::{Error, Result};
use crate::session_file::content::Content;
use crate::session_file::encode::write_object;
use crate::session_file::message::Message;
use crate::session_file::parts::ToolCall;
use crate::session_file::raw::RawField;
use crate::session_file::scan::is_space;
use crate::session_file::text::escaped_char;

/// The line of a message without its line feed, and the message as it will be read back: a context
/// always holds what its file says.
///
/// # Errors
/// [`Error::InvalidMessage`] for a message that kimi-cli would not read back.
pub fn encode(message: &Message) -> Result<(String, Message)> {
    let line = to_json(message);
    match decode(&line) {
        KimiRecord::Message(read) => Ok((line, *read)),
        _ => Err(Error::InvalidMessage {
            reason: String::from("kimi-cli would not read it back"),
        }),
    }
}

/// The line of a token count.
#[must_use]
pub fn usage(token_count: i64) -> String {
    format!(r#"{{"role": "_usage", "token_count": {token_count}}}"#)
}

/// The line of a checkpoint.
#[must_use]
pub fn checkpoint(id: i64) -> String {
    format!(r#"{{"role": "_checkpoint", "id": {id}}}"#)
}

/// The line of a system prompt.
#[must_use]
pub fn system_prompt(content: &str) -> String {
    let mut line = String::from(r#"{"role": "_system_prompt", "content": ""#);
    for character in content.chars() {
        push_ascii(character, &mut line);
    }
    line.push_str(r#""}"#);
    line
}

/// Escapes as Python's `json.dumps`: the output is printable ASCII.
fn push_ascii(character: char, out: &mut String) {
    match character {
        '"' | '\\' => out.extend(['\\', character]),
        '\n' => out.push_str("\\n"),
        '\r' => out.push_str("\\r"),
        '\t' => out.push_str("\\t"),
        '\u{8}' => out.push_str("\\b"),
        '\u{c}' => out.push_str("\\f"),
        ' '..='~' => out.push(character),
        _ => {
            for unit in character.encode_utf16(&mut [0; 2]) {
                // Writing to a string cannot fail.
                let _ = write!(out, "\\u{unit:04x}");
            }
        }
    }
}

/// kimi-cli's fields in its order, then unknown fields, which it ignores when it reads.
pub(in crate::session_file) fn to_json(message: &Message) -> String {
    let mut object = Object::new();
    object.text("role", &message.role);
    if let Some(name) = message.unknown_field("name").filter(|raw| *raw != "null") {
        object.raw("name", &to_python(name));
    }
    match &message.content {
        Content::Text(text) => object.text("content", text),
        Content::Parts(parts) => object.raw("content", &reencode_parts(parts)),
    }
    if message.given.tool_calls || !message.tool_calls.is_empty() {
        let calls: Vec<_> = message.tool_calls.iter().map(tool_call).collect();
        object.raw("tool_calls", &format!("[{}]", calls.join(",")));
    }
    if message.given.tool_call_id || !message.tool_call_id.is_empty() {
        object.text("tool_call_id", &message.tool_call_id);
    }
    if let Some(partial) = message
        .unknown_field("partial")
        .filter(|raw| *raw != "null")
    {
        object.raw("partial", partial);
    }
    rest(message, &mut object);
    object.end()
}

/// Fields that only PicoClaw, or neither, knows.
fn rest(message: &Message, object: &mut Object) {
    if !message.model_name.is_empty() {
        object.text("model_name", &message.model_name);
    }
    if let Some(time) = message.created_at() {
        object.text("created_at", time);
    }
    let media: Vec<_> = message.media.iter().map(|text| json_string(text)).collect();
    object.list("media", &media);
    let fields = |fields: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = Vec::new();
        fields(&mut bytes);
        String::from_utf8(bytes).unwrap_or_default()
    };
    let attachments = message.attachments.iter();
    let attachments: Vec<_> = attachments
        .map(|part| fields(&|out| write_object(part, out)))
        .collect();
    object.list("attachments", &attachments);
    if !message.reasoning_content.is_empty() {
        object.text("reasoning_content", &message.reasoning_content);
    }
    let parts = message.system_parts.iter();
    let parts: Vec<_> = parts
        .map(|part| fields(&|out| write_object(part, out)))
        .collect();
    object.list("system_parts", &parts);
    object.unknown(&message.unknown, &["name", "partial"]);
}

fn tool_call(call: &ToolCall) -> String {
    let mut object = Object::new();
    let kind = if call.kind.is_empty() {
        "function"
    } else {
        &call.kind
    };
    object.text("type", kind);
    object.text("id", &call.id);
    if let Some(function) = &call.function {
        let mut inner = Object::new();
        inner.text("name", &function.name);
        if !function.no_arguments || !function.arguments.is_empty() {
            inner.text("arguments", &function.arguments);
        }
        if !function.thought_signature.is_empty() {
            inner.text("thought_signature", &function.thought_signature);
        }
        inner.unknown(&function.unknown, &[]);
        object.raw("function", &inner.end());
    }
    let mut extras = call
        .unknown
        .iter()
        .rev()
        .filter(|field| &*field.name == "extras");
    if let Some(extras) = extras.next().filter(|field| &*field.value != "null") {
        object.raw("extras", &to_python(&extras.value));
    }
    if let Some(extra) = &call.extra_content {
        let mut bytes = Vec::new();
        write_object(extra, &mut bytes);
        object.raw(
            "extra_content",
            &String::from_utf8(bytes).unwrap_or_default(),
        );
    }
    object.unknown(&call.unknown, &["extras"]);
    object.end()
}

/// A JSON object under construction.
struct Object {
    out: String,
}

impl Object {
    fn new() -> Self {
        Self {
            out: String::from("{"),
        }
    }

    fn text(&mut self, name: &str, text: &str) {
        self.raw(name, &json_string(text));
    }

    fn raw(&mut self, name: &str, json: &str) {
        if self.out.len() > 1 {
            self.out.push(',');
        }
        self.out.push_str(&json_string(name));
        self.out.push(':');
        self.out.push_str(json);
    }

    fn list(&mut self, name: &str, items: &[String]) {
        if !items.is_empty() {
            self.raw(name, &format!("[{}]", items.join(",")));
        }
    }

    fn unknown(&mut self, fields: &[RawField], but: &[&str]) {
        for field in fields.iter().filter(|field| !but.contains(&&*field.name)) {
            self.raw(&field.name, &field.value);
        }
    }

    fn end(mut self) -> String {
        self.out.push('}');
        self.out
    }
}

/// JSON text with its strings and numbers as pydantic writes them.
fn to_python(raw: &str) -> String {
    let mut out = String::with_capacity(raw.len());
    let mut rest = raw;
    while let Some(first) = rest.bytes().next() {
        let length = match first {
            b'"' => string(rest, &mut out),
            b'-' | b'0'..=b'9' => number(rest, &mut out),
            _ => {
                if !is_space(first) {
                    out.push(char::from(first));
                }
                1
            }
        };
        rest = &rest[length..];
    }
    out
}

fn string(rest: &str, out: &mut String) -> usize {
    let mut text = String::new();
    let mut at = 1;
    while let Some(character) = rest[at..].chars().next().filter(|next| *next != '"') {
        let (character, length) = match character {
            '\\' => escaped_char(&rest[at..]),
            other => (other, other.len_utf8()),
        };
        text.push(character);
        at += length;
    }
    out.push_str(&json_string(&text));
    at + 1
}

/// Integers keep their digits, however many; fractions become the nearest
/// `f64`, and infinities `null`.
fn number(rest: &str, out: &mut String) -> usize {
    let part = |byte: &u8| matches!(byte, b'-' | b'+' | b'.' | b'e' | b'E' | b'0'..=b'9');
    let length = rest.bytes().take_while(|byte| part(byte)).count();
    let text = &rest[..length];
    if !text.contains(['.', 'e', 'E']) {
        out.push_str(if text == "-0" { "0" } else { text });
        return length;
    }
    let float = text.parse().ok().and_then(serde_json::Number::from_f64);
    out.push_str(&float.map_or_else(|| String::from("null"), |number| number.to_string()));
    length
}
