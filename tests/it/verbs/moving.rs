//! Sessions that get another key, and histories that are put together.

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};

use sessionlog::{
    Appended, Error, ErrorKind, Keep, Merged, Message, SessionMeta, Store, StoreHandle,
    StoreOptions, Update,
};

use crate::support::{add_numbers, files, for_each_caller, manual, numbers, open, scope, scratch};
use crate::support::{said, texts};

const OLD: &str = "telegram:-123";
const NEW: &str = "telegram:-100123";

fn ids(chats: &StoreHandle, key: &str, id: &str) -> bool {
    let taken = chats.append_once(key, id, Message::user(id)).wait();
    matches!(taken.unwrap(), Appended::Duplicate(_))
}

/// A session with everything that one can have.
fn full(store: &Store, key: &str, first: usize) {
    let chats = store.handle();
    add_numbers(&chats, key, first..first + 2);
    let once = Message::user((first + 2).to_string());
    chats
        .append_once(key, &format!("{first}-a"), once)
        .wait()
        .unwrap();
    chats.context(key).clear().wait().unwrap();
    add_numbers(&chats, key, first + 3..first + 6);
    chats.truncate_history(key, 2).wait().unwrap();
    chats.compact(key).wait().unwrap();
    add_numbers(&chats, key, first + 6..first + 8);
    chats.truncate_history(key, 3).wait().unwrap();
    chats
        .set_summary(key, &format!("of {first}"))
        .wait()
        .unwrap();
    chats
        .set_labels(key, [format!("label {first}"), "both".into()])
        .wait()
        .unwrap();
}

fn meta(chats: &StoreHandle, key: &str) -> SessionMeta {
    chats.session_meta(key).wait().unwrap()
}

fn archived(chats: &StoreHandle, key: &str) -> Vec<String> {
    let months = chats.archived_months(key).wait().unwrap();
    let months = months
        .iter()
        .map(|month| chats.archived(key, month).wait().unwrap());
    months.flat_map(|messages| said(&messages)).collect()
}

#[test]
fn a_renamed_session_goes_on_with_all_there_is_of_it() {
    let dir = scratch();
    let options = || manual().archive(true);
    let store = Store::open_with(dir.path(), options()).unwrap();
    let chats = store.handle();
    full(&store, OLD, 0);
    chats.set_title(OLD, "trip").wait().unwrap();
    chats.set_pinned(OLD, true).wait().unwrap();
    chats
        .upsert_session_meta(OLD, scope("{\"v\":1}"), vec!["telegram:old".into()])
        .wait()
        .unwrap();
    store.close().unwrap();
    let sidecar = dir.path().join("telegram_-123.meta.json");
    let text = fs::read_to_string(&sidecar).unwrap();
    fs::write(&sidecar, text.replacen('{', "{\n  \"theirs\": [1, 2],", 1)).unwrap();

    let store = Store::open_with(dir.path(), options()).unwrap();
    let chats = store.handle();
    let before = meta(&chats, OLD);
    let version = chats.update(OLD, Update::new()).wait().unwrap();
    let backups = chats.list_backups(OLD).wait().unwrap();
    let dropped = archived(&chats, OLD);
    assert!(!backups.is_empty() && !dropped.is_empty());
    chats.rename_session(OLD, NEW).wait().unwrap();

    let check = |chats: &StoreHandle| {
        assert_eq!(chats.list_sessions().wait().unwrap(), [NEW]);
        for key in [NEW, OLD, "telegram:old"] {
            assert_eq!(texts(chats, key), numbers(5..8), "{key}");
        }
        let after = meta(chats, NEW);
        assert_eq!((&*after.key, &*after.summary), (NEW, "of 0"));
        assert_eq!((after.skip, after.count), (before.skip, before.count));
        assert_eq!(after.created_at, before.created_at);
        assert_eq!(after.updated_at, before.updated_at);
        assert_eq!(after.scope.unwrap().get(), "{\"v\":1}");
        assert_eq!(after.aliases, ["telegram:old", OLD]);
        assert_eq!(after.tags, before.tags);
        assert!(after.tags.unknown_field("theirs").is_some());
        assert_eq!(chats.list_backups(NEW).wait().unwrap(), backups);
        assert_eq!(archived(chats, NEW), dropped);
        assert!(
            chats
                .exact_keys()
                .list_backups(OLD)
                .wait()
                .unwrap()
                .is_empty()
        );
        assert!(!chats.exact_keys().exists(OLD).wait().unwrap());
    };
    check(&chats);
    assert_eq!(chats.update(NEW, Update::new()).wait().unwrap(), version);
    store.close().unwrap();
    let left = files(dir.path()).into_keys();
    let left: Vec<_> = left
        .filter(|path| path.display().to_string().contains("_-123"))
        .collect();
    assert!(left.is_empty(), "{left:?}");

    let store = Store::open_with(dir.path(), options()).unwrap();
    let chats = store.handle();
    check(&chats);
    assert!(ids(&chats, NEW, "0-a") && ids(&chats, OLD, "0-a"));
    chats.restore_backup(NEW, backups[0].number).wait().unwrap();
    assert_eq!(texts(&chats, NEW), numbers(0..3));
    store.close().unwrap();
}

