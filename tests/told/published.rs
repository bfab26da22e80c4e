//! What a running store publishes, as another process reads it.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use sessionlog::testing::disk_model::MemoryStorage;
use sessionlog::testing::storage::Storage;
use sessionlog::testing::{self};
use sessionlog::{Erase, Error, Health, PublishedStats, Store, StoreOptions, published_stats};

use super::intercept::Intercepted;
use super::{DIR, PATIENCE, alone, manual, open_on, other, wait_until};

fn of(disk: &impl Storage) -> Option<PublishedStats> {
    testing::published_stats(disk, Path::new(DIR)).unwrap()
}

fn file(dir: &Path) -> std::path::PathBuf {
    dir.join(".sessionlog/stats")
}

#[test]
fn another_process_sees_what_a_store_does_until_it_dies() {
    let _alone = alone();
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(published_stats(dir.path()).unwrap(), None);
    assert_eq!(published_stats(dir.path().join("none")).unwrap(), None);

    let (mut child, _said) = other::start(dir.path());
    let mut seen = None;
    wait_until("published messages", || {
        seen = published_stats(dir.path()).unwrap();
        seen.as_ref().is_some_and(|seen| seen.stats.messages == 10)
    });
    let seen = seen.unwrap();
    assert_eq!(seen.pid, child.id());
    assert_eq!(seen.status.health, Health::Healthy);
    assert!(seen.status.journal_bytes > 0 && seen.status.free_space.is_some());
    assert!(seen.stats.sync_nanos.count() >= 10);
    assert_eq!(seen.stats.sessions_known, 1);

    child.kill().unwrap();
    child.wait().unwrap();
    assert!(file(dir.path()).exists(), "it was killed");
    assert_eq!(published_stats(dir.path()).unwrap(), None);

    let store = Store::open(dir.path()).unwrap();
    wait_until("another writer", || {
        let seen = published_stats(dir.path()).unwrap();
        seen.is_some_and(|seen| seen.pid == std::process::id() && seen.stats.recoveries == 1)
    });
    store.close().unwrap();
    assert_eq!(published_stats(dir.path()).unwrap(), None);
    assert!(!file(dir.path()).exists());
}

#[test]
fn a_process_that_closes_its_store_leaves_nothing_published() {
    let _alone = alone();
    let dir = tempfile::tempdir().unwrap();
    let (mut child, _said) = other::start(dir.path());
    wait_until("published stats", || {
        published_stats(dir.path()).unwrap().is_some()
    });
    child.stdin.take().unwrap().write_all(b"\n").unwrap();
    assert!(child.wait().unwrap().success());
    assert_eq!(published_stats(dir.path()).unwrap(), None);
    assert!(!file(dir.path()).exists());
}

#[test]
fn a_store_that_is_not_to_publish_does_not() {
    let _alone = alone();
    let dir = tempfile::tempdir().unwrap();
    let options = StoreOptions::new().publish_stats(false);
    assert!(!options.get_publish_stats() && StoreOptions::new().get_publish_stats());
    let store = Store::open_with(dir.path(), options).unwrap();
    let chats = store.handle();
    chats.add_message("cli", "user", "hi").wait().unwrap();
    wait_until("an idle flush", || chats.stats().flushes > 0);
    assert!(!file(dir.path()).exists());
    assert_eq!(published_stats(dir.path()).unwrap(), None);
    store.close().unwrap();
}

/// The last word comes after the flush that an idle store ends with; then nothing is written
/// and nothing flushed for it.
#[test]
fn a_store_that_comes_to_rest_publishes_its_last_word_and_then_nothing() {
    let _alone = alone();
    let disk = Intercepted::on(MemoryStorage::new()).shared();
    let store = open_on(&disk, manual());
    let chats = store.handle();
    for _ in 0..100 {
        chats.add_message("cli", "user", "hi").wait().unwrap();
    }
    wait_until("an idle flush", || chats.stats().flushes > 0);
    wait_until("the last word", || {
        let seen = of(&disk);
        seen.is_some_and(|seen| seen.stats.messages == 100 && seen.stats.flushes > 0)
    });
    let (steps, flushes) = (disk.disk.steps(), chats.stats().flushes);
    std::thread::sleep(Duration::from_millis(2_500));
    assert_eq!(disk.disk.steps(), steps, "{:#?}", disk.disk.last_calls(8));
    assert_eq!(chats.stats().flushes, flushes);
    store.close().unwrap();
    assert_eq!(of(&disk), None);
}

#[test]
fn a_busy_store_publishes_about_once_a_second() {
    let _alone = alone();
    let disk = Intercepted::on(MemoryStorage::new()).shared();
    let store = open_on(&disk, manual());
    let chats = store.handle();
    let begun = Instant::now();
    let mut written = BTreeSet::new();
    while begun.elapsed() < Duration::from_millis(2_500) || written.len() < 3 {
        assert!(begun.elapsed() < PATIENCE, "{written:?}");
        chats.add_message("cli", "user", "hi").wait().unwrap();
        written.extend(of(&disk).map(|seen| seen.written_at));
    }
    let most = begun.elapsed().as_secs() as usize + 1;
    assert!(written.len() <= most, "{written:#?}");
    store.close().unwrap();
}

