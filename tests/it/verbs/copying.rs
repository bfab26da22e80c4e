//! Copies of a whole store.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use sessionlog::{Appended, Error, Message, Store, StoreHandle};

use crate::support::{copy_dir, files, line, numbers, open, scratch, sidecar, texts};

fn back_up(chats: &StoreHandle, dir: &Path) -> sessionlog::BackupReport {
    let report = chats.backup_to(dir).wait().unwrap();
    assert_eq!(report.failed, []);
    report
}

#[test]
fn a_copy_has_all_that_a_store_has() {
    let dir = scratch();
    let copy = dir.path().join("copies/copy");
    let store = open(&dir.path().join("store"));
    let chats = store.handle();
    for key in ["telegram:1", "telegram:2", &"long".repeat(100)] {
        chats
            .append_all(key, vec![Message::user("a"), Message::user("b")])
            .wait()
            .unwrap();
        chats.set_summary(key, "short").wait().unwrap();
        chats.truncate_history(key, 1).wait().unwrap();
    }
    let aliases = vec![String::from("old:1")];
    chats
        .upsert_session_meta("telegram:1", None, aliases)
        .wait()
        .unwrap();
    chats
        .append_once("telegram:2", "id", Message::user("c"))
        .wait()
        .unwrap();
    chats.context("telegram:2").clear().wait().unwrap();
    chats
        .append_once("telegram:2", "other", Message::user("d"))
        .wait()
        .unwrap();
    fs::write(
        dir.path().join("store/orphan.jsonl"),
        "{\"role\":\"user\"}\n",
    )
    .unwrap();
    assert_eq!(back_up(&chats, &copy).sessions, 3);

    let verified = Store::verify(&copy).unwrap();
    assert!(verified.is_sound(), "{verified}");
    let restored = dir.path().join("restored");
    crate::support::copy_dir(&copy, &restored);
    let again = open(&restored);
    let copied = again.handle();
    let listed = chats.list_sessions().wait().unwrap();
    assert_eq!(copied.list_sessions().wait().unwrap(), listed);
    for key in listed.iter().map(String::as_str).chain(["old:1"]) {
        assert_eq!(texts(&copied, key), texts(&chats, key));
        let [meta, original] =
            [&copied, &chats].map(|chats| chats.session_meta(key).wait().unwrap());
        assert_eq!(format!("{meta:?}"), format!("{original:?}"));
        let [backups, originals] =
            [&copied, &chats].map(|chats| chats.list_backups(key).wait().unwrap());
        assert_eq!(backups, originals);
    }
    for id in ["id", "other"] {
        let taken = copied
            .append_once("telegram:2", id, Message::user("c"))
            .wait()
            .unwrap();
        assert!(matches!(taken, Appended::Duplicate { .. }), "{taken:?}");
    }
    copied.restore_backup("telegram:2", 1).wait().unwrap();
    assert_eq!(texts(&copied, "telegram:2"), ["b", "c"]);
    again.close().unwrap();
    store.close().unwrap();
    // The store gives up files that it shares with the copy, and does not write to them.
    let verified = Store::verify(&copy).unwrap();
    assert!(verified.is_sound(), "{verified}");
}

#[test]
fn a_second_copy_writes_only_what_changed_and_has_nothing_that_is_gone() {
    let dir = scratch();
    let copy = dir.path().join("copy");
    let store = open(&dir.path().join("store"));
    let chats = store.handle();
    for key in ["same", "grows", "goes"] {
        chats.add_message(key, "user", "hi").wait().unwrap();
    }
    let all = back_up(&chats, &copy).written;
    assert!(all > 0);
    let inode = |name: &str| fs::metadata(copy.join(name)).unwrap().ino();
    let same = inode("same.jsonl");
    assert_eq!(back_up(&chats, &copy).written, 0);
    chats.add_message("grows", "user", "again").wait().unwrap();
    chats.delete_session("goes").wait().unwrap();
    let report = back_up(&chats, &copy);
    assert_eq!(report.sessions, 2);
    assert!(report.written < all, "{report:?}");
    assert_eq!(inode("same.jsonl"), same);
    let beside: Vec<_> = files(dir.path()).into_keys().collect();
    assert!(
        !beside
            .iter()
            .any(|path| path.starts_with("copy/goes.jsonl")),
        "{beside:?}"
    );
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2);
    // What is written to the store afterwards is not in the copy.
    chats.add_message("same", "user", "later").wait().unwrap();
    chats.flush().wait().unwrap();
    let copied = Store::open_read_only(&copy).unwrap();
    assert_eq!(texts(&copied.handle(), "same"), ["hi"]);
    store.close().unwrap();
}

