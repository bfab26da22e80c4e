//! OpenAI's chat completions.

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::{at_place, invalid, json, parts, role};
use crate::error::Result;
use crate::{Message, ToolCall};

pub(super) fn write(messages: &[&Message]) -> Value {
    messages.iter().map(|each| message(each)).collect()
}

fn message(message: &Message) -> Value {
    let mut object = Map::new();
    object.insert("role".into(), message.role().into());
    let calls = message.tool_calls();
    // Only users show images.
    let content = match parts(message).filter(|_| message.role() == "user") {
        Some(parts) if !parts.is_empty() => parts.iter().filter_map(part).collect(),
        _ if message.text().is_empty() && !calls.is_empty() => Value::Null,
        _ => message.text().into(),
    };
    object.insert("content".into(), content);
    if !calls.is_empty() {
        object.insert("tool_calls".into(), calls.iter().map(call).collect());
    }
    if !message.tool_call_id().is_empty() {
        object.insert("tool_call_id".into(), message.tool_call_id().into());
    }
    object.into()
}

fn call(call: &ToolCall) -> Value {
    let function = call.function.clone().unwrap_or_default();
    json!({
        "id": call.id,
        "type": "function",
        "function": {"name": function.name, "arguments": function.arguments},
    })
}

/// A text or an image, with what the API knows of it.
fn part(part: &Value) -> Option<Value> {
    if let Some(text) = part["text"].as_str().filter(|_| part["type"] == "text") {
        return Some(json!({"type": "text", "text": text}));
    }
    let url = part["image_url"]["url"].as_str()?;
    Some(json!({"type": "image_url", "image_url": {"url": url}}))
}

/// PicoClaw's messages have the fields of OpenAI's, so that none is lost, known or not.
pub(super) fn read(text: &str) -> Result<Vec<Message>> {
    let object = || serde_json::from_str::<Request<'_>>(text).map(|request| request.messages);
    let messages: Vec<&RawValue> = match serde_json::from_str(text) {
        Ok(messages) => messages,
        Err(error) => object().map_err(|_| invalid(error.to_string()))?,
    };
    let read = |(at, message): (usize, &&RawValue)| {
        let read = json(message.get()).and_then(|value| {
            role(&value)?;
            Message::from_json(message.get().as_bytes())
        });
        read.map_err(|error| at_place("message", at, &error))
    };
    messages.iter().enumerate().map(read).collect()
}

/// The list may be a field of what is sent.
#[derive(Deserialize)]
struct Request<'a> {
    #[serde(borrow)]
    messages: Vec<&'a RawValue>,
}
