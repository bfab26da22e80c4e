//! Transcripts of other tools, as they keep them.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use sessionlog::backend::kit;
use sessionlog::{Error, Format, PartKind, Transcript};

use super::random::{MODELS, export, obeys};
use crate::support::{open, said, scratch};

pub(super) fn lines(records: &[Value]) -> String {
    let lines: Vec<_> = records.iter().map(Value::to_string).collect();
    lines.join("\n") + "\n"
}

/// What the text is found to be, read; every model accepts it.
fn found(text: &str, format: Format) -> Transcript {
    let read = Transcript::read(text, None).unwrap_or_else(|error| panic!("{format:?}: {error}"));
    assert_eq!(read.format, format, "{text}");
    assert_eq!(Transcript::read(text, Some(format)).unwrap(), read);
    let said: Vec<Value> = read
        .messages
        .iter()
        .map(|m| serde_json::to_value(m).unwrap())
        .collect();
    for (model, rules) in MODELS {
        obeys(
            rules,
            &export(&said, "", model.into()),
            format!("{format:?} for {model:?}"),
        );
    }
    read
}

fn claude(n: usize, more: &Value) -> Value {
    let mut record = json!({"uuid": format!("u{n}"), "sessionId": "s-1", "isSidechain": false,
        "timestamp": format!("2026-06-01T10:00:{n:02}.000Z")});
    record
        .as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    record
}

