//! Back-pressure, order and refusals, with limits that two or three commands reach.

use crate::explore::Model;
use crate::stage::{joined, opened, reopened, said, spawned, submitted, wound_up};
use loom::future::block_on;
use sessionlog::testing::disk_model::{Fault, Repeat};
use sessionlog::testing::rig::{Rig, Setup};
use sessionlog::{Error, Result};

pub(crate) const MODELS: &[Model] = &[
    Model {
        name: "limits_room",
        bound: 1,
        at_least: 1_000,
        runs: &[who_finds_the_mailbox_full_gets_in],
    },
    Model {
        name: "limits_refused",
        bound: 1,
        at_least: 4_000,
        runs: &[
            what_builds_on_a_refused_line_is_refused_too,
            what_was_held_back_builds_on_no_refused_line,
        ],
    },
];

fn small() -> Setup {
    Setup {
        small_limits: true,
        ..Setup::default()
    }
}

/// A reply that is submitted; its answer may be there already.
fn begun(mut reply: sessionlog::Reply<()>) -> impl FnOnce() -> Result<()> {
    use std::task::{Context, Poll, Waker};
    let context = &mut Context::from_waker(Waker::noop());
    let early = match std::pin::Pin::new(&mut reply).poll(context) {
        Poll::Ready(result) => Some(result),
        Poll::Pending => None,
    };
    move || early.unwrap_or_else(|| block_on(reply))
}

/// An inbox is full, and a task that waited has
/// given up: who comes then is answered all the same.
fn who_finds_the_mailbox_full_gets_in() {
    let (_storage, rig) = opened(&small());
    let Rig {
        handle,
        control,
        worker,
        leader,
        ..
    } = rig;
    // Two are queued, and one had to wait.
    for _ in 0..3 {
        drop(submitted(handle.truncate_history("a", 1)));
    }
    let other = {
        let handle = handle.clone();
        spawned(move || block_on(handle.truncate_history("a", 1)).expect("is answered"))
    };
    let parts = [spawned(|| worker.run()), spawned(|| leader.run())];
    handle.truncate_history("a", 1).wait().expect("is answered");
    joined([other]);
    control.end_leader();
    control.end_worker();
    joined(parts);
}

/// The disk is full for one batch: who is refused left no line, and nobody's line stands
/// on one that is not there.
fn what_builds_on_a_refused_line_is_refused_too() {
    let (storage, mut rig) = opened(&small());
    rig.carry_out(rig.handle.add_message("a", "user", "0"));
    let Rig {
        handle,
        control,
        worker,
        leader,
        supervisor,
        ..
    } = rig;
    storage.fail_at(storage.steps(), Fault::Enospc, Repeat::Once);
    let first = begun(handle.add_message("a", "user", "1"));
    let parts = [spawned(|| worker.run()), spawned(|| leader.run())];
    let rest = ["2", "3"].map(|text| begun(handle.add_message("a", "user", text)));
    let [second, third] = rest;
    let told = [(first(), "1"), (second(), "2"), (third(), "3")];
    let accepted = accepted_of(told);
    assert!(accepted.len() < 4, "the disk was not full");
    let seen = said(&control.moment("a").expect("is loaded"));
    assert_eq!(seen, accepted);
    wound_up(&supervisor, parts);
    assert_eq!(reopened(&storage), accepted);
}

fn accepted_of<const N: usize>(told: [(Result<()>, &'static str); N]) -> Vec<&'static str> {
    let mut accepted = vec!["0"];
    for (reply, text) in told {
        match reply {
            Ok(()) => accepted.push(text),
            Err(error) => assert!(matches!(error, Error::StorageFull { .. }), "{error}"),
        }
    }
    accepted
}

/// The disk is full for one call. A line after one that may be refused is held back
/// meanwhile, after a command that only the worker's thread may carry out: if it is refused,
/// it is not written.
fn what_was_held_back_builds_on_no_refused_line() {
    let (storage, mut rig) = opened(&Setup::default());
    // "a" and "c" are of one shard, "b" is of the other.
    for key in ["a", "b", "c"] {
        rig.carry_out(rig.handle.add_message(key, "user", "0"));
    }
    let Rig {
        handle,
        control,
        worker,
        leader,
        supervisor,
        ..
    } = rig;
    storage.fail_at(storage.steps(), Fault::Enospc, Repeat::Once);
    let first = begun(handle.add_message("a", "user", "1"));
    let truncated = submitted(handle.truncate_history("c", 1));
    let second = begun(handle.add_message("a", "user", "2"));
    let other = begun(handle.add_message("b", "user", "1"));
    let parts = [spawned(|| worker.run()), spawned(|| leader.run())];
    let told = [(first(), "1"), (second(), "2")];
    let accepted = accepted_of(told);
    accepted_of([(other(), "1")]);
    drop(truncated);
    let seen = said(&control.moment("a").expect("is loaded"));
    assert_eq!(seen, accepted);
    wound_up(&supervisor, parts);
    assert_eq!(reopened(&storage), accepted);
}
