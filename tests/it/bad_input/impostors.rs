//! Directories, links and pipes in the places of the store's files.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use rustix::fs::{CWD, FileType, Mode, mknodat};
use sessionlog::testing::disk_model::{Image, MemoryStorage};
use sessionlog::{Appended, BackupLimits, Erase, Error, Message, SessionQuery, Store, StoreHandle};

use crate::support::{
    add_numbers, copy_dir, files, in_memory, line, manual, numbers, open, open_memory, scratch,
    sidecar, texts, visible_names,
};

/// Puts something that is no file at `path`.
type Impostor = fn(path: &Path, outside: &Path);

const IMPOSTORS: [(&str, Impostor); 4] = [
    ("a directory", |path, _| {
        fs::create_dir(path).unwrap();
        fs::write(path.join("mine"), "mine").unwrap();
    }),
    ("a pipe", |path, _| {
        mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    }),
    ("a link", |path, outside| symlink(outside, path).unwrap()),
    ("a dangling link", |path, _| {
        symlink("/nowhere/at/all", path).unwrap();
    }),
];

fn kind(path: &Path) -> fs::FileType {
    fs::symlink_metadata(path).unwrap().file_type()
}

/// Taken for no file, the history would be empty, and the next message the first of a second
/// session beside it.
#[test]
fn what_has_a_session_files_name_is_named_in_the_error_of_its_session() {
    for (what, put) in IMPOSTORS {
        for with_sidecar in [true, false] {
            let dir = scratch();
            let outside = scratch();
            let target = outside.path().join("target");
            fs::write(&target, line("secret")).unwrap();
            let log = dir.path().join("telegram_1.jsonl");
            put(&log, &target);
            let listed = if with_sidecar {
                let meta = sidecar("telegram:1", "its own", 1, 2);
                fs::write(dir.path().join("telegram_1.meta.json"), &meta).unwrap();
                "telegram:1"
            } else {
                "telegram_1"
            };
            fs::write(dir.path().join("other.jsonl"), line("0")).unwrap();
            let before = visible_names(dir.path());
            let kind_before = kind(&log);
            let names_it = |refused: Result<String, Error>| match refused {
                Err(error @ Error::Io { .. }) => {
                    assert!(error.to_string().contains("telegram_1.jsonl"), "{error}");
                }
                other => panic!("{what}: {other:?}"),
            };
            let reads = |chats: &StoreHandle| {
                let history = chats.history("telegram:1").wait();
                names_it(history.map(|all| format!("{all:?}")));
                let page = chats.sessions(SessionQuery::new()).wait().unwrap();
                assert_eq!(page.unreadable, [listed], "{what}");
                assert_eq!(chats.list_sessions().wait().unwrap(), ["other", listed]);
            };
            let view = Store::open_read_only(dir.path()).unwrap();
            reads(&view.handle());
            let store = open(dir.path());
            let chats = store.handle();
            let findings = store.recovery_report().findings.join("\n");
            assert!(findings.contains("telegram_1.jsonl"), "{what}: {findings}");
            reads(&chats);
            let added = chats.add_message("telegram:1", "user", "x").wait();
            names_it(added.map(|()| String::from("added")));
            add_numbers(&chats, "other", 1..2);
            assert_eq!(texts(&chats, "other"), numbers(0..2));
            store.close().unwrap();
            let report = Store::verify(dir.path()).unwrap();
            let of_it = report.sessions.iter().find(|s| s.stem == "telegram_1");
            assert!(of_it.unwrap().unreadable.is_some(), "{what}: {report}");
            let mut left = visible_names(dir.path());
            left.retain(|name| name != "other.meta.json");
            assert_eq!(left, before, "{what}");
            assert_eq!(kind(&log), kind_before, "{what}");
            assert_eq!(fs::read_to_string(&target).unwrap(), line("secret"));
        }
    }
}

