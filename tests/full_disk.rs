//! What a full disk must not lead to, beyond refused writes.

#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "the test counts what happens in a while"
)]

mod small_volume;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use sessionlog::testing::disk_model::MemoryStorage;
use sessionlog::testing::{names, open_store};
use sessionlog::{Error, Health, Store, StoreHandle, StoreOptions};

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

/// A store with one session, on a disk that is full.
fn filled() -> (MemoryStorage, Store) {
    let disk = MemoryStorage::new();
    let store = open(&disk);
    let chats = store.handle();
    chats
        .add_message("cli", "user", "warm")
        .wait()
        .expect("the disk has room");
    chats.flush().wait().expect("the disk has room");
    fill(&disk);
    (disk, store)
}

/// The lines are safe in the journal: whoever holds them can wait. Tried again
/// without a pause, they would cost a processor for as long as the disk is full.
#[test]
fn lines_that_find_no_space_are_not_tried_again_without_a_pause() {
    let (disk, store) = filled();
    let chats = store.handle();
    chats.add_message("cli", "user", "safe").wait().unwrap();
    let before = disk.steps();
    std::thread::sleep(Duration::from_millis(500));
    let calls = disk.steps() - before;
    assert!(calls < 200, "{calls} calls in half a second");

    disk.capacity(u64::MAX);
    store.close().unwrap();
}

/// As [`filled`], with a line in the session that has found no space, as its shard knows.
fn full() -> (MemoryStorage, Store) {
    let (disk, store) = filled();
    let failed = || {
        let calls = disk.last_calls(usize::MAX);
        let writes = calls
            .iter()
            .filter(|call| call.contains("write_at /sessions/cli.jsonl"));
        writes.filter(|call| call.contains("failed")).count()
    };
    let first = store.handle().add_message("cli", "user", "0");
    first.wait().expect("nobody knows yet");
    let begun = Instant::now();
    // The second try comes after the first one is known to have failed.
    while failed() < 2 {
        assert!(begun.elapsed() < PATIENCE, "the line is not written");
        std::thread::yield_now();
    }
    (disk, store)
}

fn health(chats: &StoreHandle) -> Health {
    let status = chats.status().wait();
    status.expect("a look at the disk").health
}

/// What it goes on taking would be in memory until there is space.
#[test]
fn a_shard_whose_lines_found_no_space_takes_no_more() {
    let (disk, store) = full();
    let chats = store.handle();
    let refused = chats.add_message("cli", "user", "1").wait();
    assert!(
        matches!(refused, Err(Error::StorageFull { .. })),
        "{refused:?}"
    );
    // It is the shard that is full: the journal has room, as another one's session finds.
    assert_ne!(names::shard_of("other"), names::shard_of("cli"));
    chats.add_message("other", "user", "0").wait().unwrap();
    disk.capacity(u64::MAX);
    chats.add_message("cli", "user", "room").wait().unwrap();
    let texts = chats.history("cli").wait().unwrap();
    let texts: Vec<_> = texts.iter().map(|m| m.text().into_owned()).collect();
    assert_eq!(texts, ["warm", "0", "room"]);
    store.close().unwrap();
}

/// Each shard would take lines until it found out by itself, and the little space that comes
/// first would go to all of those, with nothing left for the journal.
#[test]
fn while_many_lines_find_no_space_no_shard_takes_more() {
    let (disk, store) = filled();
    let chats = store.handle();
    let large = "x".repeat(100 << 10);
    let key = |nth: usize| format!("chat:{nth}");
    let journal = || chats.status().wait().expect("a look at the disk");
    let roomy = journal().journal_limit;
    let mut taken = Vec::new();
    let begun = Instant::now();
    // With its first segment full the journal looks for space, and finds none.
    for nth in 0.. {
        if journal().journal_limit != roomy {
            break;
        }
        assert!(begun.elapsed() < PATIENCE, "nobody looks for space");
        let answer = chats.add_message(&key(nth), "user", &large).wait();
        taken.extend(answer.is_ok().then_some(nth));
    }
    let refused = chats.add_message("late", "user", "1").wait();
    let waits_for_files = |path: &Path| path.extension().is_some_and(|end| end == "jsonl");
    assert!(
        matches!(&refused, Err(Error::StorageFull { path }) if waits_for_files(path)),
        "{refused:?} after {taken:?}"
    );
    disk.capacity(u64::MAX);
    let begun = Instant::now();
    while chats.add_message("late", "user", "1").wait().is_err() {
        assert!(begun.elapsed() < PATIENCE, "there is space again");
    }
    for nth in taken {
        assert_eq!(chats.history(&key(nth)).wait().unwrap().len(), 1);
    }
    store.close().unwrap();
}

