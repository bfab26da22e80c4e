//! The rules of each provider for the order and shape of a conversation, as documented, read
//! from the JSON alone.

use std::collections::HashSet;

use serde_json::Value;

/// A broken rule.
pub(super) type Broken = Result<(), String>;

fn broken<T>(what: impl Into<String>) -> Result<T, String> {
    Err(what.into())
}

fn check(holds: bool, what: &str) -> Broken {
    if holds { Ok(()) } else { broken(what) }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn list<'a>(value: &'a Value, what: &str) -> Result<&'a [Value], String> {
    value
        .as_array()
        .map(Vec::as_slice)
        .ok_or(format!("{what} is no list: {value}"))
}

fn is_blank(text: &str) -> bool {
    text.trim().is_empty()
}

fn is_word(name: &str, more: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || "_-".contains(c) || more.contains(c);
    (1..=64).contains(&name.len()) && name.chars().all(fits)
}

fn is_object(json: &str) -> bool {
    matches!(serde_json::from_str(json), Ok(Value::Object(_)))
}

/// The messages of chat completions.
pub(super) fn openai(messages: &Value) -> Broken {
    let mut owed: Vec<String> = Vec::new();
    for message in list(messages, "messages")? {
        let role = text(&message["role"]);
        if role == "tool" {
            let id = text(&message["tool_call_id"]);
            let asked = owed.iter().position(|owed| owed == id);
            let asked = asked.ok_or(format!("a result that nothing asked for: {id:?}"))?;
            owed.remove(asked);
            openai_content(message, &["text"])?;
            continue;
        }
        check(owed.is_empty(), "something between calls and results")?;
        let parts: &[&str] = match role {
            "system" | "developer" => &["text"],
            "user" => &["text", "image_url", "input_audio", "file"],
            "assistant" => &["text", "refusal"],
            other => return broken(format!("the role {other:?}")),
        };
        let calls = message.get("tool_calls");
        let is_aloud = message["audio"]["id"].is_string();
        if calls.is_none() && !is_aloud || !message["content"].is_null() {
            openai_content(message, parts)?;
            let said = message["content"].as_str();
            check(!said.is_some_and(is_blank), "a blank message")?;
        }
        let Some(calls) = calls else { continue };
        check(role == "assistant", "calls of others")?;
        let calls = list(calls, "tool_calls")?;
        check(!calls.is_empty(), "no calls")?;
        for call in calls {
            let id = text(&call["id"]);
            check(
                (1..=40).contains(&id.chars().count()),
                "the length of an id",
            )?;
            check(
                !owed.iter().any(|owed| owed == id),
                "an id twice in a message",
            )?;
            owed.push(id.to_owned());
            let called = &call[text(&call["type"])];
            check(is_word(text(&called["name"]), ""), "the name of a function")?;
            if call["type"] == "function" {
                check(
                    is_object(text(&called["arguments"])),
                    "arguments that are not JSON",
                )?;
            } else {
                check(call["type"] == "custom", "a call of an unknown type")?;
                check(called["input"].is_string(), "a custom call without input")?;
            }
        }
    }
    check(owed.is_empty(), "calls without results")
}

fn openai_content(message: &Value, types: &[&str]) -> Broken {
    match &message["content"] {
        Value::String(_) => Ok(()),
        Value::Array(parts) => {
            check(!parts.is_empty(), "an empty list of parts")?;
            for part in parts {
                let kind = text(&part["type"]);
                check(
                    types.contains(&kind),
                    &format!("a {kind} part of {}", message["role"]),
                )?;
                check(!part[kind].is_null(), "a part without what it is")?;
                check(
                    kind != "refusal" || parts.len() == 1,
                    "a refusal beside others",
                )?;
                if part["file"]["file_data"].is_string() {
                    check(
                        part["file"]["filename"].is_string(),
                        "a file without a name",
                    )?;
                }
                if kind == "text" {
                    check(
                        !is_blank(text(&part["text"])) || parts.len() == 1,
                        "a blank part",
                    )?;
                }
            }
            Ok(())
        }
        other => broken(format!("the content {other}")),
    }
}

