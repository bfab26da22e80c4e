//! Two workers, as a store has on every machine of more than two processors.

use crate::explore::Model;
use crate::stage::{
    joined, opened, reopened, reopened_as, said, segments, spawned, submitted, wound_up,
};
use loom::future::block_on;
use sessionlog::Error;
use sessionlog::testing::disk_model::{Fault, MemoryStorage, Repeat};
use sessionlog::testing::rig::{Rig, Setup};

pub(crate) const MODELS: &[Model] = &[
    Model {
        name: "workers_append",
        bound: 2,
        at_least: 20_000,
        runs: &[each_is_answered_by_its_own_worker],
    },
    Model {
        name: "workers_close",
        bound: 1,
        at_least: 3_000,
        runs: &[a_store_closes_when_the_last_worker_is_done],
    },
    Model {
        name: "workers_flush",
        bound: 2,
        at_least: 40_000,
        runs: &[a_flush_waits_for_every_worker],
    },
    Model {
        name: "workers_alarm",
        bound: 2,
        at_least: 20_000,
        runs: &[a_failure_reaches_every_worker],
    },
];

fn two_workers() -> (MemoryStorage, Rig) {
    let setup = Setup {
        two_workers: true,
        small_segments: true,
        ..Setup::default()
    };
    let (storage, mut rig) = opened(&setup);
    for key in ["a", "b"] {
        rig.carry_out(rig.handle.add_message(key, "user", "0"));
    }
    (storage, rig)
}

/// One batch of the journal has the records of both: each worker is told of its own, and
/// of nothing that came later.
fn each_is_answered_by_its_own_worker() {
    let (storage, rig) = two_workers();
    let Rig {
        handle,
        control,
        worker,
        second,
        journal,
        supervisor,
        ..
    } = rig;
    let other = submitted(handle.add_message("b", "user", "1"));
    let parts = [
        spawned(|| worker.run()),
        spawned(|| second.expect("there are two").run()),
        spawned(|| journal.run()),
    ];
    let mine = handle.add_message("a", "user", "1").wait();
    mine.expect("is accepted");
    block_on(other).expect("is accepted");
    for key in ["a", "b"] {
        let seen = said(&control.moment(key).expect("is loaded"));
        assert_eq!(seen, ["0", "1"], "answered and not seen");
    }
    wound_up(&supervisor, parts);
    for key in ["a", "b"] {
        let kept = reopened_as(&storage, key);
        assert_eq!(kept, ["0", "1"], "answered and not synced");
    }
}

/// The end of a store with commands in flight at both: both are carried out.
fn a_store_closes_when_the_last_worker_is_done() {
    let (storage, rig) = two_workers();
    let Rig {
        handle,
        control,
        worker,
        second,
        journal,
        mut supervisor,
        ..
    } = rig;
    let in_flight = ["a", "b"].map(|key| submitted(handle.add_message(key, "user", "1")));
    let closed = control.start_close();
    let parts = [
        spawned(|| worker.run()),
        spawned(|| second.expect("there are two").run()),
        spawned(|| journal.run()),
    ];
    supervisor.serve();
    let closed = closed.wait();
    assert!(matches!(closed, Some(Ok(()))), "did not close in order");
    for reply in in_flight {
        block_on(reply).expect("was accepted before");
    }
    let late = handle.add_message("b", "user", "2").wait();
    assert!(matches!(late, Err(Error::Closed)), "{late:?}");
    joined(parts);
    assert_eq!(segments(&storage), 0, "closed and left a journal");
    for key in ["a", "b"] {
        assert_eq!(reopened_as(&storage, key), ["0", "1"], "closed and lost");
    }
}

/// A flush begun while the second worker has something in flight gives up no segment
/// that it needs.
fn a_flush_waits_for_every_worker() {
    let (storage, rig) = two_workers();
    let Rig {
        handle,
        control,
        worker,
        second,
        journal,
        mut supervisor,
        ..
    } = rig;
    let in_flight = submitted(handle.add_message("b", "user", "1"));
    let flushed = control.start_flush();
    let parts = [
        spawned(|| worker.run()),
        spawned(|| second.expect("there are two").run()),
        spawned(|| journal.run()),
    ];
    supervisor.serve();
    assert!(matches!(flushed.wait(), Some(Ok(()))), "did not flush");
    assert_eq!(reopened(&storage), ["0"], "flushed and lost");
    let kept = reopened_as(&storage, "b");
    assert_eq!(kept[..1], ["0"], "flushed and lost");
    block_on(in_flight).expect("is accepted");
    assert_eq!(reopened_as(&storage, "b"), ["0", "1"], "answered and lost");
    wound_up(&supervisor, parts);
}

/// The first sync from here on fails: whoever waits for either worker is told.
fn a_failure_reaches_every_worker() {
    let (storage, rig) = two_workers();
    let Rig {
        handle,
        control,
        worker,
        second,
        journal,
        supervisor,
        ..
    } = rig;
    storage.fail_at(storage.steps(), Fault::Eio, Repeat::Forever);
    let in_flight = ["a", "b"].map(|key| submitted(handle.add_message(key, "user", "1")));
    let parts = [
        spawned(|| worker.run()),
        spawned(|| second.expect("there are two").run()),
        spawned(|| journal.run()),
    ];
    let late = handle.add_message("b", "user", "2").wait();
    assert!(matches!(late, Err(Error::Poisoned { .. })), "{late:?}");
    for reply in in_flight {
        let refused = block_on(reply);
        assert!(
            matches!(refused, Err(Error::Poisoned { .. })),
            "{refused:?}"
        );
    }
    wound_up(&supervisor, parts);
    storage.heal();
    for key in ["a", "b"] {
        let seen = said(&control.moment(key).expect("is loaded"));
        assert_eq!(seen, ["0"], "refused and seen");
    }
}
