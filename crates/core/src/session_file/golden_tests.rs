//! The codec against the files that the two reference programs read and wrote.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::codec_tests::kind;
use super::control::Control;
use super::{Decoded, Kind, classify, decode, decode_sidecar, encode};
use super::{Message, SessionTags, encode_sidecar, lines, names};

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../tests/golden")
        .join(name)
}

fn read_json(path: &Path) -> Value {
    let text = std::fs::read_to_string(path).unwrap();
    serde_json::from_str(&text).unwrap()
}

fn list<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    value[name].as_array().unwrap()
}

fn raw_line(vector: &Value) -> Vec<u8> {
    match vector["raw"].as_str() {
        Some(raw) => raw.as_bytes().to_vec(),
        None => base64(vector["raw_base64"].as_str().unwrap()),
    }
}

fn base64(text: &str) -> Vec<u8> {
    const ALPHABET: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let (mut bytes, mut bits, mut pending) = (Vec::new(), 0u32, 0);
    for digit in text.trim_end_matches('=').bytes() {
        let six = ALPHABET.iter().position(|known| *known == digit).unwrap();
        bits = bits << 6 | u32::try_from(six).unwrap();
        pending += 6;
        if pending >= 8 {
            pending -= 8;
            bytes.push((bits >> pending & 0xff) as u8);
        }
    }
    bytes
}

/// Replaces long strings by their digest, as the golden data does.
fn shortened(value: Value) -> Value {
    match value {
        Value::String(text) if text.len() > 4096 => serde_json::json!({
            "$sha256": sha256(text.as_bytes()),
            "$bytes": text.len(),
        }),
        Value::Array(items) => items.into_iter().map(shortened).collect(),
        Value::Object(fields) => fields
            .into_iter()
            .map(|(name, value)| (name, shortened(value)))
            .collect(),
        other => other,
    }
}

fn sha256(bytes: &[u8]) -> String {
    use sha2::Digest;
    use std::fmt::Write;
    let mut text = String::new();
    for byte in sha2::Sha256::digest(bytes) {
        write!(text, "{byte:02x}").unwrap();
    }
    text
}

/// A byte order mark.
const MARK: &[u8] = "\u{feff}".as_bytes();

/// The kind that we give a line to which PicoClaw gives `result`. We read more:
/// control records are not messages, and a list of parts is accepted as content.
fn expected_kind(vector: &Value, raw: &[u8]) -> Kind {
    const PARTS: [&str; 2] = [
        r#"{"role":"user","content":[]}"#,
        r#"{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}"#,
    ];
    match vector["result"].as_str().unwrap() {
        "blank" => Kind::Blank,
        "transient" => Kind::Transient,
        "corrupt" if PARTS.iter().any(|line| line.as_bytes() == raw) => Kind::Message,
        // In a line with a byte order mark in front, the rest counts.
        "corrupt" if raw.starts_with(MARK) => Kind::Message,
        "corrupt" => Kind::Corrupt,
        _ => {
            let message = &vector["message"];
            let control = message["role"].as_str().unwrap().starts_with('_');
            if control && message["created_at"].is_null() {
                Kind::Control
            } else {
                Kind::Message
            }
        }
    }
}

#[test]
fn every_line_is_told_as_picoclaw_tells_it() {
    let vectors = read_json(&golden("lines.json"));
    for vector in list(&vectors, "lines") {
        let raw = raw_line(vector);
        let expected = expected_kind(vector, &raw);
        let shown = String::from_utf8_lossy(&raw[..raw.len().min(300)]).into_owned();
        assert_eq!(kind(&decode(&raw)), expected, "{shown}");
        assert_eq!(classify(&raw), expected, "{shown}");
        assert_eq!(expected != Kind::Blank, vector["counted"], "{shown}");
    }
}

#[test]
fn every_message_is_read_and_written_as_picoclaw_does() {
    let vectors = read_json(&golden("lines.json"));
    let mut seen = 0;
    for vector in list(&vectors, "lines") {
        let raw = raw_line(vector);
        let Decoded::Message(message) = decode(&raw) else {
            continue;
        };
        if vector["result"] != "message" {
            continue;
        }
        seen += 1;
        let line = encode(&message, None);
        assert_eq!(decode(&line), Decoded::Message(message.clone()));
        let known = without_unknown(message);
        let mut value = serde_json::to_value(&known).unwrap();
        if vector["canonical_error"] == true {
            // PicoClaw reads this time but cannot write it; we do both.
            let time = value["created_at"].take();
            assert_eq!(time, "2025-01-02T03:04:05+24:00");
            value.as_object_mut().unwrap().remove("created_at");
        } else {
            let canonical = String::from_utf8(encode(&known, None)).unwrap();
            assert_eq!(Some(&*canonical), vector["canonical"].as_str());
            let text = serde_json::to_string(&known).unwrap();
            assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), value);
        }
        assert_eq!(shortened(value), shortened(vector["message"].clone()));
    }
    assert!(seen > 140, "{seen}");
}

