//! OpenAI's chat completions.

use serde_json::{Map, Value, json};

use super::{at_place, list, parts, role};
use crate::error::Result;
use crate::{Message, ToolCall};

pub(super) fn write(messages: &[Message]) -> Value {
    messages.iter().map(message).collect()
}

fn message(message: &Message) -> Value {
    let mut object = Map::new();
    object.insert("role".into(), message.role().into());
    let calls = message.tool_calls();
    let content = match parts(message) {
        Some(parts) => parts.into(),
        None if message.text().is_empty() && !calls.is_empty() => Value::Null,
        None => message.text().into(),
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

/// PicoClaw's messages have the fields of OpenAI's, so that none is lost, known or not.
pub(super) fn read(value: &Value) -> Result<Vec<Message>> {
    let messages = list(value)?.iter().enumerate();
    let read = |(at, message): (usize, &Value)| {
        let read = role(message).and_then(|_| Message::from_json(message.to_string().as_bytes()));
        read.map_err(|error| at_place("message", at, &error))
    };
    messages.map(read).collect()
}
