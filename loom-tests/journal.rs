//! The journal: its watermark, its call for a flush, and its segments.

use std::sync::Arc;

use crate::explore::Model;
use crate::stage::{joined, opened, segments, spawned};
use sessionlog::testing::rig::{Heard, Rig, Setup};
use sessionlog::testing::sync::atomic::{AtomicU64, Ordering};

pub(crate) const MODELS: &[Model] = &[
    Model {
        name: "journal_watermark",
        bound: 4,
        at_least: 15,
        runs: &[a_flush_covers_what_its_worker_was_told_before],
    },
    Model {
        name: "journal_progress",
        bound: 4,
        at_least: 4,
        runs: &[whoever_reads_the_watermark_sees_what_was_told_before],
    },
    Model {
        name: "journal_activity",
        bound: 4,
        at_least: 12,
        runs: &[what_a_flush_missed_calls_for_another],
    },
    Model {
        name: "journal_owes",
        bound: 4,
        at_least: 4,
        runs: &[what_was_told_unsynced_is_owed],
    },
    Model {
        name: "journal_pool",
        bound: 3,
        at_least: 100,
        runs: &[segments_come_in_the_order_of_their_numbers],
    },
    Model {
        name: "journal_retire",
        bound: 3,
        at_least: 100,
        runs: &[only_covered_segments_are_given_up],
    },
];

/// Two batches are committed while a flush reads the watermark and asks the
/// worker: of every batch below it, the worker hears before it hears of the
/// flush.
fn a_flush_covers_what_its_worker_was_told_before() {
    let (_storage, rig) = opened(&Setup::default());
    let Rig {
        control,
        worker,
        mut journal,
        mut supervisor,
        ..
    } = rig;
    let listening = worker.eavesdrop();
    let start = control.synced();
    let committer = spawned(move || {
        for number in 1..=2 {
            control.submit(0, number, true).expect("is open");
            assert!(journal.step());
        }
    });
    let covered = supervisor.begin() - start;
    joined([committer]);
    let heard = listening.heard();
    let flush = heard
        .iter()
        .position(|h| *h == Heard::Flush)
        .expect("is asked");
    let told = heard[..flush]
        .iter()
        .filter(|h| matches!(h, Heard::Synced(_)));
    assert!(
        told.count() as u64 >= covered,
        "{covered} covered: {heard:?}"
    );
}

/// The watermark is raised after the signals: whoever reads it, on whatever way,
/// sees what was done before they were sent.
fn whoever_reads_the_watermark_sees_what_was_told_before() {
    let (_storage, rig) = opened(&Setup::default());
    let Rig {
        control,
        mut journal,
        ..
    } = rig;
    let start = control.synced();
    let told = Arc::new(AtomicU64::new(0));
    let reader = {
        let (control, told) = (control.clone(), told.clone());
        spawned(move || {
            let covered = control.synced() - start;
            assert!(told.load(Ordering::Relaxed) >= covered, "is not told yet");
        })
    };
    journal.commit(&control, |number| told.store(number, Ordering::Relaxed));
    joined([reader]);
}

/// A batch that a flush does not cover calls for another flush: otherwise an
/// idle store would not come to lie on disk complete.
fn what_a_flush_missed_calls_for_another() {
    let (_storage, rig) = opened(&Setup::default());
    let Rig {
        control,
        mut journal,
        mut supervisor,
        ..
    } = rig;
    let start = control.synced();
    control.submit(0, 1, true).expect("is open");
    assert!(journal.step());
    assert!(supervisor.was_activated());
    let committer = {
        let control = control.clone();
        spawned(move || {
            control.submit(0, 2, true).expect("is open");
            assert!(journal.step());
        })
    };
    let covered = supervisor.begin() - start;
    joined([committer]);
    assert!(
        covered == 2 || supervisor.was_activated(),
        "is never flushed"
    );
}

/// Who was told that a buffered record is written, and then flushes, gets it
/// synced.
fn what_was_told_unsynced_is_owed() {
    let (_storage, rig) = opened(&Setup::default());
    let Rig {
        control,
        mut journal,
        worker,
        ..
    } = rig;
    let listening = worker.eavesdrop();
    let committer = {
        let control = control.clone();
        spawned(move || {
            control.submit(0, 1, false).expect("is open");
            assert!(journal.step());
        })
    };
    if !listening.heard().is_empty() {
        assert!(control.owes_sync(), "told, and not owed");
    }
    joined([committer]);
    assert!(control.owes_sync());
}

/// The committer takes segments that the background makes, until the store ends:
/// batches go into them in the order of their numbers, and nothing is left.
fn segments_come_in_the_order_of_their_numbers() {
    let setup = Setup {
        small_segments: true,
        ..Setup::default()
    };
    let (storage, rig) = opened(&setup);
    let Rig {
        control, journal, ..
    } = rig;
    let preparing = {
        let control = control.clone();
        spawned(move || {
            control.prepare_segment().expect("has room");
            control.prepare_segment().expect("has room");
        })
    };
    let mut last = 0;
    for sequence in 1..=2 {
        let number = control.use_segment(sequence).expect("has room");
        assert!(number > last, "{number} after {last}");
        last = number;
    }
    journal.finish();
    joined([preparing]);
    assert_eq!(segments(&storage), 0, "left behind");
}

/// A segment fills up while those that a checkpoint covers are given up.
fn only_covered_segments_are_given_up() {
    let setup = Setup {
        small_segments: true,
        ..Setup::default()
    };
    let (_storage, rig) = opened(&setup);
    let Rig { control, .. } = rig;
    control.use_segment(1).expect("has room");
    let committer = {
        let control = control.clone();
        spawned(move || {
            for sequence in 2..=3 {
                control.use_segment(sequence).expect("has room");
            }
        })
    };
    control.retire_segments(2).expect("can be renamed");
    joined([committer]);
    control.retire_segments(2).expect("can be renamed");
    assert_eq!(control.full_segments(), [3], "given up early, or kept");
}
