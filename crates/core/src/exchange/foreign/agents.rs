//! `OpenClaw`, and other agents with pi's session files: `sessions/<id>.jsonl`, a record a line.

use serde_json::{Map, Value, json};

use super::super::reading::{at_place, invalid};
use super::super::{anthropic, lenient};
use super::transcript::{Transcript, named, records, time_of};
use crate::error::Result;
use crate::session_file::Message;

pub(super) fn read(text: &str, transcript: &mut Transcript) -> Result<()> {
    for record in records(text) {
        let (at, record) = record?;
        take(&record, transcript).map_err(|error| at_place("line", at, &error))?;
    }
    Ok(())
}

fn take(record: &Value, transcript: &mut Transcript) -> Result<()> {
    match named(record, "type") {
        "session" => transcript.id = record["id"].as_str().map(String::from),
        "message" => {
            let said = &record["message"];
            let time = time_of(record).or_else(|| time_of(said));
            let Some(message) = message(said)? else {
                transcript.skip(format!("a message of {:?}", named(said, "role")));
                return Ok(());
            };
            transcript.messages.push(message.dated(time.as_deref()));
        }
        "compaction" | "branch_summary" if !named(record, "summary").is_empty() => {
            let summary = summary(record).dated(time_of(record).as_deref());
            transcript.messages.push(summary);
        }
        "" => return Err(invalid("there is no type")),
        other => transcript.skip(format!("a record {other:?}")),
    }
    Ok(())
}

/// The summary of earlier messages.
fn summary(of: &Value) -> Message {
    Message::user(named(of, "summary")).with_field("isCompactSummary", Some("true"))
}

/// A command that the user ran, and its output, as pi presents them to a model.
fn command(run: &Value) -> Message {
    let output = match named(run, "output") {
        "" => String::from("(no output)"),
        output => format!("```\n{output}\n```"),
    };
    let end = match run["exitCode"].as_i64() {
        _ if run["cancelled"] == true => String::from("\n\n(command cancelled)"),
        None | Some(0) => String::new(),
        Some(code) => format!("\n\nCommand exited with code {code}"),
    };
    let text = format!("Ran `{}`\n{output}{end}", named(run, "command"));
    Message::user(text)
}

/// The message, if a model gets it.
fn message(message: &Value) -> Result<Option<Message>> {
    let role = match named(message, "role") {
        "" => return Err(invalid("there is no role")),
        "bashExecution" if message["excludeFromContext"] == true => return Ok(None),
        "bashExecution" => return Ok(Some(command(message))),
        "branchSummary" | "compactionSummary" => return Ok(Some(summary(message))),
        "toolResult" => "tool",
        "custom" => "user",
        role if message.get("content").is_none() && !matches!(role, "user" | "assistant") => {
            return Ok(None);
        }
        role => role,
    };
    let mut read = Map::new();
    read.insert("role".into(), role.into());
    let (mut parts, mut calls, mut thoughts) = (Vec::new(), Vec::new(), Vec::new());
    for block in message["content"].as_array().into_iter().flatten() {
        match named(block, "type") {
            "text" => parts.push(json!({"type": "text", "text": block["text"]})),
            "toolCall" => calls.push(json!({
                "id": named(block, "id"),
                "type": "function",
                "function": {"name": named(block, "name"), "arguments": block["arguments"].to_string()},
            })),
            "thinking" => thoughts.push(json!({
                "type": "thinking",
                "thinking": block["thinking"],
                "signature": block["thinkingSignature"],
            })),
            "image" => {
                let url = format!("data:{};base64,{}", named(block, "mimeType"), named(block, "data"));
                parts.push(json!({"type": "image_url", "image_url": {"url": url}}));
            }
            other => return Err(invalid(format!("a part of the type {other:?}"))),
        }
    }
    let content = match &message["content"] {
        Value::String(text) => text.clone().into(),
        _ => anthropic::joined(parts.into()),
    };
    read.insert("content".into(), content);
    if !calls.is_empty() {
        read.insert("tool_calls".into(), calls.into());
    }
    if !thoughts.is_empty() {
        let texts: String = thoughts
            .iter()
            .map(|thought| named(thought, "thinking"))
            .collect();
        read.insert("reasoning_content".into(), texts.into());
        read.insert("thinking_blocks".into(), thoughts.into());
    }
    for (field, from) in [("tool_call_id", "toolCallId"), ("model_name", "model")] {
        if message[from].is_string() {
            read.insert(field.into(), message[from].clone());
        }
    }
    if message["isError"] == true {
        read.insert("is_error".into(), true.into());
    }
    lenient::value(&read.into()).map(Some)
}