/// One whose file is as large as the system lets it be finds no space for ever.
#[test]
fn a_session_that_finds_no_space_for_much_keeps_no_other_out() {
    let (disk, store) = filled();
    let chats = store.handle();
    let status = || chats.status().wait().expect("a look at the disk");
    let roomy = status().journal_limit;
    let large = "x".repeat(600 << 10);
    chats.add_message("cli", "user", &large).wait().unwrap();
    let begun = Instant::now();
    while status().journal_limit == roomy || status().health != Health::Full {
        assert!(begun.elapsed() < PATIENCE, "nobody looks for space");
    }
    assert_ne!(names::shard_of("other"), names::shard_of("cli"));
    chats.add_message("other", "user", "0").wait().unwrap();
    disk.capacity(u64::MAX);
    store.close().unwrap();
}

#[test]
fn a_shard_that_is_full_shows_until_its_lines_are_written_or_wanted_no_more() {
    for is_wanted in [true, false] {
        let (disk, store) = full();
        let chats = store.handle();
        assert_eq!(health(&chats), Health::Full);
        disk.capacity(u64::MAX);
        let mended = if is_wanted {
            chats.add_message("cli", "user", "room").wait()
        } else {
            chats.delete_session("cli").wait()
        };
        mended.unwrap();
        assert_eq!(health(&chats), Health::Healthy);
        store.close().unwrap();
    }
}

#[test]
fn a_journal_that_is_full_shows_until_it_takes_something() {
    let (disk, store) = filled();
    let chats = store.handle();
    let large = "x".repeat(8 << 20);
    let refused = chats.add_message("cli", "user", &large).wait();
    assert!(
        matches!(refused, Err(Error::StorageFull { .. })),
        "{refused:?}"
    );
    assert_eq!(health(&chats), Health::Full);
    disk.capacity(u64::MAX);
    chats.add_message("cli", "user", "small").wait().unwrap();
    assert_eq!(health(&chats), Health::Healthy);
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

/// The model of a volume that others use, too.
struct Model(MemoryStorage);

impl small_volume::Volume for Model {
    fn fill(&mut self) -> bool {
        let used: usize = self.0.dump().values().map(Vec::len).sum();
        self.0.capacity(used as u64);
        true
    }

    fn free(&mut self, bytes: u64) {
        let used: usize = self.0.dump().values().map(Vec::len).sum();
        self.0.capacity(used as u64 + bytes);
    }

    fn journal(&self) -> u64 {
        let files = self.0.dump();
        let own = files.iter().filter(|(path, _)| path.contains("/journal/"));
        own.map(|(_, bytes)| bytes.len() as u64).sum()
    }
}

#[test]
fn a_small_volume_holds_sessions_without_a_refusal_and_serves_again_after_a_full_one() {
    let disk = MemoryStorage::new();
    disk.capacity(small_volume::VOLUME);
    let told = small_volume::live(|| open(&disk), &mut Model(disk.clone()));
    println!("{told}");
}

/// Counts what is logged.
struct Lines(AtomicUsize);

impl tracing::Subscriber for &'static Lines {
    fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::Id {
        tracing::Id::from_u64(1)
    }

    fn record(&self, _: &tracing::Id, _: &tracing::span::Record<'_>) {}

    fn record_follows_from(&self, _: &tracing::Id, _: &tracing::Id) {}

    fn event(&self, _: &tracing::Event<'_>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn enter(&self, _: &tracing::Id) {}

    fn exit(&self, _: &tracing::Id) {}
}

static LINES: Lines = Lines(AtomicUsize::new(0));

/// The log may lie on the same disk.
#[test]
fn a_disk_that_stays_full_is_not_logged_for_every_command_it_refuses() {
    tracing::subscriber::set_global_default(&LINES).unwrap();
    let (disk, store) = full();
    let chats = store.handle();
    for _ in 0..1_000 {
        let reply = chats.add_message("cli", "user", "lost");
        assert!(reply.wait().is_err());
    }
    // Those of the other tests, which run beside this one, count as well.
    let lines = LINES.0.load(Ordering::Relaxed);
    assert!((1..60).contains(&lines), "{lines} lines");
    disk.capacity(u64::MAX);
    store.close().unwrap();
}
