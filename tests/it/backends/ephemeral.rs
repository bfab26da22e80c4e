//! What is over a bound is dropped; what is within is kept.

use sessionlog::backend::{EphemeralOptions, EphemeralStore, SessionStore};
use sessionlog::scope::build_session_key;
use sessionlog::{Appended, Budget, Error, Keep, Message, Update};

use super::{add, owned, scope, texts};
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
fn a_summary_counts_and_one_over_the_bound_costs_nobody_anything() {
    let store = with(EphemeralOptions::new().max_bytes(1024));
    add(&store, "other", &["x"]);
    let refused = store.set_summary("a", &"s".repeat(1025)).wait();
    assert!(
        matches!(refused, Err(Error::MessageTooLarge { .. })),
        "{refused:?}"
    );
    assert_eq!(texts(&store, "other"), ["x"]);
    add(&store, "a", &["x"]);
    store.set_summary("a", &"s".repeat(1024)).wait().unwrap();
    assert_eq!(store.list_sessions().wait().unwrap(), ["a"]);
    assert!(texts(&store, "a").is_empty());
    assert!(store.add_message("a", "user", "x").wait().is_err());
    store.set_summary("a", "").wait().unwrap();
    add(&store, "a", &["x"]);
}

#[test]
fn a_scope_and_aliases_count() {
    let store = with(EphemeralOptions::new().max_bytes(1024));
    add(&store, "other", &["x"]);
    let long = "x".repeat(1024);
    let refused = [
        store.ensure_session_metadata("a", Some(&scope(&[("chat", &long)])), Vec::new()),
        store.ensure_session_metadata("a", None, owned(&["b:1", &long])),
    ];
    for refused in refused {
        let refused = refused.wait();
        assert!(
            matches!(refused, Err(Error::MessageTooLarge { .. })),
            "{refused:?}"
        );
    }
    assert_eq!(store.list_sessions().wait().unwrap(), ["other"]);
    store
        .ensure_session_metadata("a", None, owned(&[&long[..1000]]))
        .wait()
        .unwrap();
    assert_eq!(store.list_sessions().wait().unwrap(), ["a"]);
    assert!(store.set_summary("a", &long[..25]).wait().is_err());
    store.set_summary("a", &long[..24]).wait().unwrap();
}

/// Were it cut one message at a time, each moving all others, this would not
/// end.
#[test]
fn a_long_history_is_cut_to_a_small_bound_at_once() {
    let store = with(
        EphemeralOptions::new()
            .max_messages(1_000_000)
            .max_bytes(1024),
    );
    let all = (0..200_000).map(|n| Message::user(n.to_string()));
    store.set_history("a", all.collect()).wait().unwrap();
    let kept = texts(&store, "a");
    assert_eq!(kept, numbers(200_000 - kept.len()..200_000));
    assert!(kept.len() > 5);
}

#[test]
fn nobody_goes_on_inside_anothers_session() {
    let bob = scope(&[("chat", "direct:1"), ("sender", "bob")]);
    let forged = scope(&[("chat", "direct:1|sender=bob")]);
    let key = build_session_key(&bob);
    let store = EphemeralStore::new();
    let ensure = |scope| store.ensure_session_metadata(&key, Some(scope), Vec::new());
    ensure(&bob).wait().unwrap();
    let refused = ensure(&forged).wait();
    assert!(
        matches!(refused, Err(Error::ScopeConflict { .. })),
        "{refused:?}"
    );
}

#[test]
fn ids_count_so_that_nothing_is_taken_and_dropped_at_once() {
    let store = EphemeralStore::with(EphemeralOptions::new().max_bytes(1024));
    let id = "i".repeat(256);
    let deliver = |text: String| {
        let said = vec![Message::user(text)];
        store.append_once("a", &id, said).wait()
    };
    let refused = deliver("x".repeat(800));
    assert!(
        matches!(refused, Err(Error::MessageTooLarge { .. })),
        "{refused:?}"
    );
    assert!(matches!(deliver("x".repeat(500)), Ok(Appended::New(_))));
    assert_eq!(store.count("a").wait().unwrap(), 1);
    let refused = store.set_summary("a", &"s".repeat(1000)).wait();
    assert!(
        matches!(refused, Err(Error::MessageTooLarge { .. })),
        "{refused:?}"
    );
}

#[test]
fn a_position_in_a_session_that_was_dropped_is_not_found() {
    let store = EphemeralStore::with(EphemeralOptions::new().max_sessions(1));
    add(&store, "a", &["0", "1"]);
    let start = store
        .window("a", Budget::unlimited().messages(1))
        .wait()
        .unwrap()
        .start;
    add(&store, "b", &["0"]);
    let update = Update::new()
        .keep(Keep::From(start))
        .append(Message::user("2"));
    let gone = store.update("a", update).wait();
    assert!(
        matches!(gone, Err(Error::PositionNotFound { .. })),
        "{gone:?}"
    );
    assert!(!store.exists("a").wait().unwrap());
}

#[test]
fn a_counter_of_tokens_may_ask_the_store() {
    let store = std::sync::Arc::new(EphemeralStore::new());
    add(&*store, "a", &["0", "1"]);
    let asked = store.clone();
    let count = move |_: &Message| asked.count("a").wait().unwrap();
    let budget = Budget::unlimited().counter(count).tokens(3);
    assert_eq!(store.window("a", budget).wait().unwrap().messages.len(), 1);
}
