//! Reads of what is in memory.

use std::fmt::Debug;
use std::pin::pin;
use std::sync::mpsc;
use std::task::{Context, Poll, Waker};

use sessionlog::testing::disk_model::MemoryStorage;
use sessionlog::testing::sim::Sim;
use sessionlog::{Message, Reply, StoreOptions};

use crate::support::{add_numbers, open, scratch};

/// The answer of a reply that has it when it is first asked.
fn at_once<T: Debug>(reply: Reply<T>) -> T {
    if_at_once(reply).expect("waits for another thread")
}

/// `None` if it waits for a thread of the blocking pool: this one's only thread is taken.
fn if_at_once<T: Debug>(reply: Reply<T>) -> Option<T> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .max_blocking_threads(1)
        .build()
        .unwrap();
    let (free, taken) = mpsc::channel::<()>();
    runtime.spawn_blocking(move || taken.recv());
    let polled = {
        let _inside = runtime.enter();
        pin!(reply).poll(&mut Context::from_waker(Waker::noop()))
    };
    drop(free);
    match polled {
        Poll::Ready(answer) => Some(answer.unwrap()),
        Poll::Pending => None,
    }
}

/// The answer of a reply that may wait.
fn awaited<T>(reply: Reply<T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    runtime.block_on(reply).unwrap()
}

fn said(messages: &[Message]) -> Vec<String> {
    messages.iter().map(|m| m.text().into_owned()).collect()
}

#[test]
fn what_is_in_memory_is_read_without_the_blocking_pool() {
    let dir = scratch();
    let store = open(dir.path());
    let chats = store.handle();
    add_numbers(&chats, "cli", 0..3);
    chats.set_summary("cli", "three").wait().unwrap();
    add_numbers(&chats, "bare", 0..3);
    chats.truncate_history("bare", 0).wait().unwrap();

    assert_eq!(at_once(chats.summary("cli")), "three");
    assert_eq!(at_once(chats.session_meta("cli")).count, 3);
    for key in ["bare", "unknown"] {
        assert_eq!(at_once(chats.history(key)), []);
        assert_eq!(at_once(chats.tail(key, 5)), []);
    }
    store.close().unwrap();
}

/// Nothing writes lines to their file here before somebody lets it.
#[test]
fn a_tail_that_is_in_memory_is_read_without_the_blocking_pool() {
    let options = StoreOptions::new();
    let mut store = Sim::open(MemoryStorage::new(), &options, 0).unwrap();
    let chats = store.handle();
    let two = |first, second| vec![Message::user(first), Message::user(second)];
    store.run(chats.append_all("cli", two("1", "2"))).unwrap();
    assert_eq!(said(&at_once(chats.history("cli"))), ["1", "2"]);
    assert_eq!(said(&at_once(chats.tail("cli", 3))), ["1", "2"]);

    let flushed = store.submit_flush();
    while flushed.answer().is_none() {
        assert!(store.step());
    }
    store.run(chats.append_all("cli", two("3", "4"))).unwrap();
    assert_eq!(said(&at_once(chats.tail("cli", 1))), ["4"]);
    assert_eq!(said(&at_once(chats.tail("cli", 2))), ["3", "4"]);
    assert!(
        if_at_once(chats.tail("cli", 3)).is_none(),
        "reads a file here"
    );
    assert!(
        if_at_once(chats.history("cli")).is_none(),
        "reads a file here"
    );
    assert_eq!(said(&awaited(chats.tail("cli", 3))), ["2", "3", "4"]);
    assert_eq!(said(&awaited(chats.history("cli"))), ["1", "2", "3", "4"]);
}

/// Decoding much would hold up the other tasks of the thread.
#[test]
fn much_is_read_on_the_blocking_pool_though_it_is_in_memory() {
    let mut store = Sim::open(MemoryStorage::new(), &StoreOptions::new(), 0).unwrap();
    let chats = store.handle();
    let long = "x".repeat(17 << 10);
    store.run(chats.add_message("cli", "user", &long)).unwrap();
    assert!(if_at_once(chats.tail("cli", 1)).is_none(), "decodes here");
    assert_eq!(said(&awaited(chats.tail("cli", 1))), [long]);
}

/// On the disk there is, if it says what it has in memory: what was just written, it has.
#[test]
fn the_end_of_a_file_that_is_in_memory_is_read_without_the_blocking_pool() {
    let dir = scratch();
    let store = open(dir.path());
    let chats = store.handle();
    let long = "x".repeat(300);
    let messages: Vec<_> = (0..100)
        .map(|n| Message::user(format!("{n} {long}")))
        .collect();
    chats.append_all("cli", messages.clone()).wait().unwrap();
    chats.add_message("short", "user", "hi").wait().unwrap();
    chats.flush().wait().unwrap();
    let tells = if_at_once(chats.tail("cli", 1)).is_some();
    if !tells {
        println!("SKIPPED: this file system does not say what it has in memory");
    }
    let all = said(&messages);
    for n in [0, 1, 2, 40, 50, 99, 100, 200] {
        let found = if_at_once(chats.tail("cli", n));
        assert_eq!(found.is_some(), n == 0 || tells && n <= 40, "{n}");
        let found = said(&awaited(chats.tail("cli", n)));
        assert_eq!(found, all[all.len().saturating_sub(n)..], "{n}");
    }
    assert_eq!(if_at_once(chats.history("short")).is_some(), tells);
    assert!(
        if_at_once(chats.history("cli")).is_none(),
        "much is read here"
    );
}
