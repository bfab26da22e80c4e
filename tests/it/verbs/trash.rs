//! Deleted sessions that are kept, and come back.

use std::path::Path;
use std::time::Duration;

use sessionlog::{
    Appended, ChangeFilter, ChangeKind, Erase, Error, ErrorKind, Message, RetentionPolicy,
    RetentionReason, SearchQuery, SessionInfo, SessionQuery, Store, StoreHandle, StoreOptions,
};

use crate::support::{Caller, add_numbers, files, manual, numbers, scope, scratch, texts};

const DAY: Duration = Duration::from_secs(24 * 3600);

fn keeping(dir: &Path) -> Store {
    Store::open_with(dir, manual().archive(true).keep_deleted(DAY)).unwrap()
}

fn kept(chats: &StoreHandle) -> Vec<SessionInfo> {
    let query = SessionQuery::new().deleted();
    chats.sessions(query).wait().unwrap().sessions
}

/// The key that the only deleted session is kept under.
fn kept_key(chats: &StoreHandle) -> String {
    let kept = kept(chats);
    assert_eq!(kept.len(), 1, "{kept:?}");
    kept[0].key.clone()
}

fn hits(chats: &StoreHandle, query: SearchQuery) -> usize {
    let mut search = chats.search(query);
    std::iter::from_fn(|| search.wait_next())
        .map(Result::unwrap)
        .count()
}

/// A session with everything that one can have.
fn fill(chats: &StoreHandle, key: &str) {
    add_numbers(chats, key, 0..2);
    let once = chats.append_once(key, "update 7", Message::user("2"));
    once.wait().unwrap();
    chats.context(key).clear().wait().unwrap();
    add_numbers(chats, key, 3..6);
    chats.truncate_history(key, 2).wait().unwrap();
    chats.compact(key).wait().unwrap();
    add_numbers(chats, key, 6..8);
    chats.truncate_history(key, 3).wait().unwrap();
    chats.set_summary(key, "a trip").wait().unwrap();
    chats.set_title(key, "Rome").wait().unwrap();
    chats.set_labels(key, ["travel"]).wait().unwrap();
    let aliases = vec!["rome".into(), "trip".into()];
    let upsert = chats.upsert_session_meta(key, scope("{\"v\":1}"), aliases);
    upsert.wait().unwrap();
}

/// All that can be read of a session.
fn all_of(chats: &StoreHandle, key: &str) -> String {
    let meta = chats.session_meta(key).wait().unwrap();
    let backups = chats.list_backups(key).wait().unwrap();
    let months = chats.archived_months(key).wait().unwrap();
    let archived = months
        .iter()
        .map(|month| chats.archived(key, month).wait().unwrap());
    let archived: Vec<_> = archived.collect();
    assert!(!backups.is_empty() && !archived.is_empty());
    let history = texts(chats, key);
    format!("{history:?} {meta:?} {backups:?} {archived:?}")
}

fn took(chats: &StoreHandle, key: &str) -> bool {
    let again = chats.append_once(key, "update 7", Message::user("again"));
    matches!(again.wait().unwrap(), Appended::Duplicate(_))
}

