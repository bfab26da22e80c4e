//! The request body of Google's Gemini.

use serde_json::{Map, Value, json};

use super::export::Export;
use super::part::{self, Part, PartKind};
use super::reading::{at_place, invalid};
use super::turn::{Role, TurnMessage};
use super::{anthropic, lenient, opening};
use crate::error::Result;
use crate::session_file::Message;

/// The signature for a call that another model made, or whose signature was lost: the provider
/// documents it for this purpose.
const NO_SIGNATURE: &str = "skip_thought_signature_validator";

/// The object with `systemInstruction` and `contents`.
pub(super) fn write(turns: &[TurnMessage<'_>], export: &mut Export) -> Value {
    let mut system = Vec::new();
    let mut contents: Vec<GeminiTurn> = Vec::new();
    for turn in turns {
        if !turn.goes(export) {
            continue;
        }
        turn.leave_fields(export);
        match turn.role {
            Role::System => system.extend(said(turn, export)),
            Role::Model => {
                let mut parts = said(turn, export);
                parts.extend(calls(turn));
                add(&mut contents, "model", false, parts);
            }
            Role::User => {
                let parts = said(turn, export);
                add(&mut contents, "user", false, parts);
            }
            Role::Result => {
                let media = result(turn, &mut contents, export);
                if !media.is_empty() {
                    // After the results of all calls: `add` puts it into a content of its own.
                    contents.push(GeminiTurn::new("shown", false, media));
                }
            }
        }
    }
    // All messages of the user became nothing, but the model must not be first.
    if contents
        .first()
        .is_some_and(|content| content.role == "model")
    {
        let part = json!({"text": opening::PLACEHOLDER});
        contents.insert(0, GeminiTurn::new("user", false, vec![part]));
    }
    let contents = settled(contents);
    let mut object = Map::new();
    if !system.is_empty() {
        object.insert("systemInstruction".into(), json!({"parts": system}));
    }
    object.insert("contents".into(), contents);
    object.into()
}

/// One turn of the conversation.
struct GeminiTurn {
    role: &'static str,
    /// The results of functions are a content of their own: as many as there are calls before them.
    is_results: bool,
    parts: Vec<Value>,
}

impl GeminiTurn {
    fn new(role: &'static str, is_results: bool, parts: Vec<Value>) -> Self {
        Self {
            role,
            is_results,
            parts,
        }
    }
}

fn add(contents: &mut Vec<GeminiTurn>, role: &'static str, is_results: bool, parts: Vec<Value>) {
    if parts.is_empty() {
        return;
    }
    // Media of tool results stand between the results, until all of them are there.
    let last = contents
        .iter_mut()
        .rev()
        .find(|content| content.role != "shown");
    match last {
        Some(last) if is_results && last.is_results => last.parts.extend(parts),
        _ => match contents.last_mut() {
            Some(last) if last.role == role && last.is_results == is_results => {
                last.parts.extend(parts);
            }
            _ => contents.push(GeminiTurn::new(role, is_results, parts)),
        },
    }
}

fn settled(contents: Vec<GeminiTurn>) -> Value {
    let mut settled: Vec<GeminiTurn> = Vec::new();
    for content in contents {
        let role = if content.role == "shown" {
            "user"
        } else {
            content.role
        };
        match settled.last_mut() {
            Some(last) if last.role == role && !last.is_results && !content.is_results => {
                last.parts.extend(content.parts);
            }
            _ => settled.push(GeminiTurn::new(role, content.is_results, content.parts)),
        }
    }
    let contents = settled.into_iter();
    contents
        .map(|content| json!({"role": content.role, "parts": content.parts}))
        .collect()
}

fn said(turn: &TurnMessage<'_>, export: &mut Export) -> Vec<Value> {
    let mut parts = Vec::new();
    for part in &turn.parts {
        match part.kind() {
            PartKind::Reasoning => {
                export.leave_out(
                    turn.at,
                    "reasoning: the provider does not read its own again",
                );
            }
            PartKind::Text | PartKind::Refusal => {
                let mut text = json!({"text": part.text()});
                if let Some(signature) = part.raw["thought_signature"].as_str() {
                    text["thoughtSignature"] = signature.into();
                }
                if !part.text().trim().is_empty() {
                    parts.push(text);
                }
            }
            _ => {
                let medium = Some(part).filter(|_| turn.role == Role::User);
                if let Some(medium) = medium.and_then(self::medium) {
                    parts.push(medium);
                } else {
                    export.leave_out(turn.at, part::homeless(part));
                    parts.push(json!({"text": part.note()}));
                }
            }
        }
    }
    parts
}

/// The calls of a message; the first has a signature.
fn calls(turn: &TurnMessage<'_>) -> Vec<Value> {
    let call = |(number, call): (usize, &super::turn::TurnCall)| {
        let function = json!({"id": call.id, "name": call.name, "args": call.arguments()});
        let mut part = json!({"functionCall": function});
        if !call.signature.is_empty() {
            part["thoughtSignature"] = call.signature.clone().into();
        } else if number == 0 {
            part["thoughtSignature"] = NO_SIGNATURE.into();
        }
        part
    };
    turn.calls.iter().enumerate().map(call).collect()
}

/// Adds a result; returns its media.
fn result(
    turn: &TurnMessage<'_>,
    contents: &mut Vec<GeminiTurn>,
    export: &mut Export,
) -> Vec<Value> {
    let mut shown = Vec::new();
    if turn
        .parts
        .iter()
        .any(|part| part.kind() == PartKind::Reasoning)
    {
        export.leave_out(turn.at, "reasoning of a tool's result");
    }
    for part in turn.parts.iter().filter(|part| part.is_medium()) {
        let what = match medium(part) {
            Some(medium) => {
                shown.push(medium);
                "media of a tool's result: they are sent after the results".into()
            }
            None => part::homeless(part),
        };
        export.leave_out(turn.at, what);
    }
    let key = if turn.is_error() { "error" } else { "output" };
    let response = json!({
        "id": turn.id, "name": turn.function, "response": {key: turn.plain_text()},
    });
    let part = json!({"functionResponse": response});
    add(contents, "user", true, vec![part]);
    shown
}

fn medium(part: &Part<'_>) -> Option<Value> {
    let address = part.text();
    if let Some((kind, data)) = part::data(address) {
        return is_taken(kind).then(|| json!({"inlineData": {"mimeType": kind, "data": data}}));
    }
    let is_link = ["https://", "gs://"].iter().any(|s| address.starts_with(s));
    let known = part.raw["mime_type"].as_str();
    let guessed = match (known, part::guessed_type(address), part.kind()) {
        (Some(known), ..) => known,
        (_, "application/octet-stream", PartKind::Image) => "image/jpeg",
        (_, "application/octet-stream", PartKind::Audio) => "audio/mpeg",
        (_, "application/octet-stream", PartKind::Video) => "video/mp4",
        (_, guessed, _) => guessed,
    };
    let guessed = if guessed == "image/jpg" {
        "image/jpeg"
    } else {
        guessed
    };
    (is_link && is_taken(guessed))
        .then(|| json!({"fileData": {"fileUri": address, "mimeType": guessed}}))
}

/// True if a medium is not a picture, or a picture of a type that the API takes.
fn is_taken(media_type: &str) -> bool {
    let picture = media_type.strip_prefix("image/");
    picture.is_none_or(|kind| matches!(kind, "png" | "jpeg" | "webp" | "heic" | "heif"))
}

/// The messages of `contents`, given alone or within a request.
pub(super) fn read(value: &Value) -> Result<Vec<Message>> {
    let mut messages = Vec::new();
    let prompt = ["systemInstruction", "system_instruction"];
    let prompt = prompt.iter().find_map(|field| value.get(field));
    if let Some(prompt) = prompt {
        let parts = prompt["parts"].as_array().into_iter().flatten();
        let parts = parts.map(|part| json!({"type": "text", "text": part["text"]}));
        let content = anthropic::joined(parts.collect());
        messages.push(lenient::value(
            &json!({"role": "system", "content": content}),
        )?);
    }
    let contents = value
        .as_array()
        .or_else(|| value.get("contents")?.as_array());
    let contents = contents.ok_or_else(|| invalid("there is no list of contents"))?;
    for (at, content) in contents.iter().enumerate() {
        let read = read_content(content).map_err(|error| at_place("content", at, &error))?;
        messages.extend(read);
    }
    opening::remove(&mut messages);
    Ok(messages)
}

/// The messages of one content: results of functions become messages of their own.
pub(super) fn read_content(content: &Value) -> Result<Vec<Message>> {
    let role = match content["role"].as_str() {
        Some("model") => "assistant",
        Some("user" | "function") | None => "user",
        Some("system") => "system",
        Some(other) => return Err(invalid(format!("the role {other:?}"))),
    };
    let parts = content["parts"].as_array();
    let parts = parts.ok_or_else(|| invalid("there are no parts"))?;
    let (mut results, mut said, mut calls) = (Vec::new(), Vec::new(), Vec::new());
    let mut thoughts = String::new();
    for part in parts {
        let either =
            |camel: &str, snake: &str| part.get(camel).or_else(|| part.get(snake)).cloned();
        let signature = either("thoughtSignature", "thought_signature");
        if let Some(call) = either("functionCall", "function_call") {
            calls.push(read_call(&call, signature.as_ref()));
        } else if let Some(result) = either("functionResponse", "function_response") {
            results.push(read_result(&result, &[])?);
        } else if part["thought"] == true {
            thoughts.push_str(part["text"].as_str().unwrap_or_default());
        } else if let Some(text) = part["text"].as_str() {
            let mut part = json!({"type": "text", "text": text});
            if let Some(signature) = signature {
                part["thought_signature"] = signature;
            }
            said.push(part);
        } else if let Some(data) = either("inlineData", "inline_data") {
            said.push(read_data(&data)?);
        } else if let Some(file) = either("fileData", "file_data") {
            said.push(read_file(&file)?);
        } else if let Some((kind, what)) = part.as_object().and_then(|part| part.iter().next()) {
            let known = [
                "executableCode",
                "codeExecutionResult",
                "executable_code",
                "code_execution_result",
            ];
            if !known.contains(&&**kind) {
                return Err(invalid(format!("a part {kind:?}")));
            }
            said.push(json!({"type": kind, "value": what}));
        }
    }
    if said.is_empty() && calls.is_empty() && thoughts.is_empty() {
        return Ok(results);
    }
    let mut message = json!({"role": role, "content": anthropic::joined(said.into())});
    if !calls.is_empty() {
        message["tool_calls"] = calls.into();
    }
    if !thoughts.is_empty() {
        message["reasoning_content"] = thoughts.into();
    }
    results.push(lenient::value(&message)?);
    Ok(results)
}

/// A call; without an id it is identified by its place.
fn read_call(call: &Value, signature: Option<&Value>) -> Value {
    let arguments = call
        .get("args")
        .map_or_else(|| "{}".into(), Value::to_string);
    let mut read = json!({
        "id": call["id"].as_str().unwrap_or_default(),
        "type": "function",
        "function": {"name": call["name"], "arguments": arguments},
    });
    if let Some(signature) = signature.filter(|signature| *signature != NO_SIGNATURE) {
        read["extra_content"] = json!({"google": {"thought_signature": signature}});
    }
    read
}

/// A result: its text (for an object with fields other than `output` or `error`, its JSON), and its
/// media, within it or in parts `beside` it.
pub(super) fn read_result(result: &Value, beside: &[&Value]) -> Result<Message> {
    let response = &result["response"];
    let only = |key: &str| {
        let object = response.as_object().filter(|object| object.len() == 1)?;
        object.get(key)?.as_str()
    };
    let text = match (only("output"), only("error")) {
        (Some(text), _) | (_, Some(text)) => text.to_owned(),
        _ if response.is_null() => String::new(),
        _ => response.to_string(),
    };
    let mut parts = Vec::new();
    if !text.is_empty() {
        parts.push(json!({"type": "text", "text": text}));
    }
    let within = result["parts"].as_array().into_iter().flatten();
    for part in within.chain(beside.iter().copied()) {
        parts.extend(read_shown(part)?);
    }
    let mut message = json!({
        "role": "tool",
        "content": anthropic::joined(parts.into()),
        "tool_call_id": result["id"].as_str().unwrap_or_default(),
    });
    if only("error").is_some() {
        message["is_error"] = true.into();
    }
    lenient::value(&message)
}

/// A text or a medium of a tool's result.
fn read_shown(part: &Value) -> Result<Option<Value>> {
    let either = |camel: &str, snake: &str| part.get(camel).or_else(|| part.get(snake));
    if let Some(data) = either("inlineData", "inline_data") {
        return read_data(data).map(Some);
    }
    if let Some(file) = either("fileData", "file_data") {
        return read_file(file).map(Some);
    }
    let text = part["text"].as_str();
    Ok(text.map(|text| json!({"type": "text", "text": text})))
}

fn read_data(data: &Value) -> Result<Value> {
    let kind = data["mimeType"]
        .as_str()
        .or_else(|| data["mime_type"].as_str());
    let (kind, bytes) = kind
        .zip(data["data"].as_str())
        .ok_or_else(|| invalid("data without its type"))?;
    Ok(medium_part(
        kind,
        &format!("data:{kind};base64,{bytes}"),
        None,
    ))
}

fn read_file(file: &Value) -> Result<Value> {
    let either = |camel: &str, snake: &str| file[camel].as_str().or_else(|| file[snake].as_str());
    let address = either("fileUri", "file_uri").ok_or_else(|| invalid("a file without address"))?;
    let kind = either("mimeType", "mime_type").unwrap_or_else(|| part::guessed_type(address));
    Ok(medium_part(kind, address, Some(kind)))
}

/// A medium in kimi-cli's form, or a file in OpenAI's.
fn medium_part(kind: &str, address: &str, told: Option<&str>) -> Value {
    let (named, place) = match kind.split('/').next() {
        Some("image") => ("image_url", "url"),
        Some("audio") => ("audio_url", "url"),
        Some("video") => ("video_url", "url"),
        _ if told.is_some() => ("file", "file_url"),
        _ => ("file", "file_data"),
    };
    let mut part = json!({"type": named, named: {place: address}});
    if let Some(kind) = told {
        part["mime_type"] = kind.into();
    }
    part
}
