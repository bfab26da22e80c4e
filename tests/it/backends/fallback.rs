//! Which store a directory gets, and that its sessions are never in two.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use sessionlog::backend::{SessionStore, StoreKind, open_session_store};
use sessionlog::{Error, Result};

use super::{add, texts};
use crate::support::{open, scratch, visible_names};

fn legacy(dir: &Path, key: &str, text: &str) {
    let json = format!(
        r#"{{"key":"{key}","messages":[{{"role":"user","content":"{text}"}}],"summary":"of {key}"}}"#
    );
    fs::write(dir.join(key.replace(':', "_") + ".json"), json).unwrap();
}

fn sorted(store: &dyn SessionStore) -> Vec<String> {
    let mut keys = store.list_sessions().wait().unwrap();
    keys.sort();
    keys
}

fn expect(store: Result<Arc<dyn SessionStore>>, kind: StoreKind) -> Arc<dyn SessionStore> {
    let store = store.unwrap();
    assert_eq!(store.kind(), kind);
    store
}

#[test]
fn older_files_are_imported_and_stay_so() {
    let dir = scratch();
    legacy(dir.path(), "a:1", "one");
    fs::write(dir.path().join("broken.json"), "{").unwrap();
    for _ in 0..2 {
        let store = expect(open_session_store(dir.path()), StoreKind::Jsonl);
        assert_eq!(sorted(&*store), ["a:1"]);
        assert_eq!(texts(&*store, "a:1")[0], "one");
        assert_eq!(store.summary("a:1").wait().unwrap(), "of a:1");
        add(&*store, "a:1", &["more"]);
        store.close().wait().unwrap();
    }
    assert!(dir.path().join("a_1.json.migrated").exists());
    assert!(dir.path().join("broken.json").exists());
}

#[test]
fn a_directory_that_cannot_be_opened_keeps_its_older_files() {
    let dir = scratch();
    legacy(dir.path(), "a:1", "one");
    fs::write(dir.path().join(".sessionlog"), "in the way").unwrap();
    let store = expect(open_session_store(dir.path()), StoreKind::LegacyJson);
    assert_eq!(texts(&*store, "a:1"), ["one"]);
    add(&*store, "a:1", &["two"]);
    add(&*store, "b:1", &["new"]);
    store.close().wait().unwrap();

    fs::remove_file(dir.path().join(".sessionlog")).unwrap();
    let store = expect(open_session_store(dir.path()), StoreKind::Jsonl);
    assert_eq!(sorted(&*store), ["a:1", "b:1"]);
    assert_eq!(texts(&*store, "a:1"), ["one", "two"]);
    assert_eq!(texts(&*store, "b:1"), ["new"]);
}

/// A directory of that name keeps the third file from getting its new one.
fn block(dir: &Path) {
    fs::create_dir(dir.join("c_1.json.migrated")).unwrap();
}

fn unblock(dir: &Path) {
    fs::remove_dir(dir.join("c_1.json.migrated")).unwrap();
}

#[test]
fn an_import_that_fails_halfway_is_undone_and_done_whole_the_next_time() {
    let dir = scratch();
    for key in ["a:1", "b:1", "c:1", "d:1"] {
        legacy(dir.path(), key, key);
    }
    fs::write(
        dir.path().join("a.meta.json"),
        r#"{"key":"a.meta","messages":[{"role":"user","content":"a.meta"}]}"#,
    )
    .unwrap();
    let all = ["a.meta", "a:1", "b:1", "c:1", "d:1"];
    let before = visible_names(dir.path());
    block(dir.path());
    for round in 0..2 {
        let store = expect(open_session_store(dir.path()), StoreKind::LegacyJson);
        assert_eq!(sorted(&*store), all);
        add(&*store, "a:1", &[&format!("round {round}")]);
        store.close().wait().unwrap();
    }
    unblock(dir.path());
    assert_eq!(visible_names(dir.path()), before);

    let store = expect(open_session_store(dir.path()), StoreKind::Jsonl);
    assert_eq!(sorted(&*store), all);
    for key in all {
        assert_eq!(texts(&*store, key)[0], key);
    }
    assert_eq!(texts(&*store, "a:1"), ["a:1", "round 0", "round 1"]);
}

#[test]
fn sessions_that_only_the_store_has_are_not_hidden_by_a_failed_import() {
    let dir = scratch();
    let store = open(dir.path());
    store
        .handle()
        .add_message("mine", "user", "x")
        .wait()
        .unwrap();
    store.close().unwrap();
    legacy(dir.path(), "c:1", "late");
    block(dir.path());
    let refused = open_session_store(dir.path());
    assert!(matches!(refused, Err(Error::Io { .. })), "{refused:?}");
    unblock(dir.path());
    let store = expect(open_session_store(dir.path()), StoreKind::Jsonl);
    assert_eq!(sorted(&*store), ["c:1", "mine"]);
}

#[test]
fn sessions_that_only_the_store_has_are_not_hidden_by_a_failed_open() {
    let dir = scratch();
    let store = open(dir.path());
    store
        .handle()
        .add_message("mine", "user", "x")
        .wait()
        .unwrap();
    store.close().unwrap();
    let (home, aside) = (dir.path().join(".sessionlog"), dir.path().join("aside"));
    fs::rename(&home, &aside).unwrap();
    fs::write(&home, "in the way").unwrap();
    assert!(matches!(
        open_session_store(dir.path()),
        Err(Error::Io { .. })
    ));
    fs::remove_file(&home).unwrap();
    fs::rename(&aside, &home).unwrap();
    let store = expect(open_session_store(dir.path()), StoreKind::Jsonl);
    assert_eq!(texts(&*store, "mine"), ["x"]);
}

#[test]
fn a_directory_that_another_writes_to_is_refused() {
    let dir = scratch();
    legacy(dir.path(), "a:1", "one");
    let store = open_session_store(dir.path()).unwrap();
    assert!(matches!(
        open_session_store(dir.path()),
        Err(Error::Locked { .. })
    ));
    store.close().wait().unwrap();
}