#[test]
fn a_deleted_session_is_kept_out_of_sight_and_comes_back_whole() {
    let dir = scratch();
    let store = keeping(dir.path());
    let chats = store.handle();
    fill(&chats, "telegram:7");
    let before = all_of(&chats, "telegram:7");
    chats.delete_session("telegram:7").wait().unwrap();

    let check = |chats: &StoreHandle| {
        assert!(chats.list_sessions().wait().unwrap().is_empty());
        let listed = chats.sessions(SessionQuery::new()).wait().unwrap();
        assert!(listed.sessions.is_empty());
        for key in ["telegram:7", "rome", "trip"] {
            assert!(!chats.exists(key).wait().unwrap(), "{key}");
            assert!(texts(chats, key).is_empty(), "{key}");
        }
        assert!(chats.list_backups("telegram:7").wait().unwrap().is_empty());
        assert_eq!(hits(chats, SearchQuery::new()), 0);
        let kept = kept(chats);
        let deletion = kept[0].deletion.as_ref().unwrap();
        assert_eq!((kept.len(), &*deletion.key), (1, "telegram:7"));
        assert!(deletion.time().is_some());
        assert_eq!(kept[0].aliases, ["rome", "trip"]);
        assert_eq!((&*kept[0].title, &*kept[0].summary), ("Rome", "a trip"));
        assert_eq!(texts(chats, &kept[0].key), numbers(5..8));
        let among = SessionQuery::new().prefix("telegram:").deleted();
        assert_eq!(hits(chats, SearchQuery::new().among(among)), 3);
    };
    check(&chats);
    let name = kept_key(&chats).replace(':', "_");
    assert!(dir.path().join(format!("{name}.jsonl")).exists());
    store.close().unwrap();
    let reader = Store::open_read_only(dir.path()).unwrap();
    check(&reader.handle());
    drop(reader);

    let store = keeping(dir.path());
    let chats = store.handle();
    check(&chats);
    assert_eq!(
        chats.undelete_session("telegram:7").wait().unwrap(),
        "telegram:7"
    );
    assert!(kept(&chats).is_empty());
    assert_eq!(all_of(&chats, "telegram:7"), before);
    assert_eq!(texts(&chats, "rome"), numbers(5..8));
    assert!(took(&chats, "telegram:7"));
    store.close().unwrap();
    let left = files(dir.path()).into_keys();
    let left: Vec<_> = left
        .filter(|path| path.display().to_string().contains("deleted"))
        .collect();
    assert!(left.is_empty(), "{left:?}");
    let store = keeping(dir.path());
    assert_eq!(all_of(&store.handle(), "telegram:7"), before);
}

#[test]
fn without_the_option_a_deleted_session_is_gone() {
    let dir = scratch();
    let store = Store::open_with(dir.path(), manual()).unwrap();
    let chats = store.handle();
    add_numbers(&chats, "a", 0..2);
    chats.delete_session("a").wait().unwrap();
    assert!(kept(&chats).is_empty());
    let back = chats.undelete_session("a").wait();
    assert!(
        matches!(back, Err(Error::SessionNotFound { .. })),
        "{back:?}"
    );
}

#[test]
fn by_an_alias_a_session_is_deleted_and_comes_back() {
    for caller in Caller::each() {
        let dir = scratch();
        let store = keeping(dir.path());
        let chats = store.handle();
        caller.ok(chats.add_message("sk", "user", "0"));
        caller.ok(chats.upsert_session_meta("sk", None, vec!["telegram:7".into()]));
        caller.ok(chats.delete_session("telegram:7"));
        assert!(!caller.ok(chats.exists("sk")));
        assert_eq!(caller.ok(chats.undelete_session("telegram:7")), "sk");
        assert_eq!(texts(&chats, "telegram:7"), numbers(0..1));
        store.close().unwrap();
    }
}

