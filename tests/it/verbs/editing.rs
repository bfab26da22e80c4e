//! One message replaced or removed, and histories written back at a version.

use std::sync::Arc;

use sessionlog::backend::{EphemeralStore, SessionStore};
use sessionlog::{
    Budget, Error, Message, Page, SearchQuery, Store, StoreHandle, StoreOptions, Version,
};

use crate::support::{add_numbers, manual, numbers, open, said, scratch, texts};

fn page(chats: &StoreHandle, key: &str, n: usize) -> Page {
    let seen = chats.snapshot(key).wait().unwrap();
    seen.before(seen.end(), n).wait().unwrap()
}

fn is_lost<T: std::fmt::Debug>(result: &Result<T, Error>) {
    assert!(
        matches!(result, Err(Error::PositionNotFound { .. })),
        "{result:?}"
    );
}

#[test]
fn one_message_is_replaced_or_removed_and_all_others_stay_as_they_are() {
    let dir = scratch();
    let store = open(dir.path());
    let chats = store.handle();
    // The last, one in the middle, the first; in the file, and not yet there.
    for (nth, flushes) in [(4, true), (2, false), (0, true), (3, false)] {
        let key = format!("cli{nth}");
        add_numbers(&chats, &key, 0..3);
        if flushes {
            chats.flush().wait().unwrap();
        }
        add_numbers(&chats, &key, 3..5);
        let before = chats.history(&key).wait().unwrap();
        let at = page(&chats, &key, 5).positions[nth];
        let version = chats
            .edit(&key, at, Message::user("edited"))
            .wait()
            .unwrap();
        assert_eq!(chats.snapshot(&key).wait().unwrap().version(), version);
        let after = chats.history(&key).wait().unwrap();
        for (n, (old, new)) in before.iter().zip(&after).enumerate() {
            assert_eq!(new.created_at(), old.created_at());
            assert_eq!(new == old, n != nth, "{n}");
        }
        assert_eq!(after[nth].text(), "edited");
        is_lost(&chats.edit(&key, at, Message::user("again")).wait());
        let at = page(&chats, &key, 5).positions[nth];
        chats.remove(&key, at).wait().unwrap();
        let mut rest = before.clone();
        rest.remove(nth);
        assert_eq!(chats.history(&key).wait().unwrap(), rest);
        add_numbers(&chats, &key, 5..6);
        assert_eq!(chats.count(&key).wait().unwrap(), 5);
    }
    let shown = |store: &Store| {
        let keys = store.handle().list_sessions().wait().unwrap();
        let all = keys.iter().map(|key| texts(&store.handle(), key));
        all.collect::<Vec<_>>()
    };
    let before = shown(&store);
    store.close().unwrap();
    let store = open(dir.path());
    assert_eq!(shown(&store), before);
    store.close().unwrap();
}

#[test]
fn what_was_edited_away_is_found_until_a_compaction_and_then_in_the_archive() {
    for archive in [false, true] {
        let dir = scratch();
        let store = Store::open_with(dir.path(), manual().archive(archive)).unwrap();
        let chats = store.handle();
        add_numbers(&chats, "cli", 0..3);
        chats.add_message("cli", "user", "a secret").wait().unwrap();
        chats.context("cli").update_token_count(70).wait().unwrap();
        add_numbers(&chats, "cli", 3..5);
        chats.truncate_history("cli", 4).wait().unwrap();
        let at = page(&chats, "cli", 3).start;
        chats.remove("cli", at).wait().unwrap();
        assert_eq!(texts(&chats, "cli"), numbers(2..5));
        assert_eq!(chats.context("cli").token_count().wait().unwrap(), 70);
        let found = || {
            let query = SearchQuery::new().text("secret").archived(true);
            let mut search = chats.search(query);
            let hits = std::iter::from_fn(|| search.wait_next().map(Result::unwrap));
            let hits: Vec<_> = hits.collect();
            assert!(hits.iter().all(|hit| hit.hidden || hit.archived.is_some()));
            hits.len()
        };
        assert_eq!(found(), 1);
        chats.compact("cli").wait().unwrap();
        assert_eq!(found(), usize::from(archive));
        assert_eq!(texts(&chats, "cli"), numbers(2..5));
        store.close().unwrap();
    }
}

