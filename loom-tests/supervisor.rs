//! The supervisor on its own thread, and several background threads on one queue.

use crate::explore::Model;
use crate::stage::{joined, opened, said, spawned, submitted};
use loom::future::block_on;
use sessionlog::testing::disk_model::{Fault, Repeat};
use sessionlog::testing::rig::{Rig, Setup};
use sessionlog::{Error, Reply, Result, StoreHandle};

pub(crate) const MODELS: &[Model] = &[
    Model {
        name: "supervisor_alarm",
        bound: 1,
        at_least: 3_000,
        runs: &[an_alarm_ends_a_flush, an_alarm_ends_the_wait_for_a_sync],
    },
    Model {
        name: "supervisor_jobs",
        bound: 2,
        at_least: 5_000,
        runs: &[every_job_is_done_by_one_thread],
    },
];

/// The disk fails, for an append first, while the supervisor flushes: who asked for the
/// flush is told, and the store can still be closed.
fn an_alarm_ends_a_flush() {
    the_disk_fails(&Setup::default(), |handle| {
        Appended::Before(submitted(handle.add_message("a", "user", "1")))
    });
}

/// The same for a journal that cannot be synced, which the flush waits for.
fn an_alarm_ends_the_wait_for_a_sync() {
    let buffered = Setup {
        buffered: true,
        ..Setup::default()
    };
    the_disk_fails(&buffered, |handle| {
        Appended::Beside(handle.add_message("a", "user", "1"))
    });
}

/// When an append is submitted: before the store's threads begin, or beside the flush.
enum Appended {
    Before(Reply<()>),
    Beside(Reply<()>),
}

fn the_disk_fails(setup: &Setup, append: fn(&StoreHandle) -> Appended) {
    let (storage, mut rig) = opened(setup);
    rig.carry_out(rig.handle.add_message("a", "user", "0"));
    let Rig {
        handle,
        control,
        worker,
        leader,
        supervisor,
        ..
    } = rig;
    storage.fail_at(storage.steps(), Fault::Eio, Repeat::Forever);
    let appended = append(&handle);
    let parts = [
        spawned(|| worker.run()),
        spawned(|| leader.run()),
        spawned(|| supervisor.run()),
    ];
    let flushed = control.start_flush();
    let told = |closed: Result<()>, refused: Result<()>| {
        assert!(matches!(closed, Err(Error::Poisoned { .. })), "{closed:?}");
        assert!(
            matches!(refused, Err(Error::Poisoned { .. })),
            "{refused:?}"
        );
    };
    match appended {
        Appended::Before(mine) => told(control.close(), block_on(mine)),
        Appended::Beside(mine) => {
            let refused = mine.wait();
            told(control.close(), refused);
        }
    }
    let flushed = flushed.wait();
    assert!(matches!(flushed, Some(Err(_))), "{flushed:?}");
    joined(parts);
}

/// Three compactions, three threads, of which one may compact: what is left waiting is
/// taken by who is done.
fn every_job_is_done_by_one_thread() {
    let (_storage, mut rig) = opened(&Setup {
        manual_compaction: true,
        ..Setup::default()
    });
    let keys = ["a", "b", "c"];
    for key in keys {
        for text in ["0", "1"] {
            rig.carry_out(rig.handle.add_message(key, "user", text));
        }
        rig.carry_out(rig.handle.truncate_history(key, 1));
    }
    let replies = keys.map(|key| submitted(rig.handle.compact(key)));
    while rig.leader.step() {}
    rig.worker.settle();
    let parts = [(); 3].map(|()| {
        let background = rig.background.clone();
        spawned(|| background.run())
    });
    rig.supervisor.end_background(parts.len());
    joined(parts);
    loom::stop_exploring();
    rig.settle();
    for (key, reply) in keys.iter().zip(replies) {
        block_on(reply).expect("is carried out");
        let seen = rig.control.moment(key).expect("is loaded");
        assert_eq!((said(&seen), seen.skip), (vec!["1".into()], 0));
    }
    assert_eq!(rig.control.stats().compactions, 3);
}
