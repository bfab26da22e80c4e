//! Wakers are the callers' code, which the store's threads run.

use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use sessionlog::{Error, Message, Reply, Store, StoreHandle};
use tokio::runtime::{Builder, Runtime};
use tokio::task::{JoinSet, LocalSet};

use super::within;
use crate::support::{numbers, texts, wait_until};

/// A waker that does what it is given, on whose thread it ever is woken.
struct Doing(Box<dyn Fn() + Send + Sync>);

impl Wake for Doing {
    fn wake(self: Arc<Self>) {
        (self.0)();
    }
}

fn doing(what: impl Fn() + Send + Sync + 'static) -> Waker {
    Waker::from(Arc::new(Doing(Box::new(what))))
}

/// Polls until the answer is still to come, so that `waker` is to be woken.
fn left_waiting(waker: &Waker, mut ask: impl FnMut() -> Reply<()>) -> Reply<()> {
    loop {
        let mut reply = ask();
        let polled = Pin::new(&mut reply).poll(&mut Context::from_waker(waker));
        match polled {
            Poll::Pending => return reply,
            Poll::Ready(result) => result.unwrap(),
        }
    }
}

fn opened() -> (tempfile::TempDir, Store, StoreHandle) {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    let chats = store.handle();
    (dir, store, chats)
}

#[test]
fn a_waker_that_panics_harms_nobody_but_whom_it_was_to_wake() {
    let (_dir, store, chats) = opened();
    let called = Arc::new(AtomicUsize::new(0));
    let counted = called.clone();
    let panicking = doing(move || {
        counted.fetch_add(1, Ordering::Relaxed);
        panic!("of a caller's waker");
    });
    for verb in [0, 1] {
        let before = called.load(Ordering::Relaxed);
        let reply = left_waiting(&panicking, || match verb {
            0 => chats.add_message("cli", "user", "x"),
            // Answered by another thread.
            _ => chats.set_history("cli", vec![Message::user("x")]),
        });
        wait_until("the waker", || called.load(Ordering::Relaxed) > before);
        within("the same reply", move || reply.wait()).unwrap();
    }
    let chats = chats.clone();
    within("another write", move || {
        chats.add_message("cli", "user", "y").wait()
    })
    .unwrap();
    within("close", move || store.close()).unwrap();
}

#[test]
fn a_watcher_whose_waker_panics_keeps_no_other_from_its_change() {
    let (_dir, store, chats) = opened();
    chats.add_message("cli", "user", "0").wait().unwrap();
    let mut broken = chats.subscribe("cli").wait().unwrap();
    let mut other = chats.subscribe("cli").wait().unwrap();
    let panicking = doing(|| panic!("of a watcher's waker"));
    let mut changed = pin!(broken.changed());
    let polled = changed.as_mut().poll(&mut Context::from_waker(&panicking));
    assert!(polled.is_pending());
    let (seen, sight) = mpsc::channel();
    let waiting = std::thread::spawn(move || seen.send(other.wait_changed()));
    chats.add_message("cli", "user", "1").wait().unwrap();
    let state = sight.recv().unwrap().unwrap();
    assert_eq!(state.lines, 2);
    waiting.join().unwrap().unwrap();
    store.close().unwrap();
}

#[test]
fn who_waits_inside_a_waker_is_told_instead_of_waiting_for_ever() {
    let (_dir, store, chats) = opened();
    let (told, answer) = mpsc::channel();
    let inside = chats.clone();
    let waiting = doing(move || {
        let waited = inside.add_message("other", "user", "y").wait();
        // Whoever tests it may be gone.
        let _ = told.send(waited);
    });
    let reply = left_waiting(&waiting, || chats.add_message("cli", "user", "x"));
    let waited = within("the waker", move || answer.recv().unwrap());
    assert!(matches!(waited, Err(Error::WouldDeadlock)), "{waited:?}");
    within("its own reply", move || reply.wait()).unwrap();
    assert!(texts(&chats, "other").is_empty());
    within("close", move || store.close()).unwrap();
}

#[test]
fn a_store_closed_or_dropped_inside_a_waker_closes_all_the_same() {
    for drops in [true, false] {
        let (dir, store, chats) = opened();
        let store = Mutex::new(Some(store));
        let (told, answer) = mpsc::channel();
        let closing = doing(move || {
            let Some(store) = store.lock().unwrap().take() else {
                return;
            };
            let closed = if drops {
                drop(store);
                Err(Error::WouldDeadlock)
            } else {
                store.close()
            };
            let _ = told.send(closed);
        });
        let reply = left_waiting(&closing, || chats.add_message("cli", "user", "x"));
        let closed = within("the waker", move || answer.recv().unwrap());
        assert!(matches!(closed, Err(Error::WouldDeadlock)), "{closed:?}");
        within("its reply", move || reply.wait()).unwrap();
        let mut again = None;
        wait_until("the lock", || {
            again = Store::open(dir.path()).ok();
            again.is_some()
        });
        let again = again.unwrap();
        assert!(again.recovery_report().clean);
        assert!(!texts(&again.handle(), "cli").is_empty());
    }
}

fn current_thread() -> Runtime {
    Builder::new_current_thread().build().unwrap()
}

/// Fifty writes at once, each in a task of its own.
async fn fifty_local(chats: &StoreHandle, key: &'static str) {
    let mut all = JoinSet::new();
    for text in numbers(0..50) {
        all.spawn_local(chats.add_message(key, "user", &text));
    }
    for written in all.join_all().await {
        written.unwrap();
    }
}

/// Nothing runs on the runtime itself meanwhile: what is spawned there waits.
#[test]
fn local_tasks_are_woken_though_their_runtime_runs_nothing_else() {
    let (_dir, store, chats) = opened();
    within("local tasks", move || {
        let tokio = current_thread();
        // Driven, the store may learn how its tasks look; then it is not driven.
        tokio.block_on(LocalSet::new().run_until(fifty_local(&chats, "driven")));
        tokio.block_on(async {
            let mut all = JoinSet::new();
            for text in numbers(0..50) {
                all.spawn(chats.add_message("spawned", "user", &text));
            }
            for written in all.join_all().await {
                written.unwrap();
            }
        });
        for _ in 0..3 {
            let local = LocalSet::new();
            let handle = tokio.handle();
            handle.block_on(local.run_until(fifty_local(&chats, "not driven")));
        }
        assert_eq!(texts(&chats, "not driven").len(), 150);
    });
    store.close().unwrap();
}

#[test]
fn a_runtime_that_shuts_down_with_replies_pending_holds_up_no_other_caller() {
    let (_dir, store, chats) = opened();
    for round in 0..5 {
        let tokio = Builder::new_multi_thread()
            .worker_threads(2)
            .build()
            .unwrap();
        let key = format!("round {round}");
        let (begun, beginning) = mpsc::channel();
        for _ in 0..50 {
            let (chats, key, begun) = (chats.clone(), key.clone(), begun.clone());
            tokio.spawn(async move {
                loop {
                    chats.add_message(&key, "user", "x").await.unwrap();
                    let _ = begun.send(());
                }
            });
        }
        for _ in 0..100 {
            let written = beginning.recv_timeout(Duration::from_secs(30));
            written.unwrap();
        }
        tokio.shutdown_background();
        let (chats, key) = (chats.clone(), key.clone());
        within("a write beside it", move || {
            chats.add_message(&key, "user", "y").wait()
        })
        .unwrap();
    }
    within("close", move || store.close()).unwrap();
}