#[test]
fn what_came_after_the_deletion_is_neither_lost_nor_taken_over() {
    let dir = scratch();
    let store = keeping(dir.path());
    let chats = store.handle();
    let aliases = || vec!["rome".to_owned(), "trip".to_owned()];
    add_numbers(&chats, "a", 0..2);
    chats
        .upsert_session_meta("a", None, aliases())
        .wait()
        .unwrap();
    chats.delete_session("a").wait().unwrap();
    add_numbers(&chats, "b", 5..6);
    let rome = vec!["rome".to_owned()];
    chats.upsert_session_meta("b", None, rome).wait().unwrap();
    add_numbers(&chats, "trip", 6..7);
    add_numbers(&chats, "a", 2..3);

    let back = chats.undelete_session("a").wait();
    assert!(matches!(back, Err(Error::HasHistory { .. })), "{back:?}");
    assert_eq!(texts(&chats, "a"), numbers(2..3));
    chats.merge_session(&kept_key(&chats), "a").wait().unwrap();
    assert_eq!(texts(&chats, "a"), numbers(0..3));
    assert!(kept(&chats).is_empty());
    assert_eq!(texts(&chats, "rome"), numbers(5..6));
    assert_eq!(texts(&chats, "trip"), numbers(6..7));
    let meta = chats.session_meta("a").wait().unwrap();
    assert!(meta.aliases.is_empty() && meta.tags.unknown_field("deleted").is_none());

    chats.delete_session("b").wait().unwrap();
    let rome = vec!["b".to_owned()];
    chats.upsert_session_meta("a", None, rome).wait().unwrap();
    let back = chats.undelete_session("b").wait();
    assert!(matches!(back, Err(Error::IsAlias { .. })), "{back:?}");
    assert_eq!(kept(&chats).len(), 1);
}

#[test]
fn the_one_deleted_last_comes_back_first_and_each_by_its_own_key() {
    let dir = scratch();
    let store = keeping(dir.path());
    let chats = store.handle();
    for life in 0..3 {
        add_numbers(&chats, "a", life..life + 1);
        chats.delete_session("a").wait().unwrap();
    }
    let all = kept(&chats);
    assert_eq!(all.len(), 3);
    assert_eq!(chats.undelete_session("a").wait().unwrap(), "a");
    assert_eq!(texts(&chats, "a"), numbers(2..3));
    chats.delete_session("a").wait().unwrap();
    assert_eq!(chats.undelete_session(&all[0].key).wait().unwrap(), "a");
    assert_eq!(texts(&chats, "a"), numbers(0..1));
}

