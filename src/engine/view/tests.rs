use std::path::Path;
use std::sync::Arc;

use super::follow::Following;
use super::*;
use crate::disk::journal::record::{MetaState, Prior, Record};
use crate::engine::recovery::plan::Plans;
use crate::testing::disk_model::MemoryStorage;

const REVERTS: u64 = 20_000;

fn backup_name(number: u64) -> String {
    format!("cli.{number}-revert-5-0.jsonl")
}

/// A session that was taken back to its first line again and again, each time
/// after another line, and none of it is in the files but the first line.
fn taken_back(plans: &mut Plans) {
    let image = crate::disk::session_file::encode_sidecar(&crate::SessionMeta::empty("cli"));
    for number in 1..=REVERTS {
        plans.add(&Record::Append {
            stem: "cli",
            generation: 0,
            offset: 3,
            crc: crc32fast::hash(b"{}\n"),
            meta: MetaState::First(&image),
            once: "",
            bytes: b"{ }\n",
        });
        plans.add(&Record::Rebase {
            stem: "cli",
            generation: 0,
            before: Prior::default(),
            image: &image,
            of: &backup_name(number),
            len: 3,
            crc: crc32fast::hash(b"{}\n"),
            link: ".sessionlog-0000000000000001.tmp",
            backup: &backup_name(number),
        });
    }
}

fn view(disk: &MemoryStorage) -> DirectoryView {
    DirectoryView {
        storage: Arc::new(disk.clone()),
        dir: "/".into(),
        home: Home::of(Path::new("/")),
        report: RecoveryReport::default(),
        counters: Arc::default(),
        following: Following::default(),
        closed: AtomicBool::new(false),
        doubted: AtomicBool::new(false),
        followed: Mutex::default(),
    }
}

/// Whoever looks at the journal first finds lines in a file that is always written to of
/// which the journal did not know.
#[test]
fn a_file_that_is_always_written_to_is_read_as_it_was_before_the_journal() {
    let disk = MemoryStorage::new();
    disk.write_foreign("/cli.jsonl", b"{}\n{ }\n").unwrap();
    let image = crate::disk::session_file::encode_sidecar(&crate::SessionMeta::empty("cli"));
    let mut moment = Moment::default();
    moment.plans.add(&Record::Append {
        stem: "cli",
        generation: 0,
        offset: 3,
        crc: crc32fast::hash(b"{}\n"),
        meta: MetaState::First(&image),
        once: "",
        bytes: b"{ }\n",
    });
    assert!(moment.catalog.enter("cli", "cli", &[]));
    let view = view(&disk);
    let seen = view.seen(&moment, "cli", false).unwrap();
    disk.append_foreign("/cli.jsonl", b"{\"later\":1}\n")
        .unwrap();
    assert!(view.pieces(&moment, "cli", false).unwrap().changed);
    let pieces = view.pieces_as_seen(&moment, "cli", false, seen).unwrap();
    assert!(!pieces.changed);
    assert_eq!(pieces.bytes.size(), 7);
}

#[test]
fn however_often_a_session_was_taken_back_it_is_read() {
    let disk = MemoryStorage::new();
    let home = Home::of(Path::new("/"));
    for path in [Path::new("/.sessionlog"), &home.backups] {
        disk.create_dir(path).unwrap();
    }
    disk.write_foreign(home.backups.join(backup_name(1)).to_str().unwrap(), b"{}\n")
        .unwrap();
    disk.write_foreign("/cli.jsonl", b"{}\n").unwrap();
    let mut moment = Moment::default();
    taken_back(&mut moment.plans);
    assert!(moment.catalog.enter("cli", "cli", &[]));
    let view = view(&disk);
    let pieces = view.pieces(&moment, "cli", false).unwrap();
    let calls = disk.steps();
    assert_eq!(pieces.bytes.len, 3);
    assert_eq!(pieces.bytes.behind, b"");

    let own = view.backups_at(&moment, "cli", false).unwrap();
    assert_eq!(own.len() as u64, REVERTS);
    assert!(own.iter().all(|backup| backup.size == 7), "{:?}", own[0]);
    assert!(disk.steps() - calls < 100, "{}", disk.steps() - calls);
}