/// The items of responses.
pub(super) fn responses(items: &Value) -> Broken {
    let items = list(items, "items")?;
    let mut owed: HashSet<&str> = HashSet::new();
    let (mut all, mut thought) = (HashSet::new(), HashSet::new());
    let mut are_answered = false;
    for (at, item) in items.iter().enumerate() {
        match text(&item["type"]) {
            "message" => {
                check(owed.is_empty(), "a message between calls and outputs")?;
                responses_message(item)?;
            }
            "reasoning" => {
                check(owed.is_empty(), "reasoning between calls and outputs")?;
                check(
                    item["id"].is_string() && item["summary"].is_array(),
                    "bare reasoning",
                )?;
                check(thought.insert(text(&item["id"])), "reasoning twice")?;
                let next = items.get(at + 1);
                let follows = next.is_some_and(|next| match text(&next["type"]) {
                    "message" => next["role"] == "assistant",
                    kind => matches!(kind, "reasoning" | "function_call" | "custom_tool_call"),
                });
                check(follows, "reasoning without the item that it led to")?;
            }
            kind @ ("function_call" | "custom_tool_call") => {
                check(owed.is_empty() || !are_answered, "a call among outputs")?;
                are_answered = false;
                let id = text(&item["call_id"]);
                check(
                    (1..=64).contains(&id.chars().count()),
                    "the length of an id",
                )?;
                check(all.insert(id), "an id twice")?;
                owed.insert(id);
                check(is_word(text(&item["name"]), ""), "the name of a function")?;
                if kind == "function_call" {
                    check(
                        is_object(text(&item["arguments"])),
                        "arguments that are not JSON",
                    )?;
                } else {
                    check(item["input"].is_string(), "a custom call without input")?;
                }
            }
            "function_call_output" | "custom_tool_call_output" => {
                are_answered = true;
                check(
                    owed.remove(text(&item["call_id"])),
                    "an output that nothing asked for",
                )?;
                if !item["output"].is_string() {
                    responses_parts(
                        &item["output"],
                        &["input_text", "input_image", "input_file"],
                    )?;
                }
            }
            other => return broken(format!("an item of the type {other:?}")),
        }
    }
    check(owed.is_empty(), "calls without outputs")
}

fn responses_message(item: &Value) -> Broken {
    if let Some(said) = item["content"].as_str() {
        return check(!is_blank(said), "a blank message");
    }
    match text(&item["role"]) {
        "assistant" => {
            check(
                text(&item["id"]).starts_with("msg"),
                "an output message without an id",
            )?;
            check(
                item["status"] == "completed",
                "an output message without a status",
            )?;
            responses_parts(&item["content"], &["output_text", "refusal"])
        }
        "user" => responses_parts(
            &item["content"],
            &["input_text", "input_image", "input_file"],
        ),
        "system" | "developer" => responses_parts(&item["content"], &["input_text"]),
        other => broken(format!("the role {other:?}")),
    }
}

fn responses_parts(content: &Value, types: &[&str]) -> Broken {
    let parts = list(content, "content")?;
    check(!parts.is_empty(), "an empty list of parts")?;
    for part in parts {
        check(
            types.contains(&text(&part["type"])),
            &format!("a part {}", part["type"]),
        )?;
        check(!part["text"].as_str().is_some_and(is_blank), "a blank part")?;
    }
    Ok(())
}

/// What Anthropic takes.
pub(super) fn anthropic(request: &Value) -> Broken {
    match &request["system"] {
        Value::Null => {}
        Value::String(prompt) => check(!is_blank(prompt), "a blank system prompt")?,
        blocks => {
            for block in list(blocks, "system")? {
                check(
                    !is_blank(text(&block["text"])),
                    "a blank block of the system",
                )?;
            }
        }
    }
    let messages = list(&request["messages"], "messages")?;
    let mut ids = HashSet::new();
    let mut owed: Vec<&str> = Vec::new();
    for (at, message) in messages.iter().enumerate() {
        let role = if at % 2 == 0 { "user" } else { "assistant" };
        check(
            message["role"] == role,
            &format!("message {at} is not the {role}'s"),
        )?;
        let content = list(&message["content"], "content")?;
        check(!content.is_empty(), "a message without content")?;
        let (mut has_text, mut has_calls) = (false, false);
        for block in content {
            anthropic_block(block, role)?;
            match text(&block["type"]) {
                "tool_result" => {
                    check(!has_text, "a result after other blocks")?;
                    let id = text(&block["tool_use_id"]);
                    let asked = owed.iter().position(|owed| *owed == id);
                    owed.remove(asked.ok_or("a result that nothing asked for")?);
                }
                "tool_use" => {
                    has_calls = true;
                    let id = text(&block["id"]);
                    check(
                        is_word(id, "") && ids.insert(id),
                        "an id that is refused, or twice",
                    )?;
                    owed.push(id);
                }
                _ => {
                    check(!has_calls, "a block after a call")?;
                    has_text = true;
                }
            }
        }
        check(
            role == "assistant" || owed.is_empty(),
            "calls without results",
        )?;
        let last = content.last().map_or("", |block| text(&block["type"]));
        check(
            !matches!(last, "thinking" | "redacted_thinking"),
            "thinking at the end of a message",
        )?;
    }
    check(owed.is_empty(), "calls without results at the end")?;
    if let Some(last) = messages.last().filter(|last| last["role"] == "assistant") {
        let end = list(&last["content"], "content")?.last();
        let end = end.map_or("", |block| text(&block["text"]));
        check(end == end.trim_end(), "white space at the end")?;
    }
    let hints = request.to_string().matches("\"cache_control\"").count();
    check(hints <= 4, "more than four hints for the cache")
}

