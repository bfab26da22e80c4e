//! Backups made, pruned and deleted beside each other, and beside a flush.

use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use sessionlog::testing::disk_model::{Image, MemoryStorage};
use sessionlog::testing::sim::{self, Sim};
use sessionlog::{BackupLimits, Message, Result, Store, StoreHandle};

use super::open;
use crate::intercept::Flags;
use crate::support::{manual, said, texts, wait_until};

fn add(chats: &StoreHandle, key: &str, text: &str) {
    chats.add_message(key, "user", text).wait().unwrap();
}

fn is_store_dir(path: &Path) -> bool {
    path == Path::new(sim::DIR)
}

fn is_backup(path: &Path) -> bool {
    path.to_string_lossy().contains("/backups/")
}

/// What a session says after a crash.
fn recovered(disk: MemoryStorage, key: &str) -> (Vec<String>, usize) {
    let mut sim = Sim::open(disk, &manual(), 0).unwrap();
    let chats = sim.handle();
    let history: Vec<Message> = sim.run(chats.history(key)).unwrap();
    let backups = sim.run(chats.list_backups(key)).unwrap();
    (said(&history), backups.len())
}

#[test]
fn a_backup_survives_a_flush_that_ran_beside_its_renaming() {
    let (storage, store, chats) = open();
    add(&chats, "a", "one");
    chats.context("a").checkpoint(false).wait().unwrap();
    add(&chats, "a", "two");
    chats.flush().wait().unwrap();
    add(&chats, "b", "dirty");
    let flags = Flags::default();
    storage.at_every_call({
        let flags = flags.clone();
        move |call, path, _| {
            match call {
                "sync_dir" if is_store_dir(path) && flags.raise("flushing") => {
                    flags.wait_for("renaming");
                }
                "rename" if is_backup(path) && flags.raise("renaming") => {
                    flags.wait_for("synced");
                }
                "synced_all" if flags.is_raised("renaming") => {
                    flags.raise("synced");
                }
                _ => {}
            }
            Ok(())
        }
    });
    let flush = std::thread::spawn({
        let chats = chats.clone();
        move || chats.flush().wait()
    });
    flags.wait_for("flushing");
    chats.context("a").revert_to(0).wait().unwrap();
    flush.join().unwrap().unwrap();
    chats.flush().wait().unwrap();
    let left = storage.disk.image(Image::AllLost);
    assert_eq!(recovered(left, "a"), (vec!["one".into()], 1));
    store.close().unwrap();
}

#[test]
fn two_first_reverts_at_once_both_outlive_a_power_cut() {
    let (storage, store, chats) = open();
    for key in ["a", "b"] {
        add(&chats, key, "one");
        chats.context(key).checkpoint(false).wait().unwrap();
        add(&chats, key, "two");
    }
    chats.flush().wait().unwrap();
    let flags = Flags::default();
    storage.at_every_call({
        let flags = flags.clone();
        move |call, path, _| {
            let makes = call == "sync_dir" && path.ends_with(".sessionlog");
            if makes && flags.raise("making") {
                flags.wait_for("cut");
            }
            Ok(())
        }
    });
    let first = std::thread::spawn({
        let chats = chats.clone();
        move || chats.context("a").revert_to(0).wait()
    });
    flags.wait_for("making");
    chats.context("b").revert_to(0).wait().unwrap();
    add(&chats, "b", "three");
    let left = storage.disk.image(Image::AllLost);
    flags.raise("cut");
    first.join().unwrap().unwrap();
    let (history, _) = recovered(left, "b");
    assert_eq!(history, ["one", "three"]);
    store.close().unwrap();
}