#[test]
fn a_full_disk_and_a_lack_of_descriptors_are_published_or_not_and_harm_nothing() {
    let _alone = alone();
    let disk = Intercepted::on(MemoryStorage::new()).shared();
    disk.at_every_call(|call, path, _| match call {
        "create" if path.ends_with("stats") => Err(io::Error::from_raw_os_error(24)),
        _ => Ok(()),
    });
    let store = open_on(&disk, manual());
    let chats = store.handle();
    chats.add_message("cli", "user", "hi").wait().unwrap();
    assert_eq!(of(&disk), None);
    // There are descriptors again, and then no space.
    disk.at_every_call(|_, _, _| Ok(()));
    chats.add_message("cli", "user", "hi").wait().unwrap();
    wait_until("published stats", || of(&disk).is_some());
    let used: usize = disk.disk.dump().values().map(Vec::len).sum();
    disk.disk.capacity(used as u64);
    let large = "x".repeat(8 << 20);
    wait_until("a refusal", || {
        let reply = chats.add_message("cli", "user", &large).wait();
        matches!(reply, Err(Error::StorageFull { .. }))
    });
    wait_until("a full store", || {
        let _ = chats.add_message("cli", "user", &large).wait();
        let seen = of(&disk);
        seen.is_some_and(|seen| seen.status.health == Health::Full && seen.stats.refused_full > 0)
    });
    disk.disk.capacity(u64::MAX);
    chats.add_message("cli", "user", "room").wait().unwrap();
    wait_until("a healthy store", || {
        of(&disk).is_some_and(|seen| seen.status.health == Health::Healthy)
    });
    store.close().unwrap();
}

#[test]
fn a_store_that_stopped_writing_says_so_without_the_name_of_a_session() {
    let _alone = alone();
    let disk = Intercepted::on(MemoryStorage::new()).shared();
    let store = open_on(&disk, manual());
    let chats = store.handle();
    disk.at_every_call(|call, path, _| match call {
        "create" if path.to_string_lossy().contains("telegram") => {
            Err(io::Error::from_raw_os_error(5))
        }
        _ => Ok(()),
    });
    chats
        .add_message("telegram:77", "user", "hi")
        .wait()
        .unwrap();
    let mut reason = None;
    wait_until("a poisoned store", || {
        let seen = of(&disk).map(|seen| seen.status.health);
        if let Some(Health::Poisoned { reason: why }) = seen {
            reason = Some(why);
        }
        reason.is_some()
    });
    let reason = reason.unwrap();
    assert!(
        reason.contains("create /s: ") && !reason.contains("telegram"),
        "{reason}"
    );
    let Ok(status) = chats.status().wait() else {
        panic!("a poisoned store says how it is");
    };
    assert!(matches!(status.health, Health::Poisoned { reason } if reason.contains("telegram")));
    store.close().unwrap_err();
}

/// A copy of a store, a look at it, and the erasure of a person pass it over.
#[test]
fn what_is_published_names_nobody_and_is_no_part_of_the_store() {
    let _alone = alone();
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    let chats = store.handle();
    chats
        .add_message("telegram:77", "user", "secret")
        .wait()
        .unwrap();
    wait_until("published stats", || {
        let seen = published_stats(dir.path()).unwrap();
        seen.is_some_and(|seen| seen.stats.messages == 1)
    });
    let bytes = fs::read(file(dir.path())).unwrap();
    for part in ["telegram", "secret"] {
        let mut windows = bytes.windows(part.len());
        assert!(!windows.any(|window| window == part.as_bytes()), "{part}");
    }
    let copy = tempfile::tempdir().unwrap();
    chats.backup_to(copy.path().join("copy")).wait().unwrap();
    assert!(!file(&copy.path().join("copy")).exists());
    assert!(Store::verify(dir.path()).unwrap().is_sound());
    let receipt = chats.erase(Erase::key("telegram:77")).wait().unwrap();
    assert!(
        published_stats(dir.path()).unwrap().is_some(),
        "{receipt:?}"
    );
    store.close().unwrap();

    // What a dead process left is no part of it either.
    fs::write(file(dir.path()), "of another time").unwrap();
    assert!(Store::verify(dir.path()).unwrap().is_sound());
    let store = Store::open(dir.path()).unwrap();
    assert!(store.recovery_report().findings.is_empty());
    wait_until("published stats", || {
        published_stats(dir.path()).unwrap().is_some()
    });
    store.close().unwrap();
    assert!(!file(dir.path()).exists());
}
