//! Looking a directory over, and mending it.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::{fs, io};

use sessionlog::testing::storage::Storage;
use sessionlog::testing::verify_store;
use sessionlog::{Error, Mismatch, RepairOptions, RepairReport, SidecarCheck, Store, StoreHandle};

use crate::intercept::Intercepted;
use crate::support::{
    add_numbers, copy_dir, files, in_memory, line, numbers, open, open_on, scratch, sidecar,
    small_segments, texts,
};

#[test]
fn verify_writes_nothing_in_a_directory_that_nobody_ever_opened() {
    let dir = scratch();
    fs::write(dir.path().join("a.jsonl"), line("one") + "{\"role\":\"us").unwrap();
    fs::write(dir.path().join("a.meta.json"), sidecar("a", "", 0, 2)).unwrap();
    fs::write(dir.path().join("b_1.jsonl"), line("two")).unwrap();
    fs::write(dir.path().join("c.meta.json"), sidecar("c", "", 0, 3)).unwrap();
    fs::write(dir.path().join("d.meta.json"), sidecar("a", "", 0, 0)).unwrap();
    let before = files(dir.path());
    let report = Store::verify(dir.path()).unwrap();
    assert_eq!(files(dir.path()), before);

    let [a, b, c, _] = &report.sessions[..] else {
        panic!("{report}");
    };
    assert_eq!((a.lines, a.messages, a.damaged_lines), (2, 1, 1));
    assert_eq!(a.damaged[0].offset, line("one").len() as u64);
    assert!(a.torn_end && !b.torn_end);
    assert_eq!(b.sidecar, SidecarCheck::Missing);
    assert_eq!(c.mismatch, Some(Mismatch::LinesMissing));
    assert_eq!(report.duplicate_keys[0].stems, ["a", "d"]);
    assert!(report.journal.clean && report.journal.segments.is_empty());
    assert!(!report.is_sound(), "{report}");
}

#[test]
fn verify_beside_a_writer_finds_what_was_acknowledged_and_no_fault() {
    let dir = scratch();
    let store = open(dir.path());
    add_numbers(&store.handle(), "a", 0..50);
    let report = Store::verify(dir.path()).unwrap();
    assert!(report.is_sound(), "{report}");
    assert_eq!(report.sessions[0].messages, 50);
    let locked = Store::repair(dir.path(), RepairOptions::new());
    assert!(matches!(locked, Err(Error::Locked { .. })), "{locked:?}");
    store.close().unwrap();
    assert!(Store::verify(dir.path()).unwrap().journal.clean);
}

#[cfg(unix)]
#[test]
fn a_session_that_cannot_be_read_keeps_no_other_from_its_repair() {
    let dir = scratch();
    store_of_three(dir.path());
    fs::write(dir.path().join("a.jsonl"), line("one") + "{\"role\":\"us\n").unwrap();
    fs::remove_file(dir.path().join("b.jsonl")).unwrap();
    fs::create_dir(dir.path().join("b.jsonl")).unwrap();
    fs::rename(dir.path().join("c.meta.json"), dir.path().join("elsewhere")).unwrap();
    std::os::unix::fs::symlink("elsewhere", dir.path().join("c.meta.json")).unwrap();

    let report = Store::repair(dir.path(), RepairOptions::new()).unwrap();
    assert_eq!(report.quarantined.len(), 1, "{report}");
    let left: Vec<_> = report.unreadable.iter().map(|left| &left[..2]).collect();
    assert_eq!(left, ["b:", "c:"], "{report}");
    assert!(report.to_string().contains("left, for it cannot be read"));
    assert!(dir.path().join("b.jsonl").is_dir());
}

fn store_of_three(dir: &std::path::Path) {
    let store = open(dir);
    for key in ["a", "b", "c"] {
        add_numbers(&store.handle(), key, 0..1);
    }
    store.close().unwrap();
}

#[test]
fn what_somebody_put_beside_the_segments_keeps_no_store_from_opening() {
    let dir = scratch();
    store_of_three(dir.path());
    let journal = dir.path().join(".sessionlog/journal");
    fs::create_dir(journal.join("a.tmp")).unwrap();
    open(dir.path()).close().unwrap();

    fs::write(journal.join("segment-ffffffffffffffff.log"), b"").unwrap();
    let opened = Store::open(dir.path());
    assert!(matches!(opened, Err(Error::Corrupt { .. })), "{opened:?}");
    let report = Store::verify(dir.path()).unwrap();
    assert!(report.journal.damage.is_some(), "{report}");
}

