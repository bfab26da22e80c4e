//! Every event that a person who runs a store looks for, provoked.

use std::fmt::{self, Write};
use std::io;
use std::sync::{Mutex, Once};
use std::time::Duration;

use sessionlog::testing::disk_model::{Image, MemoryStorage};
use sessionlog::{Durability, Error, Message, Store};
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Metadata, Subscriber, span};

use super::intercept::Intercepted;
use super::trap::{Mishap, Trapped};
use super::{alone, manual, open_on, wait_until};

/// Events and spans of a store, with all their fields, since [`listen`].
static TOLD: Mutex<Vec<(Level, String)>> = Mutex::new(Vec::new());

struct Ear;

impl Subscriber for Ear {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("sessionlog")
    }

    fn new_span(&self, span: &span::Attributes<'_>) -> span::Id {
        let mut text = format!("span {}", span.metadata().name());
        span.record(&mut Fields(&mut text));
        TOLD.lock().unwrap().push((*span.metadata().level(), text));
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut text = String::new();
        event.record(&mut Fields(&mut text));
        TOLD.lock().unwrap().push((*event.metadata().level(), text));
    }

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

struct Fields<'a>(&'a mut String);

impl Visit for Fields<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        match field.name() {
            "message" => write!(self.0, "{value:?}"),
            name => write!(self.0, " {name}={value:?}"),
        }
        .unwrap();
    }
}

/// From now on what is told is kept.
fn listen() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| tracing::subscriber::set_global_default(Ear).unwrap());
    TOLD.lock().unwrap().clear();
}

fn told(level: Level, what: &str) -> Vec<String> {
    let told = TOLD.lock().unwrap();
    let those = told
        .iter()
        .filter(|(at, text)| *at == level && text.contains(what));
    those.map(|(_, text)| text.clone()).collect()
}

/// The one event of that level that says so.
fn the(level: Level, what: &str) -> String {
    let told = told(level, what);
    assert_eq!(
        told.len(),
        1,
        "{what:?}: {told:?} of {:#?}",
        TOLD.lock().unwrap()
    );
    told[0].clone()
}

/// The first event of that level that says so, of what happened `times` and is told once in a
/// while. On a slow machine that is more than once.
fn seldom(level: Level, what: &str, times: usize) -> String {
    let told = told(level, what);
    assert!((1..times).contains(&told.len()), "{what:?}: {told:?}");
    told[0].clone()
}

#[test]
fn opening_recovery_flush_and_close_are_told_with_counts_and_times() {
    let _alone = alone();
    let disk = MemoryStorage::new();
    let store = open_on(&disk, manual());
    for _ in 0..3 {
        let appended = store.handle().add_message("cli", "user", "hello");
        appended.wait().unwrap();
    }
    let crashed = disk.image(Image::ProcessDeath);
    store.close().unwrap();

    listen();
    let store = open_on(&crashed, manual());
    assert!(the(Level::INFO, "span open").contains("dir=/s"));
    the(Level::INFO, "span recovery");
    let records = store.recovery_report().replayed_records;
    let recovered = the(Level::INFO, "recovered what");
    assert!(
        recovered.contains(&format!("records={records}")),
        "{recovered}"
    );
    assert!(recovered.contains("took="), "{recovered}");
    let opened = the(Level::INFO, "opened");
    assert!(
        opened.contains("sessions=1") && opened.contains("clean=false"),
        "{opened}"
    );

    let chats = store.handle();
    chats.add_message("cli", "user", "more").wait().unwrap();
    chats.flush().wait().unwrap();
    assert!(!told(Level::DEBUG, "span flush").is_empty());
    assert!(!told(Level::DEBUG, "flushed took=").is_empty());
    store.close().unwrap();
    assert!(the(Level::INFO, "closed").contains("clean=true"));
}

#[test]
fn a_compaction_is_told_with_its_session_bytes_and_time_for_who_debugs() {
    let _alone = alone();
    let disk = MemoryStorage::new();
    let store = open_on(&disk, manual());
    let chats = store.handle();
    for _ in 0..10 {
        chats.add_message("cli", "user", "hello").wait().unwrap();
    }
    chats.truncate_history("cli", 5).wait().unwrap();
    listen();
    chats.compact("cli").wait().unwrap();
    let compacted = the(Level::DEBUG, "a session is compacted");
    for part in ["key=\"cli\"", "bytes=", "dropped=", "took="] {
        assert!(compacted.contains(part), "{compacted}");
    }
    store.close().unwrap();
}

#[test]
fn a_compaction_that_fails_is_told() {
    let _alone = alone();
    let disk = Trapped::default();
    let store = open_on(&disk, manual());
    let chats = store.handle();
    for _ in 0..10 {
        chats.add_message("cli", "user", "hello").wait().unwrap();
    }
    chats.truncate_history("cli", 5).wait().unwrap();
    listen();
    disk.arm("create", ".tmp", Mishap::Eio);
    chats.compact("cli").wait().unwrap_err();
    disk.disarm();
    the(Level::WARN, "a session is not compacted");
    store.close().unwrap();
}

