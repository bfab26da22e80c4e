//! Anthropic's messages API.

use serde_json::{Map, Value, json};

use super::export::Export;
use super::part::{self, Part, PartKind, is_picture};
use super::reading::{at_place, invalid, list, role};
use super::turn::{Role, TurnMessage, put};
use super::{lenient, opening};
use crate::error::Result;
use crate::session_file::Message;

/// The most `cache_control` marks that the API accepts in one request.
const CACHED: usize = 4;

/// The object with `system` and `messages`.
pub(super) fn write(turns: &[TurnMessage<'_>], export: &mut Export) -> Value {
    let mut system = Vec::new();
    let mut sides: Vec<SideBlocks> = Vec::new();
    for turn in turns {
        if !turn.goes(export) {
            continue;
        }
        turn.leave_fields(export);
        if turn.role == Role::System {
            system.extend(texts_only(turn, export));
            continue;
        }
        let role = if turn.role == Role::Model {
            "assistant"
        } else {
            "user"
        };
        let blocks = blocks(turn, export);
        match sides.last_mut() {
            _ if blocks.is_empty() => {}
            Some(last) if last.role == role => {
                last.blocks.extend(blocks);
                last.at = turn.at;
            }
            _ => sides.push(SideBlocks {
                at: turn.at,
                role,
                blocks,
            }),
        }
    }
    // All messages of the user became nothing, but the assistant must not be first.
    if let Some(first) = sides.first().filter(|side| side.role == "assistant") {
        let block = json!({"type": "text", "text": opening::PLACEHOLDER});
        let placeholder = SideBlocks {
            at: first.at,
            role: "user",
            blocks: vec![block],
        };
        sides.insert(0, placeholder);
    }
    for side in &mut sides {
        side.settle(export);
    }
    if let Some(last) = sides.last_mut().filter(|side| side.role == "assistant") {
        end_without_space(&mut last.blocks);
    }
    let blocks = sides.iter_mut().flat_map(|side| &mut side.blocks);
    few_hints(system.iter_mut().chain(blocks), export);
    let mut object = Map::new();
    put(&mut object, "system", prompt(system));
    let messages = sides.into_iter();
    let messages = messages.map(|side| json!({"role": side.role, "content": side.blocks}));
    object.insert("messages".into(), messages.collect());
    object.into()
}

/// The blocks of one side until the other side speaks.
struct SideBlocks {
    /// The place of its last message.
    at: usize,
    role: &'static str,
    blocks: Vec<Value>,
}

impl SideBlocks {
    /// Puts results first in a turn and calls last, and lets no thinking be last: the API refuses
    /// other orders.
    fn settle(&mut self, export: &mut Export) {
        let is_assistant = self.role == "assistant";
        self.blocks.sort_by_key(|block| match kind(block) {
            "tool_result" => 0,
            "tool_use" if is_assistant => 2,
            _ => 1,
        });
        // A message of thinking alone is not sent, so one block always stays.
        let is_thought = |block: &Value| matches!(kind(block), "thinking" | "redacted_thinking");
        while self.blocks.len() > 1 && self.blocks.last().is_some_and(is_thought) {
            self.blocks.pop();
            export.leave_out(
                self.at,
                "reasoning that nothing follows: the provider refuses it",
            );
        }
    }
}

fn kind(block: &Value) -> &str {
    block["type"].as_str().unwrap_or_default()
}

/// The blocks of a system prompt as one text, unless they have other fields.
fn prompt(blocks: Vec<Value>) -> Option<Value> {
    let plain = |block: &Value| block.as_object().is_some_and(|block| block.len() == 2);
    if blocks.is_empty() {
        None
    } else if blocks.iter().all(plain) {
        let texts: Vec<_> = blocks
            .iter()
            .filter_map(|block| block["text"].as_str())
            .collect();
        Some(texts.join("\n\n").into())
    } else {
        Some(blocks.into())
    }
}

/// Trims white space at the end of the assistant's last text; the API refuses it.
fn end_without_space(content: &mut [Value]) {
    if let Some(block) = content.last_mut()
        && block["type"] == "text"
        && let Some(text) = block["text"].as_str()
    {
        block["text"] = text.trim_end().into();
    }
}

/// Keeps the last hints, which cover the most.
fn few_hints<'a>(blocks: impl DoubleEndedIterator<Item = &'a mut Value>, export: &mut Export) {
    let mut free = CACHED;
    for block in blocks.rev() {
        take_hints(block, &mut free, export);
    }
}

