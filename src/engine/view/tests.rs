use std::path::Path;
use std::sync::Arc;

use sessionlog_wal::journal::record::{MetaState, Prior, Record};
use sessionlog_wal::testing::disk_model::MemoryStorage;

use super::follow::Following;
use super::*;
use crate::disk::files::sidecar::read_meta;
use crate::engine::recovery::plan::Plans;

const REVERTS: u64 = 20_000;

fn backup_name(number: u64) -> String {
    format!("cli.{number}-revert-5-0.jsonl")
}

/// A session that was taken back to its first line again and again, each time after another line;
/// only the first line is in the files.
fn taken_back(plans: &mut Plans) {
    let image = sessionlog_core::session_file::encode_sidecar(&crate::SessionMeta::empty("cli"));
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
    let mut moment = DirectoryMoment::default();
    taken_back(&mut moment.plans);
    assert!(moment.catalog.enter("cli", "cli", &[]));
    let view = view(&disk);
    let plan = &moment.plans.sessions["cli"];
    let files = SessionFiles::of(&disk, Path::new("/"), "cli").unwrap();
    let found = read_meta(&disk, Path::new("/"), "cli", "cli");
    let planned = view.planned(&moment);
    let pieces = pieces::planned(planned, None, ("cli", "cli"), plan, (files, found));
    let pieces = pieces.unwrap().unwrap();
    let calls = disk.steps();
    assert_eq!(pieces.bytes.len, 3);
    assert_eq!(pieces.bytes.behind, b"");

    let own = view.backups_at(&moment, "cli", false).unwrap();
    assert_eq!(own.len() as u64, REVERTS);
    assert!(own.iter().all(|backup| backup.size == 7), "{:?}", own[0]);
    assert!(disk.steps() - calls < 100, "{}", disk.steps() - calls);
}
