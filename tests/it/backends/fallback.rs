//! Which store a directory gets, and that its sessions are never in two.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use sessionlog::backend::{
    JsonlBackend, SessionStore, StoreKind, open_session_store, open_session_store_with,
};
use sessionlog::testing::disk_model::{Fault, Image, MemoryStorage, Repeat};
use sessionlog::{Error, Result, StoreOptions, migrate_from_json, testing};

use super::{add, owned, scope, texts};
use crate::support::{in_memory, open, scratch, small_segments, visible_names};

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

/// Larger than a batch may be, it is imported; what cannot be, is told of.
#[test]
fn a_long_session_is_imported_and_a_file_that_is_left_is_reported() {
    let dir = scratch();
    let write = |name: &str, text: &str| fs::write(dir.path().join(name), text).unwrap();
    let messages: Vec<_> = (0..300)
        .map(|n| format!(r#"{{"role":"user","content":"{n:0>500}"}}"#))
        .collect();
    let messages = messages.join(",");
    write(
        "long.json",
        &format!(r#"{{"key":"long:1","messages":[{messages}]}}"#),
    );
    let deep = "[".repeat(129) + &"]".repeat(129);
    let whose = format!(
        r#"{{"key":"deep:1","messages":[{{"role":"user","content":"x"}}],"scope":{deep}}}"#
    );
    write("deep.json", &whose);
    write("broken.json", "{");
    write(
        "wide.json",
        &format!(
            r#"{{"key":"w","messages":[{{"content":"{}"}}]}}"#,
            "x".repeat(70_000)
        ),
    );

    let options = || {
        StoreOptions::new()
            .max_batch_bytes(64 << 10)
            .max_line_bytes(64 << 10)
    };
    let store = open_session_store_with(dir.path(), options()).unwrap();
    assert_eq!(store.kind(), StoreKind::Jsonl);
    assert_eq!(texts(&*store, "long:1").len(), 300);
    assert_eq!(texts(&*store, "deep:1"), ["x"]);
    let report = store.migration_report();
    assert_eq!(report.migrated, 2);
    let left: Vec<_> = report
        .skipped
        .iter()
        .map(|(path, _)| path.clone())
        .collect();
    assert_eq!(
        left,
        ["broken.json", "wide.json"].map(|name| dir.path().join(name))
    );
    assert!(report.skipped[1].1.contains("a message"), "{report:?}");
    let [(key, reason)] = &report.without_identity[..] else {
        panic!("{report:?}");
    };
    assert!(key == "deep:1" && reason.contains("128"), "{reason}");
    store.close().wait().unwrap();

    let store = open_session_store_with(dir.path(), options()).unwrap();
    assert_eq!(store.migration_report().migrated, 0);
    assert_eq!(store.migration_report().skipped.len(), 2);
    store.close().wait().unwrap();
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

/// A store with one message in `k`, whose older file is over its limit.
fn beside_a_file_over_the_limit(dir: &Path) -> StoreOptions {
    let options = StoreOptions::new().max_line_bytes(4096);
    legacy(dir, "k", &"x".repeat(8000));
    let store = open_session_store_with(dir, options.clone());
    add(&*expect(store, StoreKind::Jsonl), "k", &["acknowledged"]);
    options
}

#[test]
fn a_file_that_is_not_imported_is_no_copy_of_the_stores_session() {
    let dir = scratch();
    let options = beside_a_file_over_the_limit(dir.path());
    legacy(dir.path(), "c:1", "late");
    block(dir.path());
    let refused = open_session_store_with(dir.path(), options.clone());
    assert!(matches!(refused, Err(Error::Io { .. })), "{refused:?}");
    unblock(dir.path());
    let store = expect(
        open_session_store_with(dir.path(), options),
        StoreKind::Jsonl,
    );
    assert_eq!(texts(&*store, "k"), ["acknowledged"]);
    assert_eq!(texts(&*store, "c:1"), ["late"]);
}

#[test]
fn a_failed_open_hides_no_session_behind_a_file_that_is_not_imported() {
    let dir = scratch();
    let options = beside_a_file_over_the_limit(dir.path());
    let (home, aside) = (dir.path().join(".sessionlog"), dir.path().join("aside"));
    fs::rename(&home, &aside).unwrap();
    fs::write(&home, "in the way").unwrap();
    let refused = open_session_store_with(dir.path(), options.clone());
    assert!(matches!(refused, Err(Error::Io { .. })), "{refused:?}");
    fs::remove_file(&home).unwrap();
    fs::rename(&aside, &home).unwrap();
    let store = expect(
        open_session_store_with(dir.path(), options),
        StoreKind::Jsonl,
    );
    assert_eq!(texts(&*store, "k"), ["acknowledged"]);
}

fn in_store(dir: &Path, key: &str, text: &str) {
    let store = open(dir);
    store
        .handle()
        .add_message(key, "user", text)
        .wait()
        .unwrap();
    store.close().unwrap();
}

/// The texts of every backup of a session, oldest first.
fn backed_up(dir: &Path, key: &str) -> Vec<Vec<String>> {
    let store = open(dir);
    let chats = store.handle();
    let backups = chats.list_backups(key).wait().unwrap();
    let restored = backups.iter().map(|backup| {
        chats.restore_backup(key, backup.number).wait().unwrap();
        crate::support::texts(&chats, key)
    });
    let restored = restored.collect();
    store.close().unwrap();
    restored
}

/// The first import replaces a history, and is cut short before its file gets its
/// new name; the second finds nothing but a copy of the file, and fails.
#[test]
fn no_fallback_deletes_the_backup_of_what_an_import_replaced() {
    let dir = scratch();
    in_store(dir.path(), "k", "acknowledged");
    legacy(dir.path(), "k", "older");
    legacy(dir.path(), "c:1", "late");
    let store = open(dir.path());
    assert_eq!(migrate_from_json(dir.path(), &store.handle()).unwrap(), 2);
    store.close().unwrap();
    for name in ["k.json", "c_1.json"] {
        let path = dir.path().join(name);
        fs::rename(path.with_extension("json.migrated"), path).unwrap();
    }
    block(dir.path());
    for _ in 0..2 {
        let refused = open_session_store(dir.path()).map(|store| store.kind());
        let error = refused.unwrap_err().to_string();
        assert!(error.contains("session \"k\" has backups"), "{error}");
        assert!(error.contains("c_1.json"), "what failed: {error}");
    }
    unblock(dir.path());
    let store = expect(open_session_store(dir.path()), StoreKind::Jsonl);
    assert_eq!(texts(&*store, "k"), ["older"]);
    store.close().wait().unwrap();
    assert_eq!(backed_up(dir.path(), "k"), [["acknowledged"]]);
}

#[test]
fn an_import_that_fails_over_a_history_keeps_both() {
    let dir = scratch();
    in_store(dir.path(), "c:1", "acknowledged");
    legacy(dir.path(), "c:1", "older");
    block(dir.path());
    assert!(open_session_store(dir.path()).is_err());
    assert!(open_session_store(dir.path()).is_err());
    unblock(dir.path());
    let store = expect(open_session_store(dir.path()), StoreKind::Jsonl);
    assert_eq!(texts(&*store, "c:1"), ["older"]);
    store.close().wait().unwrap();
    assert_eq!(backed_up(dir.path(), "c:1"), [["acknowledged"]]);
}

/// Its copies are nothing that only the store has.
#[test]
fn an_import_that_was_cut_short_does_not_keep_the_next_from_falling_back() {
    let dir = scratch();
    in_store(dir.path(), "k", "older");
    legacy(dir.path(), "k", "older");
    legacy(dir.path(), "c:1", "late");
    block(dir.path());
    let store = expect(open_session_store(dir.path()), StoreKind::LegacyJson);
    assert_eq!(sorted(&*store), ["c:1", "k"]);
    store.close().wait().unwrap();
    unblock(dir.path());
    let store = expect(open_session_store(dir.path()), StoreKind::Jsonl);
    assert_eq!(texts(&*store, "k"), ["older"]);
}

/// Whoever opened the engine's files last may have added to them since.
#[test]
fn a_failed_open_does_not_take_a_session_file_for_a_copy() {
    let dir = scratch();
    legacy(dir.path(), "k", "older");
    fs::write(dir.path().join("k.jsonl"), crate::support::line("newer")).unwrap();
    fs::write(dir.path().join(".sessionlog"), "in the way").unwrap();
    let refused = open_session_store(dir.path());
    assert!(matches!(refused, Err(Error::Io { .. })), "{refused:?}");
}

#[test]
fn what_keeps_the_engine_from_opening_lets_no_second_writer_in() {
    let dir = scratch();
    legacy(dir.path(), "k", "one");
    fs::write(dir.path().join(".sessionlog"), "in the way").unwrap();
    let first = expect(open_session_store(dir.path()), StoreKind::LegacyJson);
    let refused = open_session_store(dir.path());
    assert!(matches!(refused, Err(Error::Locked { .. })), "{refused:?}");
    fs::remove_file(dir.path().join(".sessionlog")).unwrap();
    let refused = open_session_store(dir.path());
    assert!(matches!(refused, Err(Error::Locked { .. })), "{refused:?}");
    add(&*first, "k", &["two"]);
    first.close().wait().unwrap();
    let second = expect(open_session_store(dir.path()), StoreKind::Jsonl);
    assert_eq!(texts(&*second, "k"), ["one", "two"]);
}

#[test]
fn the_scope_that_a_fallback_was_given_comes_along() {
    let dir = scratch();
    legacy(dir.path(), "k", "one");
    fs::write(dir.path().join(".sessionlog"), "in the way").unwrap();
    let store = expect(open_session_store(dir.path()), StoreKind::LegacyJson);
    let bob = scope(&[("sender", "bob")]);
    let ensured = store.ensure_session_metadata("k", Some(&bob), owned(&["old:1"]));
    ensured.wait().unwrap();
    store.close().wait().unwrap();
    fs::remove_file(dir.path().join(".sessionlog")).unwrap();
    let store = expect(open_session_store(dir.path()), StoreKind::Jsonl);
    assert_eq!(store.session_scope("old:1").wait().unwrap(), Some(bob));
    assert_eq!(texts(&*store, "old:1"), ["one"]);
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

const KEYS: [&str; 3] = ["a:1", "b:1", "c.meta"];

/// A modelled disk with three older sessions.
fn older_disk() -> MemoryStorage {
    let disk = MemoryStorage::new();
    let store = crate::support::open_memory(&disk).unwrap();
    store.close().unwrap();
    for key in KEYS {
        let name = key.replace(':', "_") + ".json";
        let json = format!(
            r#"{{"key":"{key}","messages":[{{"role":"user","content":"{key}"}}],"summary":"s"}}"#
        );
        disk.write_foreign(in_memory(&name), json.as_bytes())
            .unwrap();
    }
    disk.image(Image::AllKept)
}

fn open_modelled(disk: &MemoryStorage) -> Result<Arc<dyn SessionStore>> {
    let dir = Path::new(crate::support::MEMORY_DIR);
    testing::open_session_store(Arc::new(disk.clone()), dir, small_segments())
}

fn expect_all(store: &dyn SessionStore, extra: &[&str], when: &str) {
    assert_eq!(sorted(store), KEYS, "{when}");
    for key in KEYS {
        let expected: Vec<_> = [&[key], extra].concat();
        assert_eq!(texts(store, key), expected, "{when}");
        assert_eq!(store.summary(key).wait().unwrap(), "s", "{when}");
    }
}

#[test]
fn no_crash_while_opening_splits_or_loses_a_session() {
    let prepared = older_disk();
    for later in 0.. {
        let disk = prepared.image(Image::AllLost);
        let step = disk.steps() + later;
        disk.crash_at(step);
        if let Ok(store) = open_modelled(&disk) {
            let _ = store.close().wait();
        }
        let survived = disk.steps() <= step;
        for image in Image::NAMED.into_iter().chain([Image::Random(step)]) {
            let when = format!("cut before step {step}, {image:?}");
            let store = expect(open_modelled(&disk.image(image)), StoreKind::Jsonl);
            expect_all(&*store, &[], &when);
            store.close().wait().unwrap();
        }
        if survived {
            return;
        }
    }
}

/// Whatever call fails while opening: whoever got a store has every session,
/// and so has the next one, with what was added to it.
#[test]
fn no_failing_call_while_opening_splits_or_loses_a_session() {
    let prepared = older_disk();
    let mut kinds = [0; 3];
    for later in 0.. {
        let disk = prepared.image(Image::AllLost);
        let step = disk.steps() + later;
        disk.fail_at(step, Fault::Eio, Repeat::Once);
        let opened = open_modelled(&disk);
        let hit = disk.faults_hit() > 0;
        disk.heal();
        let when = format!(
            "call {step} failed after\n{}",
            disk.last_calls(60).join("\n")
        );
        let mut extra: &[&str] = &[];
        match opened {
            Ok(store) => {
                kinds[usize::from(store.kind() == StoreKind::LegacyJson)] += 1;
                expect_all(&*store, &[], &when);
                let added = KEYS.map(|key| {
                    let added = store.add_message(key, "user", "more").wait();
                    added.and_then(|()| store.save(key).wait()).is_ok()
                });
                if added == [true; 3] {
                    extra = &["more"];
                }
                let _ = store.close().wait();
            }
            Err(_) => kinds[2] += 1,
        }
        let store = expect(open_modelled(&disk.image(Image::AllKept)), StoreKind::Jsonl);
        assert_eq!(sorted(&*store), KEYS, "{when}");
        if !extra.is_empty() {
            expect_all(&*store, extra, &when);
        }
        store.close().wait().unwrap();
        if !hit {
            break;
        }
    }
    assert!(kinds[0] > 0 && kinds[1] > 0, "{kinds:?}");
}

/// A store of older files on a modelled disk. The call from `later` on that makes
/// it fall back is found, and noted there for the next time.
fn fallen_back(
    prepared: &MemoryStorage,
    later: &mut u64,
) -> (MemoryStorage, Arc<dyn SessionStore>) {
    loop {
        let disk = prepared.image(Image::AllLost);
        disk.fail_at(disk.steps() + *later, Fault::Eio, Repeat::Once);
        let opened = open_modelled(&disk);
        assert!(disk.faults_hit() > 0, "nothing made it fall back");
        disk.heal();
        match opened {
            Ok(store) if store.kind() == StoreKind::LegacyJson => return (disk, store),
            other => drop(other),
        }
        *later += 1;
    }
}

/// Whatever call fails: either the session is deleted, or it is there, and for
/// good once it is saved.
#[test]
fn a_deletion_that_failed_left_the_session() {
    let prepared = older_disk();
    let mut falls_back = 0;
    for later in 0.. {
        let (disk, store) = fallen_back(&prepared, &mut falls_back);
        let before = disk.faults_hit();
        disk.fail_at(disk.steps() + later, Fault::Eio, Repeat::Once);
        let deleted = store.delete_session("a:1").wait();
        let hit = disk.faults_hit() > before;
        disk.heal();
        let expected: &[&str] = if deleted.is_ok() { &[] } else { &["a:1"] };
        assert_eq!(texts(&*store, "a:1"), expected);
        store.save("a:1").wait().unwrap();
        let disk = disk.image(Image::AllLost);
        let store = expect(open_modelled(&disk), StoreKind::Jsonl);
        assert_eq!(texts(&*store, "a:1"), expected, "{later}: {deleted:?}");
        store.close().wait().unwrap();
        if !hit {
            return;
        }
    }
}

#[test]
fn closing_again_does_not_make_good_a_close_that_failed() {
    let disk = MemoryStorage::new();
    let store = JsonlBackend::new(crate::support::open_memory(&disk).unwrap());
    add(&store, "a", &["x"]);
    disk.fail_at(disk.steps(), Fault::Eio, Repeat::Forever);
    assert!(store.close().wait().is_err());
    disk.heal();
    assert!(store.close().wait().is_err());
}