/// The hint of a block comes after the hints of the blocks within it.
fn take_hints(block: &mut Value, free: &mut usize, export: &mut Export) {
    if !block["cache_control"].is_null() {
        if *free > 0 {
            *free -= 1;
        } else if let Some(block) = block.as_object_mut() {
            block.remove("cache_control");
            export.leave_out(None, "a hint for the cache: the provider takes four");
        }
    }
    let inner = block.get_mut("content").and_then(Value::as_array_mut);
    for block in inner.into_iter().flatten().rev() {
        take_hints(block, free, export);
    }
}

fn texts_only(turn: &TurnMessage<'_>, export: &mut Export) -> Vec<Value> {
    let parts = turn.parts.iter();
    let text = |part: &Part<'_>| {
        if part.kind() == PartKind::Reasoning {
            export.leave_out(turn.at, "reasoning without the provider's signature");
            return None;
        }
        if part.is_medium() {
            export.leave_out(turn.at, part::homeless(part));
        }
        text_block(&part.note(), &part.raw)
    };
    parts.filter_map(text).collect()
}

fn blocks(turn: &TurnMessage<'_>, export: &mut Export) -> Vec<Value> {
    let parts = turn.parts.iter();
    let said: Vec<Value> = parts.filter_map(|part| block(turn, part, export)).collect();
    if turn.role == Role::Result {
        let mut result = Map::new();
        result.insert("type".into(), "tool_result".into());
        result.insert("tool_use_id".into(), turn.id.clone().into());
        if !said.is_empty() {
            result.insert("content".into(), said.into());
        }
        if turn.is_error() {
            result.insert("is_error".into(), true.into());
        }
        put(&mut result, "cache_control", turn.field("cache_control"));
        return vec![result.into()];
    }
    let calls = turn.calls.iter().map(|call| {
        let mut block = json!({
            "type": "tool_use",
            "id": call.id,
            "name": call.name,
            "input": call.arguments(),
        });
        if let Some(hint) = &call.cache_control {
            block["cache_control"] = hint.clone();
        }
        block
    });
    said.into_iter().chain(calls).collect()
}

/// The block, if the role may have it, or a note in its place.
fn block(turn: &TurnMessage<'_>, part: &Part<'_>, export: &mut Export) -> Option<Value> {
    match part.kind() {
        PartKind::Text => return text_block(part.text(), &part.raw),
        PartKind::Refusal => return text_block(part.text(), &Value::Null),
        PartKind::Reasoning => {
            let thought = Some(part)
                .filter(|_| turn.role == Role::Model)
                .and_then(thought);
            if thought.is_none() {
                export.leave_out(turn.at, "reasoning without the provider's signature");
            }
            return thought;
        }
        PartKind::Image | PartKind::File if turn.role != Role::Model => {
            if let Some(block) = medium(part) {
                return Some(block);
            }
        }
        PartKind::Other if is_own(part, turn.role) => return Some(part.raw.clone()),
        _ => {}
    }
    export.leave_out(turn.at, part::homeless(part));
    text_block(&part.note(), &Value::Null)
}

/// Block types that are passed through unchanged.
const OWN_OF_USERS: [&str; 3] = ["search_result", "container_upload", "tool_reference"];
const OWN_OF_MODELS: [&str; 10] = [
    "server_tool_use",
    "web_search_tool_result",
    "web_fetch_tool_result",
    "code_execution_tool_result",
    "bash_code_execution_tool_result",
    "text_editor_code_execution_tool_result",
    "tool_search_tool_result",
    "mcp_tool_use",
    "mcp_tool_result",
    "container_upload",
];

fn is_own(part: &Part<'_>, role: Role) -> bool {
    let kind = part.raw["type"].as_str().unwrap_or_default();
    match role {
        Role::Model => OWN_OF_MODELS.contains(&kind),
        _ => OWN_OF_USERS.contains(&kind),
    }
}

