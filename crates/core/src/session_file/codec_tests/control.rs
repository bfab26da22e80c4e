//! Lines that are not messages.

use super::{message, rewritten};
use crate::session_file::control::Control;
use crate::session_file::{Decoded, Kind, classify, decode};

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
