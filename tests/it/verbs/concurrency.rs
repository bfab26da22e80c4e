//! Many callers at once.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Waker};

use sessionlog::{Message, Store, StoreHandle, StoreOptions};

use crate::support::{Caller, add_numbers, numbers, open, said, scratch, texts, wait_until};

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(3)
        .build()
        .unwrap()
}

/// How many of some appends the first poll of their reply answered.
fn answered_at_once(store: &Store) -> usize {
    let chats = store.handle();
    let appends = (0..200).filter(|number| {
        let mut reply = chats.add_message("one", "user", &number.to_string());
        let mut context = Context::from_waker(Waker::noop());
        let first = Pin::new(&mut reply).poll(&mut context);
        if first.is_pending() {
            reply.wait().unwrap();
        }
        first.is_ready()
    });
    appends.count()
}

#[test]
fn a_poll_that_may_sync_answers_whom_nobody_else_waits_beside() {
    let dir = scratch();
    let options = StoreOptions::new().sync_in_poll(true);
    let store = Store::open_with(dir.path(), options).unwrap();
    // Who finds the committer on its way to sleep leaves it to it.
    assert!(answered_at_once(&store) > 0);
    assert_eq!(texts(&store.handle(), "one").len(), 200);
    store.close().unwrap();
}

#[test]
fn a_hundred_tasks_on_one_session_each_keep_their_order() {
    const TASKS: usize = 100;
    const EACH: usize = 20;
    let dir = scratch();
    let store = open(dir.path());
    runtime().block_on(async {
        let tasks: Vec<_> = (0..TASKS)
            .map(|task| {
                let chats = store.handle();
                tokio::spawn(async move {
                    for n in 0..EACH {
                        let text = format!("{task} {n}");
                        chats.add_message("one", "user", &text).await.unwrap();
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
    });
    let check = |chats: &StoreHandle| {
        let all = texts(chats, "one");
        assert_eq!(all.len(), TASKS * EACH);
        for task in 0..TASKS {
            let prefix = format!("{task} ");
            let own = all.iter().filter_map(|text| text.strip_prefix(&prefix));
            assert_eq!(own.collect::<Vec<_>>(), numbers(0..EACH));
        }
    };
    check(&store.handle());
    store.close().unwrap();
    let store = open(dir.path());
    check(&store.handle());
    store.close().unwrap();
}

/// Replies that are polled in order are submitted in order, answered or not.
#[test]
fn commands_take_effect_in_the_order_in_which_they_were_submitted() {
    let dir = scratch();
    let store = open(dir.path());
    let chats = store.handle();
    for caller in &Caller::each()[1..] {
        let Caller::Runtime(runtime) = caller else {
            continue;
        };
        runtime.block_on(async {
            let mut pending = Vec::new();
            for text in numbers(0..200) {
                let mut reply = chats.add_message("cli", "user", &text);
                let polled = std::future::poll_fn(|cx| {
                    let polled = std::pin::Pin::new(&mut reply).poll(cx);
                    std::task::Poll::Ready(polled.is_pending())
                });
                if polled.await {
                    pending.push(reply);
                }
            }
            for reply in pending {
                reply.await.unwrap();
            }
        });
        assert_eq!(texts(&chats, "cli"), numbers(0..200));
        chats.set_history("cli", Vec::new()).wait().unwrap();
    }
    store.close().unwrap();
}

#[test]
fn what_was_acknowledged_is_seen_by_everyone() {
    let dir = scratch();
    let store = open(dir.path());
    let (to_reader, acknowledged) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        let writer = store.handle();
        scope.spawn(move || {
            for n in 0..300 {
                writer
                    .add_message("cli", "user", &n.to_string())
                    .wait()
                    .unwrap();
                to_reader.send(n).unwrap();
            }
        });
        let reader = store.handle();
        scope.spawn(move || {
            for n in acknowledged {
                let last = said(&reader.tail("cli", 1).wait().unwrap());
                assert!(last[0].parse::<usize>().unwrap() >= n);
            }
        });
    });
    store.close().unwrap();
}

#[test]
fn readers_see_whole_batches() {
    let dir = scratch();
    let store = open(dir.path());
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let chats = store.handle();
            for n in 0..200 {
                let batch = (0..5).map(|_| Message::user(n.to_string())).collect();
                chats.append_all("cli", batch).wait().unwrap();
            }
            done.store(true, Ordering::Release);
        });
        scope.spawn(|| {
            let chats = store.handle();
            while !done.load(Ordering::Acquire) {
                let seen = texts(&chats, "cli");
                let whole: Vec<_> = numbers(0..seen.len() / 5)
                    .into_iter()
                    .flat_map(|text| vec![text; 5])
                    .collect();
                assert_eq!(seen, whole);
            }
        });
    });
    store.close().unwrap();
}

