//! The reply slot: exactly one answer, whoever is late or leaves.

use crate::explore::Model;
use loom::future::block_on;
use sessionlog::testing::sync::slot::{Promise, slot};
use sessionlog::testing::sync::thread::{JoinHandle, spawn};
use std::future::poll_fn;

pub(crate) const MODELS: &[Model] = &[Model {
    name: "slot_poll",
    bound: 4,
    at_least: 20,
    runs: &[a_polling_waiter_is_answered, a_polling_waiter_is_let_go],
}];

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