/// The conversation layer handles lines that only one of kimi-cli and PicoClaw reads as a
/// message. Here every message that kimi-cli reads must be one, unless only its lenient reader
/// accepts the line as JSON.
#[test]
fn every_message_kimi_cli_reads_from_valid_json_is_a_message() {
    let vectors = read_json(&golden("kimi/lines.json"));
    for vector in list(&vectors, "lines") {
        let raw = raw_line(vector);
        let shown = String::from_utf8_lossy(&raw).into_owned();
        let state = &vector["state"];
        match (vector["result"].as_str().unwrap(), decode(&raw)) {
            ("message", Decoded::Message(message)) => {
                let expected = &state["history"][0];
                assert_eq!(message.role(), expected["role"], "{shown}");
                if let Some(text) = expected["content"].as_str() {
                    assert_eq!(message.text(), text, "{shown}");
                }
            }
            ("usage", Decoded::Control(Control::Usage { token_count })) => {
                assert_eq!(state["token_count"], token_count, "{shown}");
            }
            ("checkpoint", Decoded::Control(Control::Checkpoint { id, .. })) => {
                assert_eq!(state["n_checkpoints"], id + 1, "{shown}");
            }
            ("system_prompt", Decoded::Control(Control::SystemPrompt { content })) => {
                assert_eq!(state["system_prompt"], content, "{shown}");
            }
            ("malformed", decoded) => {
                let bare_null = raw == b"null";
                let marked = raw.starts_with(MARK);
                assert!(
                    bare_null || marked || matches!(decoded, Decoded::Corrupt(_)),
                    "{shown}"
                );
            }
            (_, Decoded::Corrupt(_)) if serde_json::from_slice::<Value>(&raw).is_err() => {}
            ("ignored", Decoded::Message(_) | Decoded::Control(Control::Foreign))
            | ("ignored" | "blank", Decoded::Corrupt(_)) => {}
            (result, decoded) => panic!("{result}: {shown}: {decoded:?}"),
        }
    }
}

#[test]
fn what_kimi_cli_writes_survives_a_rewrite() {
    let vectors = read_json(&golden("kimi/serialize.json"));
    for vector in list(&vectors, "messages") {
        let raw = vector["line"].as_str().unwrap();
        let Decoded::Message(message) = decode(raw.as_bytes()) else {
            panic!("{raw}");
        };
        let rewritten: Value = serde_json::from_slice(&encode(&message, None)).unwrap();
        let mut original: Value = serde_json::from_str(raw).unwrap();
        // A call without arguments gets PicoClaw's empty ones.
        if let Some(calls) = original["tool_calls"].as_array_mut() {
            for call in calls {
                let function = call["function"].as_object_mut().unwrap();
                function.entry("arguments").or_insert("".into());
            }
        }
        let fields = original.as_object_mut().unwrap();
        fields.retain(|_, value| !value.is_null());
        fields.entry("content").or_insert("".into());
        assert_eq!(rewritten, original, "{raw}");
    }
}

#[test]
fn every_sidecar_is_read_as_picoclaw_reads_it() {
    let (mut read, mut exact) = (0, 0);
    for (path, session, clean) in sidecars() {
        let Ok(text) = std::fs::read_to_string(&path) else {
            continue;
        };
        let decoded = decode_sidecar(text.as_bytes());
        if session["meta"].is_null() {
            assert!(decoded.is_err(), "{}", path.display());
            continue;
        }
        let mut meta = decoded.unwrap();
        if clean {
            let bytes = String::from_utf8(encode_sidecar(&meta)).unwrap();
            // Byte for byte, except for the room after the count.
            let count = format!("\"count\": {}", meta.count);
            let room = format!("{count:17}");
            assert!(text.contains(&format!("{count},")), "{}", path.display());
            assert_eq!(bytes.replace(&room, &count), text, "{}", path.display());
            exact += 1;
        }
        let again = decode_sidecar(&encode_sidecar(&meta)).unwrap();
        let again = serde_json::to_value(again).unwrap();
        assert_eq!(serde_json::to_value(&meta).unwrap(), again);
        if meta.key.is_empty() {
            meta.key = session["key"].as_str().unwrap().to_owned();
        }
        // PicoClaw drops unknown fields.
        meta.tags = SessionTags::default();
        let value = serde_json::to_value(&meta).unwrap();
        assert_eq!(shortened(value), session["meta"], "{}", path.display());
        read += 1;
    }
    assert!(read > 130 && exact > 80, "{read} {exact}");
}