/// Reasoning that the API accepts back: signed, or encrypted.
fn thought(part: &Part<'_>) -> Option<Value> {
    let raw = &part.raw;
    match raw["type"].as_str()? {
        "thinking" if raw["signature"].as_str().is_some_and(|s| !s.is_empty()) => Some(raw.clone()),
        "redacted_thinking" if raw["data"].is_string() => Some(raw.clone()),
        // In kimi-cli's form. OpenAI's signatures begin with `gAAAA`; Anthropic does not accept
        // them.
        "think" => {
            let signature = raw["encrypted"].as_str()?;
            let is_own = !signature.is_empty() && !signature.starts_with("gAAAA");
            is_own.then(|| match part.text() {
                "" => json!({"type": "redacted_thinking", "data": signature}),
                text => json!({"type": "thinking", "thinking": text, "signature": signature}),
            })
        }
        _ => None,
    }
}

/// A picture or a document with its source.
fn medium(part: &Part<'_>) -> Option<Value> {
    let raw = &part.raw;
    // As it came from the API.
    let address = part.text();
    let is_image = part.kind() == PartKind::Image;
    let is_own = matches!(raw["type"].as_str(), Some("image" | "document"));
    let is_misnamed = raw["source"]["media_type"] == "image/jpg";
    let is_taken = !is_misnamed && (!is_image || part::media_type(address).is_none_or(is_picture));
    if is_own && is_taken && raw["source"].is_object() {
        return Some(raw.clone());
    }
    let source = match part::data(address) {
        Some((kind, data))
            if is_image && is_picture(kind) || !is_image && kind == "application/pdf" =>
        {
            json!({"type": "base64", "media_type": kind, "data": data})
        }
        None if address.starts_with("https://") => json!({"type": "url", "url": address}),
        _ => return None,
    };
    let mut block = Map::new();
    let kind = if is_image { "image" } else { "document" };
    block.insert("type".into(), kind.into());
    block.insert("source".into(), source);
    if !is_image {
        put(&mut block, "title", part.filename().map(Value::from));
    }
    put(
        &mut block,
        "cache_control",
        raw.get("cache_control").cloned(),
    );
    Some(block.into())
}

/// A text block; `None` for blank text, which the API refuses.
fn text_block(text: &str, raw: &Value) -> Option<Value> {
    if text.trim().is_empty() {
        return None;
    }
    let mut block = Map::new();
    block.insert("type".into(), "text".into());
    block.insert("text".into(), text.into());
    for field in ["cache_control", "citations"] {
        put(
            &mut block,
            field,
            raw.get(field).filter(|value| !value.is_null()).cloned(),
        );
    }
    Some(block.into())
}

pub(super) fn read(value: &Value) -> Result<Vec<Message>> {
    let mut messages = Vec::new();
    let system = value.get("system").cloned().unwrap_or_default();
    if !texts(&system).is_empty() {
        messages.push(lenient::value(
            &json!({"role": "system", "content": joined(system)}),
        )?);
    }
    for (at, turn) in list(value)?.iter().enumerate() {
        let read = read_turn(turn).map_err(|error| at_place("message", at, &error))?;
        messages.extend(read);
    }
    opening::remove(&mut messages);
    Ok(messages)
}

/// Splits a message of Anthropic's blocks into its calls, its results and the other blocks.
pub(super) fn split(message: &Message) -> Option<Vec<Message>> {
    let content: Value = serde_json::from_str(message.content_parts()?).ok()?;
    let turn = json!({"role": message.role(), "content": content});
    let split = read_turn(&turn).ok()?;
    Some(
        split
            .into_iter()
            .map(|part| part.dated_as(message))
            .collect(),
    )
}

/// The messages of one turn. Results of tools in it become messages of their own, before the user's
/// text.
pub(super) fn read_turn(turn: &Value) -> Result<Vec<Message>> {
    let role = role(turn)?;
    let blocks = match &turn["content"] {
        Value::String(text) => return Ok(vec![Message::new(role, text)]),
        Value::Array(blocks) => blocks,
        _ => return Err(invalid("there is no content")),
    };
    let mut turn = Blocks::default();
    for block in blocks {
        turn.take(block)?;
    }
    turn.into_messages(role)
}

