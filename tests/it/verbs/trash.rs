//! Deleted sessions that are kept, and come back.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use sessionlog::testing::disk_model::{Image, MemoryStorage};
use sessionlog::{
    Appended, Budget, ChangeFilter, ChangeKind, Erase, Error, ErrorKind, Fork, Format, Message,
    RetentionPolicy, RetentionReason, SearchQuery, SessionInfo, SessionQuery, Store, StoreHandle,
    StoreOptions,
};

use crate::support::{Caller, add_numbers, files, manual, numbers, open_on, scope, scratch, texts};

const DAY: Duration = Duration::from_hours(24);

fn keeping(dir: &Path) -> Store {
    Store::open_with(dir, manual().archive(true).trash(DAY)).unwrap()
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

/// No file of a directory has the name of one in the trash.
fn nothing_is_in_the_trash_of(dir: &Path) {
    let mut left = files(dir).into_keys();
    let left = left.find(|path| path.display().to_string().contains("deleted"));
    assert_eq!(left, None);
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
        let deletion = kept[0].deleted.as_ref().unwrap();
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
    assert_eq!(chats.undelete("telegram:7").wait().unwrap(), "telegram:7");
    assert!(kept(&chats).is_empty());
    assert_eq!(all_of(&chats, "telegram:7"), before);
    assert_eq!(texts(&chats, "rome"), numbers(5..8));
    assert!(took(&chats, "telegram:7"));
    store.close().unwrap();
    nothing_is_in_the_trash_of(dir.path());
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
    let back = chats.undelete("a").wait();
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
        assert_eq!(caller.ok(chats.undelete("telegram:7")), "sk");
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

    let back = chats.undelete("a").wait();
    assert!(matches!(back, Err(Error::HasHistory { .. })), "{back:?}");
    assert_eq!(texts(&chats, "a"), numbers(2..3));
    chats.merge_session(&kept_key(&chats), "a").wait().unwrap();
    assert_eq!(texts(&chats, "a"), numbers(0..3));
    assert!(kept(&chats).is_empty());
    assert_eq!(texts(&chats, "rome"), numbers(5..6));
    assert_eq!(texts(&chats, "trip"), numbers(6..7));
    let meta = chats.session_meta("a").wait().unwrap();
    assert!(meta.aliases.is_empty() && meta.tags.unknown_field("deleted_session").is_none());

    chats.delete_session("b").wait().unwrap();
    let rome = vec!["b".to_owned()];
    chats.upsert_session_meta("a", None, rome).wait().unwrap();
    let back = chats.undelete("b").wait();
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
    assert_eq!(chats.undelete("a").wait().unwrap(), "a");
    assert_eq!(texts(&chats, "a"), numbers(2..3));
    chats.delete_session("a").wait().unwrap();
    assert_eq!(chats.undelete(&all[0].key).wait().unwrap(), "a");
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
        chats
            .upsert_session_meta(&key, None, vec!["b".into()])
            .wait(),
    ];
    for refused in refused {
        let kind = refused.as_ref().map_err(Error::kind);
        assert_eq!(kind, Err(ErrorKind::InvalidInput), "{refused:?}");
    }
    let other = chats.append_once(
        "deleted:20261128T192303.123456789Z:b",
        "1",
        Message::user("x"),
    );
    assert!(other.wait().is_err());
    assert_eq!(texts(&chats, &key), numbers(5..8));
    chats.delete_session(&key).wait().unwrap();
    store.close().unwrap();
    nothing_is_in_the_trash_of(dir.path());
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
    let was = report.deleted[0].session.deleted.as_ref().unwrap();
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
    chats.undelete("a").wait().unwrap();
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
    assert_eq!(chats.undelete(&long).wait().unwrap(), long);
    assert_eq!(texts(&chats, &long), numbers(0..1));
    let invalid = chats.delete_session("").wait();
    assert!(matches!(invalid, Err(Error::InvalidKey { .. })));
}