fn claude_session() -> Vec<Value> {
    let model = |id: &str, block: Value| {
        json!({"type": "assistant", "message": {"id": id, "type": "message",
        "role": "assistant", "model": "m-1", "content": [block]}})
    };
    vec![
        json!({"type": "summary", "summary": "Fix the parser", "leafUuid": "u9"}),
        claude(
            1,
            &json!({"type": "user", "message": {"role": "user", "content": "fix the parser"}}),
        ),
        claude(
            2,
            &model(
                "msg_1",
                json!({"type": "thinking", "thinking": "hm", "signature": "sig"}),
            ),
        ),
        claude(
            3,
            &model(
                "msg_1",
                json!({"type": "tool_use", "id": "toolu_1", "name": "Read", "input": {"file": "/x"}}),
            ),
        ),
        claude(
            4,
            &model(
                "msg_1",
                json!({"type": "tool_use", "id": "toolu_2", "name": "Task", "input": {}}),
            ),
        ),
        claude(
            5,
            &json!({"type": "user", "isSidechain": true, "agentId": "a7", "message": {"role": "user", "content": "look"}}),
        ),
        claude(
            6,
            &json!({"type": "assistant", "isSidechain": true, "parentUuid": "u5", "message": {"role": "assistant",
            "content": [{"type": "text", "text": "found"}]}}),
        ),
        claude(
            7,
            &json!({"type": "user", "message": {"role": "user", "content": [{"type": "tool_result",
            "tool_use_id": "toolu_1", "content": [{"type": "text", "text": "data"}, {"type": "image",
            "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}}]}]}}),
        ),
        claude(
            8,
            &json!({"type": "user", "message": {"role": "user", "content": [{"type": "tool_result",
            "tool_use_id": "toolu_2", "content": "found", "is_error": true}]}}),
        ),
        json!({"type": "file-history-snapshot", "messageId": "u8", "snapshot": {}}),
        claude(
            8,
            &json!({"type": "user", "message": {"role": "user", "content": "twice"}}),
        ),
        claude(
            9,
            &json!({"type": "user", "isCompactSummary": true, "message": {"role": "user", "content": "So far: …"}}),
        ),
        claude(10, &model("msg_2", json!({"type": "text", "text": "done"}))),
    ]
}

#[test]
fn claude_code_is_read_with_tools_pictures_subagents_and_compactions() {
    let read = found(&lines(&claude_session()), Format::ClaudeCode);
    assert_eq!(
        said(&read.messages),
        ["fix the parser", "", "data", "found", "So far: …", "done"]
    );
    assert_eq!(
        (read.id.as_deref(), read.title.as_deref()),
        (Some("s-1"), Some("Fix the parser"))
    );
    let call = &read.messages[1];
    assert_eq!(
        (call.tool_calls().len(), call.reasoning(), call.model_name()),
        (2, "hm", "m-1")
    );
    assert!(
        call.unknown_field("thinking_blocks")
            .unwrap()
            .contains("sig")
    );
    assert!(
        read.messages[2]
            .parts()
            .iter()
            .any(|part| part.kind() == PartKind::Image)
    );
    assert_eq!(read.messages[3].unknown_field("is_error"), Some("true"));
    assert_eq!(
        read.messages[4].unknown_field("isCompactSummary"),
        Some("true")
    );
    assert_eq!(read.created.as_deref(), Some("2026-06-01T10:00:01Z"));
    assert_eq!(read.updated.as_deref(), Some("2026-06-01T10:00:10Z"));
    assert_eq!(
        (
            said(&read.branches[0].messages),
            read.branches[0].id.as_deref()
        ),
        (vec!["look".to_owned(), "found".to_owned()], Some("a7"))
    );
    assert_eq!(
        read.skipped.iter().map(|(_, many)| many).sum::<usize>(),
        2,
        "{:?}",
        read.skipped
    );
    // A file that has only a subagent is that conversation.
    let side: Vec<Value> = claude_session().drain(5..7).collect();
    let side = found(&lines(&side), Format::ClaudeCode);
    assert_eq!(said(&side.messages), ["look", "found"]);
    assert_eq!(side.id.as_deref(), Some("s-1:agent:a7"));
}

#[test]
fn codex_is_read_from_its_items_and_from_events_that_no_item_repeats() {
    let record = |kind: &str, payload: Value| json!({"timestamp": "2026-06-01T10:00:01.000Z", "type": kind, "payload": payload});
    let records = [
        record(
            "session_meta",
            json!({"id": "0-1", "cwd": "/p", "cli_version": "0.1"}),
        ),
        record(
            "response_item",
            json!({"type": "message", "role": "user", "content": [{"type": "input_text", "text": "fix it"}]}),
        ),
        record(
            "event_msg",
            json!({"type": "user_message", "message": "fix it"}),
        ),
        record("turn_context", json!({"cwd": "/p"})),
        record(
            "response_item",
            json!({"type": "reasoning", "summary": [], "content": null, "encrypted_content": "gAAAA"}),
        ),
        record(
            "response_item",
            json!({"type": "function_call", "name": "shell", "arguments": "{\"command\":[\"ls\"]}", "call_id": "call_1"}),
        ),
        record(
            "response_item",
            json!({"type": "function_call_output", "call_id": "call_1", "output": "ok"}),
        ),
        record(
            "response_item",
            json!({"type": "custom_tool_call", "name": "apply_patch", "input": "*** Begin", "call_id": "call_2"}),
        ),
        record(
            "response_item",
            json!({"type": "custom_tool_call_output", "call_id": "call_2", "output": "{\"output\":\"done\"}"}),
        ),
        record("compacted", json!({"message": "so far"})),
        record("event_msg", json!({"type": "token_count", "info": null})),
        record(
            "event_msg",
            json!({"type": "agent_message", "message": "done"}),
        ),
    ];
    let read = found(&lines(&records), Format::Codex);
    assert_eq!(
        said(&read.messages),
        [
            "fix it",
            "",
            "ok",
            "",
            "{\"output\":\"done\"}",
            "so far",
            "done"
        ]
    );
    assert_eq!(read.id.as_deref(), Some("0-1"));
    assert!(
        read.messages
            .iter()
            .all(|m| m.created_at() == Some("2026-06-01T10:00:01Z"))
    );
    let bare = [
        json!({"id": "0-2", "timestamp": "2025-05-01T10:00:00Z", "instructions": null}),
        json!({"record_type": "state"}),
        json!({"type": "message", "role": "user", "content": [{"type": "input_text", "text": "old"}]}),
    ];
    let read = found(&lines(&bare), Format::Codex);
    assert_eq!(
        (said(&read.messages), read.id.as_deref()),
        (vec!["old".to_owned()], Some("0-2"))
    );
}

#[test]
fn items_of_responses_are_read_as_a_list_and_as_lines() {
    let items = [
        json!({"role": "user", "content": "2+2?"}),
        json!({"id": "rs_1", "type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "think"}]}),
        json!({"type": "function_call", "call_id": "c", "name": "add", "arguments": "{}"}),
        json!({"type": "function_call_output", "call_id": "c", "output": "4"}),
        json!({"id": "msg_1", "type": "message", "role": "assistant", "status": "completed",
            "content": [{"type": "output_text", "text": "4", "annotations": []}]}),
    ];
    for text in [
        lines(&items),
        json!(items).to_string(),
        json!({"input": items}).to_string(),
    ] {
        let read = found(&text, Format::OpenAiResponses);
        assert_eq!(said(&read.messages), ["2+2?", "", "4", "4"]);
        assert_eq!(read.messages[1].reasoning(), "think");
    }
}

#[test]
fn gemini_cli_langchain_openclaw_and_older_picoclaw_are_read() {
    let time = "2026-06-01T10:00:00.000Z";
    let gemini = json!({"sessionId": "g1", "projectHash": "x", "startTime": time, "messages": [
        {"id": "1", "timestamp": time, "type": "user", "content": "hi"},
        {"id": "2", "timestamp": time, "type": "gemini", "content": "", "model": "gemini-3",
            "thoughts": [{"subject": "Plan", "description": "read"}],
            "toolCalls": [{"id": "t", "name": "read_file", "args": {"p": 1}, "status": "success", "result": [
                {"functionResponse": {"id": "t", "name": "read_file", "response": {"output": "data"}}}]}]},
        {"id": "3", "timestamp": time, "type": "info", "content": "updated"},
        {"id": "4", "timestamp": time, "type": "gemini", "content": [{"text": "done"}]}]});
    let read = found(&gemini.to_string(), Format::GeminiCli);
    assert_eq!(said(&read.messages), ["hi", "", "data", "done"]);
    assert_eq!(read.messages[1].reasoning(), "Plan\nread");

    let dicts = json!([
        {"type": "human", "data": {"content": "hi", "additional_kwargs": {}, "type": "human"}},
        {"type": "ai", "data": {"content": [{"type": "text", "text": "I look"}, {"type": "tool_use", "id": "t", "name": "f", "input": {}}],
            "tool_calls": [{"name": "f", "args": {"a": 1}, "id": "t", "type": "tool_call"}]}},
        {"type": "tool", "data": {"content": "1", "tool_call_id": "t", "status": "error"}},
        {"lc": 1, "type": "constructor", "id": ["langchain", "schema", "messages", "AIMessage"], "kwargs": {"content": "ok"}},
    ]);
    let read = found(&dicts.to_string(), Format::LangChain);
    assert_eq!(said(&read.messages), ["hi", "I look", "1", "ok"]);
    assert_eq!(read.messages[1].tool_calls()[0].id, "t");
    assert_eq!(
        found(&lines(dicts.as_array().unwrap()), Format::LangChain),
        read
    );

    let claw = [
        json!({"type": "session", "version": 3, "id": "o1", "timestamp": time}),
        json!({"type": "message", "id": "1", "timestamp": time, "message": {"role": "user", "content": [{"type": "text", "text": "hi"}]}}),
        json!({"type": "message", "id": "2", "timestamp": time, "message": {"role": "assistant", "content": [
            {"type": "thinking", "thinking": "hm", "thinkingSignature": "s"},
            {"type": "toolCall", "id": "t", "name": "f", "arguments": {}}]}}),
        json!({"type": "message", "id": "3", "timestamp": time, "message": {"role": "toolResult", "toolCallId": "t",
            "content": [{"type": "text", "text": "1"}, {"type": "image", "data": "AAAA", "mimeType": "image/png"}], "isError": false}}),
        json!({"type": "model_change", "id": "4"}),
    ];
    let read = found(&lines(&claw), Format::OpenClaw);
    assert_eq!(said(&read.messages), ["hi", "", "1"]);

    let older = json!({"key": "telegram:9", "messages": [{"role": "user", "content": "hi"}], "summary": "s",
        "created": "2024-01-01T00:00:00Z", "updated": "2024-02-01T00:00:00Z"});
    let read = found(&older.to_string(), Format::Picoclaw);
    assert_eq!(
        (read.id.as_deref(), &*read.summary),
        (Some("telegram:9"), "s")
    );
    assert_eq!(read.updated.as_deref(), Some("2024-02-01T00:00:00Z"));
}

#[test]
fn items_that_are_no_messages_are_counted_and_the_last_message_is_not_lost() {
    let items = [
        json!({"role": "user", "content": "q"}),
        json!({"type": "web_search_call", "id": "ws_1", "status": "completed"}),
        json!({"type": "web_search_call", "id": "ws_2", "status": "completed"}),
        json!({"type": "mcp_list_tools", "id": "mcp_1", "tools": []}),
        json!({"type": "compaction", "encrypted_content": "gAAAA"}),
        json!({"type": "item_reference", "id": "msg_0"}),
        json!({"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "a"}]}),
    ];
    let read = found(&json!(items).to_string(), Format::OpenAiResponses);
    assert_eq!(said(&read.messages), ["q", "a"]);
    let skipped: Vec<_> = read
        .skipped
        .iter()
        .map(|(what, many)| (&**what, *many))
        .collect();
    let once = |kind| (kind, 1);
    assert_eq!(
        skipped,
        [
            ("an item \"web_search_call\"", 2),
            once("an item \"mcp_list_tools\""),
            once("an item \"compaction\""),
            once("an item \"item_reference\""),
        ]
    );
    // As deep as JSON is read, and in a message too deep.
    let deep = format!("{}{}", "[".repeat(126), "]".repeat(126));
    let item =
        |kind: &str| format!("{{\"type\":\"{kind}\",\"id\":\"1\",\"summary\":[],\"x\":{deep}}}");
    let read = |kind| Transcript::read(&item(kind), Some(Format::OpenAiResponses));
    assert_eq!(read("compaction").unwrap().skipped.len(), 1);
    let refused = read("reasoning");
    assert!(refused.is_err(), "{refused:?}");
}

#[test]
fn commands_and_summaries_of_pi_are_what_the_user_tells() {
    let message = |message: Value| json!({"type": "message", "timestamp": 1, "message": message});
    let records = [
        json!({"type": "session", "version": 3, "id": "o1"}),
        message(json!({"role": "user", "content": "hi"})),
        message(
            json!({"role": "bashExecution", "command": "ls", "output": "README", "exitCode": 2}),
        ),
        message(
            json!({"role": "bashExecution", "command": "env", "output": "KEY", "excludeFromContext": true}),
        ),
        message(json!({"role": "branchSummary", "summary": "we branched", "fromId": "1"})),
        message(json!({"role": "compactionSummary", "summary": "so far", "tokensBefore": 7})),
        message(json!({"role": "weather", "sky": "blue"})),
    ];
    let read = found(&lines(&records), Format::OpenClaw);
    let ran = "Ran `ls`\n```\nREADME\n```\n\nCommand exited with code 2";
    assert_eq!(said(&read.messages), ["hi", ran, "we branched", "so far"]);
    assert!(read.messages.iter().all(|message| message.role() == "user"));
    assert_eq!(
        read.messages[3].unknown_field("isCompactSummary"),
        Some("true")
    );
    let skipped: usize = read.skipped.iter().map(|(_, many)| many).sum();
    assert_eq!(skipped, 2, "{:?}", read.skipped);
}

#[test]
fn what_a_tool_showed_to_gemini_cli_is_a_part_of_its_result() {
    let picture = |data: &str| json!({"inlineData": {"mimeType": "image/png", "data": data}});
    let response = json!({"id": "t", "name": "shot", "response": {"output": "see"},
        "parts": [picture("AAAA")]});
    let session = json!({"sessionId": "g1", "projectHash": "x", "messages": [
        {"type": "user", "content": "shoot"},
        {"type": "gemini", "content": "", "toolCalls": [{"id": "t", "name": "shot", "args": {},
            "status": "success", "result": [{"functionResponse": response}, picture("BBBB")]}]}]});
    let read = found(&session.to_string(), Format::GeminiCli);
    let parts = read.messages[2].parts();
    let shown: Vec<_> = parts
        .iter()
        .map(|part| (part.kind(), part.text()))
        .collect();
    assert_eq!(
        shown,
        [
            (PartKind::Text, "see"),
            (PartKind::Image, "data:image/png;base64,AAAA"),
            (PartKind::Image, "data:image/png;base64,BBBB"),
        ]
    );
}

#[test]
fn our_own_lines_are_found_to_be_lines_whatever_parts_they_have() {
    let parts = [
        json!({"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "x"}}),
        json!({"type": "thinking", "thinking": "hm", "signature": "s"}),
        json!({"type": "tool_use", "id": "t", "name": "f", "input": {}}),
        json!({"type": "input_file", "file_id": "file-1"}),
    ];
    let mut all = Vec::new();
    for part in parts {
        let line = json!({"role": "assistant", "created_at": "2026-06-01T10:00:00Z",
            "content": [{"type": "text", "text": "a"}, part]});
        all.push(line.clone());
        let text = lines(&[line]);
        let read = Transcript::read(&text, None).unwrap();
        assert_eq!(
            (read.format, read.messages.len()),
            (Format::Jsonl, 1),
            "{text}"
        );
    }
    let dir = scratch();
    let store = open(dir.path());
    let chats = store.handle();
    let text = lines(&all);
    chats.import("a", Format::Jsonl, &text).wait().unwrap();
    let text = chats.export("a", Format::Jsonl).wait().unwrap().text;
    let read = Transcript::read(&text, None).unwrap();
    assert_eq!(read.messages, chats.history("a").wait().unwrap());
    store.close().unwrap();
}

#[test]
fn a_title_comes_with_its_conversation_and_exports_say_it() {
    let dir = scratch();
    let store = open(dir.path());
    let chats = store.handle();
    let transcript = || Transcript::read(&lines(&claude_session()), None).unwrap();
    chats.set_title("named", "Mine").wait().unwrap();
    for key in ["new", "named"] {
        chats.import_transcript(key, transcript()).wait().unwrap();
    }
    let title = |key: &str| chats.session_meta(key).wait().unwrap().tags.title;
    assert_eq!(
        (&*title("new"), &*title("named")),
        ("Fix the parser", "Mine")
    );
    let updated = chats.session_meta("new").wait().unwrap().updated_at;
    assert_eq!(updated, "2026-06-01T10:00:10Z");
    let markdown = chats.export("new", Format::Markdown).wait().unwrap();
    assert!(
        markdown.starts_with("# Fix the parser\n\n## user"),
        "{markdown}"
    );
    for format in MODELS
        .map(|(format, _)| format)
        .into_iter()
        .chain([Format::Jsonl])
    {
        let export = chats.export("new", format).wait().unwrap();
        let is_told = export
            .left_out
            .iter()
            .any(|left| left.what.starts_with("the title"));
        assert!(is_told, "{format:?}: {:?}", export.left_out);
    }
    let empty = json!({"type": "summary", "summary": "Nothing", "leafUuid": "u9"});
    let empty = Transcript::read(&lines(&[empty]), None).unwrap();
    chats.import_transcript("empty", empty).wait().unwrap();
    assert!(!chats.exists("empty").wait().unwrap());
    store.close().unwrap();
}

#[test]
fn a_shape_that_is_not_known_is_refused_with_its_line() {
    for (text, says) in [
        ("{\"a\":1}\n{\"b\":2}\n", "line 2"),
        ("{\"a\":1}", "line 1"),
        ("not JSON", "line 1"),
        ("SQLite format 3\0", "sessionlog import DIR FILE"),
        ("", "line 1"),
    ] {
        let refused = Transcript::read(text, None).unwrap_err();
        assert!(matches!(refused, Error::InvalidMessage { .. }));
        assert!(refused.to_string().contains(says), "{text:?}: {refused}");
    }
    let mut broken = claude_session();
    broken.push(claude(
        11,
        &json!({"type": "user", "message": {"content": "x"}}),
    ));
    let refused = Transcript::read(&lines(&broken), None)
        .unwrap_err()
        .to_string();
    assert!(refused.contains("line 14: there is no role"), "{refused}");
}

#[test]
fn a_session_is_dated_by_the_messages_that_are_imported() {
    let dir = scratch();
    let text = "{\"role\":\"user\",\"content\":\"a\",\"created_at\":\"2024-03-01 09:00:00\"}\r\n\
        {\"role\":\"user\",\"content\":\"b\",\"created_at\":\"2024-03-01T09:00:05Z\"}\r\n";
    let store = open(dir.path());
    let chats = store.handle();
    chats.add_message("new", "user", "now").wait().unwrap();
    let now = chats.session_meta("new").wait().unwrap().updated_at;
    for key in ["old", "new"] {
        chats.import(key, Format::Jsonl, text).wait().unwrap();
    }
    store.close().unwrap();
    let store = open(dir.path());
    let meta = |key: &str| store.handle().session_meta(key).wait().unwrap();
    let dates = |key: &str| (meta(key).created_at, meta(key).updated_at);
    let first = String::from("2024-03-01T09:00:00Z");
    assert_eq!(dates("old"), (first.clone(), "2024-03-01T09:00:05Z".into()));
    assert_eq!(dates("new"), (first, now));
    store.close().unwrap();
}

/// Records of Kimi Code, each a millisecond after the one before.
fn wire(records: &[Value]) -> String {
    let begins =
        json!({"type": "metadata", "protocol_version": "1.5", "created_at": 1_784_455_200_000_i64});
    let mut all = vec![begins];
    for (n, record) in records.iter().enumerate() {
        let mut record = record.clone();
        record["time"] = (1_784_455_200_001_i64 + i64::try_from(n).unwrap()).into();
        all.push(record);
    }
    lines(&all)
}

fn kimi_says(role: &str, origin: &Value, content: &Value) -> Value {
    json!({"type": "context.append_message", "message": {"role": role, "content": content,
        "toolCalls": [], "origin": origin}})
}

fn kimi_prompt(text: &str) -> Value {
    kimi_says(
        "user",
        &json!({"kind": "user"}),
        &json!([{"type": "text", "text": text}]),
    )
}

fn kimi_event(event: &Value) -> Value {
    json!({"type": "context.append_loop_event", "event": event})
}

/// A step in which the model says that.
fn kimi_step(step: &str, text: &str) -> [Value; 3] {
    let part = json!({"type": "text", "text": text});
    [
        kimi_event(&json!({"type": "step.begin", "uuid": step, "turnId": "0", "step": 1})),
        kimi_event(
            &json!({"type": "content.part", "uuid": "p", "turnId": "0", "step": 1, "stepUuid": step, "part": part}),
        ),
        kimi_event(
            &json!({"type": "step.end", "uuid": step, "turnId": "0", "step": 1, "finishReason": "end_turn",
            "usage": {"inputOther": 1, "output": 1, "inputCacheRead": 0, "inputCacheCreation": 0}}),
        ),
    ]
}

/// A call of a tool in the step `s1`.
fn kimi_call(id: &str, name: &str) -> Value {
    kimi_event(
        &json!({"type": "tool.call", "uuid": id, "turnId": "0", "step": 1, "stepUuid": "s1",
            "toolCallId": id, "name": name, "args": {"path": "/x"}}),
    )
}

#[test]
fn kimi_code_is_read_with_tools_pictures_reminders_and_compactions() {
    let result = |id: &str, result: Value| {
        kimi_event(
            &json!({"type": "tool.result", "parentUuid": id, "toolCallId": id, "result": result}),
        )
    };
    let picture =
        json!({"type": "image_url", "imageUrl": {"url": "data:image/png;base64,iVBORw0KGgo="}});
    let lost = json!({"type": "image_url", "imageUrl": {"url": "blobref:image/png;0a1b"}});
    let mut records = vec![
        json!({"type": "config.update", "cwd": "/w", "modelAlias": "kimi-code/k3", "systemPrompt": "You are …"}),
        json!({"type": "turn.prompt", "input": [{"type": "text", "text": "fix it"}], "origin": {"kind": "user"}}),
        kimi_says(
            "user",
            &json!({"kind": "user"}),
            &json!([{"type": "text", "text": "fix it"}, picture]),
        ),
        json!({"type": "llm.request", "kind": "loop", "provider": "kimi", "model": "k3", "messageCount": 1}),
        kimi_event(&json!({"type": "step.begin", "uuid": "s0"})),
        // An attempt that came to nothing.
        kimi_event(&json!({"type": "step.begin", "uuid": "s1"})),
        kimi_event(
            &json!({"type": "content.part", "stepUuid": "s1", "part": {"type": "think", "think": "hm"}}),
        ),
        kimi_event(
            &json!({"type": "content.part", "stepUuid": "s1", "part": {"type": "text", "text": "I look."}}),
        ),
        kimi_call("Read:0", "Read"),
        kimi_call("Bash:1", "Bash"),
        result(
            "Bash:1",
            json!({"output": "no such file", "isError": true, "note": "exit 1"}),
        ),
        // It waits for the other result.
        kimi_says(
            "user",
            &json!({"kind": "injection", "variant": "todo"}),
            &json!([{"type": "text", "text": "<system-reminder>"}]),
        ),
        result(
            "Read:0",
            json!({"output": [{"type": "text", "text": "data"}, lost]}),
        ),
        kimi_event(&json!({"type": "step.end", "uuid": "s1", "finishReason": "tool_use"})),
        result("Read:0", json!({"output": "late"})),
        json!({"type": "context.apply_compaction", "summary": "So far: …", "compactedCount": 4,
            "tokensBefore": 9, "tokensAfter": 2, "keptUserMessageCount": 1}),
        // A message as newer ones are.
        json!({"type": "context.append_message", "agentId": "main", "message": {
            "message": {"role": "user", "content": [{"type": "text", "text": "go on"}]}, "meta": {"origin": {"kind": "user"}}}}),
    ];
    records.extend(kimi_step("s2", "done"));
    records.push(json!({"type": "something.new", "x": 1}));
    let read = found(&wire(&records), Format::KimiCode);
    assert_eq!(
        said(&read.messages),
        [
            "fix it",
            "I look.",
            "no such file\nexit 1",
            "data[media missing]",
            "<system-reminder>",
            "So far: …",
            "go on",
            "done"
        ]
    );
    let model = &read.messages[1];
    assert_eq!((model.reasoning(), model.model_name()), ("hm", "k3"));
    let calls: Vec<_> = model.tool_calls().iter().map(|call| &*call.id).collect();
    assert_eq!(calls, ["Read:0", "Bash:1"]);
    assert_eq!(read.messages[2].unknown_field("is_error"), Some("true"));
    assert_eq!(
        read.messages[5].unknown_field("isCompactSummary"),
        Some("true")
    );
    assert!(
        read.messages[0]
            .parts()
            .iter()
            .any(|part| part.kind() == PartKind::Image)
    );
    assert_eq!(read.created.as_deref(), Some("2026-07-19T10:00:00Z"));
    assert_eq!(
        read.messages[0].created_at(),
        Some("2026-07-19T10:00:00.003Z")
    );
    let skipped = |what: &str| {
        read.skipped
            .iter()
            .find(|(kind, _)| kind == what)
            .map(|(_, many)| *many)
    };
    for what in [
        "a record \"something.new\"",
        "a record \"turn.prompt\"",
        "a result without its call",
    ] {
        assert_eq!(skipped(what), Some(1), "{what}: {:?}", read.skipped);
    }
}

#[test]
fn what_was_undone_or_cleared_in_kimi_code_is_left_out_and_counted() {
    let undo = |count: u64| json!({"type": "context.undo", "count": count});
    let mut records = vec![
        kimi_prompt("cleared"),
        json!({"type": "context.clear"}),
        kimi_prompt("first"),
    ];
    records.extend(kimi_step("s1", "one"));
    records.push(kimi_says(
        "user",
        &json!({"kind": "injection", "variant": "x", "ownerPromptId": "msg_2"}),
        &json!([{"type": "text", "text": "its reminder"}]),
    ));
    let mut second = kimi_prompt("second");
    second["message"]["id"] = "msg_2".into();
    records.push(second);
    records.extend(kimi_step("s2", "two"));
    // Told while it ran: no prompt of its own.
    records.push(kimi_says(
        "user",
        &json!({"kind": "background_task", "taskId": "t"}),
        &json!([{"type": "text", "text": "task ended"}]),
    ));
    records.push(undo(1));
    records.push(kimi_prompt("again"));
    records.extend(kimi_step("s3", "three"));
    let read = found(&wire(&records), Format::KimiCode);
    assert_eq!(said(&read.messages), ["first", "one", "again", "three"]);
    assert_eq!(
        read.skipped,
        [
            ("a message that was cleared".to_owned(), 1),
            ("a message that was undone".to_owned(), 4)
        ]
    );
    // More than there is, or beyond a compaction: nothing.
    for count in [0, 3] {
        let mut records = records.clone();
        records.push(undo(count));
        assert_eq!(
            said(&found(&wire(&records), Format::KimiCode).messages).len(),
            4,
            "{count}"
        );
    }
    records
        .push(json!({"type": "context.apply_compaction", "summary": "sum", "compactedCount": 4}));
    records.push(undo(1));
    assert_eq!(
        said(&found(&wire(&records), Format::KimiCode).messages).len(),
        5
    );
}

#[test]
fn what_the_user_says_after_a_call_without_result_is_kept_or_counted() {
    let begun = || {
        let mut records = vec![kimi_prompt("one")];
        records.extend(kimi_step("s0", "two"));
        // A crash; then the user goes on.
        records.extend([
            kimi_event(&json!({"type": "step.begin", "uuid": "s1"})),
            kimi_call("Read:0", "Read"),
            kimi_prompt("three"),
        ]);
        records
    };
    let then = |kind: &str| {
        let mut records = begun();
        records.push(json!({"type": kind, "summary": "sum", "count": 1}));
        records.push(kimi_prompt("four"));
        let read = found(&wire(&records), Format::KimiCode);
        (said(&read.messages), read.skipped)
    };
    let (texts, skipped) = then("context.apply_compaction");
    assert_eq!(texts, ["one", "two", "", "three", "sum", "four"]);
    assert_eq!(skipped, []);
    let (texts, skipped) = then("context.undo");
    assert_eq!(texts, ["one", "two", "", "four"]);
    assert_eq!(skipped, [("a message that was undone".to_owned(), 1)]);
    let (texts, skipped) = then("context.clear");
    assert_eq!(texts, ["four"]);
    assert_eq!(skipped, [("a message that was cleared".to_owned(), 4)]);
    let (texts, _) = then("swarm_mode.exit");
    assert_eq!(texts, ["one", "two", "", "three", "four"]);
    // Its reminder is taken back also where it waits, and nothing else is.
    let mut records = begun();
    records.push(kimi_says(
        "user",
        &json!({"kind": "injection", "variant": "swarm_mode"}),
        &json!("swarm"),
    ));
    records.push(json!({"type": "swarm_mode.exit"}));
    let read = found(&wire(&records), Format::KimiCode);
    assert_eq!(said(&read.messages), ["one", "two", "", "three"]);
}

#[test]
fn kinds_of_records_past_the_hundredth_are_counted_as_one() {
    let mut records = vec![kimi_prompt("hi")];
    for n in (0..150).chain(0..150) {
        records.push(json!({"type": format!("kind {n}")}));
    }
    let read = found(&wire(&records), Format::KimiCode);
    assert_eq!(read.skipped.len(), 101);
    assert_eq!(read.skipped[0], ("a record \"kind 0\"".to_owned(), 2));
    assert_eq!(read.skipped[100], ("other records".to_owned(), 100));
}

#[test]
fn a_wire_of_kimi_code_that_is_not_known_is_refused_with_its_line() {
    let good = [kimi_prompt("a"), kimi_prompt("b")];
    for (from, to, says) in [
        (
            "\"1.5\"",
            "\"2.0\"",
            "line 1: records of the version \"2.0\"",
        ),
        ("\"text\":\"b\"", "\"text\":b", "line 3"),
        (
            "\"type\":\"text\",\"text\":\"b\"",
            "\"type\":\"scent\"",
            "line 3: a part of the type \"scent\"",
        ),
        ("\"role\"", "\"who\"", "line 2: there is no role"),
    ] {
        // serde_json orders fields by name.
        let text = wire(&good).replace(
            "\"text\":\"b\",\"type\":\"text\"",
            "\"type\":\"text\",\"text\":\"b\"",
        );
        let broken = text.replace(from, to);
        assert_ne!(broken, text, "{from}");
        let refused = Transcript::read(&broken, None).unwrap_err().to_string();
        assert!(refused.contains(says), "{refused}");
    }
    // A crash cuts a last line off.
    let cut = wire(&good).trim_end().strip_suffix("}").unwrap().to_owned();
    let read = found(&cut, Format::KimiCode);
    assert_eq!(said(&read.messages), ["a"]);
    assert_eq!(
        read.skipped,
        [("a last line that was cut off".to_owned(), 1)]
    );
    // Version 1.0 had calls as OpenAI has them.
    let mut old = kimi_says("assistant", &Value::Null, &json!([]));
    old["message"]["toolCalls"] =
        json!([{"type": "function", "id": "c", "function": {"name": "f", "arguments": null}}]);
    let read = found(
        &wire(&[kimi_prompt("a"), old]).replace("1.5", "1.0"),
        Format::KimiCode,
    );
    assert_eq!(read.messages[1].tool_calls()[0].id, "c");
    // What kimi-cli tells its screen has the same name.
    let other = "{\"type\": \"metadata\", \"protocol_version\": \"1.3\"}\n{\"timestamp\": 1.5, \
        \"message\": {\"type\": \"TurnBegin\", \"payload\": {\"user_input\": \"hi\"}}}\n";
    let refused = Transcript::read(other, None).unwrap_err().to_string();
    assert!(refused.contains("context.jsonl"), "{refused}");
}

#[test]
fn items_of_a_shell_and_their_times_are_read() {
    let items = [
        json!({"role": "user", "content": "ls", "created_at": "2025-03-01 09:00:00"}),
        json!({"type": "shell_call", "call_id": "c", "action": {"commands": ["ls"]}, "status": "completed"}),
        json!({"type": "shell_call_output", "call_id": "c", "output": [
            {"stdout": "a\n", "stderr": "warned", "outcome": {"type": "exit", "exit_code": 0}}]}),
        json!({"type": "tool_search_output", "tools": []}),
    ];
    let read = Transcript::read(&json!(items).to_string(), Some(Format::OpenAiResponses)).unwrap();
    assert_eq!(said(&read.messages), ["ls", "", "a\nwarned"]);
    assert_eq!(read.created.as_deref(), Some("2025-03-01T09:00:00Z"));
    assert_eq!(
        read.skipped,
        [("an item \"tool_search_output\"".to_owned(), 1)]
    );
}

#[test]
fn a_long_transcript_of_each_tool_is_read_in_seconds() {
    const MESSAGES: usize = 10_000;
    let mut claude_lines = String::new();
    let mut codex_lines = String::new();
    for n in 0..MESSAGES / 2 {
        let user = claude(
            n,
            &json!({"type": "user", "message": {"role": "user", "content": "x".repeat(200)}}),
        );
        let model = json!({"uuid": format!("m{n}"), "sessionId": "s", "type": "assistant", "message": {"id": format!("i{n}"),
            "role": "assistant", "content": [{"type": "text", "text": "y".repeat(400)}]}});
        write!(claude_lines, "{user}\n{model}\n").unwrap();
        for role in ["user", "assistant"] {
            let item = json!({"type": "response_item", "timestamp": "2026-06-01T10:00:01Z", "payload": {"type": "message",
                "role": role, "content": [{"type": "input_text", "text": format!("{n} {}", "z".repeat(300))}]}});
            writeln!(codex_lines, "{item}").unwrap();
        }
    }
    let steps = (0..MESSAGES / 2).flat_map(|n| {
        let step = kimi_step(&format!("s{n}"), &"y".repeat(400));
        std::iter::once(kimi_prompt(&"x".repeat(200))).chain(step)
    });
    let kimi_lines = wire(&steps.collect::<Vec<_>>());
    // Undos that find less than they are to take back, and kinds that nobody knows.
    let mut records = vec![json!({"type": "context.undo", "count": MESSAGES + 1}); 4 * MESSAGES];
    records.extend((0..4 * MESSAGES).map(|n| json!({"type": format!("kind {n}")})));
    let odd = wire(&records);
    let odd_lines = kimi_lines.clone() + odd.split_once('\n').unwrap().1;
    for text in [&claude_lines, &codex_lines, &kimi_lines, &odd_lines] {
        let begun = Instant::now();
        assert_eq!(
            Transcript::read(text, None).unwrap().messages.len(),
            MESSAGES
        );
        assert!(
            begun.elapsed() < Duration::from_secs(2),
            "{:?}",
            begun.elapsed()
        );
    }
    assert!(kit::import(&claude_lines, Format::Jsonl).is_err());
}
