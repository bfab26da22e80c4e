//! Messages as kimi-cli's model classes validate them.

use std::borrow::Cow;

use super::KimiRecord;
use super::python::{Members, items, lax_bool, text};
use crate::session_file::content::Content;
use crate::session_file::draft::Draft;
use crate::session_file::message::{Given, Message, intern};
use crate::session_file::parts::{FunctionCall, ToolCall};
use crate::session_file::raw::{RawField, tidy};

/// Decodes a record with one of the roles of messages.
pub(super) fn message(line: &str, role: &str, record: &Members<'_>) -> KimiRecord {
    let Some(content) = record.get("content") else {
        return KimiRecord::Foreign;
    };
    if record.get("self").is_some() {
        return KimiRecord::Foreign;
    }
    match read_message(role, content, record) {
        Ok(known) => KimiRecord::Message(Box::new(known.with_rest_of(line))),
        Err(Reject::Unknown) => KimiRecord::Foreign,
        Err(Reject::Invalid) => KimiRecord::Rejected,
    }
}

/// The reason why a record is not a message.
enum Reject {
    /// kimi-cli's validation rejects it.
    Invalid,
    /// kimi-cli does not know its type.
    Unknown,
}

/// The fields of a message that kimi-cli knows.
struct KnownFields<'a> {
    role: &'a str,
    name: Option<&'a str>,
    content: Content,
    tool_calls: Option<Vec<ToolCall>>,
    tool_call_id: Option<String>,
    partial: Option<bool>,
}

fn read_message<'a>(
    role: &'a str,
    content: &str,
    record: &Members<'a>,
) -> Result<KnownFields<'a>, Reject> {
    let name = record.get("name").filter(|raw| *raw != "null");
    if name.is_some_and(|raw| text(raw).is_none()) {
        return Err(Reject::Invalid);
    }
    Ok(KnownFields {
        role,
        name,
        content: read_content(content)?,
        tool_calls: optional(record.get("tool_calls"), |raw| {
            items(raw)?.into_iter().map(tool_call).collect()
        })?,
        tool_call_id: optional(record.get("tool_call_id"), |raw| {
            text(raw).map(Cow::into_owned)
        })?,
        partial: optional(record.get("partial"), lax_bool)?,
    })
}

impl KnownFields<'_> {
    /// The message, with the other fields of its line as far as they have the form that this crate
    /// knows.
    fn with_rest_of(self, line: &str) -> Message {
        let line = tidy(line);
        let mut message = match Draft::parse(&line) {
            Ok(draft) => Message::from(draft),
            Err(_) => Message::new("", ""),
        };
        let given_calls = self.tool_calls.is_some();
        let calls = self.tool_calls.unwrap_or_default();
        let same_calls = message.tool_calls.len() == calls.len()
            && message
                .tool_calls
                .iter()
                .zip(&calls)
                .all(|(all, known)| same_call(all, known));
        if same_calls {
            for (all, known) in message.tool_calls.iter_mut().zip(calls) {
                complete(all, known);
            }
        } else {
            message.tool_calls = calls;
        }
        message.role = intern(Cow::Borrowed(self.role));
        message.content = self.content;
        message.given = Given {
            tool_calls: given_calls && message.tool_calls.is_empty(),
            tool_call_id: self.tool_call_id.as_deref() == Some(""),
        };
        message.tool_call_id = self.tool_call_id.unwrap_or_default();
        message
            .unknown
            .retain(|field| !matches!(&*field.name, "name" | "partial"));
        let name = self.name.map(|name| RawField::new("name", name));
        let partial = self
            .partial
            .map(|on| RawField::new("partial", if on { "true" } else { "false" }));
        message
            .unknown
            .splice(0..0, name.into_iter().chain(partial));
        message
    }
}

fn read_content(raw: &str) -> Result<Content, Reject> {
    if raw == "null" {
        return Ok(Content::Parts("[]".into()));
    }
    if let Some(text) = text(raw) {
        return Ok(Content::Text(text.into_owned()));
    }
    let parts = items(raw).ok_or(Reject::Invalid)?;
    let mut read = parts
        .into_iter()
        .map(KimiPart::read)
        .collect::<Result<Vec<_>, _>>()?;
    if let [KimiPart::Text(text)] = &mut *read {
        return Ok(Content::Text(std::mem::take(text)));
    }
    let texts: Vec<_> = read.iter().map(KimiPart::to_json).collect();
    Ok(Content::Parts(format!("[{}]", texts.join(",")).into()))
}