/// The path and expectation of every sidecar; the flag is true if PicoClaw wrote the file.
fn sidecars() -> Vec<(PathBuf, Value, bool)> {
    let root = golden("sessions");
    let manifest = read_json(&root.join("manifest.json"));
    let mut all = Vec::new();
    for directory in list(&manifest, "dirs") {
        let path = root.join(directory["dir"].as_str().unwrap());
        let expected = read_json(&path.join("expected.json"));
        for session in list(&expected, "sessions") {
            let stem = session["file_stem"].as_str().unwrap();
            let sidecar = path.join("store").join(format!("{stem}.meta.json"));
            all.push((sidecar, session.clone(), directory["kind"] == "clean"));
        }
    }
    all
}

#[test]
fn names_and_aliases_are_as_picoclaw_derives_them() {
    let keys = read_json(&golden("keys.json"));
    let strings = |value: &Value| -> Vec<String> {
        let items = value.as_array().map(Vec::as_slice).unwrap_or_default();
        items
            .iter()
            .map(|item| item.as_str().unwrap().to_owned())
            .collect()
    };
    for vector in list(&keys, "files") {
        let key = vector["key"].as_str().unwrap();
        assert_eq!(names::plain_stem(key), vector["file_stem"]);
        assert_eq!(names::fnv1a32(key.as_bytes()), vector["fnv1a32"]);
        assert_eq!(names::fnv1a32(key.as_bytes()) % 64, vector["shard"]);
        assert!(names::is_safe_stem(&names::hashed_stem(key)), "{key:?}");
    }
    for vector in list(&keys, "is_main_alias") {
        let alias = vector["in"].as_str().unwrap();
        assert_eq!(names::is_main_alias(alias), vector["out"], "{alias}");
    }
    for vector in list(&keys, "short_circuits") {
        let key = vector["in"].as_str().unwrap();
        assert_eq!(names::short_circuits(key), vector["out"], "{key}");
    }
    for vector in list(&keys, "normalize_aliases") {
        let canonical = vector["canonical"].as_str().unwrap();
        let normal = names::normalize_aliases(canonical, &strings(&vector["aliases"]));
        assert_eq!(normal, strings(&vector["out"]), "{canonical}");
    }
}

/// The message as PicoClaw would have read it: without unknown fields.
fn without_unknown(mut message: Message) -> Message {
    message.unknown.clear();
    for attachment in &mut message.attachments {
        attachment.unknown.clear();
    }
    for part in &mut message.system_parts {
        part.unknown.clear();
        if let Some(cache_control) = &mut part.cache_control {
            cache_control.unknown.clear();
        }
    }
    for call in &mut message.tool_calls {
        call.unknown.clear();
        if let Some(function) = &mut call.function {
            function.unknown.clear();
        }
        if let Some(extra) = &mut call.extra_content {
            extra.unknown.clear();
            if let Some(google) = &mut extra.google {
                google.unknown.clear();
            }
        }
    }
    message
}

#[test]
fn every_line_picoclaw_wrote_is_rewritten_byte_for_byte() {
    let mut seen = 0;
    for (sidecar, _, clean) in sidecars() {
        let sidecar = sidecar.to_str().unwrap();
        let path = sidecar.replace(".meta.json", ".jsonl");
        let Some(file) = std::fs::read_to_string(path).ok().filter(|_| clean) else {
            continue;
        };
        for (offset, line) in lines(file.as_bytes()) {
            assert_eq!(&file.as_bytes()[offset..][..line.len()], line);
            match decode(line) {
                Decoded::Message(message) => {
                    // Go writes bytes that are not UTF-8 as the escape, and
                    // reads the character back.
                    let expected = String::from_utf8_lossy(line).replace("\\ufffd", "\u{fffd}");
                    let rewritten = String::from_utf8(encode(&message, None)).unwrap();
                    assert_eq!(rewritten, expected);
                }
                Decoded::Blank => {}
                other => panic!("{other:?}: {}", String::from_utf8_lossy(line)),
            }
            seen += 1;
        }
    }
    assert!(seen > 300, "{seen}");
}
