//! The codec's promises beyond the recorded cases.

use proptest::prelude::*;
use serde_json::Value;
use serde_json::value::RawValue;

use super::control::Control;
use super::encoded_sidecar_len;
use super::scan::Scanner;
use super::{Attachment, hashed_stem, is_safe_stem, lines, validate_key};
use super::{Decoded, Kind, Message, SessionMeta, ToolCall};
use super::{SystemPart, classify, decode, decode_sidecar, encode, encode_sidecar};
use crate::Error;

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
fn a_message_picoclaw_added_under_a_control_role_is_a_message() {
    let line = r#"{"role":"_usage","content":"x","created_at":"2025-03-03T15:41:55Z"}"#;
    assert_eq!(rewritten(line), line);
    assert!(message(line).check_writable().is_ok());
}

#[test]
fn control_records_are_told_by_their_role() {
    let system_prompt = Control::SystemPrompt {
        content: "new\nline".into(),
    };
    for (line, control) in [
        (
            r#"{"role": "_usage", "token_count": 42}"#,
            Control::Usage { token_count: 42 },
        ),
        (
            r#"{"role":"_usage","token_count":true}"#,
            Control::Usage { token_count: 1 },
        ),
        (
            r#"{"id":-1,"role":"_checkpoint"}"#,
            Control::Checkpoint {
                id: -1,
                lost: false,
            },
        ),
        (
            r#"{"role":"_system_prompt","content":"new\nline"}"#,
            system_prompt,
        ),
        (r#"{"role":"_usage","token_count":1.0}"#, Control::Foreign),
        (
            r#"{"role":"_usage","token_count":1,"token_count":null}"#,
            Control::Foreign,
        ),
        (r#"{"role":"_checkpoint","id":"1"}"#, Control::Foreign),
        (r#"{"role":"_system_prompt","content":5}"#, Control::Foreign),
        (
            r#"{"role":"\u005fmine","content":{"a":1}}"#,
            Control::Foreign,
        ),
        (
            r#"{"content":1,"role":"user","role":"_other"}"#,
            Control::Foreign,
        ),
    ] {
        assert_eq!(classify(line.as_bytes()), Kind::Control, "{line}");
        assert_eq!(decode(line.as_bytes()), Decoded::Control(control), "{line}");
    }
    for corrupt in [
        r#"{"role":"_usage","token_count":1"#,
        r#"{"role":"_usage","content":[}"#,
        r#"{"role":"_usage","role":5}"#,
        r#"["_usage"]"#,
    ] {
        assert_eq!(classify(corrupt.as_bytes()), Kind::Corrupt, "{corrupt}");
    }
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
fn sidecars_are_read_as_leniently_as_go_reads_them() {
    let padded = b"{\"KEY\":\"k\",\"aliases\":[\" a \",null,\"a\"],\"x\":1,\"skip\":-0}\n \t  ";
    let meta = decode_sidecar(padded).unwrap();
    assert_eq!((&*meta.key, meta.skip), ("k", 0));
    assert_eq!(meta.aliases, [" a ", "", "a"]);
    assert_eq!(meta.created_at, crate::ground::clock::ZERO_TIME);
    assert!(decode_sidecar(b"null").unwrap().key.is_empty());
    for wrong in [
        "",
        "[]",
        "{",
        "{}x",
        r#"{"skip":1.0}"#,
        r#"{"skip":1e2}"#,
        r#"{"count":9223372036854775808}"#,
        r#"{"skip":"1"}"#,
        r#"{"created_at":"yesterday"}"#,
        r#"{"updated_at":0}"#,
        r#"{"aliases":"a"}"#,
        r#"{"aliases":[1]}"#,
        "\u{feff}{}",
        "\0\0\0",
    ] {
        assert!(decode_sidecar(wrong.as_bytes()).is_err(), "{wrong}");
    }
}

#[test]
fn a_scope_is_laid_out_anew_with_its_numbers_untouched() {
    let mut meta = SessionMeta::empty("<k>");
    let scope = "{ \"a\":[ ],\"b\":{\n},\"c\":[1.50,{\"d\":\"x: [,]\\\"<\"}],\"n\":1e400}";
    meta.scope = Some(RawValue::from_string(scope.to_owned()).unwrap());
    meta.aliases = vec!["x&y".to_owned()];
    let expected = r#"{
  "key": "\u003ck\u003e",
  "summary": "",
  "skip": 0,
  "count": 0,
  "created_at": "0001-01-01T00:00:00Z",
  "updated_at": "0001-01-01T00:00:00Z",
  "scope": {
    "a": [],
    "b": {},
    "c": [
      1.50,
      {
        "d": "x: [,]\"\u003c"
      }
    ],
    "n": 1e400
  },
  "aliases": [
    "x\u0026y"
  ]
}"#;
    let expected = expected.replace("[,]\"", "[,]\\\"");
    assert_eq!(String::from_utf8(encode_sidecar(&meta)).unwrap(), expected);
}

#[test]
fn unsafe_names_are_told_and_hashed_ones_are_safe() {
    for safe in ["a", "telegram_123", "con", "a b", "ä", &"x".repeat(200)] {
        assert_eq!(
            is_safe_stem(safe),
            safe != "con" || !cfg!(windows),
            "{safe}"
        );
    }
    for unsafe_name in [
        "",
        ".",
        "..",
        ".hidden",
        "a\nb",
        "a\u{85}",
        "a/b",
        &"x".repeat(201),
    ] {
        assert!(!is_safe_stem(unsafe_name), "{unsafe_name:?}");
    }
    assert_ne!(hashed_stem("a:b"), hashed_stem("a_b"));
    assert!(hashed_stem("a:b").starts_with("a_b-"));
}

#[test]
fn keys_no_session_can_have_are_refused() {
    for (key, accepted) in [
        ("", false),
        ("a\0b", false),
        (&*"x".repeat(1025), false),
        (&*"x".repeat(1024), true),
        (" ", true),
        ("../etc", true),
    ] {
        let refused = matches!(validate_key(key), Err(Error::InvalidKey { .. }));
        assert_eq!(refused, !accepted, "{key:?}");
    }
}

fn any_text() -> impl Strategy<Value = String> {
    prop_oneof![".*", "[ \u{0}-\u{1f}\"\\\\<>&\u{2028}\u{2029}\u{3000}a]*"]
}

prop_compose! {
    fn any_message()(
        role in prop_oneof!["assistant", "[^_].*", Just(String::new())],
        texts in prop::array::uniform6(any_text()),
        media in prop::collection::vec(any_text(), 0..3),
        calls in prop::collection::vec((any_text(), any_text()), 0..3),
    ) -> Message {
        let [content, reasoning, model, call_id, kind, part] = texts;
        let mut message = Message::new(role, content)
            .with_reasoning(reasoning)
            .with_model_name(model)
            .with_attachment(Attachment::new(kind, call_id.clone()))
            .with_system_part(SystemPart::text(part).ephemeral());
        for medium in media {
            message = message.with_media(medium);
        }
        for (id, arguments) in calls {
            message = message.with_tool_call(id, "f", arguments);
        }
        message
    }
}

/// Lines like those on disk, damaged at one place.
fn damaged_line() -> impl Strategy<Value = Vec<u8>> {
    const LINES: [&str; 4] = [
        r#"{"role":"assistant","content":"a\u003c\ud83d\ude00é","created_at":"2025-01-02T03:04:05.5+08:00","tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}]}"#,
        r#"{"role":"assistant","content":"","reasoning_content":"hm","x":{"y":[1.5e-3,true,null]}}"#,
        r#"{"role": "_usage", "token_count": 42}"#,
        r#"{"role":"user","content":[{"type":"text","text":"a"},{"type":"think","think":"b"}]}"#,
    ];
    let places = (
        0..LINES.len(),
        any::<prop::sample::Index>(),
        0..3,
        any::<u8>(),
    );
    places.prop_map(|(line, index, damage, byte)| {
        let mut bytes = LINES[line].as_bytes().to_vec();
        let at = index.index(bytes.len());
        match damage {
            0 => bytes.truncate(at),
            1 => bytes[at] = byte,
            _ => bytes.insert(at, byte),
        }
        bytes
    })
}

proptest! {
    #[test]
    fn a_written_message_is_read_back(message in any_message()) {
        let line = encode(&message, None);
        prop_assert!(!line.contains(&b'\n'));
        let expected = if message.is_transient() {
            Decoded::Transient(message.clone())
        } else {
            Decoded::Message(message.clone())
        };
        prop_assert_eq!(decode(&line), expected);
        let value = serde_json::to_value(&message).unwrap();
        prop_assert_eq!(&serde_json::from_slice::<Value>(&line).unwrap(), &value);
        prop_assert_eq!(serde_json::from_value::<Message>(value).unwrap(), message);
    }

    #[test]
    fn classifying_agrees_with_decoding(line in damaged_line()) {
        let decoded = decode(&line);
        prop_assert_eq!(classify(&line), kind(&decoded));
        if let Decoded::Message(message) = decoded {
            let canonical = encode(&message, None);
            prop_assert_eq!(decode(&canonical), Decoded::Message(message));
        }
    }

    #[test]
    fn any_bytes_are_some_kind_of_line(line in prop::collection::vec(any::<u8>(), 0..64)) {
        prop_assert_eq!(classify(&line), kind(&decode(&line)));
        let _ = decode_sidecar(&line);
    }

    #[test]
    fn the_scanner_accepts_what_serde_json_accepts(line in damaged_line()) {
        if let Ok(text) = std::str::from_utf8(&line) {
            let mut scanner = Scanner::new(text);
            let accepted = scanner.value().and_then(|_| scanner.finish()).is_ok();
            prop_assert_eq!(accepted, serde_json::from_str::<&RawValue>(text).is_ok());
        }
    }

    #[test]
    fn a_sidecar_is_read_back(
        key in any_text(),
        summary in any_text(),
        skip in any::<i64>(),
        aliases in prop::collection::vec(any_text(), 0..3),
        levels in prop::option::of(0..12_000_usize),
    ) {
        let mut meta = SessionMeta::empty(key);
        meta.summary = summary;
        meta.skip = skip;
        meta.aliases = aliases;
        let bytes = encode_sidecar(&meta);
        prop_assert_eq!(bytes.len(), encoded_sidecar_len(&meta));
        let again = serde_json::to_value(decode_sidecar(&bytes).unwrap()).unwrap();
        prop_assert_eq!(&again, &serde_json::to_value(&meta).unwrap());
        prop_assert_eq!(again, serde_json::from_slice::<Value>(&bytes).unwrap());

        let Some(levels) = levels else { return Ok(()) };
        let small = bytes.len();
        let scope = format!("{}1{}", "[".repeat(levels), "]".repeat(levels));
        meta.scope = Some(RawValue::from_string(scope.clone()).unwrap());
        let bytes = encode_sidecar(&meta);
        prop_assert_eq!(bytes.len(), encoded_sidecar_len(&meta));
        prop_assert!(bytes.len() <= (2 << 20) + 4 * small, "{} bytes", bytes.len());
        let again = decode_sidecar(&bytes).unwrap();
        prop_assert_eq!(again.skip, skip);
        prop_assert_eq!(again.scope.map(|scope| scope.get().to_owned()), Some(scope));
    }

    #[test]
    fn every_hashed_name_is_safe(key in ".{0,300}") {
        prop_assert!(is_safe_stem(&hashed_stem(&key)));
    }
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
