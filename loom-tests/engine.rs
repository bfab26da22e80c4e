//! The engine: its worker, committer and supervisor on threads of their own,
//! over a disk that knows what a power loss takes.

use crate::explore::Model;
use crate::stage::{joined, opened, reopened, said, spawned, submitted, wound_up};
use loom::future::block_on;
use sessionlog::testing::disk_model::{Fault, Repeat};
use sessionlog::testing::rig::{Rig, Setup};
use sessionlog::{Error, Reply, StoreHandle};

pub(crate) const MODELS: &[Model] = &[
    Model {
        name: "engine_append",
        bound: 2,
        at_least: 1_500,
        runs: &[what_is_answered_is_synced_and_seen],
    },
    Model {
        name: "engine_bells",
        bound: 2,
        at_least: 50_000,
        runs: &[whoever_rings_is_answered],
    },
    Model {
        name: "engine_poison",
        bound: 2,
        at_least: 15_000,
        runs: &[a_failed_sync_reaches_everyone],
    },
    Model {
        name: "engine_panic",
        bound: 2,
        at_least: 8_000,
        runs: &[
            a_panic_reaches_everyone,
            a_panic_reaches_who_waits_for_the_thread,
        ],
    },
    Model {
        name: "engine_segments",
        bound: 1,
        at_least: 5_000,
        runs: &[
            a_flush_gives_up_no_segment_that_is_needed,
            a_flush_gives_up_no_segment_that_the_committer_settles,
        ],
    },
    Model {
        name: "engine_subscribe",
        bound: 2,
        at_least: 20_000,
        runs: &[a_subscriber_learns_of_the_first_change],
    },
];

/// Bytes of texts of which one segment has no two.
const LONG: usize = 5000;
const SHORT: usize = 1000;

/// Whoever is answered sees the message, and no power loss takes it back.
fn what_is_answered_is_synced_and_seen() {
    let (storage, mut rig) = opened(&Setup::default());
    rig.carry_out(rig.handle.add_message("a", "user", "0"));
    let Rig {
        handle,
        control,
        worker,
        leader,
        supervisor,
        ..
    } = rig;
    let parts = [spawned(|| worker.run()), spawned(|| leader.run())];
    for text in ["1", "2"] {
        handle
            .add_message("a", "user", text)
            .wait()
            .expect("is accepted");
        let seen = said(&control.moment("a").expect("is loaded"));
        assert!(seen.contains(&text.into()), "answered and not seen");
        let kept = reopened(&storage);
        assert!(kept.contains(&text.into()), "answered and not synced");
    }
    wound_up(&supervisor, parts);
}

/// Two callers ring for two shards, one of them twice: a ring that is lost leaves its caller
/// waiting.
fn whoever_rings_is_answered() {
    let (_storage, rig) = opened(&Setup::default());
    let Rig {
        handle,
        control,
        worker,
        leader,
        ..
    } = rig;
    let parts = [spawned(|| worker.run()), spawned(|| leader.run())];
    let other = {
        let handle = handle.clone();
        spawned(move || handle.truncate_history("b", 1).wait().expect("is answered"))
    };
    for _ in 0..2 {
        handle.truncate_history("a", 1).wait().expect("is answered");
    }
    joined([other]);
    control.end_leader();
    control.end_worker();
    joined(parts);
}

/// The first sync from here on fails. Nobody who was waiting or comes later is
/// told that it went well, and nobody is left waiting.
fn a_failed_sync_reaches_everyone() {
    let (storage, mut rig) = opened(&Setup::default());
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
    let parts = [spawned(|| worker.run()), spawned(|| leader.run())];
    let other = {
        let handle = handle.clone();
        spawned(move || {
            let refused = handle.add_message("a", "user", "1").wait();
            assert!(
                matches!(refused, Err(Error::Poisoned { .. })),
                "{refused:?}"
            );
        })
    };
    let refused = handle.add_message("a", "user", "2").wait();
    assert!(
        matches!(refused, Err(Error::Poisoned { .. })),
        "{refused:?}"
    );
    joined([other]);
    let late = handle.add_message("a", "user", "3").wait();
    assert!(matches!(late, Err(Error::Poisoned { .. })), "{late:?}");
    wound_up(&supervisor, parts);
    storage.heal();
    let seen = said(&control.moment("a").expect("is loaded"));
    assert_eq!(seen, ["0"], "refused and seen");
}

