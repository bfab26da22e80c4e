//! Reads of what is in memory.

use std::fmt::Debug;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use sessionlog::Reply;

use crate::support::{add_numbers, open, scratch};

/// The answer of a reply that has it when it is first asked, though the runtime has no
/// thread to block.
fn at_once<T: Debug>(reply: Reply<T>) -> T {
    let polled = pin!(reply).poll(&mut Context::from_waker(Waker::noop()));
    let Poll::Ready(answer) = polled else {
        panic!("waits for another thread");
    };
    answer.unwrap()
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

    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    let _inside = runtime.enter();
    assert_eq!(at_once(chats.summary("cli")), "three");
    assert_eq!(at_once(chats.session_meta("cli")).count, 3);
    for key in ["bare", "unknown"] {
        assert_eq!(at_once(chats.history(key)), []);
        assert_eq!(at_once(chats.tail(key, 5)), []);
    }
    store.close().unwrap();
}