#[test]
fn positions_stay_valid_in_a_renamed_session_and_end_in_a_merged_one() {
    let dir = scratch();
    let store = open(dir.path());
    let chats = store.handle();
    add_numbers(&chats, "a", 0..5);
    let seen = chats.snapshot("a").wait().unwrap();
    let place = seen.before(seen.end(), 2).wait().unwrap().start;
    chats.rename_session("a", "b").wait().unwrap();
    add_numbers(&chats, "b", 5..6);
    chats.truncate_to("b", Keep::From(place)).wait().unwrap();
    assert_eq!(texts(&chats, "b"), numbers(3..6));
    add_numbers(&chats, "c", 6..7);
    chats.merge_session("b", "c").wait().unwrap();
    let kept = chats.truncate_to("c", Keep::From(place)).wait();
    assert!(
        matches!(kept, Err(Error::PositionNotFound { .. })),
        "{kept:?}"
    );
    assert_eq!(texts(&chats, "c"), numbers(3..7));
}

#[test]
fn a_merge_puts_the_older_history_before_the_newer_with_all_there_is_of_both() {
    let dir = scratch();
    let options = || manual().archive(true);
    let store = Store::open_with(dir.path(), options()).unwrap();
    let chats = store.handle();
    full(&store, OLD, 0);
    full(&store, NEW, 10);
    chats.set_title(OLD, "the group").wait().unwrap();
    let created = meta(&chats, OLD).created_at;
    let merged = chats.merge_session(OLD, NEW).wait().unwrap();
    assert_eq!(merged, Merged::Joined);
    let both: Vec<_> = numbers(5..8).into_iter().chain(numbers(15..18)).collect();
    let check = |chats: &StoreHandle| {
        assert_eq!(texts(chats, NEW), both);
        let after = meta(chats, NEW);
        assert_eq!(after.summary, "of 0\n\nof 10");
        assert_eq!(after.created_at, created);
        assert_eq!(after.tags.title, "the group");
        assert_eq!(after.tags.labels, ["label 10", "both", "label 0"]);
        assert_eq!(after.aliases, [OLD]);
        assert_eq!(chats.list_backups(NEW).wait().unwrap().len(), 2);
        assert_eq!(archived(chats, NEW), ["13", "3"]);
    };
    check(&chats);
    store.close().unwrap();
    let store = Store::open_with(dir.path(), options()).unwrap();
    let chats = store.handle();
    check(&chats);
    for id in ["0-a", "10-a"] {
        assert!(ids(&chats, NEW, id), "{id}");
    }
    chats.compact(NEW).wait().unwrap();
    assert_eq!(texts(&chats, NEW), both);
    assert_eq!(archived(&chats, NEW), ["13", "3", "4", "14"]);
    chats.restore_backup(NEW, 2).wait().unwrap();
    assert_eq!(texts(&chats, NEW), numbers(0..3));
    store.close().unwrap();
}

#[test]
fn a_chat_whose_id_changed_late_gets_its_older_history() {
    for_each_caller(|caller, chats, _| {
        caller.ok(chats.add_message(OLD, "user", "before"));
        caller.ok(chats.add_message(NEW, "user", "first in the supergroup"));
        // As PicoClaw: the session has something, so nothing is taken over.
        let ensured = chats.ensure_session_metadata(NEW, None, vec![OLD.into()]);
        assert!(!caller.ok(ensured));
        assert_eq!(caller.ok(chats.merge_session(OLD, NEW)), Merged::Joined);
        for key in [OLD, NEW] {
            let history = said(&caller.ok(chats.history(key)));
            assert_eq!(history, ["before", "first in the supergroup"], "{key}");
        }
        assert_eq!(caller.ok(chats.list_sessions()), [NEW]);
    });
}