#[test]
fn several_who_delete_one_session_at_once_all_succeed() {
    let dir = scratch();
    let store = Store::open_with(dir.path(), StoreOptions::new().trash(DAY)).unwrap();
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

#[test]
fn a_deletion_by_the_exact_key_leads_nobody_to_another_session() {
    let dir = scratch();
    let store = keeping(dir.path());
    let chats = store.handle();
    let exact = chats.exact_keys();
    let main = "agent:main:main";
    for key in ["sk_a", "sk_b"] {
        add_numbers(&chats, key, 0..1);
        let aliases = vec![main.to_owned(), format!("chat:{key}")];
        chats
            .upsert_session_meta(key, None, aliases)
            .wait()
            .unwrap();
    }
    exact.add_message(main, "user", "main").wait().unwrap();
    exact.delete_session(main).wait().unwrap();
    exact.delete_session(main).wait().unwrap();
    exact.add_message(main, "user", "again").wait().unwrap();
    assert_eq!(texts(&exact, main), ["again"]);
    for key in ["sk_a", "sk_b"] {
        assert_eq!(texts(&exact, key), numbers(0..1), "{key}");
    }
    exact.delete_session(main).wait().unwrap();
    chats.delete_session("sk_a").wait().unwrap();
    // The main alias is of all, and means the session of that key.
    assert_eq!(chats.undelete(main).wait().unwrap(), main);
    assert_eq!(texts(&exact, main), ["again"]);
    assert_eq!(chats.undelete("chat:sk_a").wait().unwrap(), "sk_a");
    let meta = chats.session_meta("sk_a").wait().unwrap();
    assert_eq!(meta.aliases, [main, "chat:sk_a"]);
}

#[test]
fn what_is_written_after_a_deletion_was_asked_for_is_not_in_the_trash() {
    for caller in Caller::each() {
        let dir = scratch();
        let store = keeping(dir.path());
        let chats = store.handle();
        add_numbers(&chats, "a", 0..2);
        let deleted = chats.delete_session("a");
        let both = sessionlog::Reply::from_future(async move {
            let added = chats.add_message("a", "user", "new");
            let (deleted, added) = tokio::join!(deleted, added);
            deleted.and(added)
        });
        caller.ok(both);
        let chats = store.handle();
        assert_eq!(texts(&chats, "a"), ["new"]);
        assert_eq!(texts(&chats, &kept_key(&chats)), numbers(0..2));
    }
}

#[test]
fn what_was_cleared_does_not_come_back_with_a_session_out_of_the_trash() {
    let dir = scratch();
    let store = keeping(dir.path());
    let chats = store.handle();
    add_numbers(&chats, "telegram:7", 0..3);
    let aliases = || vec!["telegram:7".to_owned()];
    let ensure = || {
        chats
            .ensure_session_metadata("sk_x", None, aliases())
            .wait()
    };
    assert!(ensure().unwrap());
    chats.truncate_history("sk_x", 0).wait().unwrap();
    chats.delete_session("sk_x").wait().unwrap();
    chats.undelete("sk_x").wait().unwrap();
    assert!(!ensure().unwrap());
    assert!(texts(&chats, "telegram:7").is_empty());
    assert!(texts(&chats, "sk_x").is_empty());
}

#[test]
fn a_session_in_the_trash_is_read_by_every_verb_that_reads() {
    let dir = scratch();
    let store = keeping(dir.path());
    let chats = store.handle();
    fill(&chats, "a");
    let before = all_of(&chats, "a");
    let exported = |key: &str| chats.export(key, Format::Jsonl).wait().unwrap().text;
    let jsonl = exported("a");
    chats.delete_session("a").wait().unwrap();
    let key = kept_key(&chats);
    assert_eq!(exported(&key), jsonl);
    let window = chats
        .window(&key, Budget::unlimited().messages(2))
        .wait()
        .unwrap();
    assert_eq!(window.messages.len(), 2);
    assert_eq!(chats.count(&key).wait().unwrap(), 3);
    assert_eq!(chats.summary(&key).wait().unwrap(), "a trip");
    assert_eq!(chats.context(&key).history().wait().unwrap().len(), 3);
    chats.subscribe(&key).wait().unwrap();
    chats.fork_session(&key, "copy", Fork::End).wait().unwrap();
    assert_eq!(texts(&chats, "copy"), numbers(5..8));
    chats.undelete("a").wait().unwrap();
    assert_eq!(all_of(&chats, "a"), before);
}

#[test]
fn nothing_gets_into_the_trash_but_by_a_deletion() {
    let dir = scratch();
    let store = keeping(dir.path());
    let chats = store.handle();
    add_numbers(&chats, "a", 0..2);
    add_numbers(&chats, "b", 0..1);
    chats.delete_session("a").wait().unwrap();
    let (key, other) = (kept_key(&chats), "deleted:20261128T192303.123456789Z:c");
    let session = chats.session(&key);
    for to in [&*key, other] {
        let alias = || vec!["b".to_owned()];
        let refused = [
            chats.fork_session("b", to, Fork::End).wait().is_err(),
            chats
                .promote_alias_history(to, None, alias())
                .wait()
                .is_err(),
            chats
                .ensure_session_metadata(to, None, alias())
                .wait()
                .is_err(),
            chats.add_message(to, "user", "late").wait().is_err(),
            chats.rename_session("b", to).wait().is_err(),
            chats.merge_session("b", to).wait().is_err(),
            chats.context(to).checkpoint(false).wait().is_err(),
            session.add_message("user", "late").wait().is_err(),
        ];
        assert!(refused.iter().all(|refused| *refused), "{to}: {refused:?}");
    }
    // With white space around it, it is another key, or none.
    let padded = format!(" {key}");
    let refused = chats.add_message(&padded, "user", "late").wait();
    assert!(refused.is_err(), "{refused:?}");
    let refused = chats.rename_session("b", &padded).wait();
    assert!(refused.is_err(), "{refused:?}");
    assert_eq!(texts(&chats, &key), numbers(0..2));
    assert_eq!(texts(&chats, "b"), numbers(0..1));
    assert_eq!(kept(&chats).len(), 1);
}

#[test]
fn an_erasure_finds_what_was_deleted_under_an_alias_of_who_is_erased() {
    let dir = scratch();
    let store = keeping(dir.path());
    let chats = store.handle();
    chats
        .add_message("telegram:7", "user", "5 Elm Street")
        .wait()
        .unwrap();
    chats
        .exact_keys()
        .delete_session("telegram:7")
        .wait()
        .unwrap();
    add_numbers(&chats, "sk_x", 0..1);
    let aliases = vec!["telegram:7".to_owned()];
    chats
        .upsert_session_meta("sk_x", None, aliases)
        .wait()
        .unwrap();
    let receipt = chats.erase(Erase::key("sk_x")).wait().unwrap();
    assert!(receipt.is_complete(), "{receipt:?}");
    assert!(kept(&chats).is_empty());
    assert!(chats.traces(["5 Elm Street"]).wait().unwrap().is_none());
}

#[test]
fn a_key_with_white_space_around_it_comes_back_as_it_was() {
    let dir = scratch();
    let store = keeping(dir.path());
    let chats = store.handle();
    for (key, text) in [("a ", "0"), ("a", "1")] {
        chats
            .exact_keys()
            .add_message(key, "user", text)
            .wait()
            .unwrap();
        chats.exact_keys().delete_session(key).wait().unwrap();
    }
    assert_eq!(chats.undelete("a ").wait().unwrap(), "a ");
    assert_eq!(texts(&chats.exact_keys(), "a "), numbers(0..1));
    assert_eq!(chats.undelete(" a").wait().unwrap(), "a");
}

#[test]
fn a_policy_about_deleted_sessions_judges_none_of_them_by_age_or_count() {
    let dir = scratch();
    let store = keeping(dir.path());
    let chats = store.handle();
    add_numbers(&chats, "a", 0..1);
    chats.delete_session("a").wait().unwrap();
    let among = SessionQuery::new().deleted();
    let policy = RetentionPolicy::new().count(0).among(among);
    let plan = chats.retention(policy).plan().wait().unwrap();
    assert!(plan.expired.is_empty(), "{plan:?}");
}

#[test]
fn a_crash_at_any_step_leaves_a_session_in_its_place_or_in_the_trash_whole() {
    let options = || manual().archive(true).trash(DAY);
    let live = |disk: &MemoryStorage| {
        let Ok(store) = open_on(Arc::new(disk.clone()), options()) else {
            return [false; 3];
        };
        let chats = store.handle();
        let filled = || -> sessionlog::Result<()> {
            chats.add_message("a", "user", "0").wait()?;
            let once = chats.append_once("a", "update 7", Message::user("1"));
            once.wait()?;
            chats.context("a").clear().wait()?;
            chats
                .append_all("a", vec![Message::user("2"), Message::user("3")])
                .wait()?;
            chats.set_summary("a", "of two").wait()
        };
        let filled = filled().is_ok();
        let deleted = filled && chats.delete_session("a").wait().is_ok();
        let undeleted = deleted && chats.undelete("a").wait().is_ok();
        let _ = store.close();
        [filled, deleted, undeleted]
    };
    let whole = MemoryStorage::new();
    assert_eq!(live(&whole), [true; 3]);
    let mut crashes = 0;
    for step in 0..whole.steps() {
        let disk = MemoryStorage::new();
        disk.crash_at(step);
        let [filled, _, undeleted] = live(&disk);
        if !filled {
            continue;
        }
        for image in [Image::ProcessDeath, Image::AllLost, Image::Random(step)] {
            let store = open_on(Arc::new(disk.image(image)), options()).unwrap();
            let chats = store.handle();
            let trash = kept(&chats);
            let place = match (chats.exists("a").wait().unwrap(), &*trash) {
                (true, []) => "a".to_owned(),
                (false, [kept]) => kept.key.clone(),
                both => panic!("{step} {image:?}: {both:?}"),
            };
            assert!(
                !undeleted || place == "a",
                "{step} {image:?}: back in the trash"
            );
            assert_eq!(texts(&chats, &place), numbers(2..4), "{step} {image:?}");
            assert_eq!(chats.summary(&place).wait().unwrap(), "of two");
            let backups = chats.list_backups(&place).wait().unwrap();
            assert_eq!(backups.len(), 1, "{step} {image:?}");
            if place != "a" {
                chats.undelete("a").wait().unwrap();
            }
            assert!(took(&chats, "a"), "{step} {image:?}");
            store.close().unwrap();
            crashes += 1;
        }
    }
    assert!(crashes > 100, "{crashes}");
}