/// Prunes all backups of `a` while a flush is held up, so that they are
/// forgotten and not removed until `go` is raised.
fn prune_beside_a_flush(chats: &StoreHandle, flags: &Flags) -> [JoinHandle<Result<usize>>; 2] {
    let flush = std::thread::spawn({
        let chats = chats.clone();
        move || chats.flush().wait().map(|()| 0)
    });
    flags.wait_for("flushing");
    let prune = std::thread::spawn({
        let chats = chats.clone();
        move || {
            let all = BackupLimits::new().count(0);
            chats.prune_backups("a", all).wait()
        }
    });
    wait_until("forgetting the backups", || {
        chats.list_backups("a").wait().unwrap().is_empty()
    });
    [flush, prune]
}

/// A session with one backup, and messages not flushed.
fn cleared_once(chats: &StoreHandle) {
    add(chats, "a", "first");
    chats.context("a").clear().wait().unwrap();
    chats.flush().wait().unwrap();
    add(chats, "a", "second");
}

/// What is left of a prune whose flush fails, with something done beside it.
fn failed_prune(beside: impl Fn(&StoreHandle)) -> (Store, StoreHandle) {
    let (storage, store, chats) = open();
    cleared_once(&chats);
    let flags = Flags::default();
    storage.at_every_call({
        let flags = flags.clone();
        move |call, path, _| {
            if call == "sync_dir" && is_store_dir(path) && flags.raise("flushing") {
                flags.wait_for("go");
            }
            let full = call == "create" && path.to_string_lossy().contains("/full.meta");
            if full {
                return Err(io::ErrorKind::StorageFull.into());
            }
            Ok(())
        }
    });
    let [flush, prune] = prune_beside_a_flush(&chats, &flags);
    beside(&chats);
    add(&chats, "full", "x");
    flags.raise("go");
    let _ = flush.join().unwrap();
    assert!(prune.join().unwrap().is_err());
    storage.at_every_call(|_, _, _| Ok(()));
    (store, chats)
}

#[test]
fn a_prune_that_fails_does_not_hide_a_newer_backup() {
    let (store, chats) = failed_prune(|chats| chats.context("a").clear().wait().unwrap());
    let backups = chats.list_backups("a").wait().unwrap();
    let numbers: Vec<_> = backups.iter().map(|backup| backup.number).collect();
    assert_eq!(numbers, [1, 2]);
    for (number, text) in [(1, "first"), (2, "second")] {
        chats.restore_backup("a", number).wait().unwrap();
        assert_eq!(texts(&chats, "a"), [text]);
    }
    store.close().unwrap();
}

#[test]
fn a_prune_that_fails_does_not_bring_back_what_a_deleted_session_said() {
    let (store, chats) = failed_prune(|chats| chats.delete_session("a").wait().unwrap());
    add(&chats, "a", "new");
    assert_eq!(chats.list_backups("a").wait().unwrap(), []);
    store.close().unwrap();
}

#[test]
fn a_crash_in_a_prune_does_not_keep_backups_of_a_deleted_session() {
    let (storage, store, chats) = open();
    cleared_once(&chats);
    let flags = Flags::default();
    // The disk as it is when the prune, its flush done, begins to remove.
    let left = Arc::new(Mutex::new(None));
    storage.at_every_call({
        let (flags, left) = (flags.clone(), left.clone());
        move |call, path, disk| {
            if call == "sync_dir" && is_store_dir(path) && flags.raise("flushing") {
                flags.wait_for("go");
            }
            let flushed = flags.is_raised("go");
            if call == "remove_file" && is_backup(path) && flushed {
                let mut left = left.lock().unwrap();
                left.get_or_insert_with(|| disk.image(Image::ProcessDeath));
            }
            Ok(())
        }
    });
    let [flush, prune] = prune_beside_a_flush(&chats, &flags);
    chats.delete_session("a").wait().unwrap();
    flags.raise("go");
    flush.join().unwrap().unwrap();
    prune.join().unwrap().unwrap();
    let left = left.lock().unwrap().take().unwrap();
    let mut sim = Sim::open(left, &manual(), 0).unwrap();
    let chats = sim.handle();
    sim.run(chats.add_message("a", "user", "new")).unwrap();
    assert_eq!(sim.run(chats.list_backups("a")).unwrap(), []);
    store.close().unwrap();
}
