//! What a store says of itself, and how long opening waits.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Waker};
use std::thread;
use std::time::{Duration, Instant};

use sessionlog::{Error, Health, Store, StoreHandle, StoreStatus};

use crate::intercept::{Flags, Intercepted};
use crate::support::{add_numbers, manual, open, open_on, scratch, small_segments};
use crate::trap::{Mishap, Trapped};

fn status(chats: &StoreHandle) -> StoreStatus {
    chats.status().wait().unwrap()
}

#[test]
fn a_store_tells_what_it_is_at_until_it_is_closed() {
    let dir = scratch();
    let store = open(dir.path());
    let chats = store.handle();
    add_numbers(&chats, "cli", 0..3);
    let healthy = status(&chats);
    assert_eq!(healthy.health, Health::Healthy);
    assert_eq!((healthy.queued, healthy.queued_in_fullest_shard), (0, 0));
    assert!(healthy.journal_bytes > 0 && healthy.journal_bytes <= healthy.journal_limit);
    assert!(healthy.free_space.is_some_and(|bytes| bytes > 0));

    let reader = Store::open_read_only(dir.path()).unwrap();
    let seen = status(&reader.handle());
    assert_eq!((seen.health, seen.journal_bytes), (Health::Healthy, 0));
    assert!(seen.free_space.is_some());
    let left = reader.handle();
    reader.close().unwrap();
    assert_eq!(status(&left).health, Health::Closed);
    store.close().unwrap();
    assert_eq!(status(&chats).health, Health::Closed);
}

#[test]
fn a_poisoned_store_tells_why_also_after_it_was_closed() {
    let trapped = Trapped::default();
    let store = open_on(Arc::new(trapped.clone()), small_segments()).unwrap();
    let chats = store.handle();
    add_numbers(&chats, "cli", 0..3);
    trapped.arm("sync_data", "/journal/", Mishap::Eio);
    let refused = chats.add_message("cli", "user", "lost").wait().unwrap_err();
    let Error::Poisoned { reason } = refused else {
        panic!("{refused}");
    };
    let expected = Health::Poisoned { reason };
    assert_eq!(status(&chats).health, expected);
    assert!(store.close().is_err());
    assert_eq!(status(&chats).health, expected);
}

/// A new store would find their space gone for as long as somebody holds the handle.
#[test]
fn a_handle_that_outlives_a_store_that_failed_keeps_no_file_open() {
    let trapped = Trapped::default();
    let store = open_on(Arc::new(trapped.clone()), small_segments()).unwrap();
    let chats = store.handle();
    add_numbers(&chats, "cli", 0..3);
    trapped.arm("sync_data", "/journal/", Mishap::Eio);
    assert!(chats.add_message("cli", "user", "lost").wait().is_err());
    assert!(store.close().is_err());
    let left = status(&chats);
    assert_eq!((left.journal_bytes, trapped.disk.open_files()), (0, 0));
}

#[test]
fn commands_that_wait_for_a_worker_are_counted() {
    let storage = Intercepted::default();
    let store = open_on(Arc::new(storage.clone()), small_segments()).unwrap();
    let chats = store.handle();
    let flags = storage.hold("open", "cli.jsonl");
    let mut cx = Context::from_waker(Waker::noop());
    let mut poll = |text: &str| {
        let mut reply = chats.add_message("cli", "user", text);
        assert!(pin!(&mut reply).poll(&mut cx).is_pending());
        reply
    };
    let first = poll("0");
    flags.wait_for("begun");
    let waiting: Vec<_> = (1..6).map(|n| poll(&n.to_string())).collect();
    let busy = status(&chats);
    assert_eq!((busy.queued, busy.queued_in_fullest_shard), (5, 5));
    flags.raise("go");
    first.wait().unwrap();
    for reply in waiting {
        reply.wait().unwrap();
    }
    assert_eq!(status(&chats).queued, 0);
    store.close().unwrap();
}

/// Polled on a runtime's thread, it would keep all tasks of that thread waiting.
#[test]
fn no_poll_waits_for_a_file_that_is_being_opened() {
    let storage = Intercepted::default();
    let store = open_on(Arc::new(storage.clone()), small_segments()).unwrap();
    let chats = store.handle();
    let flags = storage.hold("open", "first.jsonl");
    let mut cx = Context::from_waker(Waker::noop());
    let replies = ["first", "second", "third"].map(|key| {
        let mut reply = chats.add_message(key, "user", "hi");
        assert!(pin!(&mut reply).poll(&mut cx).is_pending(), "{key}");
        flags.wait_for("begun");
        reply
    });
    flags.raise("go");
    for reply in replies {
        reply.wait().unwrap();
    }
    store.close().unwrap();
}

#[test]
fn opening_waits_for_a_writer_no_longer_than_it_is_told() {
    let dir = scratch();
    let store = open(dir.path());
    let briefly = manual().open_timeout(Duration::from_millis(50));
    let asked = Instant::now();
    let refused = Store::open_with(dir.path(), briefly).unwrap_err();
    assert!(asked.elapsed() >= Duration::from_millis(50));
    assert!(matches!(refused, Error::Locked { .. }), "{refused}");
    assert!(refused.is_retryable());
    store.close().unwrap();
}

/// A service that is started again while it still closes.
#[test]
fn opening_waits_for_a_writer_that_closes_meanwhile() {
    let storage = Arc::new(Intercepted::default());
    let store = open_on(storage.clone(), small_segments()).unwrap();
    add_numbers(&store.handle(), "cli", 0..3);
    let flags = Flags::default();
    storage.at_every_call({
        let flags = flags.clone();
        move |call, _, _| {
            if call == "try_lock_dir" && !flags.raise("asks") {
                flags.raise("asks again");
            }
            Ok(())
        }
    });
    let patient = small_segments().open_timeout(Duration::from_mins(10));
    let next = thread::spawn(move || open_on(storage, patient));
    flags.wait_for("asks again");
    store.close().unwrap();
    let store = next.join().unwrap().unwrap();
    assert_eq!(store.handle().history("cli").wait().unwrap().len(), 3);
    store.close().unwrap();
}
