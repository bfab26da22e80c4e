//! What broke PicoClaw, as far as keys go; what stores make of it is tested
//! beside them.

use std::collections::BTreeMap;

use sessionlog::scope::{
    InboundContext, SessionPolicy, allocate_route_session, build_session_key, collides,
};
use sessionlog::testing::names::is_main_alias;

use crate::scope::inputs::distinguishing;

/// The defect was a look at every session for one key; here a key costs no look
/// at any.
#[test]
fn p08_a_key_is_found_from_the_message_alone() {
    let key = |i: usize| {
        let context = InboundContext {
            channel: "telegram".into(),
            chat_id: i.to_string(),
            ..InboundContext::default()
        };
        allocate_route_session("main", &context, &distinguishing(BTreeMap::new())).session_key
    };
    let keys: std::collections::HashSet<String> = (0..10_000).map(key).collect();
    assert_eq!(keys.len(), 10_000);
}

#[test]
fn p14_a_forged_signature_is_known_for_one_and_kept_apart() {
    let allocate = |chat: &str, sender: &str| {
        let context = InboundContext {
            channel: "irc".into(),
            chat_id: chat.into(),
            sender_id: sender.into(),
            ..InboundContext::default()
        };
        allocate_route_session("main", &context, &distinguishing(BTreeMap::new()))
    };
    let (bob, forger) = (allocate("1", "bob"), allocate("1|sender=bob", ""));
    assert_eq!(
        bob.session_key, forger.session_key,
        "as PicoClaw computes them"
    );
    for (stored, new) in [(&bob, &forger), (&forger, &bob)] {
        assert!(collides(&stored.scope.to_raw(), &new.scope));
        assert!(!collides(&stored.scope.to_raw(), &stored.scope));
    }
    assert!(forger.is_ambiguous() && !bob.is_ambiguous());
    assert_ne!(forger.isolated().session_key, bob.isolated().session_key);
}

#[test]
fn p14_a_forged_channel_is_kept_apart_as_well() {
    let policy = SessionPolicy {
        dimensions: vec!["chat".into()],
        ..SessionPolicy::default()
    };
    let allocate = |channel: &str, chat: &str| {
        let context = InboundContext {
            channel: channel.into(),
            chat_id: chat.into(),
            ..InboundContext::default()
        };
        allocate_route_session("main", &context, &policy)
    };
    let plain = allocate("irc", "1|account=default|chat=direct:2");
    let forged = allocate("irc|account=default|chat=direct:1", "2");
    assert_eq!(plain.session_key, forged.session_key);
    assert_ne!(plain.isolated().session_key, forged.isolated().session_key);
}

#[test]
fn p14_nobody_becomes_a_linked_person_by_taking_the_name() {
    let links = BTreeMap::from([("Alice".to_owned(), vec!["irc:a77".to_owned()])]);
    let allocate = |sender: &str| {
        let context = InboundContext {
            channel: "irc".into(),
            sender_id: sender.into(),
            ..InboundContext::default()
        };
        allocate_route_session("main", &context, &distinguishing(links.clone()))
    };
    let (alice, stranger) = (allocate("a77"), allocate("ALICE"));
    assert_eq!(
        alice.session_key, stranger.session_key,
        "as PicoClaw computes them"
    );
    assert_ne!(
        alice.isolated().session_key,
        stranger.isolated().session_key
    );
}

#[test]
fn p15_every_agents_main_session_is_known_by_its_alias_and_is_no_conversations_key() {
    for agent in ["main", "sales", "Sales Bot", "中文", "x:y", ""] {
        let allocation =
            allocate_route_session(agent, &InboundContext::default(), &SessionPolicy::default());
        assert!(
            allocation
                .main_aliases
                .iter()
                .all(|alias| is_main_alias(alias))
        );
        assert_eq!(allocation.session_aliases, allocation.main_aliases);
        assert_ne!(allocation.session_key, allocation.main_session_key);
        assert_eq!(allocation.session_key, build_session_key(&allocation.scope));
    }
}
