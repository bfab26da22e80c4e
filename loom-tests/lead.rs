//! Callers that lead while the leader's thread sleeps. What leader and worker hand each other.

use crate::explore::Model;
use crate::stage::{joined, opened, reopened_as, spawned, submitted, wound_up};
use loom::future::block_on;
use sessionlog::testing::rig::{Rig, Setup};
use sessionlog::{Durability, Error, Reply, StoreHandle};

pub(crate) const MODELS: &[Model] = &[
    Model {
        name: "lead_callers",
        bound: 2,
        at_least: 15_000,
        runs: &[what_is_left_to_who_leads_is_committed],
    },
    Model {
        name: "lead_levels",
        bound: 2,
        at_least: 10_000,
        runs: &[what_has_to_be_synced_is_whoever_leads],
    },
    Model {
        name: "lead_sleep",
        bound: 3,
        at_least: 40,
        runs: &[what_the_leader_settles_the_thread_writes],
    },
    Model {
        name: "lead_close",
        bound: 2,
        at_least: 8_000,
        runs: &[
            a_store_that_closes_answers_who_queued,
            a_store_that_closes_answers_who_left_its_thread_nothing_to_write,
        ],
    },
];

/// Two callers for two sessions, each of whom may find the other leading: what is left to
/// who leads is committed, and synced before it is answered.
fn what_is_left_to_who_leads_is_committed() {
    two_callers(&Setup::default(), Durability::Durable);
}

/// One writes what nobody waits to have synced; the other waits for a sync, of which the
/// first may not take charge.
fn what_has_to_be_synced_is_whoever_leads() {
    let setup = Setup {
        buffered: true,
        ..Setup::default()
    };
    two_callers(&setup, Durability::Buffered);
}

/// The leader settles while the worker's thread falls asleep: the thread hears of the lines
/// that are to be written.
fn what_the_leader_settles_the_thread_writes() {
    let (storage, mut rig) = opened(&Setup::default());
    rig.carry_out(rig.handle.add_message("a", "user", "0"));
    let Rig {
        handle,
        control,
        worker,
        mut leader,
        ..
    } = rig;
    let mine = submitted(handle.add_message("a", "user", "1"));
    let thread = spawned(|| worker.run());
    while leader.step() {}
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

/// A caller that queued something against the end of the store: it is answered, and the store
/// ends.
fn a_store_that_closes_answers_who_queued() {
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
        leader,
        mut supervisor,
        ..
    } = rig;
    let mine = submitted(mine(&handle));
    let closed = control.start_close();
    let parts = [spawned(|| worker.run()), spawned(|| leader.run())];
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

fn two_callers(setup: &Setup, others: Durability) {
    let (storage, mut rig) = opened(setup);
    let durable = rig.handle.with_durability(Durability::Durable);
    for key in ["a", "b"] {
        rig.carry_out(rig.handle.add_message(key, "user", "0"));
    }
    let Rig {
        handle,
        worker,
        leader,
        supervisor,
        ..
    } = rig;
    let parts = [spawned(|| worker.run()), spawned(|| leader.run())];
    let other = {
        let (storage, handle) = (storage.clone(), handle.with_durability(others));
        spawned(move || {
            let added = handle.add_message("b", "user", "1");
            if others == Durability::Buffered {
                // A task, which syncs nothing itself.
                return block_on(added).expect("is accepted");
            }
            added.wait().expect("is accepted");
            assert_eq!(
                reopened_as(&storage, "b"),
                ["0", "1"],
                "answered, not synced"
            );
        })
    };
    let added = durable.add_message("a", "user", "1").wait();
    added.expect("is accepted");
    assert_eq!(
        reopened_as(&storage, "a"),
        ["0", "1"],
        "answered, not synced"
    );
    joined([other]);
    wound_up(&supervisor, parts);
}
