//! The older manager's files, read and written.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use sessionlog::backend::{LegacyJsonStore, SessionStore};
use sessionlog::scope::build_session_key;
use sessionlog::{Error, Store};

use super::{add, owned, scope, texts};
use crate::support::{open, scratch, visible_names};

#[test]
fn a_session_is_one_file_that_only_its_owner_reads() {
    let dir = scratch();
    let store = LegacyJsonStore::open(dir.path()).unwrap();
    add(&store, "telegram:1/2", &["hi <b>"]);
    assert!(
        visible_names(dir.path()).is_empty(),
        "not before it is saved"
    );
    store.save("telegram:1/2").wait().unwrap();
    assert_eq!(visible_names(dir.path()), ["telegram_1_2.json"]);
    let path = dir.path().join("telegram_1_2.json");
    assert_eq!(
        fs::metadata(&path).unwrap().permissions().mode() & 0o777,
        0o600
    );
    let text = fs::read_to_string(&path).unwrap();
    let start = "{\n  \"key\": \"telegram:1/2\",\n  \"messages\": [\n    {\n      \"role\": \"user\",\n      \"content\": \"hi \\u003cb\\u003e\",\n      \"created_at\": \"";
    assert!(text.starts_with(start), "{text}");
    assert!(text.ends_with("\"\n}"), "{text}");
    store.set_summary("telegram:1/2", "s").wait().unwrap();
    store.save("telegram:1/2").wait().unwrap();
    assert!(
        fs::read_to_string(&path)
            .unwrap()
            .contains("\n  ],\n  \"summary\": \"s\",\n  \"created\": \"")
    );
    store.delete_session("telegram:1/2").wait().unwrap();
    assert!(visible_names(dir.path()).is_empty());
}

#[test]
fn a_key_that_leads_out_of_the_directory_is_refused() {
    let dir = scratch();
    let store = LegacyJsonStore::open(dir.path()).unwrap();
    for key in [".", "..", "../x", "a/../x", "..\\x", "a/.. /x", "./x"] {
        for refused in [
            store.add_message(key, "user", "x").wait(),
            store.save(key).wait(),
        ] {
            assert!(
                matches!(refused, Err(Error::InvalidKey { .. })),
                "{key:?}: {refused:?}"
            );
        }
    }
    let ensured = store
        .ensure_session_metadata("../x", None, Vec::new())
        .wait();
    assert!(matches!(ensured, Err(Error::InvalidKey { .. })));
}

#[test]
fn dropping_it_saves_what_was_not_saved() {
    let dir = scratch();
    let store = LegacyJsonStore::open(dir.path()).unwrap();
    add(&store, "a", &["x"]);
    drop(store);
    let store = LegacyJsonStore::open(dir.path()).unwrap();
    assert_eq!(texts(&store, "a"), ["x"]);
}

#[test]
fn two_keys_never_share_a_file_and_no_other_file_is_written_over() {
    let dir = scratch();
    fs::write(dir.path().join("broken.json"), "{").unwrap();
    fs::write(
        dir.path().join("a_b.json"),
        r#"{"key":"a/b","messages":[]}"#,
    )
    .unwrap();
    let sidecar = r#"{"key":"x","skip":0,"count":0}"#;
    fs::write(dir.path().join("x.meta.json"), sidecar).unwrap();
    let store = LegacyJsonStore::open(dir.path()).unwrap();
    let keys = ["a:b", "a/b", "a_b", "broken", "x.meta"];
    for key in keys {
        add(&store, key, &[key]);
    }
    store.close().wait().unwrap();
    assert_eq!(
        fs::read_to_string(dir.path().join("broken.json")).unwrap(),
        "{"
    );
    assert_eq!(
        fs::read_to_string(dir.path().join("x.meta.json")).unwrap(),
        sidecar
    );
    let store = LegacyJsonStore::open(dir.path()).unwrap();
    for key in keys {
        assert_eq!(texts(&store, key), [key]);
    }
    assert_eq!(visible_names(dir.path()).len(), 7);
}

#[test]
fn a_directory_has_one_writer_whichever_store_it_is() {
    let dir = scratch();
    let legacy = LegacyJsonStore::open(dir.path()).unwrap();
    assert!(matches!(Store::open(dir.path()), Err(Error::Locked { .. })));
    assert!(matches!(
        LegacyJsonStore::open(dir.path()),
        Err(Error::Locked { .. })
    ));
    legacy.close().wait().unwrap();
    let store = open(dir.path());
    assert!(matches!(
        LegacyJsonStore::open(dir.path()),
        Err(Error::Locked { .. })
    ));
    store.close().unwrap();
    LegacyJsonStore::open(dir.path()).unwrap();
}