#[test]
fn a_deleted_session_takes_no_writes_and_deleted_again_it_is_gone() {
    let dir = scratch();
    let store = keeping(dir.path());
    let chats = store.handle();
    fill(&chats, "a");
    chats.delete_session("a").wait().unwrap();
    let key = kept_key(&chats);
    let refused = [
        chats.add_message(&key, "user", "late").wait(),
        chats.truncate_history(&key, 0).wait(),
        chats.set_summary(&key, "late").wait(),
        chats.restore_backup(&key, 1).wait(),
        chats.rename_session("b", &key).wait(),
        chats
            .upsert_session_meta(&key, None, vec!["b".into()])
            .wait(),
    ];
    for refused in refused {
        let kind = refused.as_ref().map_err(Error::kind);
        assert_eq!(kind, Err(ErrorKind::InvalidInput), "{refused:?}");
    }
    let other = chats.append_once("deleted:20261128T192303.123Z:b", "1", Message::user("x"));
    assert!(other.wait().is_err());
    assert_eq!(texts(&chats, &key), numbers(5..8));
    chats.delete_session(&key).wait().unwrap();
    store.close().unwrap();
    let left = files(dir.path()).into_keys();
    let left: Vec<_> = left
        .filter(|path| path.display().to_string().contains("deleted"))
        .collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn nothing_is_left_of_a_deleted_session_that_is_erased() {
    let person = "agent:main:telegram:direct:77";
    for what in [Erase::key("sk"), Erase::key(person), Erase::person("77")] {
        let dir = scratch();
        let store = keeping(dir.path());
        let chats = store.handle();
        fill(&chats, "sk");
        let secret = chats.add_message("sk", "user", "5 Elm Street");
        secret.wait().unwrap();
        chats
            .upsert_session_meta("sk", None, vec![person.into()])
            .wait()
            .unwrap();
        chats.delete_session("sk").wait().unwrap();
        add_numbers(&chats, "other", 0..1);
        let key = kept_key(&chats);
        let receipt = chats.erase(what.clone()).wait().unwrap();
        assert!(receipt.is_complete(), "{what:?}: {receipt:?}");
        assert!(receipt.sessions.contains(&key), "{receipt:?}");
        assert!(chats.traces(["5 Elm Street"]).wait().unwrap().is_none());
        assert!(kept(&chats).is_empty());
        assert_eq!(chats.list_sessions().wait().unwrap(), ["other"]);
    }
}

#[test]
fn retention_forgets_deleted_sessions_that_were_kept_for_long_enough() {
    let dir = scratch();
    let store = keeping(dir.path());
    let chats = store.handle();
    for key in ["a", "b"] {
        add_numbers(&chats, key, 0..1);
        chats.delete_session(key).wait().unwrap();
    }
    add_numbers(&chats, "c", 0..1);
    let apply = |policy| chats.retention(policy).apply().wait().unwrap();
    assert!(apply(RetentionPolicy::new()).deleted.is_empty());
    let reader = Store::open_read_only(dir.path()).unwrap();
    let policy = RetentionPolicy::new().deleted(Duration::ZERO);
    let plan = reader.handle().retention(policy.clone()).plan();
    assert_eq!(plan.wait().unwrap().expired.len(), 2);
    let among = SessionQuery::new().prefix("a");
    let report = apply(policy.clone().among(among));
    assert_eq!(report.deleted.len(), 1);
    assert_eq!(report.deleted[0].reason, RetentionReason::Deleted);
    let report = apply(policy);
    let was = report.deleted[0].session.deletion.as_ref().unwrap();
    assert_eq!((report.deleted.len(), &*was.key), (1, "b"));
    assert!(kept(&chats).is_empty());
    assert_eq!(chats.list_sessions().wait().unwrap(), ["c"]);
}

#[test]
fn who_follows_changes_is_told_of_the_deletion_and_of_the_return() {
    let dir = scratch();
    let store = keeping(dir.path());
    let chats = store.handle();
    let mut changes = chats.changes(ChangeFilter::new());
    add_numbers(&chats, "a", 0..1);
    chats.delete_session("a").wait().unwrap();
    chats.undelete_session("a").wait().unwrap();
    add_numbers(&chats, "b", 0..1);
    let mut told = Vec::new();
    while told.last().is_none_or(|(key, _)| key != "b") {
        let change = changes.wait_next().unwrap();
        told.push((change.key, change.kind));
    }
    let expected = [
        ("a", ChangeKind::Appended),
        ("a", ChangeKind::Deleted),
        ("a", ChangeKind::Replaced),
        ("b", ChangeKind::Appended),
    ];
    let expected = expected.map(|(key, kind)| (key.to_owned(), kind));
    assert_eq!(told, expected);
}

#[test]
fn sessions_with_long_keys_and_those_that_nobody_has_are_deleted_too() {
    let dir = scratch();
    let store = keeping(dir.path());
    let chats = store.handle();
    let long = "k".repeat(1024);
    add_numbers(&chats, &long, 0..1);
    chats.delete_session(&long).wait().unwrap();
    chats.delete_session("nobody").wait().unwrap();
    assert_eq!(kept(&chats).len(), 1);
    assert_eq!(chats.undelete_session(&long).wait().unwrap(), long);
    assert_eq!(texts(&chats, &long), numbers(0..1));
    let invalid = chats.delete_session("").wait();
    assert!(matches!(invalid, Err(Error::InvalidKey { .. })));
}

#[test]
fn several_who_delete_one_session_at_once_all_succeed() {
    let dir = scratch();
    let store = Store::open_with(dir.path(), StoreOptions::new().keep_deleted(DAY)).unwrap();
    let chats = store.handle();
    for round in 0..20 {
        let key = format!("chat:{round}");
        add_numbers(&chats, &key, 0..3);
        std::thread::scope(|threads| {
            for _ in 0..4 {
                threads.spawn(|| chats.delete_session(&key).wait().unwrap());
            }
        });
        assert!(!chats.exists(&key).wait().unwrap());
        assert_eq!(kept(&chats).len(), round + 1);
    }
}
