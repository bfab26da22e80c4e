//! Verbs at the wrong time.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;

use sessionlog::{Error, Store, StoreHandle};

use super::{every_read, every_write};
use crate::support::{Caller, add_numbers, numbers, open, scratch, texts, visible_names};

fn assert_closed(chats: &StoreHandle) {
    let all = every_write(chats, "cli")
        .into_iter()
        .chain(every_read(chats, "cli"));
    let all = all.chain([
        ("list_sessions", chats.list_sessions().wait().map(drop)),
        (
            "resolve_session_key",
            chats.resolve_session_key("cli").wait().map(drop),
        ),
        ("flush", chats.flush().wait()),
    ]);
    for (verb, result) in all {
        assert!(matches!(result, Err(Error::Closed)), "{verb}: {result:?}");
    }
}

#[test]
fn every_verb_of_a_closed_store_says_so() {
    let dir = scratch();
    let store = open(dir.path());
    let chats = store.handle();
    add_numbers(&chats, "cli", 0..2);
    let early = chats.history("cli");
    let early_write = chats.add_message("cli", "user", "late");
    store.close().unwrap();
    assert_closed(&chats);
    assert_closed(&chats.exact_keys());
    assert!(matches!(early.wait(), Err(Error::Closed)));
    assert!(matches!(early_write.wait(), Err(Error::Closed)));
    assert_eq!(chats.stats().messages, 2, "the counters stay");
}

#[test]
fn a_handle_outlives_a_dropped_store() {
    let dir = scratch();
    let chats = {
        let store = open(dir.path());
        add_numbers(&store.handle(), "cli", 0..2);
        store.handle()
    };
    assert_closed(&chats);
    // Another may open it while the old handle is still about.
    let store = open(dir.path());
    assert_eq!(texts(&store.handle(), "cli"), numbers(0..2));
    assert_closed(&chats);
    store.close().unwrap();
}

#[test]
fn a_closed_read_only_store_reads_no_more() {
    let dir = scratch();
    let store = open(dir.path());
    add_numbers(&store.handle(), "cli", 0..2);
    store.close().unwrap();
    let reader = Store::open_read_only(dir.path()).unwrap();
    let chats = reader.handle();
    reader.close().unwrap();
    for (verb, result) in every_read(&chats, "cli") {
        assert!(matches!(result, Err(Error::Closed)), "{verb}: {result:?}");
    }
    assert!(matches!(chats.list_sessions().wait(), Err(Error::Closed)));
}

#[test]
fn a_reply_that_was_never_asked_does_nothing() {
    let dir = scratch();
    let store = open(dir.path());
    let chats = store.handle();
    drop(chats.add_message("cli", "user", "x"));
    drop(chats.set_summary("cli", "x"));
    drop(chats.upsert_session_meta("cli", None, vec!["a".into()]));
    assert!(chats.list_sessions().wait().unwrap().is_empty());
    assert_eq!(chats.stats().commits, 0);
    store.close().unwrap();
    assert!(visible_names(dir.path()).is_empty());
}

#[test]
fn a_reply_dropped_once_submitted_has_its_effect_all_the_same() {
    for caller in &Caller::each()[1..] {
        let Caller::Runtime(runtime) = caller else {
            continue;
        };
        let dir = scratch();
        let store = open(dir.path());
        let chats = store.handle();
        runtime.block_on(async {
            for text in numbers(0..50) {
                let mut reply = chats.add_message("cli", "user", &text);
                poll_fn(|cx| {
                    let _ = Pin::new(&mut reply).poll(cx);
                    Poll::Ready(())
                })
                .await;
            }
            // Behind them in its session's order.
            chats.add_message("cli", "user", "50").await.unwrap();
        });
        assert_eq!(texts(&chats, "cli"), numbers(0..51));
        store.close().unwrap();
    }
}

#[test]
fn closing_carries_out_what_was_submitted() {
    let dir = scratch();
    let store = open(dir.path());
    let chats = store.handle();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    let mut replies: Vec<_> = numbers(0..500)
        .iter()
        .map(|text| chats.add_message("cli", "user", text))
        .collect();
    runtime.block_on(async {
        for reply in &mut replies {
            poll_fn(|cx| {
                let _ = Pin::new(&mut *reply).poll(cx);
                Poll::Ready(())
            })
            .await;
        }
    });
    store.close().unwrap();
    let store = open(dir.path());
    assert_eq!(texts(&store.handle(), "cli"), numbers(0..500));
    store.close().unwrap();
}

/// A runtime that ends while the store works on: nobody is left to be woken,
/// and nothing waits for them.
#[test]
fn a_runtime_may_end_before_its_commands_do() {
    let dir = scratch();
    let store = open(dir.path());
    for round in 0..20 {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .build()
            .unwrap();
        let chats = store.handle();
        runtime.spawn(async move {
            loop {
                if chats.add_message("other", "user", "x").await.is_err() {
                    return;
                }
            }
        });
        runtime.block_on(async {
            let text = round.to_string();
            store
                .handle()
                .add_message("cli", "user", &text)
                .await
                .unwrap();
        });
        drop(runtime);
    }
    assert_eq!(texts(&store.handle(), "cli"), numbers(0..20));
    store.close().unwrap();
}

#[test]
fn a_flood_of_commands_waits_its_turn_and_all_of_it_takes_effect() {
    const FLOOD: usize = 50_000;
    let dir = scratch();
    let store = open(dir.path());
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .build()
        .unwrap();
    runtime.block_on(async {
        let chats = store.handle();
        let tasks: Vec<_> = (0..FLOOD)
            .map(|n| {
                let chats = chats.clone();
                // Two sessions take most of it: their mailboxes overflow.
                let key = if n % 8 == 0 { n % 400 } else { n % 2 };
                tokio::spawn(
                    async move { chats.add_message(&format!("k:{key}"), "user", "x").await },
                )
            })
            .collect();
        for task in tasks {
            task.await.unwrap().unwrap();
        }
    });
    assert_eq!(store.handle().stats().messages, FLOOD as u64);
    store.close().unwrap();
    let store = Store::open_read_only(dir.path()).unwrap();
    let chats = store.handle();
    let keys = chats.list_sessions().wait().unwrap();
    let counts = keys
        .iter()
        .map(|key| chats.session_meta(key).wait().unwrap().count);
    assert_eq!(usize::try_from(counts.sum::<i64>()).unwrap(), FLOOD);
}
