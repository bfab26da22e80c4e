//! Anthropic's messages API.

use serde_json::{Map, Value, json};

use super::{at_place, invalid, list, parts, role};
use crate::Message;
use crate::error::Result;

pub(super) fn write(messages: &[&Message]) -> Value {
    let mut system = Vec::new();
    let mut sides: Vec<(&str, Vec<Value>)> = Vec::new();
    for message in messages {
        if matches!(message.role(), "system" | "developer") {
            system.push(message.text().into_owned());
            continue;
        }
        let side = if message.role() == "assistant" {
            "assistant"
        } else {
            "user"
        };
        let blocks = blocks(message);
        match sides.last_mut() {
            Some((last, all)) if *last == side => all.extend(blocks),
            _ if blocks.is_empty() => {}
            _ => sides.push((side, blocks)),
        }
    }
    let turn = |(role, mut content): (&str, Vec<Value>)| {
        // Results are first in a turn, calls last: the API refuses others.
        content.sort_by_key(|block| match block["type"].as_str() {
            Some("tool_result") => 0,
            Some("tool_use") => 2,
            _ => 1,
        });
        json!({"role": role, "content": content})
    };
    let messages: Value = sides.into_iter().map(turn).collect();
    let mut object = Map::new();
    if !system.is_empty() {
        object.insert("system".into(), system.join("\n\n").into());
    }
    object.insert("messages".into(), messages);
    object.into()
}

fn blocks(message: &Message) -> Vec<Value> {
    let said = content(message);
    if message.role() == "tool" {
        let id = message.tool_call_id();
        return vec![json!({"type": "tool_result", "tool_use_id": id, "content": said})];
    }
    let calls = message.tool_calls().iter().map(|call| {
        let function = call.function.clone().unwrap_or_default();
        json!({
            "type": "tool_use",
            "id": call.id,
            "name": function.name,
            "input": input(&function.arguments),
        })
    });
    said.into_iter().chain(calls).collect()
}

/// What a model wrote need not be JSON, but an input is an object.
fn input(arguments: &str) -> Value {
    match serde_json::from_str(arguments) {
        Ok(input @ Value::Object(_)) => input,
        _ if arguments.trim().is_empty() => json!({}),
        _ => json!({"arguments": arguments}),
    }
}

fn content(message: &Message) -> Vec<Value> {
    let Some(parts) = parts(message) else {
        let text = message.text();
        return text_block(&text).into_iter().collect();
    };
    let block = |part: &Value| {
        if part["type"] == "text" {
            return text_block(part["text"].as_str()?);
        }
        let url = part["image_url"]["url"].as_str()?;
        let data = url
            .strip_prefix("data:")
            .and_then(|data| data.split_once(";base64,"));
        let source = match data {
            Some((kind, data)) => json!({"type": "base64", "media_type": kind, "data": data}),
            None => json!({"type": "url", "url": url}),
        };
        Some(json!({"type": "image", "source": source}))
    };
    parts.iter().filter_map(block).collect()
}

/// The API refuses a blank one.
fn text_block(text: &str) -> Option<Value> {
    (!text.trim().is_empty()).then(|| json!({"type": "text", "text": text}))
}

pub(super) fn read(value: &Value) -> Result<Vec<Message>> {
    let mut messages = Vec::new();
    let system = texts(value.get("system").unwrap_or(&Value::Null));
    if !system.is_empty() {
        messages.push(Message::system(system));
    }
    for (at, turn) in list(value)?.iter().enumerate() {
        let read = read_turn(turn).map_err(|error| at_place("message", at, &error))?;
        messages.extend(read);
    }
    Ok(messages)
}

/// The results of tools that are in one message are messages of their own, before what the
/// user says with them.
fn read_turn(turn: &Value) -> Result<Vec<Message>> {
    let role = role(turn)?;
    let blocks = match &turn["content"] {
        Value::String(text) => return Ok(vec![Message::new(role, text)]),
        Value::Array(blocks) => blocks,
        _ => return Err(invalid("there is no content")),
    };
    let (mut results, mut parts, mut calls) = (Vec::new(), Vec::new(), Vec::new());
    let mut reasoning = String::new();
    for block in blocks {
        match block["type"].as_str().unwrap_or_default() {
            "text" => parts.push(json!({"type": "text", "text": block["text"]})),
            "image" => parts.push(image(&block["source"])?),
            "thinking" => reasoning.push_str(block["thinking"].as_str().unwrap_or_default()),
            "redacted_thinking" => {}
            "tool_use" => calls.push(call(block)),
            "tool_result" => {
                let id = block["tool_use_id"].as_str().unwrap_or_default();
                results.push(Message::tool(id, result(&block["content"])?));
            }
            other => return Err(invalid(format!("a block of the type {other:?}"))),
        }
    }
    if parts.is_empty() && calls.is_empty() && reasoning.is_empty() {
        return Ok(results);
    }
    let mut message = json!({"role": role, "content": joined(parts)});
    if !calls.is_empty() {
        message["tool_calls"] = calls.into();
    }
    if !reasoning.is_empty() {
        message["reasoning_content"] = reasoning.into();
    }
    results.push(Message::from_json(message.to_string().as_bytes())?);
    Ok(results)
}

/// What a tool said; not what it showed, for which no message has room.
fn result(content: &Value) -> Result<String> {
    let mut blocks = content.as_array().into_iter().flatten();
    match blocks.find(|block| block["type"] != "text") {
        Some(block) => Err(invalid(format!(
            "a result with a block of the type {}",
            block["type"]
        ))),
        None => Ok(texts(content)),
    }
}

/// PicoClaw reads a content that is text.
fn joined(parts: Vec<Value>) -> Value {
    if parts.iter().all(|part| part["type"] == "text") {
        texts(&parts.into()).into()
    } else {
        parts.into()
    }
}

fn call(block: &Value) -> Value {
    json!({
        "id": block["id"],
        "type": "function",
        "function": {"name": block["name"], "arguments": block["input"].to_string()},
    })
}

fn image(source: &Value) -> Result<Value> {
    let url = match source["type"].as_str().unwrap_or_default() {
        "url" => source["url"].as_str().map(String::from),
        "base64" => (|| {
            let kind = source["media_type"].as_str()?;
            Some(format!("data:{kind};base64,{}", source["data"].as_str()?))
        })(),
        _ => None,
    };
    let url = url.ok_or_else(|| invalid("an image without data or url"))?;
    Ok(json!({"type": "image_url", "image_url": {"url": url}}))
}

/// A text, or the texts of a list of blocks.
fn texts(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(blocks) => {
            let texts = blocks.iter().filter_map(|block| block["text"].as_str());
            texts.collect()
        }
        _ => String::new(),
    }
}
