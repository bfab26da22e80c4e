//! Backups: what sessions were before they were taken back.

use std::time::Duration;

use sessionlog::{Backup, BackupLimits, BackupReason, Error, Message, StoreHandle};

use BackupReason::{Restore, Revert};

use crate::support::{
    Caller, add_numbers, for_each_caller, numbers, open, said, scratch, texts, visible_names,
};

const CHAT: &str = "telegram:1";

/// Three backups, of one, two and three messages.
fn make_three(caller: &Caller, chats: &StoreHandle) -> Vec<Backup> {
    let chat = chats.context(CHAT);
    for n in 0..3 {
        caller.ok(chat.append_message(Message::user(n.to_string())));
        let id = caller.ok(chat.checkpoint(false));
        caller.ok(chat.revert_to(id));
    }
    caller.ok(chats.list_backups(CHAT))
}

/// How many backups stand in their directory.
fn files(dir: &std::path::Path) -> usize {
    let kept = std::fs::read_dir(dir.join(".sessionlog/backups")).unwrap();
    let names = kept.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| !name.ends_with("-last")).count()
}

#[test]
fn backups_are_listed_with_number_time_reason_and_size() {
    for_each_caller(|caller, chats, dir| {
        let backups = make_three(caller, chats);
        let numbers: Vec<_> = backups.iter().map(|b| b.number).collect();
        assert_eq!(numbers, [1, 2, 3]);
        assert!(backups.iter().all(|b| b.reason == BackupReason::Revert));
        assert!(backups.is_sorted_by(|a, b| a.size < b.size));
        let meta = caller.ok(chats.session_meta(CHAT));
        let hour = "2026-01-02T03".len();
        assert!(backups[2].created_at[..hour] <= meta.updated_at[..hour]);
        assert_eq!(caller.ok(chats.list_sessions()), [CHAT]);
        assert!(
            visible_names(dir)
                .iter()
                .all(|name| name.starts_with("telegram_1."))
        );
        assert!(caller.ok(chats.list_backups("nobody")).is_empty());
    });
}

#[test]
fn a_session_with_the_name_of_a_backup_is_a_session() {
    let dir = scratch();
    let store = open(dir.path());
    let chats = store.handle();
    make_three(&Caller::PlainThread, &chats);
    let name = "telegram_1.1-revert-5-0";
    chats.add_message(name, "user", "x").wait().unwrap();
    assert_eq!(chats.list_backups(CHAT).wait().unwrap().len(), 3);
    assert_eq!(chats.list_sessions().wait().unwrap().len(), 2);
    store.close().unwrap();
    let store = open(dir.path());
    assert_eq!(texts(&store.handle(), name), ["x"]);
    store.close().unwrap();
}

#[test]
fn a_backup_is_restored_and_what_it_replaces_becomes_one() {
    for_each_caller(|caller, chats, _| {
        make_three(caller, chats);
        let chat = chats.context(CHAT);
        caller.ok(chats.restore_backup(CHAT, 2));
        assert_eq!(said(&caller.ok(chat.history())), ["0", "1"]);
        assert_eq!(caller.ok(chat.n_checkpoints()), 1);
        caller.ok(chat.revert_to(0));
        assert_eq!(said(&caller.ok(chat.history())), ["0", "1"]);
        caller.ok(chats.restore_backup(CHAT, 4));
        assert_eq!(said(&caller.ok(chat.history())), ["0", "1", "2"]);
        let reasons: Vec<_> = caller
            .ok(chats.list_backups(CHAT))
            .iter()
            .map(|b| b.reason)
            .collect();
        assert_eq!(reasons, [Revert, Revert, Revert, Restore, Revert, Restore]);
        for missing in [0, 7, u64::MAX] {
            let error = caller.get(chats.restore_backup(CHAT, missing)).unwrap_err();
            assert!(matches!(error, Error::BackupNotFound { .. }), "{error}");
        }
        assert!(caller.get(chats.restore_backup("nobody", 1)).is_err());
    });
}