#[test]
fn what_has_a_sidecars_name_costs_the_history_nothing() {
    // A link may lead to a sidecar; see below.
    for (what, put) in &IMPOSTORS[..2] {
        let dir = scratch();
        let outside = scratch();
        let target = outside.path().join("target");
        fs::write(&target, "secret").unwrap();
        let meta = dir.path().join("cli.meta.json");
        put(&meta, &target);
        put(&dir.path().join("alone.meta.json"), &target);
        let log = numbers(0..2).iter().map(|n| line(n)).collect::<String>();
        fs::write(dir.path().join("cli.jsonl"), log).unwrap();
        let before = kind(&meta);

        let store = open(dir.path());
        let chats = store.handle();
        let findings = store.recovery_report().findings.join("\n");
        assert!(findings.contains("cli.meta.json"), "{what}: {findings}");
        assert_eq!(texts(&chats, "cli"), numbers(0..2), "{what}");
        add_numbers(&chats, "cli", 2..3);
        add_numbers(&chats, "alone", 0..1);
        store.close().unwrap();
        assert_eq!(kind(&dir.path().join("alone.meta.json")), before, "{what}");
        let aside = dir.path().join(".sessionlog/quarantine/cli.meta.json");
        assert_eq!(kind(&aside), before, "{what}");
        assert!(kind(&meta).is_file());
        assert_eq!(fs::read_to_string(&target).unwrap(), "secret");

        let store = open(dir.path());
        assert_eq!(texts(&store.handle(), "cli"), numbers(0..3), "{what}");
        assert_eq!(texts(&store.handle(), "alone"), numbers(0..1), "{what}");
        store.close().unwrap();
    }
}

/// What was truncated would show.
#[test]
fn a_sidecar_behind_a_link_keeps_its_own_session_from_being_used_and_no_other() {
    for (what, put) in &IMPOSTORS[2..] {
        let dir = scratch();
        let outside = scratch();
        let target = outside.path().join("target");
        fs::write(&target, sidecar("cli", "", 1, 2)).unwrap();
        put(&dir.path().join("cli.meta.json"), &target);
        put(&dir.path().join("alone.meta.json"), &target);
        let log = line("hidden") + &line("shown");
        fs::write(dir.path().join("cli.jsonl"), &log).unwrap();
        let store = open(dir.path());
        let chats = store.handle();
        assert!(
            matches!(chats.history("cli").wait(), Err(Error::Io { .. })),
            "{what}"
        );
        let refused = chats.add_message("cli", "user", "x").wait();
        assert!(
            matches!(refused, Err(Error::Io { .. })),
            "{what}: {refused:?}"
        );
        add_numbers(&chats, "other", 0..1);
        add_numbers(&chats, "alone", 0..1);
        store.close().unwrap();
        assert!(kind(&dir.path().join("cli.meta.json")).is_symlink());
        assert!(kind(&dir.path().join("alone.meta.json")).is_symlink());
        assert_eq!(
            fs::read_to_string(&target).unwrap(),
            sidecar("cli", "", 1, 2)
        );
        let kept = fs::read_to_string(dir.path().join("cli.jsonl")).unwrap();
        assert_eq!(kept, log);
    }
}

/// The journal speaks of both sessions, and something has come in their way.
#[test]
fn what_is_in_the_way_of_a_recovery_is_set_aside() {
    let disk = MemoryStorage::new();
    let store = open_memory(&disk).unwrap();
    let chats = store.handle();
    for key in ["log", "meta", "gone", "fine"] {
        add_numbers(&chats, key, 0..2);
    }
    chats.delete_session("gone").wait().unwrap();
    let disk = disk.image(Image::AllLost);
    drop(store);
    for name in ["log.jsonl", "meta.meta.json", "gone.jsonl"] {
        let _ = disk.remove_foreign(in_memory(name));
        disk.write_foreign(in_memory(&format!("{name}/mine")), b"mine")
            .unwrap();
    }
    for _ in 0..2 {
        let store = open_memory(&disk).unwrap();
        for key in ["log", "meta", "fine"] {
            assert_eq!(texts(&store.handle(), key), numbers(0..2), "{key}");
        }
        assert!(texts(&store.handle(), "gone").is_empty());
        store.close().unwrap();
    }
    let mine = disk
        .dump()
        .into_iter()
        .filter(|(_, bytes)| bytes == b"mine");
    assert_eq!(mine.count(), 3);
}

