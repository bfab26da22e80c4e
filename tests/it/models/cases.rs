//! What people reported, as small conversations.

use serde_json::{Value, json};
use sessionlog::backend::kit;
use sessionlog::{
    Budget, Error, Export, ExportOptions, Format, Message, Opening, PartKind, Unpaired,
    export_kimi_report,
};

use super::orders;
use super::random::{MODELS, export, obeys};
use crate::support::{open, said, scratch};

fn calls(ids: &[&str]) -> Value {
    let call = |id: &&str| json!({"id": id, "type": "function", "function": {"name": "w", "arguments": "{}"}});
    let calls: Vec<Value> = ids.iter().map(call).collect();
    json!({"role": "assistant", "content": "", "tool_calls": calls})
}

fn result(id: &str) -> Value {
    json!({"role": "tool", "tool_call_id": id, "content": format!("result of {id}")})
}

fn user(text: &str) -> Value {
    json!({"role": "user", "content": text})
}

/// The conversations that were reported as such, each with a name.
pub(super) fn reported() -> Vec<(&'static str, Vec<Value>)> {
    [of_orders(), of_contents()].concat()
}

/// Those in which something is not where a model wants it.
fn of_orders() -> Vec<(&'static str, Vec<Value>)> {
    let mut half = calls(&["done", "never"]);
    half["content"] = "I look.".into();
    vec![
        (
            "between",
            vec![
                user("weather?"),
                calls(&["call_1"]),
                user("hurry up"),
                result("call_1"),
            ],
        ),
        (
            "together",
            vec![
                user("q"),
                calls(&["a"]),
                calls(&["b"]),
                result("a"),
                result("b"),
            ],
        ),
        (
            "half",
            vec![
                user("q"),
                half,
                result("done"),
                result("done"),
                result("gone"),
            ],
        ),
        (
            "ids",
            vec![
                json!({"role": "assistant", "content": "Welcome! "}),
                user("q"),
                calls(&["functions.shell:0"]),
                result("functions.shell:0"),
                calls(&["functions.shell:0", "functions_shell_0"]),
                result("functions_shell_0"),
                result("functions.shell:0"),
                json!({"role": "assistant", "content": "done "}),
            ],
        ),
        (
            "blank",
            vec![
                user(" "),
                json!({"role": "user", "content": [{"type": "text", "text": "\n"}]}),
                json!({"role": "user", "content": "", "media": ["media://voice.ogg"]}),
                json!({"role": "assistant", "content": null, "refusal": "I will not."}),
                json!({"role": "critic", "content": "meh"}),
            ],
        ),
    ]
}

/// Those with something that a model does not take as it is.
fn of_contents() -> Vec<(&'static str, Vec<Value>)> {
    let text = |text: &str| json!({"type": "text", "text": text});
    let thought = |text: &str| json!({"type": "thinking", "thinking": text, "signature": "sig"});
    let reasoning = json!([{"type": "reasoning", "id": "rs_1",
        "summary": [], "encrypted_content": "gAAAA"}]);
    let mut late_thought = calls(&["gone"]);
    late_thought["content"] = json!([thought("one"), text("a"), thought("two")]);
    let mut hinted = result("h");
    hinted["content"] = (0..6)
        .map(|n| json!({"type": "text", "text": n.to_string(), "cache_control": {"type": "ephemeral"}}))
        .collect();
    let picture = |url: &str| json!({"type": "image_url", "image_url": {"url": url}});
    vec![
        (
            "thinking last",
            vec![
                user("q"),
                json!({"role": "assistant", "content": [text("b"), thought("three")]}),
                user("r"),
                late_thought,
            ],
        ),
        (
            "aloud",
            vec![
                user("say it"),
                json!({"role": "assistant", "content": null,
                    "audio": {"id": "audio_1", "transcript": "said aloud"}}),
                user("louder"),
                json!({"role": "assistant", "content": null, "audio": {"transcript": "no id"}}),
            ],
        ),
        (
            "pictures",
            vec![json!({"role": "user", "content": [
                picture("data:image/gif;base64,R0lG"),
                picture("data:image/jpg;base64,/9j/"),
                picture("data:image/webp;base64,UklG"),
                picture("data:image/svg+xml;base64,PHN2"),
                {"type": "image", "source": {"type": "base64", "media_type": "image/jpg", "data": "/9k/"}},
            ]})],
        ),
        (
            "a file without a name",
            vec![json!({"role": "user", "content": [
                {"type": "file", "file": {"file_data": "data:application/pdf;base64,AAAA"}}]})],
        ),
        (
            "reasoning twice",
            vec![
                user("q"),
                json!({"role": "assistant", "content": "a", "reasoning_items": reasoning}),
                user("q"),
                json!({"role": "assistant", "content": "a", "reasoning_items": reasoning}),
            ],
        ),
        (
            "a refusal beside a text",
            vec![
                user("q"),
                json!({"role": "assistant", "content": [text("Sorry."), {"type": "refusal", "refusal": "No."}]}),
            ],
        ),
        ("hints", vec![user("q"), calls(&["h"]), hinted]),
    ]
}

