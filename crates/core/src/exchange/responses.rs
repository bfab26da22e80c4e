//! The items of OpenAI's responses API.

use std::collections::HashSet;

use serde_json::{Map, Value, json};

use super::export::Export;
use super::foreign::transcript::time_of;
use super::openai::is_detail;
use super::part::{self, Part, PartKind};
use super::reading::{at_place, invalid};
use super::turn::{Role, TurnCall, TurnMessage, put};
use super::{anthropic, lenient};
use crate::error::Result;
use crate::session_file::Message;

/// The list of items.
pub(super) fn write(turns: &[TurnMessage<'_>], export: &mut Export) -> Value {
    let mut items = Vec::new();
    let mut thought = HashSet::new();
    for turn in turns {
        if !turn.goes(export) {
            continue;
        }
        turn.leave_fields(export);
        match turn.role {
            Role::Model => write_model(turn, &mut items, &mut thought, export),
            Role::Result => items.push(output(turn, export)),
            Role::System | Role::User => {
                let role = match turn.message.role() {
                    role @ ("developer" | "system") => role,
                    _ => "user",
                };
                let content = inputs(turn, export);
                items.push(json!({"type": "message", "role": role, "content": content}));
            }
        }
    }
    items.into()
}

/// The reason why reasoning is left out.
const UNENCRYPTED: &str = "reasoning without the provider's encrypted content";

/// True for reasoning that the API accepts back: encrypted.
fn is_encrypted(item: &Value) -> bool {
    let encrypted = item["encrypted_content"].as_str();
    encrypted.is_some_and(|content| !content.is_empty())
        && item["id"].is_string()
        && item["summary"].is_array()
}

/// Writes reasoning, then text, then calls: the API refuses reasoning without an item after it, and
/// reasoning with an id that was in `thought` before.
fn write_model(
    turn: &TurnMessage<'_>,
    items: &mut Vec<Value>,
    thought: &mut HashSet<String>,
    export: &mut Export,
) {
    let mut content = Vec::new();
    for part in &turn.parts {
        match part.kind() {
            PartKind::Reasoning if is_encrypted(&part.raw) => {
                let id = part.raw["id"].as_str().unwrap_or_default();
                if thought.insert(id.to_owned()) {
                    items.push(part.raw.clone());
                } else {
                    export.leave_out(turn.at, "reasoning that was there already");
                }
            }
            PartKind::Reasoning => export.leave_out(turn.at, UNENCRYPTED),
            PartKind::Refusal => {
                content.push(json!({"type": "refusal", "refusal": part.text()}));
            }
            kind => {
                if kind != PartKind::Text {
                    export.leave_out(turn.at, part::homeless(part));
                }
                let text = part.note();
                if !text.trim().is_empty() {
                    content.push(json!({"type": "output_text", "text": text, "annotations": []}));
                }
            }
        }
    }
    match &*content {
        [] => {}
        [only] if only["type"] == "output_text" => items.push(json!({
            "type": "message", "role": "assistant", "content": only["text"],
        })),
        _ => items.push(json!({
            "type": "message",
            "id": format!("msg_{}", items.len()),
            "role": "assistant",
            "status": "completed",
            "content": content,
        })),
    }
    items.extend(turn.calls.iter().map(call));
}

fn call(call: &TurnCall) -> Value {
    let (kind, input) = if call.is_custom {
        ("custom_tool_call", "input")
    } else {
        ("function_call", "arguments")
    };
    json!({"type": kind, "call_id": call.id, "name": call.name, input: call.input})
}

fn output(turn: &TurnMessage<'_>, export: &mut Export) -> Value {
    if turn.is_error() {
        export.leave_out(turn.at, "that a tool's result is an error");
    }
    let content = match inputs(turn, export) {
        Value::Array(parts) if parts.is_empty() => "".into(),
        content => content,
    };
    let kind = if turn.is_custom {
        "custom_tool_call_output"
    } else {
        "function_call_output"
    };
    json!({"type": kind, "call_id": turn.id, "output": content})
}

/// Texts, pictures and files as input; a text alone as a string.
fn inputs(turn: &TurnMessage<'_>, export: &mut Export) -> Value {
    let mut parts = Vec::new();
    for part in &turn.parts {
        if part.kind() == PartKind::Reasoning {
            export.leave_out(turn.at, UNENCRYPTED);
            continue;
        }
        let input = Some(part)
            .filter(|_| turn.role != Role::System)
            .and_then(medium);
        if input.is_none() && part.kind() != PartKind::Text {
            export.leave_out(turn.at, part::homeless(part));
        }
        let text = part.note();
        match input {
            Some(input) => parts.push(input),
            None if text.trim().is_empty() => {}
            None => parts.push(json!({"type": "input_text", "text": text})),
        }
    }
    match &*parts {
        [part] if part["type"] == "input_text" => part["text"].clone(),
        _ => parts.into(),
    }
}

fn medium(part: &Part<'_>) -> Option<Value> {
    let address = part.text();
    let is_link = ["https://", "http://"]
        .iter()
        .any(|s| address.starts_with(s));
    let data = part::data(address);
    let file_id = [&part.raw["file_id"], &part.raw["file"]["file_id"]];
    let file_id = file_id.into_iter().find_map(Value::as_str);
    match part.kind() {
        PartKind::Image => {
            let detail = part
                .detail()
                .filter(|detail| is_detail(detail))
                .unwrap_or("auto");
            let mut image = json!({"type": "input_image", "detail": detail});
            if is_link || data.is_some_and(|(kind, _)| part::is_picture(kind)) {
                image["image_url"] = address.into();
            } else {
                image["file_id"] = file_id?.into();
            }
            Some(image)
        }
        PartKind::File => {
            let mut file = Map::new();
            file.insert("type".into(), "input_file".into());
            let place = match data {
                Some(_) => "file_data",
                None if is_link => "file_url",
                None => "file_id",
            };
            let address = if place == "file_id" {
                file_id?
            } else {
                address
            };
            file.insert(place.into(), address.into());
            if place == "file_data" {
                let name = part.filename().unwrap_or("file");
                put(&mut file, "filename", Some(name.into()));
            }
            Some(file.into())
        }
        _ => None,
    }
}

/// The messages of items, given alone or as the field `input`, `output` or `items`, and the types
/// of the items that are not messages. An item may carry a time.
pub(super) fn read(value: &Value) -> Result<(Vec<Message>, Vec<String>)> {
    let fields = ["input", "output", "items", "data"];
    let items = value
        .as_array()
        .or_else(|| fields.iter().find_map(|field| value.get(field)?.as_array()));
    let items = items.ok_or_else(|| invalid("there is no list of items"))?;
    let mut reader = ResponsesReader::default();
    if let Some(prompt) = value.get("instructions").and_then(Value::as_str) {
        reader.messages.push(Message::system(prompt));
    }
    for (at, item) in items.iter().enumerate() {
        reader
            .take(item, time_of(item).as_deref())
            .map_err(|error| at_place("item", at, &error))?;
    }
    reader.end()
}

/// Converts items to messages: consecutive reasoning, text and calls of the model become one.
#[derive(Default)]
pub(crate) struct ResponsesReader {
    messages: Vec<Message>,
    model: ModelMessage,
    /// Items of known types that are not messages, by type.
    skipped: Vec<String>,
}

/// A message of the model that is not complete yet.
#[derive(Default)]
struct ModelMessage {
    content: Option<Value>,
    calls: Vec<Value>,
    reasoning: Vec<Value>,
    fields: Map<String, Value>,
    time: Option<String>,
}

impl ResponsesReader {
    /// Takes in the next item, said at `time` in RFC 3339.
    ///
    /// # Errors
    /// `InvalidMessage`.
    pub(super) fn take(&mut self, item: &Value, time: Option<&str>) -> Result<()> {
        let kind = item["type"].as_str().unwrap_or_default();
        let named = |name: &str| item[name].as_str().unwrap_or_default().to_owned();
        match kind {
            "message" | "" if item["role"].is_string() => {
                let role = named("role");
                let content = content(&item["content"])?;
                if role == "assistant" {
                    if self.model.content.is_some() || !self.model.calls.is_empty() {
                        self.close()?;
                    }
                    self.model.dated(time);
                    self.model.content = Some(content);
                    return Ok(());
                }
                self.close()?;
                let message = lenient::value(&json!({"role": role, "content": content}))?;
                self.messages.push(message.dated(time));
            }
            "reasoning" => {
                if self.model.content.is_some() || !self.model.calls.is_empty() {
                    self.close()?;
                }
                self.model.dated(time);
                self.model.reasoning.push(item.clone());
            }
            "function_call" | "local_shell_call" | "shell_call" => {
                let arguments = match &item["arguments"] {
                    Value::String(arguments) => arguments.clone(),
                    _ => item["action"].to_string(),
                };
                let name = if kind == "function_call" {
                    named("name")
                } else {
                    "shell".into()
                };
                self.model.dated(time);
                self.model.calls.push(json!({
                    "id": call_id(item), "type": "function",
                    "function": {"name": name, "arguments": arguments},
                }));
            }
            "custom_tool_call" => {
                self.model.dated(time);
                self.model.calls.push(json!({
                    "id": call_id(item), "type": "custom",
                    "custom": {"name": named("name"), "input": named("input")},
                }));
            }
            "function_call_output"
            | "custom_tool_call_output"
            | "local_shell_call_output"
            | "shell_call_output" => {
                self.close()?;
                let output = content(&item["output"])?;
                let message = json!({
                    "role": "tool", "content": output, "tool_call_id": call_id(item),
                });
                self.messages.push(lenient::value(&message)?.dated(time));
            }
            kind if is_other(kind) => self.skipped.push(kind.into()),
            "" | "message" => return Err(invalid("there is no role")),
            other => return Err(invalid(format!("an item of the type {other:?}"))),
        }
        Ok(())
    }

    /// Takes in a message that does not come from an item.
    ///
    /// # Errors
    /// `InvalidMessage`.
    pub(super) fn push(&mut self, message: Message) -> Result<()> {
        self.close()?;
        self.messages.push(message);
        Ok(())
    }

    /// The messages, and the types of the items that are not messages.
    ///
    /// # Errors
    /// `InvalidMessage`.
    pub(super) fn end(mut self) -> Result<(Vec<Message>, Vec<String>)> {
        self.close()?;
        Ok((self.messages, self.skipped))
    }

    fn close(&mut self) -> Result<()> {
        let model = std::mem::take(&mut self.model);
        if model.content.is_none() && model.calls.is_empty() && model.reasoning.is_empty() {
            return Ok(());
        }
        let mut message = model.fields;
        message.insert("role".into(), "assistant".into());
        message.insert("content".into(), model.content.unwrap_or_else(|| "".into()));
        if !model.calls.is_empty() {
            message.insert("tool_calls".into(), model.calls.into());
        }
        if !model.reasoning.is_empty() {
            let texts = model.reasoning.iter().map(part::thoughts);
            let texts: Vec<String> = texts.filter(|text| !text.is_empty()).collect();
            message.insert("reasoning_content".into(), texts.join("\n").into());
            message.insert("reasoning_items".into(), model.reasoning.into());
        }
        let message = lenient::value(&message.into())?;
        self.messages.push(message.dated(model.time.as_deref()));
        Ok(())
    }
}

impl ModelMessage {
    fn dated(&mut self, time: Option<&str>) {
        if self.time.is_none() {
            self.time = time.map(str::to_owned);
        }
    }
}

fn call_id(item: &Value) -> Value {
    let ids = [&item["call_id"], &item["id"]];
    let id = ids.into_iter().find(|id| id.is_string());
    id.cloned().unwrap_or_else(|| "".into())
}

/// Items that are neither messages nor calls of functions.
fn is_other(kind: &str) -> bool {
    kind == "item_reference"
        || kind == "compaction"
        || kind == "tool_search_output"
        || kind == "ghost_snapshot"
        || kind.starts_with("mcp_")
        || ((kind.ends_with("_call") || kind.ends_with("_call_output"))
            && kind.contains(['_'])
            && !kind.starts_with("function"))
}

/// A content in the form of chat completions.
fn content(content: &Value) -> Result<Value> {
    let parts = match content {
        Value::String(_) => return Ok(content.clone()),
        Value::Null => return Ok("".into()),
        Value::Array(parts) => parts,
        // Codex: the output of a tool with its status.
        Value::Object(object) => {
            let text = object.get("content").filter(|text| text.is_string());
            return Ok(text.cloned().unwrap_or_else(|| content.to_string().into()));
        }
        other => return Ok(other.to_string().into()),
    };
    let part = |part: &Value| match part["type"].as_str().unwrap_or_default() {
        "input_text" | "output_text" | "text" | "summary_text" | "reasoning_text" => {
            Ok(json!({"type": "text", "text": part["text"]}))
        }
        "input_image" if part["image_url"].is_string() => {
            let mut url = json!({"url": part["image_url"]});
            if part["detail"].is_string() {
                url["detail"] = part["detail"].clone();
            }
            Ok(json!({"type": "image_url", "image_url": url}))
        }
        // What a command of a shell wrote.
        "" if part["stdout"].is_string() || part["stderr"].is_string() => {
            let text = [&part["stdout"], &part["stderr"]].map(|text| text.as_str().unwrap_or(""));
            Ok(json!({"type": "text", "text": text.concat()}))
        }
        "" => Err(invalid("a part without a type")),
        _ => Ok(part.clone()),
    };
    let parts: Result<Vec<Value>> = parts.iter().map(part).collect();
    Ok(anthropic::joined(parts?.into()))
}