/// Deletes sessions and makes them again, rewrites them, and lets an alias go from
/// one to another, until told to stop.
fn churn(chats: &StoreHandle, stop: &AtomicBool) {
    for round in 0.. {
        if stop.load(Ordering::Relaxed) {
            return;
        }
        let key = format!("k{}", round % 6);
        chats.delete_session(&key).wait().unwrap();
        add_numbers(chats, &key, 0..3);
        chats.set_summary(&key, "summary").wait().unwrap();
        let given = |aliases: &[&str], key: &str| {
            let aliases = aliases.iter().map(ToString::to_string).collect();
            chats
                .upsert_session_meta(key, None, aliases)
                .wait()
                .unwrap();
        };
        given(&[], if round % 2 == 0 { "k1" } else { "k0" });
        given(&["wanders"], if round % 2 == 0 { "k0" } else { "k1" });
        chats.truncate_history(&key, 1).wait().unwrap();
        chats.compact(&key).wait().unwrap();
        if round % 4 == 0 {
            chats.flush().wait().unwrap();
        }
    }
}

#[test]
fn verify_beside_a_writer_that_remakes_sessions_finds_damage_and_nothing_else() {
    // Where syncs cost nothing, the writer is as quick as the reader.
    let dir = tempfile::tempdir_in("/dev/shm").unwrap_or_else(|_| scratch());
    let torn = line("one") + "{\"role\":\"us\n";
    fs::write(dir.path().join("damaged.jsonl"), torn).unwrap();
    fs::write(
        dir.path().join("damaged.meta.json"),
        sidecar("damaged", "", 0, 2),
    )
    .unwrap();
    let store = Store::open_with(dir.path(), small_segments()).unwrap();
    let chats = store.handle().exact_keys();
    for key in 0..6 {
        add_numbers(&chats, &format!("k{key}"), 0..3);
    }
    let stop = Arc::new(AtomicBool::new(false));
    let writing = std::thread::spawn({
        let stop = stop.clone();
        move || churn(&chats, &stop)
    });
    let (mut wrong, mut busy, mut told) = (Vec::new(), 0, 0);
    for _ in 0..300 {
        let report = Store::verify(dir.path()).unwrap();
        busy += usize::from(report.busy);
        let problems = report.problems();
        // What could not be looked at in one moment is said to be unsettled.
        let settled = !report.unsettled.iter().any(|stem| stem == "damaged");
        told += usize::from(settled);
        let expected = problems
            .iter()
            .all(|problem| problem.starts_with("damaged: "));
        if !expected || problems.len() != usize::from(settled) {
            wrong.push((problems, report.unsettled));
        }
    }
    stop.store(true, Ordering::Relaxed);
    writing.join().unwrap();
    assert!(wrong.is_empty(), "{} of 300: {wrong:#?}", wrong.len());
    assert!(busy > 0, "the writer never came in between");
    assert!(told > 0, "the damage was never found");
    store.close().unwrap();
    let still = Store::verify(dir.path()).unwrap();
    assert_eq!(still.problems().len(), 1, "{still}");
    assert!(still.unsettled.is_empty() && !still.busy, "{still}");
}

#[test]
fn a_prepared_file_that_gets_its_name_while_it_is_looked_for_is_nobodys_change() {
    let storage = Intercepted::default();
    let store = open_on(Arc::new(storage.clone()), small_segments()).unwrap();
    add_numbers(&store.handle(), "k", 0..9);
    store.handle().flush().wait().unwrap();
    let log = in_memory("k.jsonl");
    let kept = log.clone();
    storage.at_every_call(move |call, path, _| match call {
        "rename" if path == kept => Err(io::Error::from_raw_os_error(5)),
        _ => Ok(()),
    });
    store.handle().truncate_history("k", 2).wait().unwrap();
    let _ = store.handle().compact("k").wait();
    drop(store);
    let waits = |path: &Path| path.to_string_lossy().contains("/.sessionlog-");
    let renamed = Arc::new(AtomicBool::new(false));
    let seen = renamed.clone();
    storage.at_every_call(move |call, path, disk| {
        if call == "open" && waits(path) && !seen.swap(true, Ordering::Relaxed) {
            disk.rename(path, &log)?;
        }
        Ok(())
    });
    let beside: Arc<dyn Storage> = Arc::new(storage);
    let report = verify_store(&beside, &in_memory("")).unwrap();
    assert!(renamed.load(Ordering::Relaxed), "no prepared file waited");
    assert_eq!(report.problems(), Vec::<String>::new());
}