fn named(name: &str) -> Vec<Value> {
    let mut all = reported().into_iter();
    all.find(|(known, _)| *known == name).unwrap().1
}

/// What was left out of one message of an export.
fn left_of(sent: &Export, at: usize) -> Vec<&str> {
    let left = sent.left_out.iter();
    let left = left.filter(|left| left.message == Some(at));
    left.map(|left| &*left.what).collect()
}

#[test]
fn what_was_reported_is_legal_for_every_model() {
    for (name, lines) in reported() {
        for (format, rules) in MODELS {
            let options = ExportOptions::new(format);
            for options in [options, options.unpaired(Unpaired::Answer)] {
                obeys(
                    rules,
                    &export(&lines, "", options),
                    format!("{name} for {format:?}"),
                );
            }
        }
    }
}

#[test]
fn thinking_that_nothing_follows_is_left_out_for_anthropic_and_told() {
    let sent = export(&named("thinking last"), "", Format::Anthropic.into());
    let value: Value = serde_json::from_str(&sent.text).unwrap();
    let kinds = |at: usize| {
        let blocks = value["messages"][at]["content"].as_array().unwrap().iter();
        let kinds = blocks.map(|block| block["type"].as_str().unwrap());
        kinds.collect::<Vec<_>>()
    };
    assert_eq!(kinds(1), ["text"]);
    assert_eq!(kinds(3), ["thinking", "text"]);
    for at in [1, 3] {
        let told = left_of(&sent, at);
        assert!(
            told.iter().any(|what| what.contains("nothing follows")),
            "{told:?}"
        );
    }
}

#[test]
fn what_was_only_said_aloud_is_sent_by_its_id_or_as_its_transcript() {
    for (format, _) in MODELS {
        let sent = export(&named("aloud"), "", format.into());
        assert!(sent.contains("no id"), "{format:?}: {}", sent.text);
        let is_chat = format == Format::OpenAi;
        assert_eq!(sent.contains("\"audio_1\""), is_chat, "{}", sent.text);
        assert_eq!(sent.contains("said aloud"), !is_chat, "{}", sent.text);
        assert_eq!(left_of(&sent, 1).is_empty(), is_chat, "{format:?}");
        assert!(!left_of(&sent, 3).is_empty(), "{format:?}");
    }
    let beside = json!({"role": "assistant", "content": "b", "audio": {"id": "audio_2"}});
    let sent = export(&[user("a"), beside], "", Format::Gemini.into());
    assert_eq!(left_of(&sent, 1).len(), 1, "{:?}", sent.left_out);
}

#[test]
fn a_model_gets_the_pictures_that_it_takes_and_notes_for_the_others() {
    for (format, gif) in [(Format::Gemini, false), (Format::Anthropic, true)] {
        let sent = export(&named("pictures"), "", format.into());
        assert_eq!(sent.contains("R0lG"), gif, "{}", sent.text);
        assert!(!sent.contains("PHN2") && !sent.contains("image/jpg"));
        for data in ["/9j/", "/9k/", "UklG"] {
            assert!(sent.contains(data), "{data}: {}", sent.text);
        }
        let notes = 2 - usize::from(gif);
        assert_eq!(sent.matches("[image]").count(), notes, "{}", sent.text);
        assert_eq!(left_of(&sent, 0).len(), notes, "{:?}", sent.left_out);
    }
}

#[test]
fn a_file_without_a_name_gets_one() {
    let value = sent(&named("a file without a name"), Format::OpenAi);
    assert_eq!(value[0]["content"][0]["file"]["filename"], "file");
}