/// One thread appends, truncates and compacts; whatever a reader sees is a run
/// of numbers without a gap, and never one that was truncated away before.
#[test]
fn readers_during_compactions_see_a_whole_history_old_or_new() {
    let dir = scratch();
    let store = open(dir.path());
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let chats = store.handle();
            for round in 0..30 {
                add_numbers(&chats, "cli", round * 10..round * 10 + 10);
                chats.truncate_history("cli", 10).wait().unwrap();
                chats.compact("cli").wait().unwrap();
            }
            done.store(true, Ordering::Release);
        });
        for _ in 0..2 {
            scope.spawn(|| {
                let chats = store.handle();
                let mut floor = 0;
                while !done.load(Ordering::Acquire) {
                    let seen = texts(&chats, "cli");
                    let Some(first) = seen.first().map(|text| text.parse().unwrap()) else {
                        continue;
                    };
                    assert_eq!(seen, numbers(first..first + seen.len()));
                    assert!(first >= floor, "{first} came back after {floor}");
                    floor = first;
                }
            });
        }
    });
    assert_eq!(texts(&store.handle(), "cli"), numbers(290..300));
    store.close().unwrap();
}

#[test]
fn appends_go_on_during_a_compaction_and_are_kept() {
    let dir = scratch();
    let store = open(dir.path());
    let chats = store.handle();
    let filler = "x".repeat(2_000);
    let batch = (0..4_000)
        .map(|n| Message::user(format!("{n} {filler}")))
        .collect();
    chats.append_all("cli", batch).wait().unwrap();
    chats.truncate_history("cli", 2_000).wait().unwrap();
    std::thread::scope(|scope| {
        let compactor = store.handle();
        let compaction = scope.spawn(move || compactor.compact("cli").wait().unwrap());
        let mut n = 0;
        while !compaction.is_finished() {
            chats
                .add_message("cli", "user", &format!("new {n}"))
                .wait()
                .unwrap();
            n += 1;
        }
        compaction.join().unwrap();
        let seen = texts(&chats, "cli");
        assert_eq!(seen.len(), 2_000 + n);
        assert_eq!(
            seen[2_000..],
            (0..n).map(|n| format!("new {n}")).collect::<Vec<_>>()
        );
    });
    assert_eq!(chats.session_meta("cli").wait().unwrap().skip, 0);
    store.close().unwrap();
}

#[test]
fn a_mostly_skipped_session_is_compacted_by_itself() {
    let dir = scratch();
    let store = Store::open(dir.path()).unwrap();
    let chats = store.handle();
    add_numbers(&chats, "cli", 0..20);
    chats.truncate_history("cli", 15).wait().unwrap();
    assert_eq!(chats.session_meta("cli").wait().unwrap().skip, 5);
    chats.truncate_history("cli", 8).wait().unwrap();
    wait_until("a compaction", || chats.stats().compactions == 1);
    let meta = chats.session_meta("cli").wait().unwrap();
    assert_eq!((meta.skip, meta.count), (0, 8));
    assert_eq!(texts(&chats, "cli"), numbers(12..20));
    store.close().unwrap();
    let log = std::fs::read_to_string(dir.path().join("cli.jsonl")).unwrap();
    assert_eq!(log.lines().count(), 8);
}

#[test]
fn a_session_found_mostly_skipped_is_compacted_once_it_is_used() {
    let dir = scratch();
    let store = open(dir.path());
    add_numbers(&store.handle(), "cli", 0..20);
    store.handle().truncate_history("cli", 2).wait().unwrap();
    store.close().unwrap();
    let store = Store::open_with(dir.path(), StoreOptions::new().auto_compact(true)).unwrap();
    let chats = store.handle();
    assert_eq!(texts(&chats, "cli"), numbers(18..20));
    wait_until("a compaction", || chats.stats().compactions == 1);
    assert_eq!(texts(&chats, "cli"), numbers(18..20));
    store.close().unwrap();
}

#[test]
fn without_auto_compact_nothing_is_compacted_unasked() {
    let dir = scratch();
    let store = open(dir.path());
    let chats = store.handle();
    add_numbers(&chats, "cli", 0..20);
    chats.truncate_history("cli", 1).wait().unwrap();
    let flushes = chats.stats().flushes;
    wait_until("an idle flush", || chats.stats().flushes > flushes);
    store.close().unwrap();
    let log = std::fs::read_to_string(dir.path().join("cli.jsonl")).unwrap();
    assert_eq!(log.lines().count(), 20);
}