#[test]
fn a_directory_that_does_not_exist_is_an_error_and_is_not_made() {
    let dir = scratch();
    let none = dir.path().join("none");
    assert!(matches!(Store::verify(&none), Err(Error::Io { .. })));
    let repaired = Store::repair(&none, RepairOptions::new());
    assert!(matches!(repaired, Err(Error::Io { .. })), "{repaired:?}");
    assert!(fs::read_dir(dir.path()).unwrap().next().is_none());
}

#[test]
fn what_a_damaged_journal_lost_is_said_before_it_is_given_up() {
    let (dir, left) = (scratch(), scratch());
    let store = open(dir.path());
    for number in 0..9 {
        add_numbers(&store.handle(), "a", number..number + 1);
    }
    copy_dir(dir.path(), left.path());
    store.close().unwrap();
    // Nothing but the journal holds them: a file is only ever behind it.
    let _ = fs::remove_file(left.path().join("a.jsonl"));
    let journal = left.path().join(".sessionlog/journal");
    let mut segments: Vec<_> = fs::read_dir(journal)
        .unwrap()
        .map(|e| e.unwrap().path())
        .collect();
    segments.retain(|path| path.extension().is_some_and(|extension| extension == "log"));
    segments.sort();
    let mut bytes = fs::read(&segments[0]).unwrap();
    let at = memchr::memmem::find(&bytes, br#""content":"4""#).unwrap();
    bytes[at] ^= 1;
    fs::write(&segments[0], bytes).unwrap();

    let found = Store::verify(left.path()).unwrap();
    assert!(found.journal.damage.is_some(), "{found}");
    let asked = Store::repair(left.path(), RepairOptions::new()).unwrap();
    assert!(
        asked.losses.is_empty() && !asked.needs_data_loss.is_empty(),
        "{asked}"
    );
    assert!(matches!(
        Store::open(left.path()),
        Err(Error::Corrupt { .. })
    ));

    let options = RepairOptions::new().allow_data_loss(true);
    let done = Store::repair(left.path(), options).unwrap();
    assert_eq!(done.losses, asked.needs_data_loss);
    assert!(
        done.backup
            .is_some_and(|path| path.ends_with(".sessionlog/backups/repair-1"))
    );
    let store = open(left.path());
    let kept = [numbers(0..4), numbers(5..9)].concat();
    assert_eq!(texts(&store.handle(), "a"), kept);
    store.close().unwrap();
    assert_eq!(
        Store::repair(left.path(), options).unwrap(),
        RepairReport::default()
    );
}

#[test]
fn a_damaged_segment_is_named_by_the_error_not_one_after_it() {
    let (dir, left) = (scratch(), scratch());
    let store = Store::open_with(dir.path(), small_segments()).unwrap();
    let chats = store.handle();
    let text = "x".repeat(4 << 10);
    for _ in 0..40 {
        chats.add_message("a", "user", &text).wait().unwrap();
    }
    copy_dir(dir.path(), left.path());
    store.close().unwrap();
    let journal = left.path().join(".sessionlog/journal");
    let mut segments: Vec<_> = fs::read_dir(&journal).unwrap().collect();
    segments.sort_by_key(|entry| entry.as_ref().unwrap().file_name());
    let first = segments[0].as_ref().unwrap().path();
    assert!(segments.len() > 1, "{segments:?}");
    let mut bytes = fs::read(&first).unwrap();
    let at = bytes.len() / 2;
    bytes[at..at + 40].fill(0x55);
    fs::write(&first, bytes).unwrap();
    match Store::open(left.path()) {
        Err(Error::Corrupt { path, .. }) => assert_eq!(path, first),
        other => panic!("{other:?}"),
    }
}