#[test]
fn reasoning_is_sent_once() {
    let sent = export(
        &named("reasoning twice"),
        "",
        Format::OpenAiResponses.into(),
    );
    assert_eq!(sent.matches("rs_1").count(), 1, "{}", sent.text);
    assert_eq!(left_of(&sent, 3), ["reasoning that was there already"]);
}

#[test]
fn a_refusal_beside_a_text_is_a_field_of_openai_s_message() {
    let value = sent(&named("a refusal beside a text"), Format::OpenAi);
    let texts = json!([{"type": "text", "text": "Sorry."}]);
    assert_eq!(
        (&value[1]["content"], &value[1]["refusal"]),
        (&texts, &"No.".into())
    );
}

#[test]
fn hints_within_a_result_are_among_the_four() {
    let sent = export(&named("hints"), "", Format::Anthropic.into());
    assert_eq!(sent.matches("cache_control").count(), 4, "{}", sent.text);
    let told = sent.summary();
    assert!(
        told.iter()
            .any(|(what, many)| what.contains("cache") && *many == 2),
        "{told:?}"
    );
}

#[test]
fn a_transcript_for_people_has_every_part_or_says_that_it_has_not() {
    let lines = [
        json!({"role": "user", "content": [{"type": "text", "text": "look"},
            {"type": "image_url", "image_url": {"url": "https://x.org/a.png"}},
            {"type": "input_audio", "input_audio": {"data": "SUQz", "format": "mp3"}},
            {"type": "file", "file": {"file_data": "data:application/pdf;base64,JVBE", "filename": "a.pdf"}}]}),
        json!({"role": "assistant", "content": [{"type": "refusal", "refusal": "I will not."}],
            "reasoning_content": "hm", "tool_calls": [
            {"id": "c1", "type": "custom", "custom": {"name": "run", "input": "print 1"}}]}),
    ];
    let sent = export(&lines, "", Format::Markdown.into());
    for text in [
        "> look",
        "https://x.org/a.png",
        "[audio]",
        "[file: a.pdf]",
        "> I will not.",
        "Calls `run` (`c1`)",
        "print 1",
    ] {
        assert!(sent.contains(text), "{text}: {}", sent.text);
    }
    assert!(!sent.contains("JVBE"), "{}", sent.text);
    assert_eq!(left_of(&sent, 0).len(), 2, "{:?}", sent.left_out);
    assert_eq!(left_of(&sent, 1).len(), 1, "{:?}", sent.left_out);
}

#[test]
fn a_text_document_and_encrypted_reasoning_cost_what_they_are_long() {
    let long = "x".repeat(40_000);
    let document = json!({"type": "document", "source":
        {"type": "text", "media_type": "text/plain", "data": long}});
    let lines = [
        json!({"role": "user", "content": [document]}),
        json!({"role": "assistant", "content": [{"type": "redacted_thinking", "data": long}]}),
        json!({"role": "assistant", "content": "a", "reasoning_items": [{"type": "reasoning",
            "id": "rs_1", "summary": [], "encrypted_content": long}]}),
        json!({"role": "assistant", "content": [{"type": "think", "think": "", "encrypted": long}]}),
    ];
    for message in messages(&lines) {
        let tokens: usize = message.parts().iter().map(sessionlog::Part::tokens).sum();
        assert!((10_000..10_100).contains(&tokens), "{tokens}: {message:?}");
    }
}

fn messages(lines: &[Value]) -> Vec<Message> {
    let lines = lines.iter().map(Value::to_string);
    lines
        .map(|line| Message::from_json(line.as_bytes()).unwrap())
        .collect()
}

fn sent(lines: &[Value], format: Format) -> Value {
    serde_json::from_str(&export(lines, "", format.into()).text).unwrap()
}

