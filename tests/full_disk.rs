//! What a full disk must not lead to, beyond refused writes.

#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "the test counts what happens in a while"
)]

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use sessionlog::testing::disk_model::MemoryStorage;
use sessionlog::testing::open_store;
use sessionlog::{Error, Store, StoreOptions};

fn open(disk: &MemoryStorage) -> Store {
    let storage = Arc::new(disk.clone());
    open_store(storage, Path::new("/sessions"), StoreOptions::new()).expect("the disk has room")
}

/// How long a journal segment may take before a test gives up.
const PATIENCE: Duration = Duration::from_secs(30);

/// Lets nothing grow any more, once the next journal segment is made: one that is
/// being made would fail, and leave its space to others.
fn fill(disk: &MemoryStorage) {
    let is_segment = |path: &&String| path.contains("/segment-") && path.contains(".log");
    let begun = Instant::now();
    while disk.dump().keys().filter(is_segment).count() < 2 {
        assert!(begun.elapsed() < PATIENCE, "no second journal segment");
        std::thread::yield_now();
    }
    let used: usize = disk.dump().values().map(Vec::len).sum();
    disk.capacity(used as u64);
}

/// The lines are safe in the journal: whoever holds them can wait. Tried again
/// without a pause, they would cost a processor for as long as the disk is full.
#[test]
fn lines_that_find_no_space_are_not_tried_again_without_a_pause() {
    let disk = MemoryStorage::new();
    let store = open(&disk);
    let chats = store.handle();
    chats.add_message("cli", "user", "warm").wait().unwrap();
    chats.flush().wait().unwrap();
    fill(&disk);
    chats.add_message("cli", "user", "safe").wait().unwrap();
    let before = disk.steps();
    std::thread::sleep(Duration::from_millis(500));
    let calls = disk.steps() - before;
    assert!(calls < 200, "{calls} calls in half a second");

    disk.capacity(u64::MAX);
    store.close().unwrap();
}

/// Otherwise no flush would ever succeed again: no journal segment would be
/// given up, and closing would fail.
#[test]
fn a_damaged_sidecar_that_found_no_successor_gets_one_when_there_is_space() {
    let disk = MemoryStorage::new();
    let damaged = b"{\"damaged\": 1";
    disk.write_foreign("/sessions/cli.meta.json", damaged)
        .unwrap();
    let store = open(&disk);
    let chats = store.handle();
    chats.add_message("warm", "user", "up").wait().unwrap();
    chats.flush().wait().unwrap();
    fill(&disk);
    chats.set_summary("cli", "what was said").wait().unwrap();
    let refused = chats.flush().wait();
    assert!(
        matches!(refused, Err(Error::StorageFull { .. })),
        "{refused:?}"
    );

    disk.capacity(u64::MAX);
    chats.flush().wait().unwrap();
    store.close().unwrap();
    assert_eq!(
        disk.read_foreign("/sessions/.sessionlog/quarantine/cli.meta.json"),
        Some(damaged.to_vec())
    );
    let store = open(&disk);
    let summary = store.handle().summary("cli").wait().unwrap();
    assert_eq!(summary, "what was said");
}
