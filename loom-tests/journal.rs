//! The journal: its watermark, its call for a flush, and its segments.

use crate::explore::Model;
use crate::stage::{joined, opened, spawned, submitted};
use loom::future::block_on;
use sessionlog::testing::rig::{Rig, Setup};

pub(crate) const MODELS: &[Model] = &[
    Model {
        name: "journal_watermark",
        bound: 4,
        at_least: 400,
        runs: &[whoever_reads_the_watermark_sees_what_was_settled_before],
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
        at_least: 70,
        runs: &[what_was_told_unsynced_is_owed],
    },
    Model {
        name: "journal_retire",
        bound: 3,
        at_least: 100,
        runs: &[only_covered_segments_are_given_up],
    },
];

/// The watermark is raised after the changes that it covers are settled. Who reads the watermark
/// sees those changes.
fn whoever_reads_the_watermark_sees_what_was_settled_before() {
    let (_storage, mut rig) = opened(&Setup::default());
    rig.carry_out(rig.handle.add_message("a", "user", "0"));
    let Rig {
        handle,
        control,
        mut leader,
        mut supervisor,
        ..
    } = rig;
    let start = control.synced();
    let committer = spawned(move || {
        for text in ["1", "2"] {
            drop(submitted(handle.add_message("a", "user", text)));
            assert!(leader.step());
        }
    });
    let covered = supervisor.begin() - start;
    let seen = control.moment("a").expect("is loaded").lines.len() as u64 - 1;
    assert!(seen >= covered, "{covered} covered, {seen} settled");
    joined([committer]);
}

/// A batch that a flush does not cover calls for another flush: otherwise an
/// idle store would not come to lie on disk complete.
fn what_a_flush_missed_calls_for_another() {
    let (_storage, mut rig) = opened(&Setup::default());
    rig.carry_out(rig.handle.add_message("a", "user", "0"));
    let Rig {
        handle,
        control,
        mut leader,
        mut supervisor,
        ..
    } = rig;
    assert!(supervisor.was_activated());
    let start = control.synced();
    let committer = spawned(move || {
        drop(submitted(handle.add_message("a", "user", "1")));
        assert!(leader.step());
    });
    let covered = supervisor.begin() - start;
    joined([committer]);
    assert!(
        covered == 1 || supervisor.was_activated(),
        "is never flushed"
    );
}

/// Who was told that a buffered record is written, and then flushes, gets it
/// synced.
fn what_was_told_unsynced_is_owed() {
    let setup = Setup {
        buffered: true,
        ..Setup::default()
    };
    let (_storage, mut rig) = opened(&setup);
    rig.carry_out(rig.handle.add_message("a", "user", "0"));
    let Rig {
        handle,
        control,
        mut leader,
        ..
    } = rig;
    let mine = submitted(handle.add_message("a", "user", "1"));
    let committer = spawned(move || {
        assert!(leader.step());
    });
    block_on(mine).expect("is accepted");
    assert!(control.owes_sync(), "told, and not owed");
    joined([committer]);
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
