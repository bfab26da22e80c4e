//! Gemini CLI: `tmp/<project>/chats/session-*.json`, one object, or `.jsonl`, where a changed
//! message is written again with the same id.

use std::collections::HashMap;

use serde_json::{Value, json};

use super::super::reading::{at_place, invalid};
use super::super::{gemini, lenient};
use super::transcript::{Transcript, named, records, time_of};
use crate::error::Result;
use crate::session_file::Message;

pub(super) fn read(text: &str, transcript: &mut Transcript) -> Result<()> {
    let whole = serde_json::from_str::<Value>(text);
    let mut messages: Vec<(usize, Value)> = Vec::new();
    let mut places: HashMap<String, usize> = HashMap::new();
    match whole.as_ref().map(|value| value["messages"].as_array()) {
        Ok(Some(list)) => {
            transcript.id = whole
                .as_ref()
                .ok()
                .and_then(|value| value["sessionId"].as_str())
                .map(String::from);
            messages.extend(list.iter().cloned().enumerate());
        }
        _ => {
            for record in records(text) {
                let (at, record) = record?;
                if record["sessionId"].is_string() {
                    transcript.id = record["sessionId"].as_str().map(String::from);
                } else if record["type"].is_string() {
                    let id = record["id"].as_str().map(String::from);
                    if let Some(&place) = id.as_ref().and_then(|id| places.get(id)) {
                        messages[place].1 = record;
                    } else {
                        places.extend(id.map(|id| (id, messages.len())));
                        messages.push((at, record));
                    }
                } else {
                    transcript.skip("a record that is no message");
                }
            }
        }
    }
    for (at, message) in messages {
        take(&message, transcript).map_err(|error| at_place("message", at, &error))?;
    }
    Ok(())
}

fn take(message: &Value, transcript: &mut Transcript) -> Result<()> {
    let time = time_of(message);
    let dated = |said: Message| said.dated(time.as_deref());
    match named(message, "type") {
        "user" => {
            let said = content("user", &message["content"])?;
            transcript.messages.extend(said.into_iter().map(dated));
        }
        "gemini" => {
            let said = content("model", &message["content"])?;
            let mut said = said
                .into_iter()
                .next()
                .unwrap_or_else(|| Message::assistant(""));
            let thoughts = message["thoughts"].as_array();
            let thoughts = thoughts.into_iter().flatten();
            let thoughts = thoughts.map(|thought| {
                format!(
                    "{}\n{}",
                    named(thought, "subject"),
                    named(thought, "description")
                )
            });
            let thoughts = thoughts.collect::<Vec<_>>().join("\n");
            if !thoughts.is_empty() {
                said = said.with_reasoning(thoughts);
            }
            let mut results = Vec::new();
            for call in message["toolCalls"].as_array().into_iter().flatten() {
                let (id, name) = (named(call, "id"), named(call, "name"));
                let arguments = call
                    .get("args")
                    .map_or_else(|| "{}".into(), Value::to_string);
                said = said.with_tool_call(id, name, arguments);
                let parts = call["result"].as_array().into_iter().flatten();
                let is_error = matches!(named(call, "status"), "error" | "cancelled");
                let (responses, beside): (Vec<&Value>, Vec<&Value>) =
                    parts.partition(|part| part.get("functionResponse").is_some());
                let mut beside = &*beside;
                for part in responses {
                    // Media of a result are within it, or beside the first result.
                    let beside = std::mem::take(&mut beside);
                    let result = gemini::read_result(&part["functionResponse"], beside)?;
                    let mark = is_error.then_some("true");
                    let result = result.answering(id);
                    results.push(match mark {
                        Some(_) => result.with_field("is_error", mark),
                        None => result,
                    });
                }
            }
            let said = said.with_model_name(named(message, "model"));
            transcript.messages.push(dated(said));
            transcript.messages.extend(results.into_iter().map(dated));
        }
        "" => return Err(invalid("there is no type")),
        other => transcript.skip(format!("a record {other:?}")),
    }
    Ok(())
}

/// A content: a text, a part, or parts.
fn content(role: &str, content: &Value) -> Result<Vec<Message>> {
    let parts = match content {
        Value::String(text) => {
            let role = if role == "model" { "assistant" } else { role };
            return Ok(vec![lenient::value(
                &json!({"role": role, "content": text}),
            )?]);
        }
        Value::Array(parts) => parts
            .iter()
            .map(|part| match part {
                Value::String(text) => json!({"text": text}),
                part => part.clone(),
            })
            .collect(),
        Value::Object(_) => vec![content.clone()],
        _ => return Err(invalid("there is no content")),
    };
    gemini::read_content(&json!({"role": role, "parts": parts}))
}
