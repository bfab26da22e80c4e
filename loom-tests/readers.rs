//! Readers against the owner of a session: what they get is of one moment.

use crate::explore::Model;
use crate::stage::{joined, opened, said, spawned, submitted};
use loom::future::block_on;
use sessionlog::testing::rig::{Rig, RigControl, Setup};

pub(crate) const MODELS: &[Model] = &[
    Model {
        name: "readers_append",
        bound: 2,
        at_least: 700,
        runs: &[a_reader_sees_lines_and_their_count_together],
    },
    Model {
        name: "readers_truncate",
        bound: 3,
        at_least: 500,
        runs: &[a_reader_sees_all_lines_or_those_kept],
    },
    Model {
        name: "readers_swap",
        bound: 3,
        at_least: 10_000,
        runs: &[a_reader_sees_the_old_file_or_the_new],
    },
    Model {
        name: "readers_evict",
        bound: 1,
        at_least: 500,
        runs: &[a_reader_keeps_the_file_it_reads],
    },
];

/// Two lines settle and reach the file while readers look.
fn a_reader_sees_lines_and_their_count_together() {
    let (_storage, mut rig) = opened(&Setup::default());
    rig.carry_out(rig.handle.add_message("a", "user", "0"));
    let _one = submitted(rig.handle.add_message("a", "user", "1"));
    let _two = submitted(rig.handle.add_message("a", "user", "2"));
    watched(rig, &[&["0"], &["0", "1"], &["0", "1", "2"]]);
}

/// A truncation settles, and an append behind it.
fn a_reader_sees_all_lines_or_those_kept() {
    let setup = Setup {
        manual_compaction: true,
        ..Setup::default()
    };
    let (_storage, mut rig) = opened(&setup);
    for text in ["0", "1", "2"] {
        rig.carry_out(rig.handle.add_message("a", "user", text));
    }
    let _truncation = submitted(rig.handle.truncate_history("a", 1));
    committed(&mut rig);
    watched(rig, &[&["0", "1", "2"], &["2"]]);
}

/// A compaction swaps its file in. An append that came while it copied is in
/// both files.
fn a_reader_sees_the_old_file_or_the_new() {
    let setup = Setup {
        manual_compaction: true,
        ..Setup::default()
    };
    let (_storage, mut rig) = opened(&setup);
    for text in ["0", "1", "2"] {
        rig.carry_out(rig.handle.add_message("a", "user", text));
    }
    rig.carry_out(rig.handle.truncate_history("a", 1));
    let _compaction = submitted(rig.handle.compact("a"));
    committed(&mut rig);
    let _append = submitted(rig.handle.add_message("a", "user", "3"));
    committed(&mut rig);
    rig.worker.settle();
    assert!(rig.background.step(), "no copy was asked for");
    committed(&mut rig);
    watched(rig, &[&["2", "3"]]);
}

/// One file per shard stays open, and two sessions of a shard are read: each
/// read closes the other's file, under whoever reads it.
fn a_reader_keeps_the_file_it_reads() {
    let setup = Setup {
        few_files: true,
        ..Setup::default()
    };
    let (_storage, mut rig) = opened(&setup);
    for key in ["a", "c"] {
        rig.carry_out(rig.handle.add_message(key, "user", key));
    }
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
        spawned(move || read(&handle, "c"))
    };
    read(&handle, "a");
    joined([other]);
    control.end_leader();
    control.end_worker();
    joined(parts);
}

fn read(handle: &sessionlog::StoreHandle, key: &str) {
    let history = block_on(handle.history(key)).expect("is readable");
    assert_eq!(history.len(), 1);
    assert_eq!(history[0].text(), key);
}

/// Has what was submitted staged and committed; what takes files is left to the worker's
/// thread to settle.
fn committed(rig: &mut Rig) {
    while rig.leader.step() {}
    rig.worker.settle();
    while rig.leader.step() {}
}

/// Two readers look twice each while the owner settles what is begun: every
/// moment is one of `moments`, whole, and none is older than the one before.
fn watched(rig: Rig, moments: &'static [&'static [&'static str]]) {
    let Rig {
        control,
        mut worker,
        mut leader,
        ..
    } = rig;
    let owner = spawned(move || while leader.step() || worker.step() {});
    let reader = {
        let control = control.clone();
        spawned(move || look(&control, moments))
    };
    look(&control, moments);
    joined([owner, reader]);
    let last = said(&control.moment("a").expect("is loaded"));
    assert_eq!(last, moments[moments.len() - 1]);
}

fn look(control: &RigControl, moments: &[&[&str]]) {
    let mut at = 0;
    for _ in 0..2 {
        let moment = control.moment("a").expect("is loaded");
        let live = moment.count - moment.skip;
        assert_eq!(
            live,
            i64::try_from(moment.lines.len()).expect("is small"),
            "torn"
        );
        let said = said(&moment);
        let found = moments[at..].iter().position(|lines| *lines == said);
        at += found.unwrap_or_else(|| panic!("torn or older: {said:?}"));
    }
}
