//! OpenAI's chat completions.

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::export::Export;
use super::lenient;
use super::part::{self, Part, PartKind};
use super::reading::{at_place, invalid, json, role};
use super::turn::{Role, TurnCall, TurnMessage, put};
use crate::error::Result;
use crate::session_file::Message;

/// The list of messages.
pub(super) fn write(turns: &[TurnMessage<'_>], export: &mut Export) -> Value {
    let mut messages = Vec::new();
    // Media of tool results: the API takes media only from users.
    let mut shown: Vec<Value> = Vec::new();
    for turn in turns {
        if turn.role != Role::Result && !shown.is_empty() {
            messages.push(json!({"role": "user", "content": std::mem::take(&mut shown)}));
        }
        if !turn.goes(export) {
            continue;
        }
        messages.push(message(turn, &mut shown, export));
    }
    if !shown.is_empty() {
        messages.push(json!({"role": "user", "content": shown}));
    }
    messages.into()
}

fn message(turn: &TurnMessage<'_>, shown: &mut Vec<Value>, export: &mut Export) -> Value {
    let mut object = Map::new();
    let role = match turn.role {
        Role::System if turn.message.role() == "developer" => "developer",
        Role::System => "system",
        Role::User => "user",
        Role::Model => "assistant",
        Role::Result => "tool",
    };
    object.insert("role".into(), role.into());
    if turn.role == Role::Result {
        object.insert("tool_call_id".into(), turn.id.clone().into());
        if turn.is_error() {
            export.leave_out(turn.at, "that a tool's result is an error");
        }
    } else {
        put(&mut object, "name", name(turn, export));
    }
    let parts: Vec<Value> = turn
        .parts
        .iter()
        .filter_map(|part| write_part(turn, part, shown, export))
        .collect();
    let (parts, refusal) = without_refusals(parts);
    let audio = turn.message.own_audio();
    let audio = audio.filter(|audio| audio["id"].is_string());
    object.insert("content".into(), content(turn, audio.is_some(), parts));
    if turn.role == Role::Model {
        let refusal = refusal.or_else(|| turn.field("refusal").filter(Value::is_string));
        put(&mut object, "refusal", refusal);
        let audio = audio.map(|audio| json!({"id": audio["id"]}));
        put(&mut object, "audio", audio);
        if !turn.calls.is_empty() {
            object.insert("tool_calls".into(), turn.calls.iter().map(call).collect());
        }
    }
    object.into()
}

/// Separates refusals: a content holds a refusal alone; beside texts it is a field of the message.
fn without_refusals(parts: Vec<Value>) -> (Vec<Value>, Option<Value>) {
    let is_refusal = |part: &Value| part["type"] == "refusal";
    let (refusals, said): (Vec<Value>, Vec<Value>) = parts.into_iter().partition(is_refusal);
    if refusals.is_empty() {
        return (said, None);
    }
    let texts = refusals.iter().filter_map(|part| part["refusal"].as_str());
    let refusal: Value = texts.collect::<Vec<_>>().join("\n").into();
    if said.is_empty() {
        let only = json!({"type": "refusal", "refusal": refusal});
        return (vec![only], None);
    }
    (said, Some(refusal))
}

/// The content as a text, unless its parts need more than that.
fn content(turn: &TurnMessage<'_>, has_audio: bool, parts: Vec<Value>) -> Value {
    match &*parts {
        [] if turn.calls.is_empty() && !has_audio => "".into(),
        [] => Value::Null,
        [part] if part["type"] == "text" && turn.message.content_parts().is_none() => {
            part["text"].clone()
        }
        _ => parts.into(),
    }
}

/// The speaker's name, if the API takes it.
fn name(turn: &TurnMessage<'_>, export: &mut Export) -> Option<Value> {
    let name = turn.field("name")?;
    let text = name.as_str().filter(|name| !name.is_empty())?;
    let refused = |c: char| c.is_whitespace() || matches!(c, '<' | '|' | '\\' | '/' | '>');
    if text.contains(refused) || text.chars().count() > 64 {
        export.leave_out(turn.at, "a name with characters that the provider refuses");
        return None;
    }
    Some(name)
}

fn call(call: &TurnCall) -> Value {
    let (kind, named, input) = if call.is_custom {
        ("custom", "custom", "input")
    } else {
        ("function", "function", "arguments")
    };
    json!({"id": call.id, "type": kind, named: {"name": call.name, input: call.input}})
}

/// Writes a part if the role may have it: texts for all roles, media for the user, refusals for the
/// assistant. Other parts become a note.
fn write_part(
    turn: &TurnMessage<'_>,
    part: &Part<'_>,
    shown: &mut Vec<Value>,
    export: &mut Export,
) -> Option<Value> {
    let text = |text: &str| Some(json!({"type": "text", "text": text}));
    match part.kind() {
        PartKind::Text
            if part.text().trim().is_empty()
                && (turn.role != Role::Result || turn.parts.len() > 1) =>
        {
            None
        }
        PartKind::Text => text(part.text()),
        PartKind::Refusal if turn.role == Role::Model => {
            Some(json!({"type": "refusal", "refusal": part.text()}))
        }
        PartKind::Reasoning => {
            export.leave_out(turn.at, "reasoning: the shape has no place for it");
            None
        }
        // It is sent as `audio`.
        PartKind::Audio if turn.role == Role::Model && part.raw["id"].is_string() => None,
        _ => {
            let medium = matches!(turn.role, Role::User | Role::Result)
                .then(|| medium(part))
                .flatten();
            match medium {
                Some(medium) if turn.role == Role::User => return Some(medium),
                Some(medium) => {
                    export.leave_out(
                        turn.at,
                        "media of a tool's result: they are sent as the user's, after the results",
                    );
                    shown.push(medium);
                }
                None => export.leave_out(turn.at, part::homeless(part)),
            }
            text(&part.note())
        }
    }
}

/// A medium that the API takes from a user.
fn medium(part: &Part<'_>) -> Option<Value> {
    let address = part.text();
    let is_link = ["https://", "http://"]
        .iter()
        .any(|s| address.starts_with(s));
    match (part.kind(), part::data(address)) {
        (PartKind::Image, data)
            if is_link || data.is_some_and(|(kind, _)| part::is_picture(kind)) =>
        {
            let mut url = json!({"url": address});
            let detail = part.detail().filter(|detail| is_detail(detail));
            if let Some(detail) = detail {
                url["detail"] = detail.into();
            }
            Some(json!({"type": "image_url", "image_url": url}))
        }
        (PartKind::Audio, Some((kind, data))) => {
            let format = match kind {
                "audio/wav" | "audio/x-wav" | "audio/wave" => "wav",
                "audio/mp3" | "audio/mpeg" => "mp3",
                _ => return None,
            };
            let sound = json!({"data": data, "format": format});
            Some(json!({"type": "input_audio", "input_audio": sound}))
        }
        (PartKind::File, data) => {
            let mut file = Map::new();
            let is_data = data.is_some();
            let name = part.filename().or(is_data.then_some("file"));
            put(&mut file, "filename", name.map(Value::from));
            if is_data {
                file.insert("file_data".into(), address.into());
            } else {
                let id = part.raw["file"]["file_id"].as_str()?;
                file.insert("file_id".into(), id.into());
            }
            Some(json!({"type": "file", "file": file}))
        }
        _ => None,
    }
}

pub(super) fn is_detail(detail: &str) -> bool {
    matches!(detail, "auto" | "low" | "high")
}

/// PicoClaw's messages have the fields of OpenAI's, so no field is lost, known or not.
pub(super) fn read(text: &str) -> Result<Vec<Message>> {
    let object = || serde_json::from_str::<OpenAiRequest<'_>>(text).map(|request| request.messages);
    let messages: Vec<&RawValue> = match serde_json::from_str(text) {
        Ok(messages) => messages,
        Err(error) => object().map_err(|_| invalid(error.to_string()))?,
    };
    let read = |(at, message): (usize, &&RawValue)| {
        let read = json(message.get()).and_then(|value| {
            role(&value)?;
            lenient::message(message.get())
        });
        read.map_err(|error| at_place("message", at, &error))
    };
    messages.iter().enumerate().map(read).collect()
}

/// The list may be a field of a request.
#[derive(Deserialize)]
struct OpenAiRequest<'a> {
    #[serde(borrow)]
    messages: Vec<&'a RawValue>,
}