#[test]
fn a_message_between_call_and_result_follows_the_result() {
    let dir = scratch();
    let store = open(dir.path());
    let chats = store.handle();
    for key in ["between", "together"] {
        let lines = named(key);
        chats.append_all(key, messages(&lines)).wait().unwrap();
        let strict = Budget::unlimited().unpaired(Unpaired::Error);
        let refused = chats.window(key, strict).wait();
        assert!(
            matches!(refused, Err(Error::ToolCallUnpaired { .. })),
            "{key}"
        );
        let strict = ExportOptions::new(Format::OpenAi).unpaired(Unpaired::Error);
        let refused = chats.export(key, strict).wait().unwrap_err();
        assert!(matches!(refused, Error::ToolCallUnpaired { key: of, .. } if of == key));
        let window = chats.window(key, Budget::unlimited()).wait().unwrap();
        assert_eq!((window.messages.len(), window.omitted), (lines.len(), 0));
    }
    let window = chats.window("between", Budget::unlimited()).wait().unwrap();
    assert_eq!(
        said(&window.messages),
        ["weather?", "", "result of call_1", "hurry up"]
    );
    store.close().unwrap();
}

#[test]
fn a_call_without_its_result_leaves_its_text_or_gets_a_result_that_says_so() {
    let lines = named("half");
    let export_of = |options: ExportOptions| export(&lines, "", options);
    let dropped = export_of(Format::OpenAi.into());
    let value: Value = serde_json::from_str(&dropped.text).unwrap();
    assert_eq!(value.as_array().unwrap().len(), 3);
    assert_eq!(value[1]["content"], "I look.");
    let left: Vec<_> = dropped
        .left_out
        .iter()
        .map(|left| (left.message, &*left.what))
        .collect();
    assert_eq!(
        left,
        [
            (Some(1), "a tool call without its result"),
            (Some(3), "a second result of a tool call"),
            (Some(4), "a tool's result without its call"),
        ]
    );
    let answered = export_of(ExportOptions::new(Format::Anthropic).unpaired(Unpaired::Answer));
    assert!(answered.contains("[no result]") && answered.contains("\"is_error\":true"));
    obeys(orders::anthropic, &answered, "answered");
}

#[test]
fn ids_are_made_valid_alike_for_call_and_result_and_can_be_told_back() {
    let lines = named("ids");
    let sent = export(&lines, "", Format::Anthropic.into());
    obeys(orders::anthropic, &sent, "ids");
    let stored: Vec<_> = sent.tool_ids.iter().map(|(_, stored)| &**stored).collect();
    assert_eq!(
        stored,
        [
            "functions.shell:0",
            "functions.shell:0",
            "functions_shell_0"
        ]
    );
    for (id, stored) in &sent.tool_ids {
        assert_eq!(sent.stored_id(id), stored);
    }
    assert!(sent.contains("result of functions_shell_0"));
    let value: Value = serde_json::from_str(&sent.text).unwrap();
    assert_eq!(value["messages"][0]["role"], "user");
    let user_first = ExportOptions::new(Format::Anthropic).opening(Opening::User);
    let shorter = export(&lines, "", user_first);
    obeys(orders::anthropic, &shorter, "the user first");
    assert!(!shorter.contains("Welcome") && sent.contains("Welcome"));
    assert_eq!(shorter.left_out[0].message, Some(0));
}

