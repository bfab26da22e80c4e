//! Detecting the tool that wrote a text.

use serde_json::Value;

use super::super::format::Format;
use super::super::reading::invalid;
use super::transcript::{named, records};
use crate::error::Result;

/// Roles of messages in OpenAI's shape, and so in this crate's lines.
const ROLES: [&str; 6] = [
    "system",
    "developer",
    "user",
    "assistant",
    "tool",
    "function",
];

/// The shape of a text, from the first record that decides it.
///
/// # Errors
/// `InvalidMessage` if none does.
pub(in super::super) fn detect(text: &str) -> Result<Format> {
    if text.starts_with("SQLite format 3") {
        return Err(invalid(
            "a database of SQLite, which is no text; the command line reads sessions of OpenAI's \
             Agents SDK out of its file: sessionlog import DIR FILE",
        ));
    }
    if let Ok(value) = serde_json::from_str::<Value>(text) {
        let shape = match &value {
            Value::Array(items) => of_items(items),
            Value::Object(_) => of_object(&value).or_else(|| of_line(&value)),
            _ => None,
        };
        return shape.ok_or_else(|| invalid("line 1: JSON of no shape that is known"));
    }
    let (mut last, mut is_plain) = (1, false);
    for record in records(text) {
        let (at, record) = record?;
        last = at + 1;
        if is_event_of_kimi_cli(&record) {
            return Err(invalid(format!(
                "line {last}: an event of kimi-cli; its conversation is in context.jsonl beside it"
            )));
        }
        match of_line(&record) {
            // Records that only this crate or kimi-cli writes may come later.
            Some(Format::Jsonl) => is_plain = true,
            Some(shape) => return Ok(shape),
            None => {}
        }
    }
    if is_plain {
        return Ok(Format::Jsonl);
    }
    Err(invalid(format!(
        "line {last}: no record of a shape that is known"
    )))
}

/// The shape of a file that is one object.
fn of_object(value: &Value) -> Option<Format> {
    if value["contents"].is_array() {
        return Some(Format::Gemini);
    }
    if let Some(messages) = value["messages"].as_array() {
        if value["key"].is_string() {
            return Some(Format::Picoclaw);
        }
        if value["sessionId"].is_string()
            && (value["projectHash"].is_string() || value["startTime"].is_string())
        {
            return Some(Format::GeminiCli);
        }
        return of_items(messages)
            .or_else(|| value["system"].is_string().then_some(Format::Anthropic));
    }
    let items = ["input", "output", "items"]
        .iter()
        .find_map(|field| value[*field].as_array());
    items.map(|_| Format::OpenAiResponses)
}

/// The shape of a list of messages: the first feature that only one shape has decides.
fn of_items(items: &[Value]) -> Option<Format> {
    if items.is_empty() {
        return Some(Format::OpenAi);
    }
    let mut weak = None;
    for item in items {
        match of_record(item) {
            Some(Format::Jsonl) => weak = Some(Format::OpenAi),
            Some(other) => return Some(other),
            None => {}
        }
    }
    weak
}

/// The shape of one record among lines. Anthropic's shape is one value: a message with its blocks
/// in a line of its own is in this crate's shape, and so is one with a time of creation.
fn of_line(record: &Value) -> Option<Format> {
    let is_ours = || named(record, "type").is_empty() && record["created_at"].is_string();
    match of_record(record) {
        Some(Format::Anthropic) => Some(Format::Jsonl),
        Some(Format::OpenAiResponses) if is_ours() => Some(Format::Jsonl),
        other => other,
    }
}

/// The shape of one record of several.
fn of_record(record: &Value) -> Option<Format> {
    let kind = named(record, "type");
    let has = |field: &str| record.get(field).is_some();
    // The first record of kimi-cli's `wire.jsonl` has a version, too, and no time.
    if kind == "metadata" && has("protocol_version") && has("created_at")
        || matches!(kind, "turn.prompt" | "turn.steer")
        || kind.starts_with("context.")
    {
        return Some(Format::KimiCode);
    }
    if record["lc"].is_number() || has("data") && record["data"]["content"] != Value::Null {
        return Some(Format::LangChain);
    }
    if matches!(kind, "human" | "ai" | "AIMessageChunk") && has("content") {
        return Some(Format::LangChain);
    }
    if has("payload") || has("record_type") || has("instructions") && has("timestamp") {
        return Some(Format::Codex);
    }
    if record["parts"].is_array() {
        return Some(Format::Gemini);
    }
    let role = named(record, "role");
    if role.starts_with('_') {
        return Some(Format::KimiCli);
    }
    if !role.is_empty() {
        return Some(of_content(record, kind));
    }
    if kind == "session"
        || kind == "message" && record["message"]["role"].is_string() && !has("sessionId")
    {
        return Some(Format::OpenClaw);
    }
    if has("leafUuid") || has("uuid") || has("sessionId") && has("type") {
        return Some(Format::ClaudeCode);
    }
    if has("sessionId") && (has("projectHash") || has("startTime")) {
        return Some(Format::GeminiCli);
    }
    let is_item = matches!(
        kind,
        "reasoning"
            | "function_call"
            | "function_call_output"
            | "custom_tool_call"
            | "custom_tool_call_output"
    );
    is_item.then_some(Format::OpenAiResponses)
}

/// A record of the `wire.jsonl` of kimi-cli, which holds what its screen was told.
fn is_event_of_kimi_cli(record: &Value) -> bool {
    let message = &record["message"];
    record["timestamp"].is_number() && message["type"].is_string() && message["payload"].is_object()
}

/// The shape of a message with a role, from the types of its parts.
fn of_content(record: &Value, kind: &str) -> Format {
    let parts = record["content"].as_array();
    let kinds = parts.into_iter().flatten().map(|part| named(part, "type"));
    for part in kinds {
        match part {
            "input_text" | "output_text" | "input_image" | "input_file" => {
                return Format::OpenAiResponses;
            }
            "tool_use" | "tool_result" | "thinking" | "redacted_thinking" | "image"
            | "document" => {
                return Format::Anthropic;
            }
            _ => {}
        }
    }
    if kind == "message" && ROLES.contains(&named(record, "role")) {
        return Format::OpenAiResponses;
    }
    Format::Jsonl
}
