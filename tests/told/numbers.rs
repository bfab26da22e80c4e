//! The numbers of `StoreStats` beside what was done.

use std::fs;

use sessionlog::testing::disk_model::{Image, MemoryStorage};
use sessionlog::{Error, Message, Store, StoreStats};

use super::trap::{Mishap, Trapped};
use super::{alone, manual, open_on, wait_until};

#[test]
fn appends_commits_and_syncs_are_counted_as_they_were_done() {
    let _alone = alone();
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    let chats = store.handle();
    for turn in 0..30 {
        let key = format!("chat:{}", turn % 3);
        chats.add_message(&key, "user", "hello").wait().unwrap();
    }
    let batch = vec![Message::user("a"), Message::user("b")];
    chats.append_all("chat:0", batch).wait().unwrap();
    chats.set_summary("chat:0", "short").wait().unwrap();
    let asked = chats.stats();
    chats.flush().wait().unwrap();
    let stats = chats.stats();

    assert_eq!((asked.messages, asked.commands), (32, 32));
    let files = (0..3).map(|n| fs::read(dir.path().join(format!("chat_{n}.jsonl"))).unwrap());
    let bytes: usize = files.map(|file| file.len()).sum();
    assert_eq!(stats.message_bytes, bytes as u64);
    assert_eq!(stats.session_bytes, bytes as u64);
    // One caller, whose every command waits for its sync.
    assert!(asked.syncs >= 32, "{asked:?}");
    assert_eq!(stats.sync_nanos.count(), stats.syncs);
    assert_eq!(stats.commit_records.count(), stats.commits);
    assert_eq!(stats.commit_bytes.count(), stats.commits);
    assert_eq!(stats.commit_bytes.sum(), stats.journal_bytes);
    assert!(stats.commit_records.sum() >= stats.commands);
    assert_eq!(stats.commit_nanos.count(), stats.commits);
    assert!(stats.commit_nanos.max() >= stats.sync_nanos.p50());
    assert_eq!(
        (stats.flushes > 0, stats.flush_nanos.count()),
        (true, stats.flushes)
    );
    assert_eq!(
        (
            stats.open_files,
            stats.sessions_resident,
            stats.sessions_known
        ),
        (3, 3, 3)
    );
    assert!(stats.open_nanos > 0);
    store.close().unwrap();
    let closed = chats.stats();
    assert_eq!((closed.messages, closed.open_files), (32, 0));
}

#[test]
fn a_compaction_is_counted_with_what_it_dropped() {
    let _alone = alone();
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open_with(dir.path(), manual()).unwrap();
    let chats = store.handle();
    for _ in 0..50 {
        chats.add_message("cli", "user", "hello").wait().unwrap();
    }
    chats.truncate_history("cli", 5).wait().unwrap();
    chats.flush().wait().unwrap();
    let len = || fs::metadata(dir.path().join("cli.jsonl")).unwrap().len();
    let before = len();
    chats.compact("cli").wait().unwrap();
    let stats = chats.stats();
    assert_eq!(
        (
            stats.compactions_begun,
            stats.compactions,
            stats.compactions_failed
        ),
        (1, 1, 0)
    );
    assert_eq!(stats.compaction_dropped_bytes, before - len());
    assert_eq!(stats.compaction_bytes, len());
    assert_eq!(stats.compaction_nanos.count(), 1);
    store.close().unwrap();
}

#[test]
fn a_compaction_that_fails_is_counted_and_is_no_compaction() {
    let _alone = alone();
    let disk = Trapped::default();
    let store = open_on(&disk, manual());
    let chats = store.handle();
    for _ in 0..10 {
        chats.add_message("cli", "user", "hello").wait().unwrap();
    }
    chats.truncate_history("cli", 5).wait().unwrap();
    disk.arm("create", ".tmp", Mishap::Eio);
    chats.compact("cli").wait().unwrap_err();
    disk.disarm();
    let stats = chats.stats();
    assert_eq!(
        (
            stats.compactions_begun,
            stats.compactions,
            stats.compactions_failed
        ),
        (1, 0, 1)
    );
    assert_eq!((stats.background_failures, stats.failed_commands), (1, 1));
    store.close().unwrap();
}