#[test]
fn arguments_that_are_no_json_become_some() {
    let call = |arguments: &str| {
        let mut call = calls(&["c"]);
        call["tool_calls"][0]["function"]["arguments"] = arguments.into();
        [user("q"), call, result("c")]
    };
    for (arguments, valid) in [
        (
            r#"description": "pack"}"#,
            r#"{"arguments":"description\": \"pack\"}"}"#,
        ),
        (r#"{"a":1}{"b":2}"#, r#"{"arguments":"{\"a\":1}{\"b\":2}"}"#),
        ("", "{}"),
        (
            r#"{"n": 12345678901234567890123}"#,
            r#"{"n": 12345678901234567890123}"#,
        ),
    ] {
        let value = sent(&call(arguments), Format::OpenAi);
        assert_eq!(value[1]["tool_calls"][0]["function"]["arguments"], valid);
    }
}

#[test]
fn nothing_is_silently_empty() {
    let lines = named("blank");
    for (format, rules) in MODELS {
        let sent = export(&lines, "what was before", format.into());
        obeys(rules, &sent, "blank");
        for text in ["media://voice.ogg", "I will not.", "meh", "what was before"] {
            assert!(sent.contains(text), "{format:?} {text}: {}", sent.text);
        }
        let blank = sent
            .left_out
            .iter()
            .filter(|left| left.what.contains("says nothing"));
        assert_eq!(blank.count(), 2, "{format:?}: {:?}", sent.left_out);
        assert!(
            sent.left_out
                .iter()
                .any(|left| left.what.contains("\"critic\""))
        );
    }
}

/// What comes in is what goes out.
fn round_trip(format: Format, text: &Value) {
    let read = kit::import(&text.to_string(), format).unwrap();
    let lines: Vec<Value> = read
        .iter()
        .map(|m| serde_json::to_value(m).unwrap())
        .collect();
    assert_eq!(&sent(&lines, format), text, "{format:?}");
}

#[test]
fn what_openai_sent_comes_back_as_it_was() {
    let text = |text: &str| json!({"type": "text", "text": text});
    round_trip(
        Format::OpenAi,
        &json!([
            {"role": "developer", "content": "Be brief."},
            {"role": "user", "name": "ann", "content": [text("a"), text("b"),
                {"type": "image_url", "image_url": {"url": "https://x.org/a.png", "detail": "high"}},
                {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "mp3"}},
                {"type": "file", "file": {"file_id": "file-1"}}]},
            {"role": "assistant", "content": [text("c"), text("d")], "audio": {"id": "audio_1"}},
            {"role": "assistant", "content": null, "tool_calls": [
                {"id": "c1", "type": "custom", "custom": {"name": "run", "input": "print 1"}},
                {"id": "c2", "type": "function", "function": {"name": "f", "arguments": "{\"a\": 1}"}}]},
            {"role": "tool", "tool_call_id": "c1", "content": "1"},
            {"role": "tool", "tool_call_id": "c2", "content": [text("2"), text("3")]},
            {"role": "assistant", "content": [{"type": "refusal", "refusal": "no"}], "refusal": "no"},
        ]),
    );
}

#[test]
fn what_anthropic_sent_comes_back_as_it_was() {
    let text = |text: &str| json!({"type": "text", "text": text});
    let image = json!({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA=="}});
    let hint = json!({"type": "ephemeral"});
    round_trip(
        Format::Anthropic,
        &json!({
            "system": [{"type": "text", "text": "Be brief.", "cache_control": hint}, text("Be kind.")],
            "messages": [
                {"role": "user", "content": [text("a"), text("b"), image,
                    {"type": "document", "title": "t", "source": {"type": "text", "media_type": "text/plain", "data": "x"}}]},
                {"role": "assistant", "content": [
                    {"type": "thinking", "thinking": "hm", "signature": "s1"},
                    {"type": "redacted_thinking", "data": "xyz"},
                    text("c"),
                    {"type": "tool_use", "id": "t1", "name": "f", "input": {"a": 1}, "cache_control": hint},
                    {"type": "tool_use", "id": "t2", "name": "f", "input": {}}]},
                {"role": "user", "content": [
                    {"type": "tool_result", "tool_use_id": "t1", "content": [text("1"), image], "is_error": true},
                    {"type": "tool_result", "tool_use_id": "t2", "cache_control": hint},
                    {"type": "text", "text": "go on", "cache_control": hint}]},
                {"role": "assistant", "content": [text("d"), text("e")]},
            ]
        }),
    );
    // A text after a call is kept, where the API takes it.
    let late = json!({"messages": [
        {"role": "user", "content": "q"},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "f", "input": {}}, text("late")]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": "1"}]},
    ]});
    let read = kit::import(&late.to_string(), Format::Anthropic).unwrap();
    assert_eq!(read[1].text(), "late");
}

#[test]
fn a_picture_in_a_tool_s_result_stays_a_part_and_every_model_sees_it() {
    let text = r#"{"messages":[{"role":"user","content":"see"},{"role":"assistant","content":[
        {"type":"tool_use","id":"t1","name":"shot","input":{}}]},{"role":"user","content":[
        {"type":"tool_result","tool_use_id":"t1","content":[{"type":"text","text":"r"},
        {"type":"image","source":{"type":"base64","media_type":"image/png","data":"iVBORw0KGgo="}}]}]}]}"#;
    let read = kit::import(text, Format::Anthropic).unwrap();
    let kinds: Vec<_> = read[2].parts().iter().map(sessionlog::Part::kind).collect();
    assert_eq!(kinds, [PartKind::Text, PartKind::Image]);
    let lines: Vec<Value> = read
        .iter()
        .map(|m| serde_json::to_value(m).unwrap())
        .collect();
    for (format, rules) in MODELS {
        let sent = export(&lines, "", format.into());
        obeys(rules, &sent, "a picture");
        assert!(sent.contains("iVBORw0KGgo="), "{format:?}");
        let back = kit::import(&sent.text, format).unwrap();
        assert!(back.len() >= read.len(), "{format:?}");
    }
}

