//! The codec's promises beyond the recorded cases.

mod control;
mod random;
mod session;

use serde_json::Value;

use super::{Attachment, Decoded, Kind, Message, SystemPart, ToolCall};
use super::{classify, decode, encode, lines};
use crate::error::Error;

fn message(line: &str) -> Message {
    match decode(line.as_bytes()) {
        Decoded::Message(message) => message,
        other => panic!("{other:?}: {line}"),
    }
}

pub(super) fn kind(decoded: &Decoded) -> Kind {
    match decoded {
        Decoded::Blank => Kind::Blank,
        Decoded::Corrupt(_) => Kind::Corrupt,
        Decoded::Control(_) => Kind::Control,
        Decoded::Transient(_) => Kind::Transient,
        Decoded::Message(_) => Kind::Message,
    }
}

fn rewritten(line: &str) -> String {
    String::from_utf8(encode(&message(line), None)).unwrap()
}

fn nested(depth: usize) -> String {
    let (open, close) = ("[".repeat(depth - 1), "]".repeat(depth - 1));
    format!(r#"{{"role":"user","content":"deep","x":{open}{close}}}"#)
}

#[test]
fn unknown_fields_come_back_last_with_their_numbers_untouched() {
    let line = concat!(
        r#"{"a": 1.50, "role":"user","n":12345678901234567890123,"content":"x","#,
        r#""tool_calls":[{"id":"c","extras":{"k": [1E+2, null]}}],"z":"< \/"}"#
    );
    let expected = concat!(
        r#"{"role":"user","content":"x","tool_calls":[{"id":"c","extras":{"k":[1E+2,null]}}],"#,
        r#""a":1.50,"n":12345678901234567890123,"z":"< \/"}"#
    );
    assert_eq!(rewritten(line), expected);
    assert_eq!(message(line).unknown_field("a"), Some("1.50"));
}

#[test]
fn a_missing_time_is_filled_in_and_a_given_one_stays() {
    let now = Some("2025-01-01T00:00:00Z");
    let stamped = encode(&Message::user("hi"), now);
    assert_eq!(
        stamped,
        br#"{"role":"user","content":"hi","created_at":"2025-01-01T00:00:00Z"}"#
    );
    let zero = r#"{"role":"user","content":"hi","created_at":"0001-01-01T00:00:00Z"}"#;
    assert_eq!(encode(&message(zero), now), zero.as_bytes());
}

#[test]
fn a_list_under_a_repeated_name_writes_over_the_elements_before() {
    let line = concat!(
        r#"{"role":"assistant","content":"","media":["a","b"],"media":["c"],"media":[null,null],"#,
        r#""tool_calls":[{"id":"1","type":"function","function":{"name":"f"}}],"#,
        r#""tool_calls":[{"id":"2","function":{"arguments":"{}"}}]}"#
    );
    let expected = concat!(
        r#"{"role":"assistant","content":"","media":["c","b"],"tool_calls":"#,
        r#"[{"id":"2","type":"function","function":{"name":"f","arguments":"{}"}}]}"#
    );
    assert_eq!(rewritten(line), expected);
    let emptied = r#"{"role":"user","content":"","media":["a"],"media":[],"media":[null]}"#;
    assert_eq!(
        rewritten(emptied),
        r#"{"role":"user","content":"","media":[""]}"#
    );
}

#[test]
fn names_fold_as_go_folds_them() {
    let line = "{\"ROLE\":\"tool\",\"content\":\"x\",\"tool_call\u{17f}\":[{\"id\":\"c\"}],\
        \"tool_feedbac\u{212a}\":1}";
    let expected = "{\"role\":\"tool\",\"content\":\"x\",\"tool_calls\":[{\"id\":\"c\"}],\
        \"tool_feedbac\u{212a}\":1}";
    assert_eq!(rewritten(line), expected);
    assert_eq!(message(r#"{"r\u006fle":"user"}"#).role(), "user");
}

#[test]
fn nesting_up_to_ten_thousand_is_read_without_recursion() {
    for depth in [128, 1_000, 10_000] {
        let line = nested(depth);
        assert_eq!(rewritten(&line), line);
        assert_eq!(classify(line.as_bytes()), Kind::Message);
    }
    assert_eq!(classify(nested(10_001).as_bytes()), Kind::Corrupt);
    let wrong_type = format!(r#"{{"role":{}{}}}"#, "[".repeat(9_999), "]".repeat(9_999));
    assert_eq!(classify(wrong_type.as_bytes()), Kind::Corrupt);
}

#[test]
fn what_is_written_is_checked() {
    for (json, accepted) in [
        (r#"{"role":"user","content":"x"}"#, true),
        (" {} ", true),
        (
            "{\n  \"role\": \"user\",\n  \"x\": [\n    1\n  ]\n}\n",
            true,
        ),
        (&*nested(128), true),
        (&*nested(129), false),
        ("null", false),
        ("[]", false),
        ("", false),
        ("{} {}", false),
        (r#"{"content":1}"#, false),
        (r#"{"role":"_usage","token_count":1}"#, false),
        (r#"{"Role":"_mine"}"#, false),
    ] {
        match Message::from_json(json.as_bytes()) {
            Ok(message) => {
                assert!(accepted, "{json}");
                let line = encode(&message, None);
                assert!(!line.contains(&b'\n'), "{json}");
                assert_eq!(decode(&line), Decoded::Message(message));
            }
            Err(Error::InvalidMessage { .. }) => assert!(!accepted, "{json}"),
            Err(other) => panic!("{other}"),
        }
    }
    assert!(Message::new("_usage", "").check_writable().is_err());
}

#[test]
fn parts_make_a_text_and_come_back_as_they_were() {
    let line = concat!(
        r#"{"role":"assistant","content":[{"type":"think","think":"hm","encrypted":null},"#,
        r#"{"type":"text","text":"a\u0062"},{"type":"file","x":1.0},{"type":"text","text":"c"}]}"#
    );
    assert_eq!(message(line).text(), "abc");
    assert!(message(line).content_parts().is_some());
    assert_eq!(rewritten(line), line);
    for wrong in [
        "[1]",
        "[null]",
        r#"["a"]"#,
        "[{}]",
        r#"[{"type":5}]"#,
        r#"[{"type":"text"}]"#,
        r#"[{"type":"text","text":null}]"#,
        r#"[{"type":"image_url","image_url":"u"}]"#,
        r#"[{"type":"audio_url","audio_url":{"url":"u","id":1}}]"#,
        r#"[{"type":"think","think":"t","encrypted":1}]"#,
        r#"{"type":"text","text":"x"}"#,
    ] {
        let line = format!(r#"{{"role":"user","content":{wrong}}}"#);
        assert_eq!(classify(line.as_bytes()), Kind::Corrupt, "{line}");
    }
}

#[test]
fn serde_leaves_out_only_what_it_could_not_read_back() {
    let line = nested(300).replacen("{\"", "{\"big\":1e999,\"lone\":\"\\ud83d\",\"", 1);
    let message = message(&line);
    let expected = serde_json::json!({"role": "user", "content": "deep", "lone": "\u{fffd}"});
    assert_eq!(serde_json::to_value(&message).unwrap(), expected);
    let text = serde_json::to_string(&vec![message.clone()]).unwrap();
    assert_eq!(serde_json::from_str::<Value>(&text).unwrap()[0], expected);
    let kept = encode(&message, None);
    assert!(String::from_utf8(kept).unwrap().contains("1e999"));
}

#[test]
fn a_message_deserialises_from_text_and_from_a_value() {
    let original = Message::assistant("calling")
        .with_tool_call("c1", "search", r#"{"q":"<x>"}"#)
        .with_attachment(Attachment::new("file", "media://1"))
        .with_system_part(SystemPart::text("s").ephemeral());
    let text = serde_json::to_string(&original).unwrap();
    assert_eq!(serde_json::from_str::<Message>(&text).unwrap(), original);
    let value = serde_json::to_value(&original).unwrap();
    assert_eq!(serde_json::from_value::<Message>(value).unwrap(), original);
    assert!(serde_json::from_str::<Message>(r#"{"role":"_usage"}"#).is_err());
}

#[test]
fn only_line_feeds_end_lines() {
    let text = "a\r\n\n\u{2028}b\u{85}\rc\nlast";
    let found: Vec<_> = lines(text.as_bytes()).collect();
    let expected = [
        (0, &b"a\r"[..]),
        (3, b""),
        (4, "\u{2028}b\u{85}\rc".as_bytes()),
        (13, b"last"),
    ];
    assert_eq!(found, expected);
    assert_eq!(lines(b"").count(), 0);
    assert_eq!(lines(b"\n").count(), 1);
}

#[test]
fn a_tool_call_has_the_shape_providers_expect() {
    let call = ToolCall::function("c", "f", "{}");
    let line = encode(&Message::assistant("").with_tool_call("c", "f", "{}"), None);
    let expected = concat!(
        r#"{"role":"assistant","content":"","tool_calls":"#,
        r#"[{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}]}"#
    );
    assert_eq!(line, expected.as_bytes());
    assert_eq!(message(expected).tool_calls(), [call]);
}