#[test]
fn a_restored_backup_does_not_bring_truncated_messages_back() {
    for_each_caller(|caller, chats, _| {
        for n in 0..5 {
            caller.ok(chats.add_message(CHAT, "user", &n.to_string()));
        }
        caller.ok(chats.truncate_history(CHAT, 2));
        caller.ok(chats.context(CHAT).clear());
        caller.ok(chats.restore_backup(CHAT, 1));
        assert_eq!(said(&caller.ok(chats.history(CHAT))), ["3", "4"]);
        assert_eq!(
            caller.ok(chats.list_backups(CHAT)).len(),
            1,
            "an empty file is not kept"
        );
    });
}

#[test]
fn backups_survive_closing_and_go_with_their_session() {
    let dir = scratch();
    let store = open(dir.path());
    let before = make_three(&Caller::PlainThread, &store.handle());
    store.close().unwrap();
    let store = open(dir.path());
    let chats = store.handle();
    assert_eq!(chats.list_backups(CHAT).wait().unwrap(), before);
    chats.restore_backup(CHAT, 1).wait().unwrap();
    assert_eq!(texts(&chats, CHAT), ["0"]);
    chats.delete_session(CHAT).wait().unwrap();
    assert!(chats.list_backups(CHAT).wait().unwrap().is_empty());
    chats.add_message(CHAT, "user", "new").wait().unwrap();
    assert!(chats.list_backups(CHAT).wait().unwrap().is_empty());
    store.close().unwrap();
    let backups = dir.path().join(".sessionlog/backups");
    assert_eq!(std::fs::read_dir(backups).unwrap().count(), 0);
}

#[test]
fn backups_of_a_session_removed_by_hand_are_set_aside_and_nobody_elses() {
    let dir = scratch();
    let store = open(dir.path());
    make_three(&Caller::PlainThread, &store.handle());
    store.handle().add_message("b", "user", "x").wait().unwrap();
    store.handle().context("b").clear().wait().unwrap();
    store.close().unwrap();
    for name in ["telegram_1.jsonl", "telegram_1.meta.json", "b.jsonl"] {
        std::fs::remove_file(dir.path().join(name)).unwrap();
    }
    let store = open(dir.path());
    let findings = &store.recovery_report().findings;
    assert_eq!(findings.len(), 3, "{findings:?}");
    assert!(findings[0].contains("telegram_1.1-revert-"), "{findings:?}");
    let chats = store.handle();
    let other = "telegram_1";
    chats.add_message(other, "user", "x").wait().unwrap();
    assert!(chats.list_backups(other).wait().unwrap().is_empty());
    chats.context(other).clear().wait().unwrap();
    let numbers = |key| -> Vec<u64> {
        let backups = chats.list_backups(key).wait().unwrap();
        backups.iter().map(|backup| backup.number).collect()
    };
    assert_eq!(numbers(other), [1]);
    assert_eq!(numbers("b"), [1], "its sidecar is there");
    let aside = dir.path().join(".sessionlog/quarantine");
    assert_eq!(std::fs::read_dir(aside).unwrap().count(), 3);
    store.close().unwrap();
    let store = open(dir.path());
    assert!(store.recovery_report().findings.is_empty());
    store.close().unwrap();
}

#[test]
fn a_backup_removed_by_hand_does_not_exist() {
    let dir = scratch();
    let store = open(dir.path());
    let chats = store.handle();
    make_three(&Caller::PlainThread, &chats);
    let backups = dir.path().join(".sessionlog/backups");
    for entry in std::fs::read_dir(backups).unwrap() {
        let path = entry.unwrap().path();
        if path.to_string_lossy().contains(".2-revert-") {
            std::fs::remove_file(path).unwrap();
        }
    }
    let refused = chats.restore_backup(CHAT, 2).wait();
    assert!(
        matches!(refused, Err(Error::BackupNotFound { number: 2, .. })),
        "{refused:?}"
    );
    let left = chats.list_backups(CHAT).wait().unwrap();
    assert_eq!(left.iter().map(|b| b.number).collect::<Vec<_>>(), [1, 3]);
    assert_eq!(texts(&chats, CHAT), ["0", "1", "2"]);
    store.close().unwrap();
}