#[test]
fn what_is_no_message_is_refused_with_its_line() {
    for line in [
        r#"{"type":"user","message":{"role":"user","content":"x"}}"#,
        r#"{"type":"function_call","call_id":"c","name":"f","arguments":"{}"}"#,
    ] {
        let text = format!("{}\n{line}\n", user("first"));
        let refused = kit::import(&text, Format::Jsonl).unwrap_err().to_string();
        assert!(
            refused.contains("line 2") && refused.contains("no role"),
            "{refused}"
        );
    }
}

#[test]
fn marks_line_ends_and_times_of_others_pass() {
    let text = "\u{feff}{\"role\":\"user\",\"content\":\"a\",\"created_at\":\"2024-03-01 09:00:00\"}\r\n\
        {\"role\":\"assistant\",\"content\":\"b\\ud83d\",\"created_at\":1709283600}\r\n";
    let read = kit::import(text, Format::Jsonl).unwrap();
    assert_eq!(said(&read), ["a", "b\u{fffd}"]);
    for message in &read {
        assert_eq!(message.created_at(), Some("2024-03-01T09:00:00Z"));
    }
}

#[test]
fn a_budget_counts_everything_that_is_sent() {
    let dir = scratch();
    let store = open(dir.path());
    let chats = store.handle();
    let picture = "iVBORw0KGgo".repeat(2_000);
    let url = format!("data:image/png;base64,{picture}");
    for n in 0..20 {
        let look = json!({"role": "user", "content": [{"type": "text", "text": format!("look {n}")},
            {"type": "image_url", "image_url": {"url": url}}]});
        let nice = json!({"role": "assistant", "content": "nice"});
        chats
            .append_all("images", messages(&[look, nice]))
            .wait()
            .unwrap();
        let heard = Message::user("listen").with_media("data:audio/ogg;base64,AAAA");
        let called = Message::assistant("").with_reasoning("x".repeat(4_000));
        let called =
            called.with_tool_call("c", "f", format!("{{\"a\":\"{}\"}}", "y".repeat(8_000)));
        let turn = vec![heard, called, Message::tool("c", "z".repeat(400))];
        chats.append_all("turns", turn).wait().unwrap();
    }
    let window = |key: &str, budget: Budget| chats.window(key, budget).wait().unwrap();
    let seen = window("images", Budget::unlimited().tokens(2_000));
    assert_eq!(
        (seen.messages.len(), seen.omitted, seen.took.images),
        (2, 38, 1_600)
    );
    let cheap = Budget::unlimited()
        .tokens(2_000)
        .part_counter(|part| match part.kind() {
            PartKind::Image => 85,
            _ => part.tokens(),
        });
    let seen = window("images", cheap);
    assert_eq!((seen.messages.len(), seen.took.images), (40, 20 * 85));
    let all = window("turns", Budget::unlimited());
    let took = all.took;
    assert_eq!((took.audio, took.reasoning), (20 * 1_600, 20 * 1_000));
    assert!(
        took.calls >= 20 * 2_000 && took.text >= 20 * 100,
        "{took:?}"
    );
    assert_eq!((took.total(), took.messages), (all.tokens, 60 * 4));
    let one = window("turns", Budget::unlimited().tokens(all.tokens / 20));
    assert_eq!(one.messages.len(), 3);
    store.close().unwrap();
}

#[test]
fn an_export_to_kimi_says_what_kimi_will_not_see() {
    let dir = scratch();
    let store = open(dir.path());
    let chats = store.handle();
    chats
        .append_all(
            "cli",
            vec![Message::user("hi"), Message::new("critic", "meh")],
        )
        .wait()
        .unwrap();
    chats.set_summary("cli", "greeting").wait().unwrap();
    let outside = scratch();
    let export = export_kimi_report("cli", outside.path().join("context.jsonl"), &chats).unwrap();
    assert_eq!(
        export.left_out,
        ["the summary", "messages that kimi-cli does not read: 1"]
    );
    store.close().unwrap();
}
