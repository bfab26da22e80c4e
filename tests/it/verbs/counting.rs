//! Whether there is a session, and of how many messages.

use std::path::Path;

use sessionlog::{Durability, Error, Store, StoreHandle};

use crate::support::{add_numbers, line, open, scratch};

/// A store, and a reader beside it.
fn opened(dir: &Path) -> [Store; 2] {
    [open(dir), Store::open_read_only(dir).unwrap()]
}

fn exists(chats: &StoreHandle, key: &str) -> bool {
    chats.exists(key).wait().unwrap()
}

#[test]
fn as_many_messages_are_counted_as_a_history_has() {
    let dir = scratch();
    let found = line("0") + "no record\n" + &line("1");
    std::fs::write(dir.path().join("cli.jsonl"), found).unwrap();
    let stores = opened(dir.path());
    let chats = stores[0].handle();
    let agree = |expected: usize| {
        for chats in stores.each_ref().map(Store::handle) {
            assert_eq!(chats.history("cli").wait().unwrap().len(), expected);
            assert_eq!(chats.count("cli").wait().unwrap(), expected);
        }
    };
    agree(2);
    chats.context("cli").checkpoint(true).wait().unwrap();
    chats.context("cli").update_token_count(7).wait().unwrap();
    add_numbers(&chats, "cli", 2..9);
    agree(10);
    let quick = chats.with_durability(Durability::Buffered);
    quick.add_message("cli", "user", "9").wait().unwrap();
    assert_eq!(chats.count("cli").wait().unwrap(), 11);
    chats.truncate_history("cli", 3).wait().unwrap();
    agree(3);
    chats.compact("cli").wait().unwrap();
    agree(3);
    chats.delete_session("cli").wait().unwrap();
    agree(0);
}

#[test]
fn a_session_exists_from_its_first_write_until_it_is_deleted() {
    let dir = scratch();
    std::fs::write(dir.path().join("orphan.jsonl"), line("0")).unwrap();
    let stores = opened(dir.path());
    let chats = stores[0].handle();
    let agree = |key: &str, expected: bool| {
        for chats in stores.each_ref().map(Store::handle) {
            assert_eq!(exists(&chats, key), expected, "{key}");
        }
    };
    agree("orphan", true);
    agree("telegram:1", false);
    assert_eq!(chats.count("telegram:1").wait().unwrap(), 0);
    agree("telegram:1", false);
    add_numbers(&chats, "telegram:1", 0..2);
    agree("telegram:1", true);
    let aliases = vec![String::from("sam")];
    let meta = chats.upsert_session_meta("telegram:1", None, aliases);
    meta.wait().unwrap();
    agree(" sam ", true);
    assert!(!exists(&chats.exact_keys(), "sam"));
    chats.truncate_history("telegram:1", 0).wait().unwrap();
    agree("telegram:1", true);
    chats.delete_session("telegram:1").wait().unwrap();
    agree("telegram:1", false);
    agree("sam", false);
    for chats in stores.each_ref().map(Store::handle) {
        let refused = chats.exists("").wait();
        assert!(
            matches!(refused, Err(Error::InvalidKey { .. })),
            "{refused:?}"
        );
    }
    for store in stores {
        store.close().unwrap();
    }
    let refused = chats.exists("orphan").wait();
    assert!(matches!(refused, Err(Error::Closed)), "{refused:?}");
}