/// The worker panics while callers wait. They are told why, unless they were
/// answered before; whoever comes later is told for certain.
fn a_panic_reaches_everyone() {
    the_worker_panics(|handle| handle.add_message("a", "user", "1"));
}

/// The same for a command that is the worker's thread's to carry out.
fn a_panic_reaches_who_waits_for_the_thread() {
    the_worker_panics(|handle| handle.truncate_history("a", 1));
}

fn the_worker_panics(other: fn(&StoreHandle) -> Reply<()>) {
    let (storage, mut rig) = opened(&Setup::default());
    rig.carry_out(rig.handle.add_message("a", "user", "0"));
    let Rig {
        handle,
        worker,
        leader,
        supervisor,
        ..
    } = rig;
    let (dying, committing) = (spawned(|| worker.die()), spawned(|| leader.run()));
    let other = {
        let handle = handle.clone();
        spawned(move || {
            answered_or_told(&other(&handle).wait());
        })
    };
    let answered = answered_or_told(&handle.add_message("a", "user", "2").wait());
    joined([other, dying]);
    assert!(!answered_or_told(
        &handle.add_message("a", "user", "3").wait()
    ));
    wound_up(&supervisor, [committing]);
    let kept = reopened(&storage);
    assert!(!answered || kept.contains(&"2".into()), "answered and lost");
}

fn answered_or_told(result: &sessionlog::Result<()>) -> bool {
    assert!(
        matches!(result, Ok(()) | Err(Error::Poisoned { .. })),
        "{result:?}"
    );
    result.is_ok()
}

/// Appends fill a segment each while a flush runs. Whatever the flush gives up, a power loss takes
/// nothing that was answered.
fn a_flush_gives_up_no_segment_that_is_needed() {
    a_flush_runs_beside(&["2", "3"].map(|text| text.repeat(LONG)));
}

/// The same with batches that are settled while the next one may be written.
fn a_flush_gives_up_no_segment_that_the_committer_settles() {
    a_flush_runs_beside(&["2", "3"].map(|text| text.repeat(SHORT)));
}

fn a_flush_runs_beside(texts: &[String]) {
    let setup = Setup {
        small_segments: true,
        ..Setup::default()
    };
    let (storage, mut rig) = opened(&setup);
    for text in ["0", "1"] {
        rig.carry_out(rig.handle.add_message("a", "user", text));
    }
    let Rig {
        handle,
        control,
        worker,
        leader,
        mut supervisor,
        ..
    } = rig;
    let parts = [spawned(|| worker.run()), spawned(|| leader.run())];
    let caller = {
        let texts = texts.to_vec();
        spawned(move || {
            for text in &texts {
                let added = handle.add_message("a", "user", text).wait();
                added.expect("is accepted");
            }
        })
    };
    let flushed = control.start_flush();
    supervisor.serve();
    assert!(matches!(flushed.wait(), Some(Ok(()))), "did not flush");
    let kept = reopened(&storage);
    assert_eq!(kept[..2], ["0", "1"], "flushed and lost");
    joined([caller]);
    wound_up(&supervisor, parts);
    let kept = reopened(&storage);
    assert_eq!(kept[..2], ["0", "1"], "answered and lost");
    assert_eq!(kept[2..], *texts, "answered and lost");
}

/// One subscribes to a session that another is about to begin: it learns of it,
/// and finds what it was told of.
fn a_subscriber_learns_of_the_first_change() {
    let (_storage, rig) = opened(&Setup::default());
    let Rig {
        handle,
        control,
        worker,
        leader,
        supervisor,
        ..
    } = rig;
    let begins = handle.add_message("a", "user", "1");
    let parts = [
        spawned(|| worker.run()),
        spawned(move || {
            drop(submitted(begins));
            leader.run();
        }),
    ];
    let mut watch = block_on(handle.subscribe("a")).expect("is open");
    let mut state = watch.latest();
    while state.lines == 0 {
        state = block_on(watch.changed()).expect("is open");
    }
    let seen = said(&control.moment("a").expect("is loaded"));
    assert_eq!(seen, ["1"], "told and not seen");
    wound_up(&supervisor, parts);
}