/// The blocks of one message, by kind.
#[derive(Default)]
struct Blocks {
    results: Vec<Message>,
    parts: Vec<Value>,
    calls: Vec<Value>,
    /// The reasoning before the first text.
    thoughts: Vec<Value>,
}

impl Blocks {
    fn take(&mut self, block: &Value) -> Result<()> {
        match block["type"].as_str().unwrap_or_default() {
            "text" if block["text"].is_string() => self.parts.push(block.clone()),
            "image" => self.parts.push(image(block)?),
            "thinking" | "redacted_thinking" if self.parts.is_empty() => {
                self.thoughts.push(block.clone());
            }
            "document" | "thinking" | "redacted_thinking" => self.parts.push(block.clone()),
            "tool_use" => self.calls.push(call(block)),
            "tool_result" => self.results.push(result(block)?),
            own if OWN_OF_USERS.contains(&own) || OWN_OF_MODELS.contains(&own) => {
                self.parts.push(block.clone());
            }
            other => return Err(invalid(format!("a block of the type {other:?}"))),
        }
        Ok(())
    }

    fn into_messages(self, role: &str) -> Result<Vec<Message>> {
        let mut messages = self.results;
        if self.parts.is_empty() && self.calls.is_empty() && self.thoughts.is_empty() {
            return Ok(messages);
        }
        let mut message = json!({"role": role, "content": joined(self.parts.into())});
        if !self.calls.is_empty() {
            message["tool_calls"] = self.calls.into();
        }
        if !self.thoughts.is_empty() {
            let texts = self.thoughts.iter();
            let texts: String = texts
                .filter_map(|thought| thought["thinking"].as_str())
                .collect();
            message["reasoning_content"] = texts.into();
            message["thinking_blocks"] = self.thoughts.into();
        }
        messages.push(lenient::value(&message)?);
        Ok(messages)
    }
}

/// A tool's result; media in it stay parts.
fn result(block: &Value) -> Result<Message> {
    let mut blocks = Blocks::default();
    match &block["content"] {
        Value::Array(content) => {
            for block in content {
                blocks
                    .take(block)
                    .map_err(|error| at_place("block", 0, &error))?;
            }
        }
        Value::String(text) => blocks.parts.push(json!({"type": "text", "text": text})),
        _ => {}
    }
    let mut message = json!({
        "role": "tool",
        "content": joined(blocks.parts.into()),
        "tool_call_id": block["tool_use_id"],
    });
    for field in ["is_error", "cache_control"] {
        if !block[field].is_null() {
            message[field] = block[field].clone();
        }
    }
    lenient::value(&message)
}

/// The content: a single text as a string, which PicoClaw reads; otherwise a list of parts.
pub(super) fn joined(content: Value) -> Value {
    match content {
        Value::Array(parts) => match &*parts {
            [] => "".into(),
            [part]
                if part.as_object().is_some_and(|part| part.len() == 2)
                    && part["type"] == "text" =>
            {
                part["text"].clone()
            }
            _ => parts.into(),
        },
        Value::String(text) => text.into(),
        _ => "".into(),
    }
}

fn call(block: &Value) -> Value {
    let mut call = json!({
        "id": block["id"],
        "type": "function",
        "function": {"name": block["name"], "arguments": block["input"].to_string()},
    });
    if !block["cache_control"].is_null() {
        call["cache_control"] = block["cache_control"].clone();
    }
    call
}

/// A picture in the form of kimi-cli and OpenAI.
fn image(block: &Value) -> Result<Value> {
    let url = part::source(&block["source"]);
    let url = url.ok_or_else(|| invalid("an image without data or url"))?;
    if block["source"]["type"] == "file" {
        return Ok(block.clone());
    }
    let mut part = json!({"type": "image_url", "image_url": {"url": url}});
    if !block["cache_control"].is_null() {
        part["cache_control"] = block["cache_control"].clone();
    }
    Ok(part)
}

/// A text, or the texts of a list of blocks.
pub(super) fn texts(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(blocks) => {
            let texts = blocks.iter().filter_map(|block| block["text"].as_str());
            texts.collect()
        }
        _ => String::new(),
    }
}
