//! What compactions drop, kept.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use sessionlog::testing::disk_model::{Image, MemoryStorage};
use sessionlog::{Error, Message, SearchQuery, Store, StoreHandle, StoreOptions};

use crate::support::{MEMORY_DIR, add_numbers, numbers, open_on, scratch, texts};

fn options() -> StoreOptions {
    StoreOptions::new().auto_compact(false).archive(true)
}

/// The texts of all that is archived of a session.
fn archived(chats: &StoreHandle, key: &str) -> Vec<String> {
    let months = chats.archived_months(key).wait().unwrap();
    let all = months.iter().flat_map(|month| {
        let messages = chats.archived(key, month).wait().unwrap();
        messages.into_iter().map(|one| one.text().into_owned())
    });
    all.collect()
}

fn drop_all_but(chats: &StoreHandle, key: &str, keep: usize) -> sessionlog::Result<()> {
    chats.truncate_history(key, keep).wait()?;
    chats.compact(key).wait()
}

fn parts(dir: &Path) -> Vec<String> {
    let names = fs::read_dir(dir.join(".sessionlog/archive"));
    let names = names
        .into_iter()
        .flatten()
        .map(|entry| entry.unwrap().file_name());
    let mut names: Vec<_> = names.map(|name| name.into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn what_is_dropped_is_archived_once_and_in_order_whoever_reads() {
    let dir = scratch();
    let mut said = 0;
    for round in 0..3 {
        let store = Store::open_with(dir.path(), options()).unwrap();
        let chats = store.handle();
        for _ in 0..4 {
            add_numbers(&chats, "cli", said..said + 10);
            said += 10;
            drop_all_but(&chats, "cli", 3).unwrap();
        }
        chats
            .add_message(&format!("other{round}"), "user", "hi")
            .wait()
            .unwrap();
        drop_all_but(&chats, &format!("other{round}"), 0).unwrap();
        assert_eq!(archived(&chats, "cli"), numbers(0..said - 3));
        assert_eq!(texts(&chats, "cli"), numbers(said - 3..said));
        assert_eq!(archived(&chats, "nobody"), [""; 0]);
        let reader = Store::open_read_only(dir.path()).unwrap();
        assert_eq!(archived(&reader.handle(), "cli"), numbers(0..said - 3));
        store.close().unwrap();
        assert!(matches!(
            chats.archived("cli", "2026-11").wait(),
            Err(Error::Closed)
        ));
    }
    // One file grew.
    assert_eq!(parts(dir.path()).len(), 4, "{:?}", parts(dir.path()));
    let reader = Store::open_read_only(dir.path()).unwrap();
    assert_eq!(archived(&reader.handle(), "cli"), numbers(0..said - 3));
    assert_eq!(archived(&reader.handle(), "other1"), ["hi"]);
}

/// Nothing tells such lines apart but that they were archived before.
#[test]
fn lines_that_are_all_the_same_are_archived_as_often_as_they_were_said() {
    let dir = scratch();
    let store = Store::open_with(dir.path(), options()).unwrap();
    let chats = store.handle();
    for _ in 0..5 {
        let pings = vec![Message::new("user", "ping"); 4];
        chats.append_all("cli", pings).wait().unwrap();
        drop_all_but(&chats, "cli", 2).unwrap();
    }
    assert_eq!(archived(&chats, "cli"), ["ping"; 18]);
}

#[test]
fn large_parts_are_left_and_long_sessions_are_archived_in_pieces() {
    let dir = scratch();
    let store = Store::open_with(dir.path(), options()).unwrap();
    let chats = store.handle();
    // Text that does not compress well, some 40 MB of it.
    let mut random = 7_u64;
    let mut text = |len: usize| {
        let mut next = || {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            char::from(b'a' + u8::try_from(random >> 59).unwrap() % 26)
        };
        (0..len).map(|_| next()).collect::<String>()
    };
    let said: Vec<String> = (0..40).map(|n| text(900_000 + n)).collect();
    for part in said.chunks(20) {
        let messages: Vec<_> = part.iter().map(|text| Message::new("user", text)).collect();
        chats.append_all("cli", messages).wait().unwrap();
    }
    drop_all_but(&chats, "cli", 1).unwrap();
    assert_eq!(parts(dir.path()).len(), 3);
    chats.add_message("cli", "user", "last").wait().unwrap();
    drop_all_but(&chats, "cli", 1).unwrap();
    assert_eq!(archived(&chats, "cli"), said);
    assert_eq!(texts(&chats, "cli"), ["last"]);
}

#[test]
fn the_archive_is_searched_if_asked_before_what_is_left() {
    let dir = scratch();
    let store = Store::open_with(dir.path(), options()).unwrap();
    let chats = store.handle();
    for key in ["a", "b"] {
        add_numbers(&chats, key, 0..20);
        drop_all_but(&chats, key, 5).unwrap();
    }
    let find = |chats: &StoreHandle, query: SearchQuery| {
        let mut search = chats.search(query);
        let mut found = Vec::new();
        while let Some(hit) = search.wait_next() {
            let hit = hit.unwrap();
            let text = hit.message.text().into_owned();
            found.push((hit.key, text, hit.archived.is_some()));
        }
        found
    };
    let query = SearchQuery::new().regex("^1[3-6]$");
    let left = |key: &str, text: &str| (key.to_owned(), text.to_owned(), false);
    let dropped = |key: &str, text: &str| (key.to_owned(), text.to_owned(), true);
    let reader = Store::open_read_only(dir.path()).unwrap();
    for chats in [&chats, &reader.handle()] {
        let found = find(chats, query.clone());
        assert_eq!(
            found,
            [
                left("a", "15"),
                left("a", "16"),
                left("b", "15"),
                left("b", "16")
            ]
        );
        let of_a = sessionlog::SessionQuery::new().prefix("a");
        let found = find(chats, query.clone().archived(true).among(of_a));
        let all = [
            dropped("a", "13"),
            dropped("a", "14"),
            left("a", "15"),
            left("a", "16"),
        ];
        assert_eq!(found, all);
        assert_eq!(find(chats, SearchQuery::new().archived(true)).len(), 40);
    }
    // What is damaged is told, and the rest found.
    for name in parts(dir.path())
        .iter()
        .filter(|name| name.starts_with("a."))
    {
        let path = dir.path().join(".sessionlog/archive").join(name);
        let mut bytes = fs::read(&path).unwrap();
        let end = bytes.len() - 5;
        bytes[end] ^= 1;
        fs::write(&path, bytes).unwrap();
    }
    let month = &chats.archived_months("b").wait().unwrap()[0];
    let damaged = chats.archived("a", month).wait();
    assert!(matches!(damaged, Err(Error::Corrupt { .. })), "{damaged:?}");
    let mut search = chats.search(query.archived(true));
    let mut hits = (0, 0);
    while let Some(hit) = search.wait_next() {
        match hit {
            Ok(_) => hits.0 += 1,
            Err(_) => hits.1 += 1,
        }
    }
    assert_eq!(hits, (6, 1));
}

#[test]
fn a_deleted_session_leaves_no_archive_and_its_key_begins_a_new_one() {
    let dir = scratch();
    let store = Store::open_with(dir.path(), options()).unwrap();
    let chats = store.handle();
    add_numbers(&chats, "a/b", 0..3);
    drop_all_but(&chats, "a/b", 1).unwrap();
    chats.delete_session("a/b").wait().unwrap();
    assert_eq!(parts(dir.path()), [""; 0]);
    add_numbers(&chats, "a/b", 5..8);
    drop_all_but(&chats, "a/b", 1).unwrap();
    assert_eq!(archived(&chats, "a/b"), ["5", "6"]);
    store.close().unwrap();
    // Somebody removes the session's files by hand, and another key gets its names.
    for name in ["a_b.jsonl", "a_b.meta.json"] {
        fs::remove_file(dir.path().join(name)).unwrap();
    }
    let store = Store::open_with(dir.path(), options()).unwrap();
    let chats = store.handle();
    add_numbers(&chats, "a:b", 0..3);
    assert!(archived(&chats, "a:b").is_empty());
    drop_all_but(&chats, "a:b", 1).unwrap();
    assert_eq!(archived(&chats, "a:b"), ["0", "1"]);
    let plain = Store::open_with(dir.path().join("plain"), StoreOptions::new()).unwrap();
    add_numbers(&plain.handle(), "cli", 0..3);
    drop_all_but(&plain.handle(), "cli", 1).unwrap();
    assert!(parts(&dir.path().join("plain")).is_empty());
}

#[test]
fn a_copy_of_the_store_has_the_archive() {
    let dir = scratch();
    let store = Store::open_with(dir.path().join("store"), options()).unwrap();
    let chats = store.handle();
    let copy = dir.path().join("copy");
    for round in 1..4 {
        add_numbers(&chats, "cli", round * 5 - 5..round * 5);
        drop_all_but(&chats, "cli", 2).unwrap();
        let report = chats.backup_to(&copy).wait().unwrap();
        assert!(report.failed.is_empty());
        let reader = Store::open_read_only(&copy).unwrap();
        assert_eq!(archived(&reader.handle(), "cli"), numbers(0..round * 5 - 2));
        assert_eq!(
            texts(&reader.handle(), "cli"),
            numbers(round * 5 - 2..round * 5)
        );
    }
    let beside = Store::open_read_only(dir.path().join("store")).unwrap();
    beside
        .handle()
        .backup_to(dir.path().join("other"))
        .wait()
        .unwrap();
    let reader = Store::open_read_only(dir.path().join("other")).unwrap();
    assert_eq!(archived(&reader.handle(), "cli"), numbers(0..13));
}

/// A crash at any call: nothing acknowledged is missing, and nothing is there twice once a
/// compaction was not cut short.
#[test]
fn a_crash_loses_nothing_that_a_compaction_drops_and_doubles_nothing() {
    let live = |disk: &MemoryStorage| {
        let Ok(store) = open_on(Arc::new(disk.clone()), options()) else {
            return 0;
        };
        let (chats, mut said) = (store.handle(), 0);
        let mut say = |count: usize| {
            for _ in 0..count {
                // Without times and all the same, so that no text tells one from another.
                let text = (said / 2).to_string();
                if chats.add_message("cli", "user", &text).wait().is_err() {
                    return false;
                }
                said += 1;
            }
            true
        };
        let _ = say(4)
            && drop_all_but(&chats, "cli", 1).is_ok()
            && say(4)
            && drop_all_but(&chats, "cli", 1).is_ok();
        let _ = store.close();
        said
    };
    let whole = MemoryStorage::new();
    assert_eq!(live(&whole), 8);
    let mut crashes = 0;
    for step in 0..whole.steps() {
        let disk = MemoryStorage::new();
        disk.crash_at(step);
        let said = live(&disk);
        for image in [Image::ProcessDeath, Image::AllLost, Image::Random(step)] {
            let disk = disk.image(image);
            let store = open_on(Arc::new(disk.clone()), options()).unwrap();
            let chats = store.handle();
            // The one under way may be there.
            drop_all_but(&chats, "cli", 0).unwrap();
            let found = archived(&chats, "cli");
            let known: Vec<_> = (0..found.len()).map(|n| (n / 2).to_string()).collect();
            assert_eq!(found, known, "{step} {image:?}");
            let there = found.len();
            assert!(
                (said..=said + 1).contains(&there),
                "{step} {image:?}: {there} of {said}"
            );
            chats.delete_session("cli").wait().unwrap();
            store.close().unwrap();
            let left = disk
                .dump()
                .into_keys()
                .filter(|name| name.contains("archive/"));
            assert_eq!(left.collect::<Vec<_>>(), [""; 0], "{step} {image:?}");
            crashes += 1;
        }
    }
    assert!(crashes > 300, "{crashes} in {MEMORY_DIR}");
}

/// A power loss after a deletion is journalled and before its files are gone for good.
#[test]
fn a_crash_in_a_deletion_leaves_nothing_to_the_next_session_of_that_key() {
    let live = |disk: &MemoryStorage| {
        let Ok(store) = open_on(Arc::new(disk.clone()), options()) else {
            return false;
        };
        let chats = store.handle();
        let add = |text: &str| chats.add_message("cli", "user", text).wait().is_ok();
        let deleted = add("old")
            && add("old")
            && drop_all_but(&chats, "cli", 1).is_ok()
            && chats.delete_session("cli").wait().is_ok();
        let _ = deleted && add("new") && add("new") && drop_all_but(&chats, "cli", 1).is_ok();
        let _ = store.close();
        deleted
    };
    let whole = MemoryStorage::new();
    assert!(live(&whole));
    for step in 0..whole.steps() {
        let disk = MemoryStorage::new();
        disk.crash_at(step);
        let deleted = live(&disk);
        for image in [Image::ProcessDeath, Image::AllLost, Image::Random(step)] {
            let store = open_on(Arc::new(disk.image(image)), options()).unwrap();
            let chats = store.handle();
            let exists = chats.exists("cli").wait().unwrap();
            let found = archived(&chats, "cli");
            let is_old = found.iter().any(|text| text == "old");
            assert!(!(deleted && is_old), "{step} {image:?}: {found:?}");
            assert!(exists || found.is_empty(), "{step} {image:?}: {found:?}");
            // Its record may have been there, and its files not be gone.
            if !exists {
                chats.add_message("cli", "user", "new").wait().unwrap();
                assert!(archived(&chats, "cli").is_empty(), "{step} {image:?}");
            }
        }
    }
}