#[test]
fn what_does_not_stand_there_any_more_is_neither_replaced_nor_removed() {
    let dir = scratch();
    let store = open(dir.path());
    let chats = store.handle();
    add_numbers(&chats, "cli", 0..4);
    let seen = page(&chats, "cli", 4);
    chats.truncate_history("cli", 2).wait().unwrap();
    is_lost(&chats.remove("cli", seen.positions[1]).wait());
    // Positions of what stays hold on.
    chats.compact("cli").wait().unwrap();
    chats
        .edit("cli", seen.positions[2], Message::user("two"))
        .wait()
        .unwrap();
    is_lost(&chats.remove("other", seen.positions[3]).wait());
    assert!(!chats.exists("other").wait().unwrap());
    let end = chats.snapshot("cli").wait().unwrap().end();
    is_lost(&chats.remove("cli", end).wait());
    let thought: Message =
        Message::from_json(br#"{"role":"assistant","content":"","reasoning_content":"hm"}"#)
            .unwrap();
    let at = page(&chats, "cli", 2).start;
    let refused = chats.edit("cli", at, thought).wait();
    assert!(matches!(refused, Err(Error::InvalidMessage { .. })));
    let long = Message::user("x".repeat(17 << 20));
    let refused = chats.edit("cli", at, long).wait();
    assert!(matches!(refused, Err(Error::MessageTooLarge { .. })));
    assert_eq!(texts(&chats, "cli"), ["two", "3"]);
    store.close().unwrap();
}

/// A line that another program wrote without an LF at the end must not weld with any.
#[test]
fn a_last_line_without_its_end_stays_a_line() {
    for (nth, left) in [(0, vec!["b"]), (1, vec!["a"])] {
        let dir = scratch();
        let line = |text: &str| format!(r#"{{"role":"user","content":"{text}"}}"#);
        let lines = format!("{}\n{}", line("a"), line("b"));
        std::fs::write(dir.path().join("cli.jsonl"), lines).unwrap();
        let sidecar = r#"{"key":"cli","summary":"","skip":0,"count":2}"#;
        std::fs::write(dir.path().join("cli.meta.json"), sidecar).unwrap();
        let store = open(dir.path());
        let chats = store.handle();
        chats
            .remove("cli", page(&chats, "cli", 2).positions[nth])
            .wait()
            .unwrap();
        assert_eq!(texts(&chats, "cli"), left);
        add_numbers(&chats, "cli", 0..1);
        assert_eq!(chats.count("cli").wait().unwrap(), 2);
        store.close().unwrap();
        let lines = std::fs::read_to_string(dir.path().join("cli.jsonl")).unwrap();
        assert_eq!(lines.lines().count(), 3, "{lines}");
    }
}

#[test]
fn a_history_is_written_back_only_if_nothing_came_meanwhile() {
    let dir = scratch();
    let store = Store::open_with(dir.path(), StoreOptions::new()).unwrap();
    let chats = store.handle();
    add_numbers(&chats, "p", 0..5);
    let seen = chats.snapshot("p").wait().unwrap();
    let mut history = seen.history().wait().unwrap();
    history.remove(2);
    chats.add_message("p", "user", "meanwhile").wait().unwrap();
    let late = chats
        .set_history_at("p", seen.version(), history.clone())
        .wait();
    assert!(matches!(late, Err(Error::VersionConflict { .. })));
    assert_eq!(chats.count("p").wait().unwrap(), 6);
    let now = chats.snapshot("p").wait().unwrap().version();
    let then = chats
        .set_history_at("p", now, history.clone())
        .wait()
        .unwrap();
    assert_eq!(chats.history("p").wait().unwrap(), history);
    assert_eq!(chats.snapshot("p").wait().unwrap().version(), then);
    let absent = chats.set_history_at("q", then, history.clone()).wait();
    assert!(matches!(absent, Err(Error::VersionConflict { .. })));
    assert!(!chats.exists("q").wait().unwrap());
    chats
        .set_history_at("q", Version::ABSENT, history)
        .wait()
        .unwrap();
    assert_eq!(chats.count("q").wait().unwrap(), 4);
    store.close().unwrap();
}

#[test]
fn a_store_in_memory_edits_and_removes_too() {
    let store: Arc<dyn SessionStore> = Arc::new(EphemeralStore::new());
    for text in ["a", "b", "c"] {
        store.add_message("cli", "user", text).wait().unwrap();
    }
    let window = || {
        store
            .window("cli", Budget::unlimited().messages(2))
            .wait()
            .unwrap()
    };
    let at = window().start;
    let version = store.edit("cli", at, Message::user("B")).wait().unwrap();
    assert_eq!(window().version, version);
    is_lost(&store.remove("cli", at).wait());
    store.remove("cli", window().start).wait().unwrap();
    assert_eq!(said(&store.history("cli").wait().unwrap()), ["a", "c"]);
    let conflict = store.set_history_at("cli", version, Vec::new()).wait();
    assert!(matches!(conflict, Err(Error::VersionConflict { .. })));
    let now = window().version;
    store.set_history_at("cli", now, Vec::new()).wait().unwrap();
    assert_eq!(store.count("cli").wait().unwrap(), 0);
}
