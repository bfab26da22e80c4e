//! Anything that can be written, and anything that can be read.

use proptest::prelude::*;
use serde_json::Value;
use serde_json::value::RawValue;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::kind;
use crate::session_file::scan::Scanner;
use crate::session_file::{Attachment, Decoded, Message, SessionMeta, SystemPart};
use crate::session_file::{
    classify, decode, decode_sidecar, encode, encode_sidecar, is_on_the_way, on_the_way,
};
use crate::session_file::{encoded_sidecar_len, hashed_stem, is_safe_stem};
use crate::stamp::rfc3339;

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
    fn a_sidecar_may_be_written_over_only_if_every_mixture_is_one(
        key in any_text(),
        counts in prop::array::uniform2(prop_oneof![0..3_i64, 7..120_i64, 995..1_005_i64]),
        skips in prop::array::uniform2(prop_oneof![9 => Just(8_i64), 1 => 0..20_i64]),
        seconds in prop::array::uniform2(1_767_312_000..1_767_320_000_i64),
        nanos in prop::array::uniform2(prop_oneof![9 => 999_999_991..1_000_000_000_u32, 1 => 0..100_u32]),
        aliases in prop::array::uniform2(prop_oneof![9 => Just(1), 1 => 0..3]),
        mixtures in prop::collection::vec(any::<u64>(), 8),
    ) {
        let sidecar = |nth: usize| {
            let when = OffsetDateTime::from_unix_timestamp(seconds[nth]).unwrap();
            let mut meta = SessionMeta::empty(key.clone());
            meta.skip = skips[nth];
            meta.count = counts[nth];
            meta.updated_at = rfc3339(when.replace_nanosecond(nanos[nth]).unwrap());
            meta.aliases.push(format!("u{}", aliases[nth]));
            encode_sidecar(&meta)
        };
        let (old, new) = (sidecar(0), sidecar(1));
        let steps = on_the_way(&old, &new);
        let may = steps.is_some();
        let rest_is_same = skips[0] == skips[1] && aliases[0] == aliases[1];
        prop_assert!(rest_is_same || !may);
        let is_same_hour = seconds[0] / 3_600 == seconds[1] / 3_600;
        let is_same_time = (nanos[0] % 10 == 0) == (nanos[1] % 10 == 0);
        let is_same_shape = old.len() == new.len() && is_same_time;
        let digits = counts.map(|count| count.to_string().len());
        let grows_well = digits[0] == digits[1] || digits[0] <= digits[1] + 1 && !counts.contains(&0);
        prop_assert_eq!(may, rest_is_same && is_same_hour && is_same_shape && grows_well);
        let mut last = old;
        let steps = steps.map(|steps| steps.into_iter().chain([new.clone()]));
        for step in steps.into_iter().flatten() {
            for mixture in &mixtures {
                let parts = last.iter().zip(&step).enumerate();
                let mixed: Vec<u8> = parts
                    .map(|(at, (old, new))| if mixture >> (at % 61) & 1 == 0 { *old } else { *new })
                    .collect();
                let meta = decode_sidecar(&mixed).unwrap();
                prop_assert_eq!((meta.key.as_str(), meta.skip), (key.as_str(), skips[0]));
                prop_assert!(OffsetDateTime::parse(&meta.updated_at, &Rfc3339).is_ok());
            }
            if step != new {
                let count = decode_sidecar(&step).unwrap().count;
                prop_assert!(is_on_the_way(counts[0], count, counts[1]), "{count}");
            }
            last = step;
        }
    }

    #[test]
    fn every_hashed_name_is_safe(key in ".{0,300}") {
        prop_assert!(is_safe_stem(&hashed_stem(&key)));
    }
}
