//! Scopes in a store: what an allocation leads to, and whom it keeps out.

use std::collections::BTreeMap;

use sessionlog::scope::{Allocation, InboundContext, SessionScope, allocate_route_session};
use sessionlog::{Error, Store, StoreHandle};

use crate::scope::inputs::distinguishing;

fn allocate(chat: &str, sender: &str) -> Allocation {
    let context = InboundContext {
        channel: "irc".into(),
        chat_id: chat.into(),
        chat_type: "direct".into(),
        sender_id: sender.into(),
        ..InboundContext::default()
    };
    allocate_route_session("main", &context, &distinguishing(BTreeMap::new()))
}

fn ensure(chats: &StoreHandle, session: &Allocation) -> sessionlog::Result<bool> {
    let Allocation {
        session_key,
        scope,
        session_aliases,
        ..
    } = session;
    chats
        .ensure_session_metadata(session_key, Some(scope.to_raw()), session_aliases.clone())
        .wait()
}

fn said(chats: &StoreHandle, key: &str) -> Vec<String> {
    let history = chats.history(key).wait().unwrap();
    history
        .iter()
        .map(|message| message.text().into_owned())
        .collect()
}

#[test]
fn a_scope_comes_back_from_the_store_as_it_was_given() {
    let scratch = tempfile::tempdir().unwrap();
    let store = Store::open(scratch.path()).unwrap();
    let session = allocate("<1>&\u{2028}", "ΟΔΥΣΣΕΥΣ");
    ensure(&store.handle(), &session).unwrap();
    store.close().unwrap();

    let store = Store::open(scratch.path()).unwrap();
    let meta = store
        .handle()
        .session_meta(&session.session_key)
        .wait()
        .unwrap();
    let scope = SessionScope::from_json(meta.scope.unwrap().get()).unwrap();
    assert_eq!(scope, session.scope);
    assert_eq!(meta.aliases, session.session_aliases);
    store.close().unwrap();
}

#[test]
fn a_message_of_any_older_key_is_found_in_the_new_session() {
    let scratch = tempfile::tempdir().unwrap();
    let store = Store::open(scratch.path()).unwrap();
    let chats = store.handle();
    let session = allocate("7", "7");
    let old = session.session_aliases[3].clone();
    chats.add_message(&old, "user", "before").wait().unwrap();
    assert!(ensure(&chats, &session).unwrap());
    for alias in &session.session_aliases[1..] {
        assert_eq!(said(&chats, alias), ["before"], "{alias}");
    }
    store.close().unwrap();
}

#[test]
fn p14_the_store_refuses_the_second_of_two_conversations_with_one_key() {
    let scratch = tempfile::tempdir().unwrap();
    let store = Store::open(scratch.path()).unwrap();
    let chats = store.handle();
    let (bob, forger) = (allocate("1", "bob"), allocate("1|sender=bob", ""));
    ensure(&chats, &bob).unwrap();
    chats
        .add_message(&bob.session_key, "user", "private")
        .wait()
        .unwrap();
    let refused = ensure(&chats, &forger);
    assert!(
        matches!(refused, Err(Error::ScopeConflict { .. })),
        "{refused:?}"
    );

    let forger = forger.isolated();
    ensure(&chats, &forger).unwrap();
    assert_eq!(said(&chats, &forger.session_key), [""; 0]);
    chats
        .add_message(&forger.session_key, "user", "hello?")
        .wait()
        .unwrap();
    assert_eq!(said(&chats, &bob.session_key), ["private"]);
    let meta = chats.session_meta(&bob.session_key).wait().unwrap();
    assert_eq!(
        SessionScope::from_json(meta.scope.unwrap().get()).unwrap(),
        bob.scope
    );
    store.close().unwrap();
}

#[test]
fn p15_no_agents_main_history_gets_into_a_conversation() {
    let scratch = tempfile::tempdir().unwrap();
    let store = Store::open(scratch.path()).unwrap();
    let chats = store.handle();
    for agent in ["main", "sales"] {
        let session = allocate_route_session(
            agent,
            &InboundContext::default(),
            &distinguishing(BTreeMap::new()),
        );
        for main in session
            .main_aliases
            .iter()
            .chain([&session.main_session_key])
        {
            chats
                .exact_keys()
                .add_message(main, "user", "to the agent")
                .wait()
                .unwrap();
        }
        assert!(!ensure(&chats, &session).unwrap());
        assert_eq!(said(&chats.exact_keys(), &session.session_key), [""; 0]);
    }
    store.close().unwrap();
}

#[test]
fn a_scope_that_is_not_valid_is_replaced_by_an_honest_one_and_kept_from_a_forged_one() {
    let scratch = tempfile::tempdir().unwrap();
    let store = Store::open(scratch.path()).unwrap();
    let chats = store.handle();
    let (bob, forger) = (allocate("1", "bob"), allocate("1|sender=bob", ""));
    for invalid in [r#"{"version":"one"}"#, "[]", "7"] {
        let raw = serde_json::value::RawValue::from_string(invalid.into()).unwrap();
        let upserted = chats.upsert_session_meta(&bob.session_key, Some(raw), Vec::new());
        upserted.wait().unwrap();
        assert!(matches!(
            ensure(&chats, &forger),
            Err(Error::ScopeConflict { .. })
        ));
        ensure(&chats, &bob).unwrap();
    }
    store.close().unwrap();
}

#[test]
fn ids_of_64_kib_and_of_any_shape_have_sessions_like_any_other() {
    let scratch = tempfile::tempdir().unwrap();
    let store = Store::open(scratch.path()).unwrap();
    let chats = store.handle();
    let long = "x".repeat(65_536);
    let ids = [
        &*long,
        "",
        " ",
        "a\nb",
        "\0",
        "a:b/c|d=e",
        "../../etc",
        "文Ω🦀",
        ".",
    ];
    let mut keys: Vec<String> = Vec::new();
    for (chat, sender) in ids.iter().flat_map(|id| [(*id, "7"), ("7", *id)]) {
        let session = allocate(chat, sender).isolated();
        let key = &session.session_key;
        ensure(&chats, &session).unwrap();
        if !keys.contains(key) {
            assert_eq!(said(&chats, key), [""; 0], "{key}");
            keys.push(key.clone());
        }
        chats.add_message(key, "user", "hi").wait().unwrap();
    }
    // Both blank ids are no id, on either side.
    assert_eq!(keys.len(), 2 * ids.len() - 2);
    assert_eq!(chats.list_sessions().wait().unwrap().len(), keys.len());
    store.close().unwrap();
}