#[test]
fn a_merge_into_nothing_is_a_rename_and_one_into_metadata_keeps_that() {
    let dir = scratch();
    let store = open(dir.path());
    let chats = store.handle();
    add_numbers(&chats, "a", 0..2);
    assert_eq!(
        chats.merge_session("a", "b").wait().unwrap(),
        Merged::Renamed
    );
    let aliases = vec!["x:1".into()];
    chats
        .upsert_session_meta("c", scope("{\"v\":1}"), aliases)
        .wait()
        .unwrap();
    chats.rename_session("b", "c").wait().unwrap();
    let meta = meta(&chats, "c");
    assert_eq!(meta.scope.unwrap().get(), "{\"v\":1}");
    assert_eq!(meta.aliases, ["x:1", "a", "b"]);
    assert_eq!(texts(&chats, "c"), numbers(0..2));
}

#[test]
fn what_cannot_be_renamed_is_told_and_nothing_is_changed() {
    let dir = scratch();
    let store = open(dir.path());
    let chats = store.handle();
    add_numbers(&chats, "a:1", 0..1);
    add_numbers(&chats, "b:1", 1..2);
    let aliases = vec!["x:1".into()];
    chats
        .upsert_session_meta("a:1", None, aliases)
        .wait()
        .unwrap();
    chats.flush().wait().unwrap();
    // Beside the journal, which tells of the flushes.
    let sessions = || {
        let mut files = files(dir.path());
        files.retain(|path, _| !path.starts_with(".sessionlog"));
        files
    };
    let before = sessions();
    let long = "k".repeat(1025);
    for (old, new, kind, words) in [
        ("a:1", "b:1", ErrorKind::Conflict, "merge"),
        ("a:1", "a:1", ErrorKind::InvalidInput, "already"),
        ("a:1", " a:1 ", ErrorKind::InvalidInput, "already"),
        ("none", "c", ErrorKind::NotFound, "none"),
        ("x:1", "c", ErrorKind::Conflict, "alias of session \"a:1\""),
        (
            "b:1",
            "x:1",
            ErrorKind::Conflict,
            "alias of session \"a:1\"",
        ),
        ("a:1", " ", ErrorKind::InvalidInput, "empty"),
        ("a:1", "c\0", ErrorKind::InvalidInput, "NUL"),
        ("a:1", &long, ErrorKind::InvalidInput, "1,024"),
    ] {
        let refused = chats.rename_session(old, new).wait().unwrap_err();
        assert_eq!(refused.kind(), kind, "{old} {new}: {refused}");
        assert!(
            refused.to_string().contains(words),
            "{old} {new}: {refused}"
        );
    }
    chats.flush().wait().unwrap();
    assert_eq!(sessions(), before);
    let reader = Store::open_read_only(dir.path()).unwrap();
    let refused = reader.handle().rename_session("a:1", "c").wait();
    assert!(matches!(refused, Err(Error::ReadOnly)));
    let refused = reader.handle().merge_session("a:1", "b:1").wait();
    assert!(matches!(refused, Err(Error::ReadOnly)));
}

#[test]
fn an_alias_may_become_the_key() {
    let dir = scratch();
    let store = open(dir.path());
    let chats = store.handle();
    add_numbers(&chats, "sk_1", 0..2);
    let aliases = vec!["x:1".into()];
    chats
        .upsert_session_meta("sk_1", None, aliases)
        .wait()
        .unwrap();
    chats.rename_session("sk_1", "x:1").wait().unwrap();
    assert_eq!(chats.list_sessions().wait().unwrap(), ["x:1"]);
    assert_eq!(meta(&chats, "x:1").aliases, ["sk_1"]);
    assert_eq!(texts(&chats, "sk_1"), numbers(0..2));
}

/// A handle that kept the place of the old key, and one that resolves nothing.
#[test]
fn late_writers_arrive_at_the_new_key() {
    let dir = scratch();
    let store = open(dir.path());
    let chats = store.handle();
    let old = chats.session("a");
    old.add_message("user", "0").wait().unwrap();
    let late = chats.exact_keys();
    let polled = late.add_message("a", "user", "2");
    old.rename_session("b").wait().unwrap();
    old.add_message("user", "1").wait().unwrap();
    polled.wait().unwrap();
    late.append_once("a", "id", Message::user("3"))
        .wait()
        .unwrap();
    assert_eq!(texts(&chats, "b"), numbers(0..4));
    assert!(ids(&chats, "b", "id"));
    assert_eq!(chats.list_sessions().wait().unwrap(), ["b"]);
    // The key is free for whoever takes the alias away.
    chats
        .upsert_session_meta("b", None, Vec::new())
        .wait()
        .unwrap();
    late.add_message("a", "user", "anew").wait().unwrap();
    assert_eq!(chats.list_sessions().wait().unwrap(), ["a", "b"]);
    assert_eq!(texts(&chats, "a"), ["anew"]);
}

