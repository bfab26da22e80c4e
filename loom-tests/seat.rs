//! Who drives a worker: its thread, its callers, and the committer.

use crate::explore::Model;
use crate::stage::{joined, opened, said, spawned, submitted, wound_up};
use loom::future::block_on;
use sessionlog::testing::rig::{Rig, Setup};
use sessionlog::{Error, Reply, StoreHandle};

pub(crate) const MODELS: &[Model] = &[
    Model {
        name: "seat_callers",
        bound: 4,
        at_least: 500,
        runs: &[what_a_caller_leaves_another_takes_in],
    },
    Model {
        name: "seat_settle",
        bound: 2,
        at_least: 1_000,
        runs: &[what_is_synced_is_settled_whoever_drives],
    },
    Model {
        name: "seat_sleep",
        bound: 3,
        at_least: 40,
        runs: &[what_others_settle_the_thread_writes],
    },
    Model {
        name: "seat_close",
        bound: 2,
        at_least: 3_000,
        runs: &[
            a_store_that_closes_answers_who_passed_its_mailboxes,
            a_store_that_closes_answers_who_left_its_thread_nothing_to_write,
        ],
    },
];

/// Two callers, and a thread that sleeps: whoever finds the seat taken leaves their
/// command, and the other sees to it before they go, also if they came to answer a bell,
/// or tells the thread.
fn what_a_caller_leaves_another_takes_in() {
    let (_storage, mut rig) = opened(&Setup::default());
    for key in ["a", "b"] {
        rig.carry_out(rig.handle.add_message(key, "user", "0"));
    }
    let other = {
        let handle = rig.handle.clone();
        spawned(move || {
            for text in ["1", "2"] {
                drop(submitted(handle.add_message("b", "user", text)));
            }
        })
    };
    let mine = submitted(rig.handle.add_message("a", "user", "1"));
    joined([other]);
    rig.worker.step_if_told();
    // Once: to settle is to look at the mailboxes again.
    assert!(rig.journal.step());
    block_on(mine).expect("is accepted");
    for (key, texts) in [("a", vec!["0", "1"]), ("b", vec!["0", "1", "2"])] {
        let seen = said(&rig.control.moment(key).expect("is loaded"));
        assert_eq!(seen, texts, "left in its mailbox");
    }
}

/// The committer settles, or leaves it to whoever drives: nobody waits for ever,
/// and nothing is settled twice.
fn what_is_synced_is_settled_whoever_drives() {
    let (_storage, mut rig) = opened(&Setup::default());
    rig.carry_out(rig.handle.add_message("a", "user", "0"));
    let Rig {
        handle,
        control,
        worker,
        journal,
        supervisor,
        ..
    } = rig;
    let first = submitted(handle.add_message("a", "user", "1"));
    let parts = [spawned(|| worker.run()), spawned(|| journal.run())];
    handle
        .add_message("a", "user", "2")
        .wait()
        .expect("is accepted");
    block_on(first).expect("is accepted");
    let seen = control.moment("a").expect("is loaded");
    assert_eq!(
        (said(&seen), seen.count),
        (vec!["0".into(), "1".into(), "2".into()], 3)
    );
    wound_up(&supervisor, parts);
}

/// The committer settles while the worker's thread falls asleep: the thread hears
/// of the lines that are to be written.
fn what_others_settle_the_thread_writes() {
    let (storage, mut rig) = opened(&Setup::default());
    rig.carry_out(rig.handle.add_message("a", "user", "0"));
    let Rig {
        handle,
        control,
        worker,
        mut journal,
        ..
    } = rig;
    let mine = submitted(handle.add_message("a", "user", "1"));
    let thread = spawned(|| worker.run());
    while journal.step() {}
    block_on(mine).expect("is accepted");
    let written = || {
        let dump = storage.dump();
        let file = dump.iter().find(|(name, _)| name.ends_with("/a.jsonl"));
        file.is_some_and(|(_, bytes)| bytes.iter().filter(|&&byte| byte == b'\n').count() == 2)
    };
    while !written() {
        loom::thread::yield_now();
    }
    control.end_worker();
    joined([thread]);
}

/// A caller that submits past the mailboxes against the end of the store: it is
/// answered, and the store ends.
fn a_store_that_closes_answers_who_passed_its_mailboxes() {
    the_store_closes(|handle| handle.add_message("a", "user", "1"));
}

/// The same without a line, for which the worker's thread would be woken.
fn a_store_that_closes_answers_who_left_its_thread_nothing_to_write() {
    the_store_closes(|handle| handle.set_summary("a", "1"));
}

fn the_store_closes(mine: fn(&StoreHandle) -> Reply<()>) {
    let (_storage, mut rig) = opened(&Setup::default());
    rig.carry_out(rig.handle.add_message("a", "user", "0"));
    let Rig {
        handle,
        control,
        worker,
        journal,
        mut supervisor,
        ..
    } = rig;
    let mine = submitted(mine(&handle));
    let closed = control.start_close();
    let parts = [spawned(|| worker.run()), spawned(|| journal.run())];
    supervisor.serve();
    assert!(
        matches!(closed.wait(), Some(Ok(()))),
        "did not close in order"
    );
    block_on(mine).expect("was accepted before");
    let late = handle.add_message("a", "user", "2").wait();
    assert!(matches!(late, Err(Error::Closed)), "{late:?}");
    joined(parts);
}