/// Sessions that writers append to, truncate and rewrite meanwhile, copied by the owner and
/// by a reader.
#[test]
fn a_copy_beside_writers_has_one_moment_of_each_session_with_all_that_was_acknowledged() {
    let dir = scratch();
    let store = open(&dir.path().join("store"));
    let chats = store.handle();
    let reader = Store::open_read_only(dir.path().join("store")).unwrap();
    let keys: Vec<_> = (0..12).map(|n| format!("s{n}")).collect();
    let said: Vec<_> = keys.iter().map(|_| AtomicUsize::new(0)).collect();
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        for (key, said) in keys.iter().zip(&said) {
            let (chats, stop) = (&chats, &stop);
            scope.spawn(move || {
                for n in 0.. {
                    if stop.load(Ordering::Relaxed) {
                        break;
                    }
                    let message = Message::user(n.to_string());
                    chats
                        .append_once(key, &n.to_string(), message)
                        .wait()
                        .unwrap();
                    said.store(n + 1, Ordering::SeqCst);
                    // A reader needs a moment between two rewrites of a session.
                    thread::sleep(Duration::from_millis(2));
                    if n % 200 == 199 {
                        chats.truncate_history(key, 100).wait().unwrap();
                    }
                    if n % 1000 == 999 {
                        chats.compact(key).wait().unwrap();
                    }
                }
            });
        }
        for round in 0..8 {
            let copy = dir.path().join(format!("copy{}", round % 3));
            let before: Vec<_> = said
                .iter()
                .map(|said| said.load(Ordering::SeqCst))
                .collect();
            if round % 2 == 0 {
                back_up(&chats, &copy);
            } else {
                back_up(&reader.handle(), &copy);
            }
            let restored = dir.path().join(format!("restored{round}"));
            crate::support::copy_dir(&copy, &restored);
            let again = open(&restored);
            let copied = again.handle();
            for (key, before) in keys.iter().zip(before) {
                let history: Vec<usize> = texts(&copied, key)
                    .iter()
                    .map(|text| text.parse().unwrap())
                    .collect();
                let next = history.last().map_or(0, |last| last + 1);
                assert!(next >= before, "{round} {key}: {next} of {before}");
                let first = next - history.len();
                assert!(
                    history.len() >= next.min(100) && history.first().is_none_or(|n| *n == first)
                );
                assert_eq!(texts(&copied, key), numbers(first..next), "{round} {key}");
                // A message that the copy lacks is no duplicate.
                let id = next.to_string();
                let taken = copied
                    .append_once(key, &id, Message::user("x"))
                    .wait()
                    .unwrap();
                assert!(
                    matches!(taken, Appended::New { .. }),
                    "{round} {key} {id}: {taken:?}"
                );
            }
            again.close().unwrap();
            fs::remove_dir_all(&restored).unwrap();
        }
        stop.store(true, Ordering::Relaxed);
    });
    store.close().unwrap();
}

#[test]
fn a_session_that_cannot_be_read_stays_as_the_copy_has_it() {
    let dir = scratch();
    let (path, copy) = (dir.path().join("store"), dir.path().join("copy"));
    let store = open(&path);
    let chats = store.handle();
    for key in ["a", "b"] {
        chats.add_message(key, "user", "hi").wait().unwrap();
    }
    back_up(&chats, &copy);
    store.close().unwrap();
    let store = open(&path);
    fs::remove_file(path.join("a.jsonl")).unwrap();
    fs::create_dir(path.join("a.jsonl")).unwrap();
    let report = store.handle().backup_to(&copy).wait().unwrap();
    assert_eq!(report.sessions, 1);
    assert_eq!(report.failed[0].0, "a");
    let copied = Store::open_read_only(&copy).unwrap();
    assert_eq!(texts(&copied.handle(), "a"), ["hi"]);
    drop(store);
}

#[test]
fn what_is_no_copy_of_the_store_is_left_alone() {
    let dir = scratch();
    let store = open(&dir.path().join("store"));
    let other = open(&dir.path().join("other"));
    let chats = store.handle();
    chats.add_message("a", "user", "hi").wait().unwrap();
    let copy = dir.path().join("copy");
    other
        .handle()
        .add_message("b", "user", "hi")
        .wait()
        .unwrap();
    back_up(&other.handle(), &copy);
    let mine = dir.path().join("mine");
    fs::create_dir(&mine).unwrap();
    fs::write(mine.join("a.jsonl"), "mine").unwrap();
    let before = files(dir.path());
    for refused in [&copy, &mine, &dir.path().join("mine/a.jsonl")] {
        let error = chats.backup_to(refused).wait().unwrap_err();
        assert!(matches!(error, Error::Io { .. }), "{error}");
    }
    let inside = dir.path().join("store/.sessionlog/copy");
    for refused in [
        &dir.path().join("store"),
        &dir.path().join("other"),
        &dir.path().join("store/copies/today"),
        &inside,
    ] {
        let error = chats.backup_to(refused).wait().unwrap_err();
        assert!(matches!(error, Error::InStore { .. }), "{error}");
    }
    let now = files(dir.path());
    assert_eq!(
        now.keys().collect::<Vec<_>>(),
        before.keys().collect::<Vec<_>>()
    );
    assert_eq!(fs::read(mine.join("a.jsonl")).unwrap(), b"mine");
    other.close().unwrap();
    store.close().unwrap();
    assert!(matches!(
        chats.backup_to(dir.path().join("new")).wait(),
        Err(Error::Closed)
    ));
}

/// Before it is opened for the first time, a directory has no identity that a copy could be
/// marked with.
#[test]
fn a_directory_that_was_copied_before_its_first_open_is_copied_after_it() {
    let dir = scratch();
    let (path, copy) = (dir.path().join("store"), dir.path().join("copy"));
    fs::create_dir(&path).unwrap();
    fs::write(path.join("a.jsonl"), line("0")).unwrap();
    fs::write(path.join("a.meta.json"), sidecar("a", "", 0, 1)).unwrap();
    let view = Store::open_read_only(&path).unwrap();
    for _ in 0..2 {
        back_up(&view.handle(), &copy);
    }
    // One that was cut short.
    copy_dir(&copy, &dir.path().join(".copy.copying"));
    let store = open(&path);
    store.handle().add_message("a", "user", "1").wait().unwrap();
    for _ in 0..2 {
        back_up(&store.handle(), &copy);
        let copied = Store::open_read_only(&copy).unwrap();
        assert_eq!(texts(&copied.handle(), "a"), ["0", "1"]);
    }
    store.close().unwrap();
    back_up(&view.handle(), &copy);
}
