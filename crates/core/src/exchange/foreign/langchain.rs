//! `LangChain`'s messages, as `messages_to_dict` or `dumpd` writes them.

use serde_json::{Map, Value, json};

use super::super::reading::{at_place, invalid, list};
use super::super::{anthropic, lenient};
use super::transcript::{Transcript, named, time_of};
use crate::error::Result;

pub(super) fn read(value: &Value, transcript: &mut Transcript) -> Result<()> {
    for (at, dict) in list(value)?.iter().enumerate() {
        take(dict, transcript).map_err(|error| at_place("message", at, &error))?;
    }
    Ok(())
}

fn take(dict: &Value, transcript: &mut Transcript) -> Result<()> {
    let (kind, data) = if dict["lc"].is_number() {
        let class = dict["id"].as_array().and_then(|path| path.last()?.as_str());
        (class.unwrap_or_default(), &dict["kwargs"])
    } else {
        (named(dict, "type"), dict.get("data").unwrap_or(dict))
    };
    let role = match kind.trim_end_matches("Chunk").trim_end_matches("Message") {
        "human" | "Human" => "user",
        "ai" | "AI" => "assistant",
        "system" | "System" => "system",
        "tool" | "Tool" => "tool",
        "function" | "Function" => "function",
        "chat" | "Chat" => named(data, "role"),
        "remove" | "Remove" => {
            transcript.skip("a message that removes another");
            return Ok(());
        }
        other => return Err(invalid(format!("a message of the type {other:?}"))),
    };
    let mut message = Map::new();
    message.insert("role".into(), role.into());
    let more = &data["additional_kwargs"];
    let calls = calls(data, more);
    message.insert("content".into(), content(&data["content"])?);
    if !calls.is_empty() {
        message.insert("tool_calls".into(), calls.into());
    }
    let texts = [
        ("tool_call_id", &data["tool_call_id"]),
        ("name", &data["name"]),
        ("reasoning_content", &more["reasoning_content"]),
        ("refusal", &more["refusal"]),
        ("model_name", &data["response_metadata"]["model_name"]),
        ("function_call", &more["function_call"]),
    ];
    for (field, value) in texts {
        if !value.is_null() {
            message.insert(field.into(), value.clone());
        }
    }
    if data["status"] == "error" {
        message.insert("is_error".into(), true.into());
    }
    let message = lenient::value(&message.into())?;
    let time = time_of(data).or_else(|| time_of(more));
    transcript.messages.push(message.dated(time.as_deref()));
    Ok(())
}

/// The calls as `LangChain` parsed them, or as the provider wrote them if it parsed none.
fn calls(data: &Value, more: &Value) -> Vec<Value> {
    let fields = ["tool_calls", "invalid_tool_calls"];
    let read = fields.iter().filter_map(|field| data[*field].as_array());
    let read = read.flatten().map(|call| {
        let arguments = match &call["args"] {
            Value::String(text) => text.clone(),
            Value::Null => "{}".into(),
            args => args.to_string(),
        };
        json!({
            "id": named(call, "id"),
            "type": "function",
            "function": {"name": named(call, "name"), "arguments": arguments},
        })
    });
    let read: Vec<Value> = read.collect();
    if read.is_empty() {
        return more["tool_calls"].as_array().cloned().unwrap_or_default();
    }
    read
}

/// The content without its calls, which are stored separately as well.
fn content(content: &Value) -> Result<Value> {
    let blocks = match content {
        Value::Array(blocks) => blocks,
        Value::String(_) => return Ok(content.clone()),
        Value::Null => return Ok("".into()),
        _ => return Err(invalid("there is no content")),
    };
    let mut parts = Vec::new();
    for block in blocks {
        match named(block, "type") {
            "" if block.is_string() => parts.push(json!({"type": "text", "text": block})),
            "" => return Err(invalid("a part without a type")),
            "tool_use" | "tool_call" | "function_call" | "input_json_delta" => {}
            "image_url" if block["image_url"].is_string() => {
                parts.push(json!({"type": "image_url", "image_url": {"url": block["image_url"]}}));
            }
            "text" => parts.push(json!({"type": "text", "text": block["text"]})),
            _ => parts.push(block.clone()),
        }
    }
    Ok(anthropic::joined(parts.into()))
}
