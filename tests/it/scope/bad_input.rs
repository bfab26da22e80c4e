//! Ids that are not as they should be: each comes to something defined.

use std::collections::BTreeMap;

use serde_json::value::RawValue;
use sessionlog::scope::{
    Allocation, InboundContext, SessionPolicy, SessionScope, allocate_route_session, collides,
    resolve_agent_id,
};

use crate::scope::inputs::distinguishing;

/// An allocation under a policy that distinguishes everything, isolated.
fn allocate(set: impl FnOnce(&mut InboundContext)) -> Allocation {
    let mut context = InboundContext {
        channel: "irc".into(),
        chat_id: "1".into(),
        chat_type: "group".into(),
        sender_id: "bob".into(),
        ..InboundContext::default()
    };
    set(&mut context);
    allocate_route_session("main", &context, &distinguishing(BTreeMap::new())).isolated()
}

#[test]
fn an_empty_or_blank_id_leaves_its_dimension_out() {
    for blank in ["", " ", "\n\t\u{3000}"] {
        let scope = allocate(|context| context.sender_id = blank.into()).scope;
        assert_eq!(scope.dimensions, ["chat"]);
    }
    let nothing = allocate(|context| *context = InboundContext::default()).scope;
    assert_eq!(
        nothing.to_raw().get(),
        r#"{"version":1,"agent_id":"main","channel":"unknown","account":"default","dimensions":null,"values":null}"#,
    );
}

#[test]
fn ids_that_look_empty_but_are_not_are_ids() {
    for id in ["\u{200b}", "\u{feff}", "\u{1f}", "\0"] {
        let scope = allocate(|context| context.sender_id = id.into()).scope;
        assert_eq!(scope.values["sender"], id);
    }
}

#[test]
fn ids_that_hold_what_keys_are_joined_with_lead_to_sessions_of_their_own() {
    let ids = [
        "1",
        "1:2",
        "1/2",
        "1|2",
        "1=2",
        "1\n2",
        "1|sender=bob",
        "1|chat=group:1",
        ":",
        "/",
        "|",
        "=",
    ];
    for (i, one) in ids.iter().enumerate() {
        for other in &ids[..i] {
            let chat = |id: &str| allocate(|context| context.chat_id = id.into()).session_key;
            assert_ne!(chat(one), chat(other), "{one} {other}");
            let sender = |id: &str| allocate(|context| context.sender_id = id.into()).session_key;
            assert_ne!(sender(one), sender(other), "{one} {other}");
        }
    }
}

#[test]
fn a_chat_that_spells_a_topic_is_not_that_topic() {
    let policy = SessionPolicy {
        dimensions: vec!["chat".into()],
        ..SessionPolicy::default()
    };
    let allocate = |chat: &str, topic: &str| {
        let context = InboundContext {
            channel: "telegram".into(),
            chat_id: chat.into(),
            chat_type: "group".into(),
            topic_id: topic.into(),
            ..InboundContext::default()
        };
        allocate_route_session("main", &context, &policy)
    };
    let (topic, forged) = (allocate("1", "42"), allocate("1/42", ""));
    assert_eq!(topic.session_key, forged.session_key);
    assert_eq!(topic.session_aliases, forged.session_aliases);
    assert_eq!(topic.clone().isolated().session_key, topic.session_key);
    let forged = forged.isolated();
    assert_ne!(topic.session_key, forged.session_key);
    assert_eq!(forged.session_aliases, [""; 0]);
}

#[test]
fn a_topic_in_a_private_chat_takes_no_name_of_the_chat() {
    let private = |topic: &str| {
        let topic = topic.to_owned();
        allocate(move |context| {
            context.chat_type = "direct".into();
            context.sender_id = context.chat_id.clone();
            context.topic_id = topic;
        })
    };
    assert_eq!(private("").session_aliases.len(), 2);
    assert_eq!(private("42").session_aliases, [""; 0]);
}

#[test]
fn a_kind_that_spells_an_id_is_not_that_id() {
    let one = allocate(|context| (context.chat_type, context.chat_id) = ("a".into(), "b:c".into()));
    let other =
        allocate(|context| (context.chat_type, context.chat_id) = ("a:b".into(), "c".into()));
    assert_eq!(one.scope, other.scope);
    assert_ne!(one.session_key, other.session_key);
}

#[test]
fn an_id_of_64_kib_is_hashed_like_any_other() {
    let long = |last: char| format!("{}{last}", "x".repeat(65_535));
    let key = |id: String| allocate(|context| context.chat_id = id);
    assert_ne!(key(long('a')).session_key, key(long('b')).session_key);
    assert_eq!(key(long('a')).session_key, key(long('A')).session_key);
    assert_eq!(key(long('a')).session_key.len(), 70);
    let agent = allocate_route_session(
        &long('a'),
        &InboundContext::default(),
        &SessionPolicy::default(),
    );
    assert_eq!(agent.scope.agent_id, "x".repeat(64));
}

#[test]
fn mixed_scripts_are_folded_letter_by_letter() {
    let scope = allocate(|context| context.sender_id = "ΟΔΥΣΣΕΥΣ İ 文Ж\u{212a}ẞ".into()).scope;
    assert_eq!(scope.values["sender"], "οδυσσευσ i 文жkß");
    let (greek, latin) = ("ΑΒΕ", "ABE");
    let key = |id: &str| allocate(|context| context.sender_id = id.into()).session_key;
    assert_ne!(key(greek), key(latin));
}

#[test]
fn an_unknown_dimension_is_ignored() {
    let context = InboundContext {
        channel: "irc".into(),
        chat_id: "1".into(),
        ..InboundContext::default()
    };
    let with = |dimensions: &[&str]| {
        let dimensions = dimensions.iter().map(|&name| name.into()).collect();
        let policy = SessionPolicy {
            dimensions,
            ..SessionPolicy::default()
        };
        allocate_route_session("main", &context, &policy).session_key
    };
    assert_eq!(
        with(&["chat"]),
        with(&["Chat", "", "chat", " chat ", "weather"])
    );
    assert_ne!(with(&["chat"]), with(&["Chat"]));
}

#[test]
fn an_invalid_scope_gives_its_session_to_nobody_who_could_be_a_forger() {
    let raw = |json: &str| RawValue::from_string(json.into()).unwrap();
    let honest = allocate(|_| {}).scope;
    let forged = allocate(|context| context.chat_id = "1|sender=bob".into()).scope;
    for json in [
        "1",
        "[]",
        "\"x\"",
        r#"{"version":"1"}"#,
        r#"{"values":{"chat":7}}"#,
    ] {
        assert!(SessionScope::from_json(json).is_err());
        assert!(!collides(&raw(json), &honest));
        assert!(collides(&raw(json), &forged));
    }
    assert!(!collides(&raw("null"), &forged));
}

#[test]
fn a_sessions_agent_comes_from_its_scope_then_from_its_key() {
    let scope = |agent: &str| SessionScope {
        agent_id: agent.into(),
        ..SessionScope::default()
    };
    let resolve = |agent: &str, key: &str| resolve_agent_id(Some(&scope(agent)), key);
    assert_eq!(
        resolve("Sales Bot", "agent:x:y").as_deref(),
        Some("sales-bot")
    );
    assert_eq!(resolve(" ", "agent:X:y").as_deref(), Some("x"));
    assert_eq!(resolve("", "sk_v1_00"), None);
}