#[test]
fn while_a_session_moves_no_message_is_lost_and_no_read_is_empty() {
    let dir = scratch();
    let store = Store::open_with(dir.path(), StoreOptions::new()).unwrap();
    let chats = store.handle();
    chats.add_message("a:0", "user", "first").wait().unwrap();
    let over = AtomicBool::new(false);
    let written = std::thread::scope(|scope| {
        let writers: Vec<_> = (0..3)
            .map(|writer| {
                let (chats, over) = (chats.clone(), &over);
                scope.spawn(move || {
                    let mut count = 0;
                    while !over.load(Ordering::Relaxed) {
                        let text = format!("{writer} {count}");
                        chats.add_message("a:0", "user", &text).wait().unwrap();
                        count += 1;
                    }
                    count
                })
            })
            .collect();
        let reader = {
            let (chats, over) = (chats.clone(), &over);
            scope.spawn(move || {
                while !over.load(Ordering::Relaxed) {
                    let newest = chats.tail("a:0", 1).wait().unwrap();
                    assert_eq!(newest.len(), 1, "empty in between");
                }
            })
        };
        for n in 0..20 {
            let [old, new] = [n, n + 1].map(|n| format!("a:{n}"));
            chats.rename_session(&old, &new).wait().unwrap();
        }
        over.store(true, Ordering::Relaxed);
        reader.join().unwrap();
        let counts = writers.into_iter().map(|writer| writer.join().unwrap());
        counts.sum::<usize>()
    });
    assert_eq!(chats.list_sessions().wait().unwrap(), ["a:20"]);
    assert_eq!(chats.count("a:20").wait().unwrap(), written + 1);
    store.close().unwrap();
}

#[test]
fn a_merge_forgets_none_of_the_newest_ids_of_either() {
    let dir = scratch();
    let store = Store::open_with(dir.path(), manual().once_ids(16)).unwrap();
    let chats = store.handle();
    // Each has just as many as have the older ones put aside.
    for (key, count) in [(OLD, 31), (NEW, 16)] {
        for n in 0..count {
            assert!(!ids(&chats, key, &format!("{key} {n}")));
            chats.flush().wait().unwrap();
        }
    }
    chats.merge_session(OLD, NEW).wait().unwrap();
    chats.flush().wait().unwrap();
    for n in 0..16 {
        assert!(ids(&chats, NEW, &format!("{NEW} {n}")), "{n}");
    }
    assert!(ids(&chats, NEW, &format!("{OLD} 30")));
    store.close().unwrap();
}

#[test]
fn a_key_that_a_third_session_has_as_an_alias_is_not_left_to_it() {
    let dir = scratch();
    let store = open(dir.path());
    let chats = store.handle();
    add_numbers(&chats, "plain", 0..2);
    add_numbers(&chats, "third:1", 5..6);
    let aliases = vec!["plain".to_owned()];
    chats
        .upsert_session_meta("third:1", None, aliases)
        .wait()
        .unwrap();
    for verb in [
        chats.rename_session("plain", "new:1").wait().err(),
        chats.merge_session("plain", "new:1").wait().err(),
    ] {
        assert!(matches!(verb, Some(Error::IsAlias { .. })), "{verb:?}");
    }
    assert_eq!(texts(&chats, "plain"), numbers(0..2));
    assert_eq!(texts(&chats, "third:1"), numbers(5..6));
    assert_eq!(chats.list_sessions().wait().unwrap(), ["plain", "third:1"]);
}

#[test]
fn a_copy_made_while_a_session_moves_has_it() {
    let dir = scratch();
    let copies = scratch();
    let store = Store::open_with(dir.path(), StoreOptions::new()).unwrap();
    let chats = store.handle();
    chats.add_message("a:0", "user", "first").wait().unwrap();
    for n in 0..40 {
        let key = format!("beside:{n}");
        chats.add_message(&key, "user", "x").wait().unwrap();
    }
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for n in 0.. {
                if over.load(Ordering::Relaxed) {
                    break;
                }
                let [old, new] = [n, n + 1].map(|n| format!("a:{n}"));
                chats.rename_session(&old, &new).wait().unwrap();
            }
        });
        for n in 0..5 {
            let to = copies.path().join(n.to_string());
            let report = store.backup_to(&to).unwrap();
            assert_eq!(report.failed, []);
            let copy = Store::open_read_only(&to).unwrap();
            let found = copy.handle().history("a:0").wait().unwrap();
            assert_eq!(said(&found), ["first"], "copy {n}");
        }
        over.store(true, Ordering::Relaxed);
    });
    store.close().unwrap();
}
