use std::path::Path;
use std::sync::Arc;

use sessionlog_core::error::Error;
use sessionlog_wal::journal::committer::Committer;
use sessionlog_wal::journal::counters::CommitCounters;
use sessionlog_wal::journal::pool::SegmentPool;
use sessionlog_wal::journal::record::{self, Record};
use sessionlog_wal::journal::segment::Lengths;
use sessionlog_wal::storage::Storage;
use sessionlog_wal::testing::disk_model::MemoryStorage;

use super::*;
use crate::engine::home::Home;
use crate::engine::recovery::run::commit_checkpoint;
use crate::engine::view::DirectoryView;

const DIR: &str = "/store";

/// A store with a session's lines in the journal, followed by `others`.
fn journalled(others: &[Record<'_>]) -> (MemoryStorage, Arc<dyn Storage>) {
    let disk = MemoryStorage::new();
    let storage: Arc<dyn Storage> = Arc::new(disk.clone());
    let home = Home::of(Path::new(DIR));
    home.create_site(&*storage, Path::new(DIR)).unwrap();
    home.create(&*storage, Path::new(DIR)).unwrap();
    let lengths = Lengths {
        first: 16 << 10,
        largest: 64 << 20,
        ..Lengths::default()
    };
    let id = home.identity(&*storage).unwrap();
    let pool = SegmentPool::new(storage.clone(), home.journal, id, 1, lengths);
    let counters = Arc::<CommitCounters>::default();
    let mut committer = Committer::new(Arc::new(pool), 0, Arc::default(), counters).unwrap();
    let image = sessionlog_core::session_file::encode_sidecar(&crate::SessionMeta::empty("a"));
    let append = Record::Append {
        stem: "a",
        generation: 0,
        offset: 0,
        crc: 0,
        meta: record::MetaState::First(&image),
        once: "",
        bytes: b"{\"role\":\"user\",\"content\":\"1\"}\n",
    };
    let mut records = Vec::new();
    record::encode(&mut records, &append);
    for record in others {
        record::encode(&mut records, record);
    }
    commit_checkpoint(&mut committer, 0, false, &records).unwrap();
    (disk, storage)
}

fn refused_and_given_up(record: Record<'_>, messages: u64) {
    let record = [record];
    let (disk, storage) = journalled(&record);
    let dir = Path::new(DIR);
    let opened = DirectoryView::open(storage.clone(), dir.into());
    assert!(matches!(opened, Err(Error::Corrupt { .. })), "{opened:?}");
    let found = verify(&storage, dir).unwrap();
    assert!(found.journal.damage.is_some(), "{record:?}: {found}");

    let kept = repair(&storage, dir, RepairOptions::new()).unwrap();
    assert!(!kept.needs_data_loss.is_empty(), "{record:?}: {kept}");
    let options = RepairOptions::new().allow_data_loss(true);
    let mended = repair(&storage, dir, options).unwrap();
    assert_eq!(mended.losses, kept.needs_data_loss);
    let found = verify(&storage, dir).unwrap();
    assert!(found.is_sound(), "{record:?}: {found}");
    assert_eq!(
        (found.sessions.len(), found.sessions[0].messages),
        (1, messages)
    );
    let mut outside = disk.last_calls(usize::MAX);
    outside.retain(|call| call.contains("outside"));
    assert!(outside.is_empty(), "{record:?}: {outside:?}");
}

/// Carried out, the record would read and write beside the directory.
#[test]
fn a_record_that_names_a_file_elsewhere_is_damage_and_is_given_up() {
    let image = sessionlog_core::session_file::encode_sidecar(&crate::SessionMeta::empty("b"));
    refused_and_given_up(
        Record::Delete {
            stem: "../outside",
            generation: 0,
            before: record::Prior::default(),
        },
        1,
    );
    refused_and_given_up(
        Record::Swap {
            stem: "b",
            generation: 1,
            before: record::Prior::default(),
            image: &image,
            temp: ".sessionlog-/../../outside.tmp",
            base_len: 0,
            base_crc: 0,
            tail: b"",
        },
        1,
    );
    for (of, link, backup) in [
        ("../../../outside", "", ""),
        (".", "", ""),
        (OLD, ".sessionlog-0000000000000001.tmp", "../../../outside"),
        (OLD, ".sessionlog-0000000000000001.tmp", ""),
        // The directory of all backups.
        (OLD, "", OLD),
    ] {
        refused_and_given_up(
            Record::Rebase {
                stem: "b",
                generation: 1,
                before: record::Prior::default(),
                image: &image,
                of,
                len: 0,
                crc: 0,
                link,
                backup,
            },
            1,
        );
    }
}

/// A backup, by its name.
const OLD: &str = "a.1-revert-5-0.jsonl";

/// Recovery then leaves the session unchanged, and so does a repair.
#[test]
fn a_backup_that_is_too_short_takes_nothing_from_the_session_made_of_it() {
    let image = sessionlog_core::session_file::encode_sidecar(&crate::SessionMeta::empty("a"));
    let rebase = Record::Rebase {
        stem: "a",
        generation: 1,
        before: record::Prior::default(),
        image: &image,
        of: OLD,
        len: 300,
        crc: 0,
        link: "",
        backup: "",
    };
    let flawed = Record::Delete {
        stem: "..",
        generation: 0,
        before: record::Prior::default(),
    };
    let (disk, storage) = journalled(&[rebase, flawed]);
    let line = |n: u64| format!("{{\"role\":\"user\",\"content\":\"{n}\"}}\n");
    let write = |name: &str, lines: u64| {
        let text: String = (0..lines).map(line).collect();
        let path = format!("{DIR}/{name}");
        disk.write_foreign(&path, text.as_bytes()).unwrap();
    };
    write(&format!(".sessionlog/backups/{OLD}"), 1);
    write("a.jsonl", 2);
    let options = RepairOptions::new().allow_data_loss(true);
    let mended = repair(&storage, Path::new(DIR), options).unwrap();
    let told = mended.losses.iter().any(|loss| loss.contains(OLD));
    assert!(told, "{mended}");
    let found = verify(&storage, Path::new(DIR)).unwrap();
    assert_eq!(found.sessions[0].messages, 2, "{found}");
}

#[test]
fn lines_behind_a_gap_are_damage_and_are_kept_without_it() {
    refused_and_given_up(
        Record::Append {
            stem: "a",
            generation: 0,
            offset: 99,
            crc: 0,
            meta: record::MetaState::Patch {
                skip: 0,
                count: 2,
                updated_at: record::Time::Text(""),
            },
            once: "",
            bytes: b"{\"role\":\"user\",\"content\":\"2\"}\n",
        },
        2,
    );
}

/// The journal's statement about the session's sidecar is later than the one read before it: if the
/// session counted as still, a sidecar written since would pass for another program's.
#[test]
fn a_session_that_got_another_sidecar_between_two_looks_did_not_stand_still() {
    let image = sessionlog_core::session_file::encode_sidecar(&crate::SessionMeta::empty("a"));
    let looks = |others: &[Record<'_>]| {
        let (_, storage) = journalled(others);
        look::JournalLook::settled(&*storage, &Home::of(Path::new(DIR))).unwrap()
    };
    let of_meta = [Record::Meta {
        stem: "a",
        generation: 0,
        before: record::Prior::default(),
        image: &image,
    }];
    let (before, after) = (looks(&[]), looks(&of_meta));
    assert_eq!(before.stood(&looks(&[]), "a"), look::Stood::Still);
    assert_eq!(before.stood(&after, "a"), look::Stood::Grown);
    assert_eq!(before.stood(&after, "b"), look::Stood::Still);
}

/// Sessions that claim a name are judged once more, by a look at which they may have been deleted.
#[test]
fn what_is_left_of_a_deleted_session_is_no_session() {
    let (disk, storage) = journalled(&[Record::Delete {
        stem: "a",
        generation: 0,
        before: record::Prior::default(),
    }]);
    disk.write_foreign(
        "/store/a.meta.json",
        br#"{"key":"a","summary":"","skip":0,"count":1,"created_at":"2026-01-02T03:04:05Z","updated_at":"2026-01-02T03:04:05Z"}"#,
    )
    .unwrap();
    let (dir, home) = (Path::new(DIR), Home::of(Path::new(DIR)));
    let look = look::JournalLook::settled(&*storage, &home).unwrap();
    let mut rounds = rounds::Rounds::new(&*storage, dir, &home, look);
    rounds.judge([String::from("a")].into()).unwrap();
    let mut report = VerifyReport::default();
    rounds.report_on(&mut report).unwrap();
    assert!(report.problems().is_empty(), "{report}");
    assert_eq!(report.sessions.len(), 0);
}

#[test]
fn a_journal_of_another_format_version_is_not_repaired_away() {
    let (disk, storage) = journalled(&[]);
    let journal = Home::of(Path::new(DIR)).journal;
    let name = storage.read_dir(&journal).unwrap().remove(0).name;
    let path = journal.join(name);
    let mut bytes = storage.read(&path, u64::MAX).unwrap();
    bytes[8] += 1;
    let crc = crc32fast::hash(&bytes[..52]);
    bytes[52..56].copy_from_slice(&crc.to_le_bytes());
    disk.write_foreign(&path, &bytes).unwrap();
    let options = RepairOptions::new().allow_data_loss(true);
    let error = repair(&storage, Path::new(DIR), options).unwrap_err();
    assert!(
        error.to_string().contains("another format version"),
        "{error}"
    );
    assert_eq!(storage.read(&path, u64::MAX).unwrap(), bytes);
}