/// Only the file that was moved away has the older lines, and only the journal the newer.
#[test]
fn what_stands_in_a_files_place_after_a_crash_stays_and_what_the_journal_held_is_a_backup() {
    for (what, put) in IMPOSTORS {
        let (running, dir, outside) = (scratch(), scratch(), scratch());
        let dir = dir.path().join("s");
        let store = open(running.path());
        let chats = store.handle();
        add_numbers(&chats, "a", 0..2);
        chats.flush().wait().unwrap();
        add_numbers(&chats, "a", 2..4);
        chats.set_summary("a", "new").wait().unwrap();
        add_numbers(&chats, "fine", 0..1);
        copy_dir(running.path(), &dir);
        store.close().unwrap();
        let (log, moved) = (dir.join("a.jsonl"), outside.path().join("a.jsonl"));
        fs::rename(&log, &moved).unwrap();
        put(&log, &moved);
        let kind_before = kind(&log);
        let refuses = |store: &Store| {
            let chats = store.handle();
            match chats.history("a").wait() {
                Err(error @ Error::Io { .. }) => {
                    assert!(error.to_string().contains("a.jsonl"), "{what}: {error}");
                }
                other => panic!("{what}: {other:?}"),
            }
            assert_eq!(chats.list_sessions().wait().unwrap(), ["a", "fine"]);
            assert_eq!(texts(&chats, "fine"), numbers(0..1));
        };
        let view = Store::open_read_only(&dir).unwrap();
        refuses(&view);
        let report = Store::verify(&dir).unwrap();
        let of_it = report.sessions.iter().find(|s| s.stem == "a").unwrap();
        assert!(of_it.unreadable.is_some(), "{what}: {report}");
        for nth in 0..2 {
            let store = open(&dir);
            refuses(&store);
            let findings = store.recovery_report().findings.join("\n");
            assert_eq!(findings.contains("is its backup 1"), nth == 0, "{findings}");
            let added = store.handle().add_message("a", "user", "x").wait();
            assert!(matches!(added, Err(Error::Io { .. })), "{what}: {added:?}");
            store.close().unwrap();
            assert_eq!(kind(&log), kind_before, "{what}");
        }
        let _ = fs::remove_dir_all(&log);
        let _ = fs::remove_file(&log);
        fs::rename(&moved, &log).unwrap();
        let store = open(&dir);
        let chats = store.handle();
        let in_file = texts(&chats, "a");
        assert!(in_file.len() >= 2 && numbers(0..4).starts_with(&in_file));
        assert_eq!(chats.summary("a").wait().unwrap(), "new", "{what}");
        chats.restore_backup("a", 1).wait().unwrap();
        assert_eq!(texts(&chats, "a"), numbers(2..4), "{what}");
        store.close().unwrap();
    }
}

#[test]
fn no_link_in_the_engines_directory_is_followed() {
    for name in ["backups", "quarantine", "journal"] {
        let dir = scratch();
        let outside = scratch();
        fs::write(outside.path().join("cli.1-clear-0-0.jsonl"), line("theirs")).unwrap();
        let store = open(dir.path());
        add_numbers(&store.handle(), "cli", 0..2);
        store.close().unwrap();
        let place = dir.path().join(".sessionlog").join(name);
        let _ = fs::remove_dir(&place);
        symlink(outside.path(), &place).unwrap();
        let before = files(outside.path());
        match Store::open(dir.path()) {
            Err(error @ Error::Io { .. }) => assert!(error.to_string().contains(name), "{error}"),
            other => panic!("{name}: {other:?}"),
        }
        assert_eq!(files(outside.path()), before, "{name}");
        fs::remove_file(&place).unwrap();
        let store = open(dir.path());
        let chats = store.handle();
        chats.context("cli").clear().wait().unwrap();
        let limits = BackupLimits::new().count(0);
        assert_eq!(chats.prune_backups("cli", limits).wait().unwrap(), 1);
        store.close().unwrap();
    }
}

