//! Callers who commit in place of the sleeping committer.

use crate::explore::Model;
use crate::stage::{joined, opened, reopened_as, spawned, wound_up};
use loom::future::block_on;
use sessionlog::Durability;
use sessionlog::testing::rig::{Rig, Setup};

pub(crate) const MODELS: &[Model] = &[
    Model {
        name: "lead_callers",
        bound: 2,
        at_least: 1_000,
        runs: &[what_is_left_to_who_leads_is_committed],
    },
    Model {
        name: "lead_levels",
        bound: 2,
        at_least: 1_000,
        runs: &[what_has_to_be_synced_is_whoever_leads],
    },
    Model {
        name: "lead_beside",
        bound: 2,
        at_least: 1_000,
        runs: &[what_is_written_beside_a_sync_is_not_taken_for_synced],
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

/// The committer syncs what was written while a caller writes more in its place: the
/// watermark says nothing of that, and what is written then is not left to nobody.
fn what_is_written_beside_a_sync_is_not_taken_for_synced() {
    let setup = Setup {
        buffered: true,
        ..Setup::default()
    };
    let (storage, mut rig) = opened(&setup);
    let start = rig.control.synced();
    for key in ["a", "b"] {
        rig.carry_out(rig.handle.add_message(key, "user", "0"));
    }
    let Rig {
        handle,
        control,
        worker,
        journal,
        supervisor,
        ..
    } = rig;
    control.ask_for_sync();
    let parts = [spawned(|| worker.run()), spawned(|| journal.run())];
    let other = spawned(move || {
        block_on(handle.add_message("b", "user", "1")).expect("is accepted");
    });
    joined([other]);
    let covered = control.synced() - start;
    let kept = reopened_as(&storage, "b").len() as u64;
    assert!(kept >= covered.saturating_sub(1), "covered and lost");
    wound_up(&supervisor, parts);
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
        journal,
        supervisor,
        ..
    } = rig;
    let parts = [spawned(|| worker.run()), spawned(|| journal.run())];
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