#[test]
fn slow_commits_are_counted_and_told_once_in_a_while() {
    let _alone = alone();
    let disk = MemoryStorage::new();
    let options = manual().slow_commit(Duration::from_millis(1));
    assert_eq!(options.get_slow_commit(), Duration::from_millis(1));
    // Whichever commit is slow first is the one that is told.
    listen();
    let store = open_on(&disk, options);
    let chats = store.handle();
    chats.add_message("cli", "user", "warm").wait().unwrap();
    // To copy so much takes longer than that.
    let large = Message::user("x".repeat(12 << 20));
    for _ in 0..5 {
        let batch = vec![large.clone(); 5];
        chats.append_all("cli", batch).wait().unwrap();
    }
    let slow = seldom(Level::WARN, "a commit is slow", 5);
    assert!(slow.contains("took=") && slow.contains("bytes="), "{slow}");
    // The last of them is answered before it is counted; a closed store has counted all.
    store.close().unwrap();
    assert!(chats.stats().slow_commits >= 5);
}

#[test]
fn refusals_are_told_once_in_a_while_and_name_no_session() {
    let _alone = alone();
    let disk = MemoryStorage::new();
    let store = open_on(&disk, manual());
    let chats = store.handle();
    chats.add_message("someone", "user", "fits").wait().unwrap();
    chats.flush().wait().unwrap();
    let used: usize = disk.dump().values().map(Vec::len).sum();
    disk.capacity(used as u64);
    listen();
    let large = "x".repeat(8 << 20);
    let refused = (0..20).filter(|_| {
        let reply = chats.add_message("someone", "user", &large).wait();
        matches!(reply, Err(Error::StorageFull { .. }))
    });
    let refused = refused.count();
    assert!(refused > 1);
    let refused = seldom(Level::WARN, "commands are refused", refused);
    assert!(refused.contains("no space is left"), "{refused}");
    assert!(!refused.contains("someone"), "{refused}");
    disk.capacity(u64::MAX);
    store.close().unwrap();
}

#[test]
fn a_flush_that_fails_in_the_background_is_told_and_counted() {
    let _alone = alone();
    let disk = Intercepted::on(MemoryStorage::new());
    let store = open_on(&disk, manual());
    let chats = store.handle();
    listen();
    // No space for the sidecar: the store goes on.
    disk.at_every_call(|call, path, _| match call {
        "create" if path.to_string_lossy().contains(".meta.json") => {
            Err(io::ErrorKind::StorageFull.into())
        }
        _ => Ok(()),
    });
    chats.add_message("cli", "user", "hello").wait().unwrap();
    wait_until("failed flush", || chats.stats().flushes_failed > 0);
    wait_until("event", || {
        !told(Level::WARN, "the journal is kept").is_empty()
    });
    assert!(chats.stats().background_failures > 0);
    disk.at_every_call(|_, _, _| Ok(()));
    store.close().unwrap();
}

#[test]
fn a_store_that_stops_writing_says_why() {
    let _alone = alone();
    let disk = Trapped::default();
    let store = open_on(&disk, manual());
    let chats = store.handle();
    chats.add_message("cli", "user", "hello").wait().unwrap();
    listen();
    disk.arm("sync_data", "journal", Mishap::Eio);
    chats.add_message("cli", "user", "lost").wait().unwrap_err();
    let stopped = &told(Level::ERROR, "the store stops writing")[0];
    assert!(stopped.contains("sync journal"), "{stopped}");
    assert_eq!(chats.stats().failed_commands, 1);
    disk.disarm();
    store.close().unwrap_err();
    assert!(the(Level::INFO, "closed").contains("clean=false"));
}

/// A log line for each message would be the dearest part of it.
#[test]
fn nothing_is_told_of_single_messages_and_no_session_is_named_but_to_who_debugs() {
    let _alone = alone();
    let dir = tempfile::tempdir().unwrap();
    listen();
    let store = Store::open(dir.path()).unwrap();
    let chats = store.handle().with_durability(Durability::Buffered);
    for turn in 0..2_000 {
        let text = format!("secret {turn}");
        chats
            .add_message("telegram:77", "user", &text)
            .wait()
            .unwrap();
    }
    chats.truncate_history("telegram:77", 5).wait().unwrap();
    chats.compact("telegram:77").wait().unwrap();
    store.close().unwrap();
    let told = TOLD.lock().unwrap();
    assert!((5..100).contains(&told.len()), "{} events", told.len());
    assert!(
        told.iter().all(|(_, text)| !text.contains("secret")),
        "{told:#?}"
    );
    let named = told.iter().filter(|(_, text)| text.contains("telegram"));
    assert!(named.clone().count() > 0);
    assert!(
        named.clone().all(|(level, _)| *level >= Level::DEBUG),
        "{told:#?}"
    );
}