/// Were it an error, no flush would succeed while it is there: the journal would
/// grow until the disk is full.
#[test]
fn what_takes_a_sidecars_name_beside_a_running_store_is_set_aside() {
    for (what, put) in IMPOSTORS {
        for flushes in [None, Some(0), Some(1)] {
            let (dir, outside) = (scratch(), scratch());
            let target = outside.path().join("target");
            fs::write(&target, "somebody's").unwrap();
            let store = open(dir.path());
            let chats = store.handle();
            add_numbers(&chats, "a", 0..1);
            let path = dir.path().join("a.meta.json");
            if let Some(more) = flushes {
                chats.flush().wait().unwrap();
                // With one flush in between the sidecar is replaced, not overwritten.
                for _ in 0..more {
                    add_numbers(&chats, "b", 0..1);
                    chats.flush().wait().unwrap();
                }
            }
            let _ = fs::remove_file(&path);
            put(&path, &target);
            chats.set_summary("a", "new").wait().unwrap();
            chats.flush().wait().unwrap();
            assert!(kind(&path).is_file(), "{what}");
            assert_eq!(fs::read_to_string(&target).unwrap(), "somebody's");
            let aside = dir.path().join(".sessionlog/quarantine/a.meta.json");
            assert!(!kind(&aside).is_file(), "{what}");
            store.close().unwrap();
            let store = open(dir.path());
            assert_eq!(store.handle().summary("a").wait().unwrap(), "new");
        }
    }
}

/// What was in their place is lost to the store; it, and what is written from then on, is not.
#[test]
fn what_has_the_name_of_the_ids_or_the_copies_costs_what_they_held_and_not_the_store() {
    for name in ["once", "sidecars.jsonl", "archive", "catalog", "stats"] {
        for (what, put) in impostors_of(name) {
            for while_open in [false, true] {
                let (dir, outside) = (scratch(), scratch());
                let target = outside.path().join("target");
                fs::create_dir(&target).unwrap();
                fs::write(target.join("cli.ids.jsonl"), "somebody's").unwrap();
                let options = || manual().archive(true);
                let mut store = Store::open_with(dir.path(), options()).unwrap();
                let once = |store: &Store, id: &str| {
                    let text = vec![Message::user(id)];
                    store.handle().append_once("cli", id, text).wait().unwrap()
                };
                once(&store, "1");
                store.handle().set_summary("gone", "s").wait().unwrap();
                once(&store, "2");
                store.handle().flush().wait().unwrap();
                let path = dir.path().join(".sessionlog").join(name);
                let replace = || {
                    let _ = fs::remove_dir_all(&path);
                    let _ = fs::remove_file(&path);
                    put(&path, &target);
                };
                if while_open {
                    replace();
                } else {
                    store.close().unwrap();
                    replace();
                    let view = Store::open_read_only(dir.path()).unwrap();
                    assert_eq!(texts(&view.handle(), "cli"), ["1", "2"]);
                    store = Store::open_with(dir.path(), options()).unwrap();
                    let findings = store.recovery_report().findings.join("\n");
                    assert!(findings.contains(name), "{what} {name}: {findings}");
                }
                let chats = store.handle();
                let receipt = chats.erase(Erase::key("gone")).wait().unwrap();
                assert_eq!(receipt.sessions, ["gone"], "{what} {name}");
                once(&store, "3");
                assert!(matches!(once(&store, "3"), Appended::Duplicate(_)));
                chats.truncate_history("cli", 1).wait().unwrap();
                if name != "archive" || !while_open {
                    chats.compact("cli").wait().unwrap();
                }
                chats.flush().wait().unwrap();
                store.close().unwrap();
                let store = Store::open_with(dir.path(), options()).unwrap();
                assert_eq!(texts(&store.handle(), "cli"), ["3"], "{what} {name}");
                assert!(matches!(once(&store, "3"), Appended::Duplicate(_)));
                store.handle().delete_session("cli").wait().unwrap();
                store.close().unwrap();
                let theirs = fs::read_to_string(target.join("cli.ids.jsonl")).unwrap();
                assert_eq!(theirs, "somebody's", "{what} {name}");
            }
        }
    }
}

/// All that can have the name of one of the engine's files or directories and is none.
fn impostors_of(name: &str) -> Vec<(&'static str, Impostor)> {
    let a_file: (&'static str, Impostor) = ("a file", |path, _| fs::write(path, "mine").unwrap());
    let is_directory = matches!(name, "once" | "archive");
    let mut all: Vec<_> = IMPOSTORS.to_vec();
    if is_directory {
        all[0] = a_file;
    }
    all
}
