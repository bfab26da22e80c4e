//! Lines of kimi-cli, read and written.

use proptest::prelude::*;

use super::encode::{encode, system_prompt};
use super::{KimiRecord, Message, decode, strict};
use crate::session_file::content::Content;

fn written_back(line: &str) -> Option<String> {
    match decode(line) {
        KimiRecord::Message(message) => Some(message.to_kimi_json()),
        _ => None,
    }
}

#[test]
fn a_message_is_written_with_kimi_clis_fields_in_its_order() {
    for (line, written) in [
        (
            r#"{"content":[{"text":"hi","type":"text"}],"partial":"ON","name":"Zoë","role":"user"}"#,
            r#"{"role":"user","name":"Zoë","content":"hi","partial":true}"#,
        ),
        (
            r#"{"role":"assistant","content":null,"tool_calls":[{"function":{"name":"f","arguments":null},"id":"1","extras":{"k":[1.50,-0,1e400,null]}}]}"#,
            r#"{"role":"assistant","content":[],"tool_calls":[{"type":"function","id":"1","function":{"name":"f"},"extras":{"k":[1.5,0,null,null]}}]}"#,
        ),
        (
            r#"{"role":"user","content":[{"type":"think","think":"t"},{"type":"image_url","image_url":{"url":"u","x":1}}]}"#,
            r#"{"role":"user","content":[{"type":"think","think":"t","encrypted":null},{"type":"image_url","image_url":{"url":"u","id":null}}]}"#,
        ),
        (
            r#"{"role":"tool","content":"","tool_calls":[],"tool_call_id":""}"#,
            r#"{"role":"tool","content":"","tool_calls":[],"tool_call_id":""}"#,
        ),
        (
            r#"{"role":"user","content":"<&>","created_at":"2025-01-01T00:00:00Z","mood":"good"}"#,
            r#"{"role":"user","content":"<&>","created_at":"2025-01-01T00:00:00Z","mood":"good"}"#,
        ),
    ] {
        assert_eq!(written_back(line).as_deref(), Some(written));
        assert_eq!(written_back(written).as_deref(), Some(written));
    }
}

#[test]
fn names_are_matched_exactly_and_the_last_of_equal_ones_counts() {
    let line = r#"{"role":"tool","Role":"user","content":"a","content":"b","Content":"c"}"#;
    let KimiRecord::Message(message) = decode(line) else {
        panic!("{line}");
    };
    assert_eq!((message.role(), &*message.text()), ("tool", "b"));
    assert_eq!(
        decode(r#"{"role":"user","role":"_usage","token_count":8}"#),
        KimiRecord::Usage(8)
    );
}

#[test]
fn what_pythons_reader_lets_pass_is_read() {
    let line = "{\"role\":\"user\",\"content\":\"a\tb\",\"x\":[NaN,-Infinity]}";
    assert!(matches!(decode(line), KimiRecord::Message(_)));
    assert_eq!(
        strict(line).as_deref(),
        Some(r#"{"role":"user","content":"a\u0009b","x":[null,null]}"#)
    );
    for line in [
        "{\"role\":\"user\",\"content\":\"x\",\"n\":-NaN}",
        "\u{b}{}",
        "17",
        "",
    ] {
        assert!(!matches!(decode(line), KimiRecord::Message(_)), "{line}");
    }
}

#[test]
fn what_makes_kimi_cli_give_up_on_a_file_costs_its_line() {
    for line in [
        r#"{"role":"user"}"#.to_owned(),
        r#"{"role":"user","content":"x","self":1}"#.to_owned(),
        r#"{"role":"user","content":[{"type":"file_url","url":"u"}]}"#.to_owned(),
        r#"{"role":"_future","v":1}"#.to_owned(),
        format!(
            r#"{{"role":"user","content":"x","n":{}}}"#,
            "7".repeat(4_301)
        ),
    ] {
        assert_eq!(decode(&line), KimiRecord::Foreign, "{line:.60}");
    }
    let fraction = format!(
        r#"{{"role":"user","content":"{0}","n":0.{0}}}"#,
        "7".repeat(4_301)
    );
    assert!(matches!(decode(&fraction), KimiRecord::Message(_)));
    let deep = format!(
        r#"{{"role":"user","content":"x","n":{}}}"#,
        "[".repeat(50_000)
    );
    assert_eq!(decode(&deep), KimiRecord::Rejected);
}

#[test]
fn integers_are_pythons() {
    for (raw, token_count) in [
        ("5", Some(5)),
        ("-3", Some(-3)),
        ("true", Some(1)),
        ("-0", Some(0)),
        ("99999999999999999999", Some(i64::MAX)),
        ("7.0", None),
        ("1e2", None),
        ("NaN", None),
        ("\"5\"", None),
        ("null", None),
    ] {
        let line = format!(r#"{{"role": "_usage", "token_count": {raw}}}"#);
        let expected = token_count.map_or(KimiRecord::Rejected, KimiRecord::Usage);
        assert_eq!(decode(&line), expected, "{raw}");
    }
}

#[test]
fn a_prompt_is_written_in_ascii() {
    let prompt = "é\u{2028}😀\u{0}\u{7f}\"\\\n";
    let line = system_prompt(prompt);
    assert!(line.is_ascii());
    assert_eq!(
        line,
        r#"{"role": "_system_prompt", "content": "\u00e9\u2028\ud83d\ude00\u0000\u007f\"\\\n"}"#
    );
    assert_eq!(decode(&line), KimiRecord::SystemPrompt(prompt.into()));
}

#[test]
fn what_would_not_be_read_back_is_not_written() {
    let mut part = Message::user("x");
    part.content = Content::Parts(r#"[{"type":"file_url"}]"#.into());
    for message in [
        Message::new("developer", "x"),
        Message::new("_usage", "x"),
        part,
    ] {
        assert!(encode(&message).is_err());
    }
}

/// Lines that are almost records.
fn nearly_a_line() -> impl Strategy<Value = String> {
    const PIECES: [&str; 24] = [
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        "\"role\"",
        "\"user\"",
        "\"assistant\"",
        "\"content\"",
        "\"text\"",
        "\"type\"",
        "\"tool_calls\"",
        "\"function\"",
        "\"id\"",
        "\"_usage\"",
        "\"token_count\"",
        "null",
        "true",
        "NaN",
        "-1",
        "1.5e3",
        "\"\\ud83d\"",
        "\"a\tb\\",
    ];
    prop::collection::vec(prop::sample::select(&PIECES[..]), 0..24).prop_map(|p| p.concat())
}

proptest! {
    #[test]
    fn any_text_is_some_kind_of_line(line in "\\PC*", near in nearly_a_line()) {
        let _ = (decode(&line), strict(&line), decode(&near), strict(&near));
    }

    #[test]
    fn a_written_message_reads_back_as_it_was(
        role in prop::sample::select(vec!["user", "assistant", "system", "tool"]),
        text in "(?s).*",
        call in prop::option::of(("\\PC*", "\\PC*", "(?s).*")),
    ) {
        let mut message = Message::new(role, text);
        if let Some((id, name, arguments)) = call {
            message = message.with_tool_call(id, name, arguments);
        }
        let (line, read) = encode(&message).unwrap();
        prop_assert!(!line.contains(['\n', '\r']));
        prop_assert_eq!(&read, &message);
        prop_assert_eq!(encode(&read).unwrap().0, line);
    }
}
