//! A session's names, and its sidecar.

use serde_json::value::RawValue;

use crate::error::Error;
use crate::session_file::{SessionMeta, decode_sidecar, encode_sidecar};
use crate::session_file::{hashed_stem, is_safe_stem, validate_key};

#[test]
fn sidecars_are_read_as_leniently_as_go_reads_them() {
    let padded = b"{\"KEY\":\"k\",\"aliases\":[\" a \",null,\"a\"],\"x\":1,\"skip\":-0}\n \t  ";
    let meta = decode_sidecar(padded).unwrap();
    assert_eq!((&*meta.key, meta.skip), ("k", 0));
    assert_eq!(meta.aliases, [" a ", "", "a"]);
    assert_eq!(meta.created_at, crate::stamp::ZERO_TIME);
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
        "\u{feff}\u{feff}{}",
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
  "count": 0       ,
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
