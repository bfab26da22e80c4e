//! The reply slot: exactly one answer, whoever is late or leaves.

use crate::explore::Model;
use loom::future::block_on;
use sessionlog::testing::sync::slot::{Promise, slot};
use sessionlog::testing::sync::thread::{JoinHandle, spawn};
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;

pub(crate) const MODELS: &[Model] = &[
    Model {
        name: "slot_wait",
        bound: 4,
        at_least: 10,
        runs: &[a_blocked_waiter_is_answered, a_blocked_waiter_is_let_go],
    },
    Model {
        name: "slot_poll",
        bound: 4,
        at_least: 20,
        runs: &[a_polling_waiter_is_answered, a_polling_waiter_is_let_go],
    },
    Model {
        name: "slot_drop",
        bound: 4,
        at_least: 5,
        runs: &[an_unwanted_answer_is_released],
    },
];

fn a_blocked_waiter_is_answered() {
    let (promise, slot) = slot();
    let answering = answering(promise);
    assert_eq!(slot.wait(), Some(7));
    answering.join().expect("did not panic");
}

fn a_blocked_waiter_is_let_go() {
    let (promise, slot) = slot::<u8>();
    let leaving = spawned(move || drop(promise));
    assert_eq!(slot.wait(), None);
    leaving.join().expect("did not panic");
}

/// Registering races with the answer: look, answer, register would sleep for ever.
fn a_polling_waiter_is_answered() {
    let (promise, slot) = slot();
    let answering = answering(promise);
    assert_eq!(block_on(poll_fn(|cx| slot.poll(cx))), Some(7));
    assert_eq!(
        block_on(poll_fn(|cx| slot.poll(cx))),
        None,
        "answered twice"
    );
    answering.join().expect("did not panic");
}

fn a_polling_waiter_is_let_go() {
    let (promise, slot) = slot::<u8>();
    let leaving = spawned(move || drop(promise));
    assert_eq!(block_on(poll_fn(|cx| slot.poll(cx))), None);
    leaving.join().expect("did not panic");
}

/// The waiter polls once and leaves, before, while or after it is answered.
fn an_unwanted_answer_is_released() {
    let released = Arc::new(AtomicUsize::new(0));
    let (promise, slot) = slot();
    let answering = {
        let answer = Answer(Arc::clone(&released));
        spawned(move || {
            if let Some(waker) = promise.fulfil(answer) {
                waker.wake();
            }
        })
    };
    block_on(poll_fn(|cx| {
        let _left = slot.poll(cx);
        Poll::Ready(())
    }));
    drop(slot);
    answering.join().expect("did not panic");
    assert_eq!(released.load(Ordering::Relaxed), 1);
}

struct Answer(Arc<AtomicUsize>);

impl Drop for Answer {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

fn answering(promise: Promise<u8>) -> JoinHandle {
    spawned(move || {
        if let Some(waker) = promise.fulfil(7) {
            waker.wake();
        }
    })
}

fn spawned(body: impl FnOnce() + Send + 'static) -> JoinHandle {
    spawn("answering", body).expect("loom has room for it")
}
