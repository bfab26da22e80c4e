//! What is over a bound is dropped; what is within is kept.

use sessionlog::Error;
use sessionlog::backend::{EphemeralOptions, EphemeralStore, SessionStore, fire_and_forget};

use super::{add, owned, texts};
use crate::support::numbers;

fn with(options: EphemeralOptions) -> EphemeralStore {
    EphemeralStore::with(options)
}

#[test]
fn a_session_keeps_its_newest_fifty_messages_unless_told_otherwise() {
    let store = EphemeralStore::new();
    let all = numbers(0..60);
    add(
        &store,
        "a",
        &all.iter().map(String::as_str).collect::<Vec<_>>(),
    );
    assert_eq!(texts(&store, "a"), numbers(10..60));
}

#[test]
fn the_session_not_written_to_for_longest_goes_first() {
    let store = with(EphemeralOptions::new().max_sessions(2));
    add(&store, "a", &["0"]);
    store
        .ensure_session_metadata("b", None, owned(&["b:1"]))
        .wait()
        .unwrap();
    add(&store, "a", &["1"]);
    add(&store, "c", &["2"]);
    assert_eq!(store.list_sessions().wait().unwrap(), ["a", "c"]);
    assert_eq!(store.resolve_session_key("b:1").wait().unwrap(), None);
    store.history("a").wait().unwrap();
    add(&store, "d", &["3"]);
    assert_eq!(store.list_sessions().wait().unwrap(), ["c", "d"]);
}

#[test]
fn bytes_are_bounded_over_all_sessions() {
    let store = with(EphemeralOptions::new().max_bytes(2_000));
    let text = "x".repeat(500);
    for _ in 0..3 {
        add(&store, "a", &[&text]);
    }
    assert_eq!(texts(&store, "a").len(), 3);
    add(&store, "b", &[&text]);
    assert_eq!(store.list_sessions().wait().unwrap(), ["b"]);
    for _ in 0..5 {
        add(&store, "b", &[&text]);
    }
    assert_eq!(texts(&store, "b").len(), 3);
    let refused = store.add_message("b", "user", &text.repeat(4)).wait();
    assert!(
        matches!(refused, Err(Error::MessageTooLarge { .. })),
        "{refused:?}"
    );
    assert_eq!(texts(&store, "b").len(), 3);
}

#[test]
fn under_picoclaws_contract_errors_are_swallowed_except_where_it_returns_them() {
    let inner = std::sync::Arc::new(EphemeralStore::new());
    let store = fire_and_forget(inner.clone());
    store.add_message("", "user", "x").wait().unwrap();
    assert!(store.history("").wait().unwrap().is_empty());
    assert!(
        !store
            .ensure_session_metadata("", None, Vec::new())
            .wait()
            .unwrap()
    );
    let unknown = store.resolve_session_key("unknown").wait().unwrap();
    assert_eq!(unknown.as_deref(), Some("unknown"));
    assert!(store.save("").wait().is_err());
    add(&store, "a", &["x"]);
    assert_eq!(texts(&*inner, "a"), ["x"]);
    inner.close().wait().unwrap();
    store.add_message("a", "user", "lost").wait().unwrap();
    assert!(texts(&store, "a").is_empty());
}