fn anthropic_block(block: &Value, role: &str) -> Broken {
    match (text(&block["type"]), role) {
        ("text", _) => check(!is_blank(text(&block["text"])), "a blank text"),
        ("image" | "document", "user") => {
            let source = &block["source"];
            if source["type"] == "url" {
                return check(text(&source["url"]).starts_with("https://"), "a link");
            }
            let kind = text(&source["media_type"]);
            let pictures = ["image/png", "image/jpeg", "image/gif", "image/webp"];
            let is_known = match text(&block["type"]) {
                "image" => pictures.contains(&kind),
                _ => matches!(kind, "application/pdf" | "text/plain"),
            };
            check(is_known && !text(&source["data"]).is_empty(), "a source")
        }
        ("thinking", "assistant") => check(
            block["thinking"].is_string() && !text(&block["signature"]).is_empty(),
            "thinking without signature",
        ),
        ("redacted_thinking", "assistant") => check(block["data"].is_string(), "no data"),
        ("tool_use", "assistant") => {
            check(block["input"].is_object(), "an input that is no object")?;
            check(is_word(text(&block["name"]), ""), "the name of a tool")
        }
        ("tool_result", "user") => match &block["content"] {
            Value::Null | Value::String(_) => Ok(()),
            content => {
                let content = list(content, "the content of a result")?;
                check(!content.is_empty(), "a result with an empty list")?;
                content.iter().try_for_each(|block| {
                    let kind = text(&block["type"]);
                    check(
                        matches!(kind, "text" | "image" | "document"),
                        "a block in a result",
                    )?;
                    anthropic_block(block, "user")
                })
            }
        },
        (kind, role) => broken(format!("a block {kind:?} of the {role}'s")),
    }
}

/// What Gemini takes.
pub(super) fn gemini(request: &Value) -> Broken {
    if let Some(prompt) = request.get("systemInstruction") {
        check(
            !list(&prompt["parts"], "parts")?.is_empty(),
            "an empty prompt",
        )?;
    }
    let contents = list(&request["contents"], "contents")?;
    let mut asked: Option<Vec<(&str, &str)>> = None;
    for (at, content) in contents.iter().enumerate() {
        let role = text(&content["role"]);
        check(matches!(role, "user" | "model"), "a role")?;
        check(at > 0 || role == "user", "the user is not first")?;
        let parts = list(&content["parts"], "parts")?;
        check(!parts.is_empty(), "a content without parts")?;
        let (mut calls, mut results) = (Vec::new(), Vec::new());
        for (place, part) in parts.iter().enumerate() {
            let kinds = [
                "text",
                "inlineData",
                "fileData",
                "functionCall",
                "functionResponse",
            ];
            let has = kinds.iter().filter(|kind| part.get(kind).is_some()).count();
            check(has == 1, &format!("a part of {has} kinds"))?;
            for medium in ["inlineData", "fileData"] {
                let picture = text(&part[medium]["mimeType"]).strip_prefix("image/");
                let is_taken = |kind| ["png", "jpeg", "webp", "heic", "heif"].contains(&kind);
                check(picture.is_none_or(is_taken), "a picture of another type")?;
            }
            check(!part["text"].as_str().is_some_and(is_blank), "a blank text")?;
            let named =
                |value: &'static str| (text(&part[value]["id"]), text(&part[value]["name"]));
            if part.get("functionCall").is_some() {
                check(part["functionCall"]["args"].is_object(), "arguments")?;
                let is_first = calls.is_empty();
                check(
                    !is_first || part["thoughtSignature"].is_string(),
                    "no signature",
                )?;
                calls.push(named("functionCall"));
            } else if part.get("functionResponse").is_some() {
                check(
                    part["functionResponse"]["response"].is_object(),
                    "a response",
                )?;
                check(results.len() == place, "a response after other parts")?;
                results.push(named("functionResponse"));
            }
            check(
                part.get("functionCall").is_some() || calls.is_empty(),
                "a part after a call",
            )?;
        }
        check(calls.is_empty() || role == "model", "calls of others")?;
        let follows_user = at > 0 && contents[at - 1]["role"] == "user";
        check(
            calls.is_empty() || follows_user,
            "calls that do not follow the user",
        )?;
        for (_, name) in &calls {
            let first = name.chars().next().unwrap_or('-');
            check(
                is_word(name, ".:") && (first.is_ascii_alphabetic() || first == '_'),
                "a name",
            )?;
        }
        match asked.take() {
            Some(asked) => check(asked == results, "not a response for each call, in order")?,
            None => check(results.is_empty(), "responses that nothing asked for")?,
        }
        if !results.is_empty() {
            check(results.len() == parts.len(), "responses among other parts")?;
        }
        asked = Some(calls).filter(|calls| !calls.is_empty());
    }
    check(asked.is_none(), "calls without responses at the end")
}
