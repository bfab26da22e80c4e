//! The engine: its worker, committer and supervisor on threads of their own,
//! over a disk that knows what a power loss takes.

use std::sync::Arc;

use crate::explore::Model;
use crate::stage::{joined, opened, reopened, said, segments, spawned, submitted, wound_up};
use loom::future::block_on;
use sessionlog::testing::disk_model::{Fault, Repeat};
use sessionlog::testing::rig::{Rig, Setup};
use sessionlog::testing::sync::Mutex;
use sessionlog::{Error, Reply, StoreHandle};

pub(crate) const MODELS: &[Model] = &[
    Model {
        name: "engine_append",
        bound: 2,
        at_least: 1_500,
        runs: &[what_is_answered_is_synced_and_seen],
    },
    Model {
        name: "engine_group",
        bound: 2,
        at_least: 1_500,
        runs: &[callers_of_one_session_lose_no_line],
    },
    Model {
        name: "engine_bells",
        bound: 2,
        at_least: 50_000,
        runs: &[whoever_rings_is_answered],
    },
    Model {
        name: "engine_stop",
        bound: 2,
        at_least: 20_000,
        runs: &[a_closing_store_answers_everyone],
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
        name: "engine_flush",
        bound: 2,
        at_least: 50_000,
        runs: &[a_flush_gives_up_nothing_that_is_needed],
    },
    Model {
        name: "engine_segments",
        bound: 1,
        at_least: 8_000,
        runs: &[
            a_flush_gives_up_no_segment_that_is_needed,
            a_flush_gives_up_no_segment_that_the_committer_settles,
        ],
    },
    Model {
        name: "engine_compact",
        bound: 2,
        at_least: 800,
        runs: &[a_compaction_is_neither_doubled_nor_lost],
    },
    Model {
        name: "engine_subscribe",
        bound: 2,
        at_least: 20_000,
        runs: &[a_subscriber_learns_of_the_first_change],
    },
    Model {
        name: "engine_promote",
        bound: 2,
        at_least: 15_000,
        runs: &[an_alias_is_promoted_once],
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

/// Two callers, one of which leaves before it is answered: each line is there,
/// once.
fn callers_of_one_session_lose_no_line() {
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
    let leaving = handle.add_message("a", "user", "1");
    let parts = [
        spawned(|| worker.run()),
        spawned(move || {
            drop(submitted(leaving));
            leader.run();
        }),
    ];
    handle
        .add_message("a", "user", "2")
        .wait()
        .expect("is accepted");
    let seen = said(&control.moment("a").expect("is loaded"));
    assert!(seen.contains(&"2".into()), "answered and not seen");
    let kept = reopened(&storage);
    assert!(kept.contains(&"2".into()), "answered and not synced");
    wound_up(&supervisor, parts);
    let kept = reopened(&storage);
    let times = |text| kept.iter().filter(|kept| *kept == text).count();
    assert_eq!((times("0"), times("2")), (1, 1), "lost or written twice");
    assert!(times("1") <= 1, "written twice");
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

/// A caller against the end of the store: its message is carried out, or it is
/// told that the store is closed. What closed in order leaves no journal.
fn a_closing_store_answers_everyone() {
    let (storage, mut rig) = opened(&Setup::default());
    rig.carry_out(rig.handle.add_message("a", "user", "0"));
    let Rig {
        handle,
        control,
        worker,
        leader,
        mut supervisor,
        ..
    } = rig;
    let parts = [spawned(|| worker.run()), spawned(|| leader.run())];
    let accepted = Arc::new(Mutex::new(false));
    let caller = {
        let accepted = accepted.clone();
        spawned(move || match handle.add_message("a", "user", "1").wait() {
            Ok(()) => *accepted.lock() = true,
            Err(error) => assert!(matches!(error, Error::Closed), "{error}"),
        })
    };
    let closed = control.start_close();
    supervisor.serve();
    assert!(
        matches!(closed.wait(), Some(Ok(()))),
        "did not close in order"
    );
    joined([caller]);
    joined(parts);
    assert_eq!(segments(&storage), 0, "closed and left a journal");
    let kept = reopened(&storage);
    let wanted: &[&str] = if *accepted.lock() {
        &["0", "1"]
    } else {
        &["0"]
    };
    assert_eq!(kept, wanted);
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

/// Appends go on while a flush runs. Whatever the flush gives up, a power loss takes
/// nothing that was answered.
fn a_flush_gives_up_nothing_that_is_needed() {
    a_flush_runs_beside(&["2".to_owned()]);
}

/// The same if every batch fills a segment.
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

/// A truncation starts a compaction, and so would the caller: there is one, it
/// ends, and everyone who asked is told.
fn a_compaction_is_neither_doubled_nor_lost() {
    let (storage, mut rig) = opened(&Setup::default());
    for text in ["0", "1", "2"] {
        rig.carry_out(rig.handle.add_message("a", "user", text));
    }
    let Rig {
        handle,
        control,
        worker,
        leader,
        background,
        supervisor,
        ..
    } = rig;
    let parts = [
        spawned(|| worker.run()),
        spawned(|| leader.run()),
        spawned(|| background.run()),
    ];
    loom::stop_exploring();
    handle.truncate_history("a", 1).wait().expect("is accepted");
    loom::explore();
    handle.compact("a").wait().expect("is carried out");
    let seen = control.moment("a").expect("is loaded");
    assert_eq!((said(&seen), seen.skip), (vec!["2".into()], 0));
    wound_up(&supervisor, parts);
    assert_eq!(control.stats().compactions, 1);
    assert_eq!(reopened(&storage), ["2"]);
    let left = storage
        .dump()
        .into_keys()
        .filter(|name| name.strip_suffix(".tmp").is_some());
    assert_eq!(left.count(), 0, "a copy was left behind");
}

/// One alias is promoted twice to one session, whose shard is another than the
/// alias's: one of the two does it, and the history is there once.
fn an_alias_is_promoted_once() {
    let (storage, mut rig) = opened(&Setup::default());
    rig.carry_out(rig.handle.add_message("b", "user", "0"));
    let (first, second) = (submitted(promoted(&rig)), promoted(&rig));
    rig.worker.step();
    let Rig {
        worker,
        leader,
        background,
        supervisor,
        ..
    } = rig;
    let parts = [
        spawned(|| worker.run()),
        spawned(|| leader.run()),
        spawned(|| background.run()),
    ];
    let second = block_on(second).expect("is carried out");
    let first = block_on(first).expect("is carried out");
    assert!(first != second, "both or neither: {first}");
    wound_up(&supervisor, parts);
    assert_eq!(reopened(&storage), ["0"]);
}

fn promoted(rig: &Rig) -> Reply<bool> {
    rig.handle
        .promote_alias_history("a", None, vec!["b".into()])
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