/// A list of parts as kimi-cli writes it; unchanged if it would not read it.
pub(super) fn reencode_parts(parts: &str) -> Cow<'_, str> {
    match read_content(parts) {
        Ok(Content::Text(text)) => Cow::Owned(json_string(&text)),
        Ok(Content::Parts(parts)) => Cow::Owned(parts.into()),
        Err(_) => Cow::Borrowed(parts),
    }
}

/// One part of a content.
enum KimiPart {
    Text(String),
    Think {
        think: String,
        encrypted: Option<String>,
    },
    Link {
        kind: &'static str,
        url: String,
        id: Option<String>,
    },
}

impl KimiPart {
    fn read(raw: &str) -> Result<Self, Reject> {
        let part = Members::of(raw).ok_or(Reject::Invalid)?;
        let kind = part.text("type").ok_or(Reject::Invalid)?;
        let required = |name| part.text(name).map(Cow::into_owned).ok_or(Reject::Invalid);
        match &*kind {
            "text" => required("text").map(Self::Text),
            "think" => Ok(Self::Think {
                think: required("think")?,
                encrypted: optional_text(&part, "encrypted")?,
            }),
            "image_url" => Self::link(&part, "image_url"),
            "audio_url" => Self::link(&part, "audio_url"),
            "video_url" => Self::link(&part, "video_url"),
            _ => Err(Reject::Unknown),
        }
    }

    fn link(part: &Members<'_>, kind: &'static str) -> Result<Self, Reject> {
        let link = part
            .get(kind)
            .and_then(Members::of)
            .ok_or(Reject::Invalid)?;
        let url = link.text("url").ok_or(Reject::Invalid)?.into_owned();
        let id = optional_text(&link, "id")?;
        Ok(Self::Link { kind, url, id })
    }

    fn to_json(&self) -> String {
        let nullable = |text: &Option<String>| {
            text.as_deref()
                .map_or_else(|| String::from("null"), json_string)
        };
        match self {
            Self::Text(text) => format!(r#"{{"type":"text","text":{}}}"#, json_string(text)),
            Self::Think { think, encrypted } => format!(
                r#"{{"type":"think","think":{},"encrypted":{}}}"#,
                json_string(think),
                nullable(encrypted)
            ),
            Self::Link { kind, url, id } => format!(
                r#"{{"type":"{kind}","{kind}":{{"url":{},"id":{}}}}}"#,
                json_string(url),
                nullable(id)
            ),
        }
    }
}

/// `text` as a JSON string, with only the escapes that JSON requires.
pub(super) fn json_string(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

fn tool_call(raw: &str) -> Option<ToolCall> {
    let call = Members::of(raw)?;
    let function = call.get("function").and_then(Members::of)?;
    let kind_fits = call
        .get("type")
        .is_none_or(|raw| text(raw).as_deref() == Some("function"));
    let extras = call.get("extras").filter(|raw| *raw != "null");
    if !kind_fits || extras.is_some_and(|raw| !raw.starts_with('{')) {
        return None;
    }
    let arguments = match function.get("arguments") {
        None | Some("null") => None,
        Some(raw) => Some(text(raw)?.into_owned()),
    };
    let mut read = ToolCall::function(call.text("id")?, function.text("name")?, "");
    read.function = read.function.map(|function| FunctionCall {
        no_arguments: arguments.is_none(),
        arguments: arguments.unwrap_or_default(),
        ..function
    });
    read.unknown = extras
        .map(|raw| RawField::new("extras", raw))
        .into_iter()
        .collect();
    Some(read)
}

/// True if a call as PicoClaw reads it equals the call as kimi-cli reads it.
fn same_call(all: &ToolCall, known: &ToolCall) -> bool {
    let parts = |call: &ToolCall| {
        let function = call.function.as_ref();
        function.map(|f| (call.id.clone(), f.name.clone(), f.arguments.clone()))
    };
    parts(all) == parts(known)
}

/// Takes over the fields that only kimi-cli's reading has.
fn complete(all: &mut ToolCall, known: ToolCall) {
    all.kind = known.kind;
    all.unknown.retain(|field| &*field.name != "extras");
    all.unknown.splice(0..0, known.unknown);
    if let (Some(all), Some(known)) = (&mut all.function, known.function) {
        all.no_arguments = known.no_arguments;
    }
}

fn optional_text(members: &Members<'_>, name: &str) -> Result<Option<String>, Reject> {
    optional(members.get(name), |raw| text(raw).map(Cow::into_owned))
}

/// A field that may be missing or `null`, but otherwise must be accepted by `read`.
fn optional<'a, T>(
    raw: Option<&'a str>,
    read: impl FnOnce(&'a str) -> Option<T>,
) -> Result<Option<T>, Reject> {
    match raw {
        None | Some("null") => Ok(None),
        Some(raw) => read(raw).map(Some).ok_or(Reject::Invalid),
    }
}