#[test]
fn every_refusal_of_a_full_disk_is_counted_once() {
    let _alone = alone();
    let disk = MemoryStorage::new();
    let store = open_on(&disk, manual());
    let chats = store.handle();
    chats.add_message("cli", "user", "fits").wait().unwrap();
    chats.flush().wait().unwrap();
    let used: usize = disk.dump().values().map(Vec::len).sum();
    disk.capacity(used as u64);
    let large = "x".repeat(8 << 20);
    let (mut refused, before) = (0, chats.stats());
    for _ in 0..20 {
        match chats.add_message("cli", "user", &large).wait() {
            Ok(()) => {}
            Err(Error::StorageFull { .. }) => refused += 1,
            Err(other) => panic!("{other}"),
        }
    }
    let since = chats.stats().since(&before);
    assert!(refused > 0);
    assert_eq!(since.refused_full, refused);
    assert_eq!(since.commands, 20 - refused);
    assert_eq!((since.refused_descriptors, since.failed_commands), (0, 0));
    disk.capacity(u64::MAX);
    store.close().unwrap();
}

#[test]
fn refusals_for_want_of_a_descriptor_are_told_apart() {
    let _alone = alone();
    let disk = Trapped::default();
    let store = open_on(&disk, manual());
    let chats = store.handle();
    chats.add_message("cli", "user", "fits").wait().unwrap();
    store.close().unwrap();
    let store = open_on(&disk, manual());
    let chats = store.handle();
    // Those it holds already; `cli` is to be opened.
    disk.limit_descriptors(1);
    let refused = chats.add_message("cli", "user", "lost").wait().unwrap_err();
    disk.limit_descriptors(0);
    let stats = chats.stats();
    assert_eq!(stats.refused_descriptors, 1, "{refused}");
    assert_eq!(stats.refused_full, 0);
    store.close().unwrap();
}

#[test]
fn a_recovery_is_counted_with_its_records_and_an_orderly_open_is_none() {
    let _alone = alone();
    let disk = MemoryStorage::new();
    let store = open_on(&disk, manual());
    assert_eq!(store.handle().stats().recoveries, 0);
    for _ in 0..3 {
        let appended = store.handle().add_message("cli", "user", "hello");
        appended.wait().unwrap();
    }
    let crashed = disk.image(Image::ProcessDeath);
    store.close().unwrap();
    let store = open_on(&crashed, manual());
    let stats = store.handle().stats();
    assert_eq!(stats.recoveries, 1);
    assert_eq!(
        stats.recovered_records,
        store.recovery_report().replayed_records
    );
    assert!(stats.recovered_records >= 3, "{stats:?}");
    store.close().unwrap();
}

#[test]
fn samples_can_be_subtracted_added_and_written() {
    let _alone = alone();
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    let chats = store.handle();
    chats.add_message("cli", "user", "one").wait().unwrap();
    let before = chats.stats();
    for _ in 0..4 {
        chats.add_message("cli", "user", "more").wait().unwrap();
    }
    let after = chats.stats();
    let since = after.since(&before);
    assert_eq!((since.messages, since.open_files), (4, after.open_files));
    assert_eq!(since.sync_nanos.count(), since.syncs);
    let mut all = before.clone();
    all.merge(&since);
    assert_eq!(all.messages, after.messages);
    assert_eq!(all.sync_nanos.sum(), after.sync_nanos.sum());

    let text = serde_json::to_string(&after).unwrap();
    assert_eq!(serde_json::from_str::<StoreStats>(&text).unwrap(), after);
    // What another version writes.
    let other: StoreStats = serde_json::from_str(r#"{"messages":7,"to_come":[1]}"#).unwrap();
    assert_eq!((other.messages, other.commits), (7, 0));
    wait_until("an idle flush", || chats.stats().flushes > 0);
    store.close().unwrap();
}