#[test]
fn pruning_leaves_the_newest_within_the_limits() {
    for_each_caller(|caller, chats, dir| {
        let backups = make_three(caller, chats);
        let none = BackupLimits::new();
        let prune = |limits| caller.ok(chats.prune_backups(CHAT, limits));
        assert_eq!(prune(none), 0);
        assert_eq!(prune(none.age(Duration::from_hours(1))), 0);
        assert_eq!(prune(none.bytes(backups[1].size + backups[2].size)), 1);
        assert_eq!(prune(none.count(1)), 1);
        assert_eq!(caller.ok(chats.list_backups(CHAT)), backups[2..]);
        assert!(caller.get(chats.restore_backup(CHAT, 1)).is_err());
        assert_eq!(prune(none.age(Duration::ZERO).count(0)), 1);
        assert_eq!(caller.ok(chats.prune_backups("nobody", none.count(0))), 0);
        assert_eq!(files(dir), 0);
        assert_eq!(said(&caller.ok(chats.history(CHAT))), ["0", "1", "2"]);
    });
}

#[test]
fn a_number_is_not_given_again_after_its_backup_was_pruned() {
    for_each_caller(|caller, chats, _| {
        make_three(caller, chats);
        caller.ok(chats.prune_backups(CHAT, BackupLimits::new().count(0)));
        caller.ok(chats.add_message(CHAT, "user", "hi"));
        caller.ok(chats.context(CHAT).clear());
        let numbers = |chats: &StoreHandle| -> Vec<u64> {
            let backups = caller.ok(chats.list_backups(CHAT));
            backups.iter().map(|backup| backup.number).collect()
        };
        assert_eq!(numbers(chats), [4]);
        let error = caller.get(chats.restore_backup(CHAT, 3)).unwrap_err();
        assert!(matches!(error, Error::BackupNotFound { .. }), "{error}");
    });
    let dir = scratch();
    for round in 1..4 {
        let store = open(dir.path());
        let chats = store.handle();
        chats.add_message(CHAT, "user", "hi").wait().unwrap();
        chats.context(CHAT).clear().wait().unwrap();
        let backups = chats.list_backups(CHAT).wait().unwrap();
        assert_eq!(backups[0].number, round, "after {} opens", round - 1);
        let none = BackupLimits::new().count(0);
        assert_eq!(chats.prune_backups(CHAT, none).wait().unwrap(), 1);
        store.close().unwrap();
    }
    let store = open(dir.path());
    store.handle().delete_session(CHAT).wait().unwrap();
    store.close().unwrap();
    let left = std::fs::read_dir(dir.path().join(".sessionlog/backups")).unwrap();
    assert_eq!(left.count(), 0, "the number outlives its session");
}

/// The command is carried out though nobody waits for it any more.
#[test]
fn a_pruning_that_is_given_up_hides_no_backup() {
    use std::future::Future;
    use std::task::{Context, Waker};

    let dir = scratch();
    let store = open(dir.path());
    let chats = store.handle();
    make_three(&Caller::PlainThread, &chats);
    for _ in 0..20 {
        let mut pruning = Box::pin(chats.prune_backups(CHAT, BackupLimits::new().count(0)));
        let mut cx = Context::from_waker(Waker::noop());
        if pruning.as_mut().poll(&mut cx).is_ready() {
            break;
        }
        drop(pruning);
        // Of the same session, so that it comes after what was given up.
        chats.add_message(CHAT, "user", "hi").wait().unwrap();
        let listed = chats.list_backups(CHAT).wait().unwrap().len();
        assert_eq!(listed, files(dir.path()));
    }
    store.close().unwrap();
}

/// The name of a deleted session's file may be another chat's, and so are the
/// backups of that name.
#[test]
fn a_deleted_session_is_not_taken_back_to_another_chats_backup() {
    let dir = scratch();
    let store = open(dir.path());
    let chats = store.handle();
    add_numbers(&chats, "telegram:123", 0..1);
    chats.delete_session("telegram:123").wait().unwrap();
    add_numbers(&chats, "telegram_123", 0..3);
    chats.context("telegram_123").clear().wait().unwrap();
    add_numbers(&chats, "telegram_123", 7..9);
    let restored = chats.restore_backup("telegram:123", 1).wait();
    assert!(
        matches!(restored, Err(Error::BackupNotFound { .. })),
        "{restored:?}"
    );
    assert_eq!(texts(&chats, "telegram_123"), numbers(7..9));
    add_numbers(&chats, "telegram:123", 4..5);
    store.close().unwrap();
    let store = open(dir.path());
    assert_eq!(texts(&store.handle(), "telegram_123"), numbers(7..9));
    assert_eq!(texts(&store.handle(), "telegram:123"), numbers(4..5));
}
