use super::{ExportOptions, Format, Head, import};
use crate::session_file::Message;

const MODELS: [Format; 4] = [
    Format::OpenAi,
    Format::OpenAiResponses,
    Format::Anthropic,
    Format::Gemini,
];

fn write(messages: &[Message], format: Format) -> String {
    let head = Head {
        prompt: None,
        summary: "",
        title: "",
    };
    super::write(&head, messages.to_vec(), ExportOptions::new(format))
        .unwrap()
        .text
}

fn conversation() -> Vec<Message> {
    vec![
        Message::system("Be brief."),
        Message::user("What is 2 + 2, and the weather?"),
        Message::assistant("I'll look.")
            .with_tool_call("c1", "add", r#"{"a":2,"b":2}"#)
            .with_tool_call("c2", "weather", "{}"),
        Message::tool("c1", "4"),
        Message::tool("c2", "sunny"),
        Message::assistant("4, and it is sunny."),
    ]
}

#[test]
fn what_was_exported_is_imported_as_it_was() {
    for format in MODELS {
        let text = write(&conversation(), format);
        assert_eq!(import(&text, format).unwrap(), conversation(), "{format:?}");
        assert_eq!(import(&write(&[], format), format).unwrap(), []);
    }
}

#[test]
fn the_messages_of_one_side_are_one_for_anthropic() {
    let text = write(&conversation(), Format::Anthropic);
    let value: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(value["system"], "Be brief.");
    let roles = value["messages"].as_array().unwrap().iter();
    let roles: Vec<_> = roles
        .map(|message| message["role"].as_str().unwrap())
        .collect();
    assert_eq!(roles, ["user", "assistant", "user", "assistant"]);
    assert_eq!(value["messages"][1]["content"][1]["input"]["b"], 2);
    assert_eq!(value["messages"][2]["content"][1]["tool_use_id"], "c2");
}

#[test]
fn images_and_reasoning_of_anthropic_are_kept() {
    let text = r#"{"system":[{"type":"text","text":"a"},{"type":"text","text":"b"}],"messages":[
        {"role":"user","content":[{"type":"text","text":"look"},
            {"type":"image","source":{"type":"base64","media_type":"image/png","data":"QUJD"}}]},
        {"role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":"s"},
            {"type":"text","text":"A cat."}]},
        {"role":"user","content":"Thanks"}]}"#;
    let messages = import(text, Format::Anthropic).unwrap();
    assert_eq!(messages[0].text(), "ab");
    assert!(
        messages[1]
            .content_parts()
            .unwrap()
            .contains("data:image/png;base64,QUJD")
    );
    assert_eq!(
        (messages[2].reasoning(), &*messages[2].text()),
        ("hm", "A cat.")
    );
    let again = write(&messages, Format::Anthropic);
    let value: serde_json::Value = serde_json::from_str(&again).unwrap();
    assert_eq!(value["messages"][0]["content"][1]["source"]["data"], "QUJD");
}

#[test]
fn what_is_of_no_such_shape_is_refused_with_its_place() {
    for (format, text, says) in [
        (Format::OpenAi, "[", "EOF"),
        (Format::OpenAi, "{}", "sequence"),
        (
            Format::OpenAi,
            r#"[{"role":"user","content":"x"},7]"#,
            "message 2",
        ),
        (
            Format::Anthropic,
            r#"[{"content":"x"}]"#,
            "message 1: there is no role",
        ),
        (
            Format::Anthropic,
            r#"[{"role":"user","content":[{"type":"hologram"}]}]"#,
            "\"hologram\"",
        ),
        (Format::Jsonl, "{\"role\":\"user\"}\n\n{", "line 3"),
        (Format::Markdown, "", "Markdown"),
    ] {
        let error = import(text, format).unwrap_err().to_string();
        assert!(error.contains(says), "{error}");
    }
}

#[test]
fn a_transcript_has_headings_of_its_own_only() {
    let said = Message::user("# not mine\n```\ncode").with_created_at("2026-11-23T10:00:00Z");
    let mut messages = vec![said.unwrap()];
    messages.extend(conversation());
    let text = write(&messages, Format::Markdown);
    let headings: Vec<_> = text.lines().filter(|line| line.starts_with('#')).collect();
    assert_eq!(headings.len(), messages.len(), "{text}");
    assert_eq!(headings[0], "## user · 2026-11-23T10:00:00Z");
    assert!(text.contains("\n> # not mine\n> ```\n> code\n"), "{text}");
    assert!(text.contains("Calls `add` (`c1`):"), "{text}");
}

#[test]
fn lines_are_read_without_control_records() {
    let text =
        "{\"role\":\"user\",\"content\":\"hi\",\"x\":1}\n{\"role\":\"_usage\",\"token_count\":3}\n";
    let messages = import(text, Format::Jsonl).unwrap();
    assert_eq!(messages.len(), 1);
    assert_eq!(messages[0].unknown_field("x"), Some("1"));
}

#[test]
fn what_the_providers_refuse_is_not_sent() {
    let mut messages = vec![
        Message::tool("gone", "1"),
        Message::user(" "),
        Message::assistant("").with_tool_call("c", "f", "{}"),
        Message::user("wait"),
        Message::tool("c", "2"),
    ];
    messages.push(Message::assistant("").with_tool_call("never", "f", "{}"));
    let text = write(&messages, Format::Anthropic);
    assert!(!text.contains("gone") && !text.contains("never"), "{text}");
    let value: serde_json::Value = serde_json::from_str(&text).unwrap();
    let kinds = value["messages"][2]["content"].as_array().unwrap().iter();
    let kinds: Vec<_> = kinds.map(|block| block["type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["tool_result", "text"]);
    let text = write(&messages, Format::OpenAi);
    assert!(!text.contains("gone") && !text.contains("never"), "{text}");
}

#[test]
fn a_number_that_nobody_knows_is_kept_as_it_is() {
    let text = r#"{"messages":[{"role":"user","content":"x","n":12345678901234567890123}]}"#;
    let messages = import(text, Format::OpenAi).unwrap();
    let number = messages[0].unknown_field("n");
    assert_eq!(number, Some("12345678901234567890123"));
}