#[test]
fn what_a_crash_left_half_written_is_removed() {
    let dir = scratch();
    fs::write(dir.path().join(".session-1-1.tmp"), "{").unwrap();
    let store = LegacyJsonStore::open(dir.path()).unwrap();
    assert!(visible_names(dir.path()).is_empty());
    drop(store);
}

#[test]
fn a_deleted_session_is_deleted_from_every_file_that_claims_its_key() {
    let dir = scratch();
    for (name, text) in [("a.json", "one"), ("b.json", "two")] {
        let json = format!(r#"{{"key":"k","messages":[{{"role":"user","content":"{text}"}}]}}"#);
        fs::write(dir.path().join(name), json).unwrap();
    }
    let store = LegacyJsonStore::open(dir.path()).unwrap();
    assert_eq!(texts(&store, "k"), ["two"]);
    store.delete_session("k").wait().unwrap();
    assert!(visible_names(dir.path()).is_empty());
    add(&store, "k", &["new"]);
    store.close().wait().unwrap();
    let store = LegacyJsonStore::open(dir.path()).unwrap();
    assert_eq!(texts(&store, "k"), ["new"]);
}

#[test]
fn a_session_that_cannot_be_saved_costs_no_other() {
    for dropped in [false, true] {
        let dir = scratch();
        let store = LegacyJsonStore::open(dir.path()).unwrap();
        add(&store, "a", &["x"]);
        add(&store, "b", &["y"]);
        fs::create_dir(dir.path().join("a.json")).unwrap();
        if dropped {
            drop(store);
        } else {
            assert!(store.close().wait().is_err());
            assert_eq!(texts(&store, "a"), ["x"], "it is still only in memory");
            fs::remove_dir(dir.path().join("a.json")).unwrap();
            store.close().wait().unwrap();
        }
        let store = LegacyJsonStore::open(dir.path()).unwrap();
        assert_eq!(texts(&store, "b"), ["y"]);
        assert_eq!(texts(&store, "a").len(), usize::from(!dropped));
    }
}

#[test]
fn a_name_that_stands_for_no_file_is_no_sessions() {
    let dir = scratch();
    fs::create_dir(dir.path().join("a.json")).unwrap();
    std::os::unix::fs::symlink("nowhere", dir.path().join("b.json")).unwrap();
    let store = LegacyJsonStore::open(dir.path()).unwrap();
    add(&store, "a", &["x"]);
    add(&store, "b", &["y"]);
    store.close().wait().unwrap();
    let store = LegacyJsonStore::open(dir.path()).unwrap();
    assert_eq!(texts(&store, "a"), ["x"]);
    assert_eq!(texts(&store, "b"), ["y"]);
    assert!(
        fs::symlink_metadata(dir.path().join("b.json"))
            .unwrap()
            .is_symlink()
    );
}

#[test]
fn a_forged_scope_is_refused_after_a_restart_too() {
    let dir = scratch();
    let bob = scope(&[("chat", "direct:1"), ("sender", "bob")]);
    let forged = scope(&[("chat", "direct:1|sender=bob")]);
    let key = build_session_key(&bob);
    let store = LegacyJsonStore::open(dir.path()).unwrap();
    let ensured = store.ensure_session_metadata(&key, Some(&bob), owned(&["irc:bob"]));
    ensured.wait().unwrap();
    add(&store, &key, &["bob's"]);
    store.close().wait().unwrap();
    for _ in 0..2 {
        let store = LegacyJsonStore::open(dir.path()).unwrap();
        let refused = store
            .ensure_session_metadata(&key, Some(&forged), Vec::new())
            .wait();
        assert!(
            matches!(refused, Err(Error::ScopeConflict { .. })),
            "{refused:?}"
        );
        assert_eq!(texts(&store, "irc:bob"), ["bob's"]);
        add(&store, "irc:bob", &["more"]);
        store.set_history(&key, Vec::new()).wait().unwrap();
        add(&store, "irc:bob", &["bob's"]);
    }
}

/// A gateway ensures before every message.
#[test]
fn ensuring_what_is_so_already_writes_no_file() {
    let dir = scratch();
    let store = LegacyJsonStore::open(dir.path()).unwrap();
    let bob = scope(&[("sender", "bob")]);
    let ensure = || store.ensure_session_metadata("a", Some(&bob), owned(&["b:1"]));
    ensure().wait().unwrap();
    store.save("a").wait().unwrap();
    let before = crate::support::files(dir.path());
    ensure().wait().unwrap();
    store.save("a").wait().unwrap();
    assert!(crate::support::files(dir.path()) == before);
}
