use std::path::{Path, PathBuf};
mod sidecars;

use std::sync::Arc;

use sessionlog_wal::clock::SystemClock;
use sessionlog_wal::testing::disk_model::{Image, MemoryStorage};

use super::{MigrationReport, import_picoclaw, migrate_from_json, migrate_from_json_report};
use crate::engine::open::{self, OpenedStore, Site};
use crate::engine::shard::worker::limits::TurnLimits;
use crate::engine::supervisor::threads::Threads;
use crate::engine::view::DirectoryView;
use crate::front::handle::Side;
use crate::{Error, Result, StoreHandle, StoreOptions};

const DIR: &str = "/sessions";

/// A store on a disk in memory.
struct LegacyRig {
    handle: StoreHandle,
    parts: (Arc<crate::engine::Engine>, Threads),
    _lock: Box<dyn sessionlog_wal::storage::LockGuard>,
}

impl LegacyRig {
    fn open(disk: &MemoryStorage) -> Result<Self> {
        // So that a session is soon larger than one command may be.
        let options = StoreOptions::new().max_batch_bytes(64 << 10);
        let OpenedStore {
            engine,
            machine,
            lock,
            ..
        } = open::open(&Site {
            storage: Arc::new(disk.clone()),
            clock: Arc::new(SystemClock::default()),
            dir: Path::new(DIR),
            options: &options,
            mailbox: 16,
            limits: TurnLimits::USUAL,
            keep_from: 1,
        })?;
        let threads = Threads::start(machine).unwrap();
        Ok(Self {
            handle: StoreHandle::new(Side::Writer(engine.clone()), &options),
            parts: (engine, threads),
            _lock: lock,
        })
    }

    fn migrate(&self) -> Result<MigrationReport> {
        migrate_from_json_report(DIR, &self.handle)
    }

    fn texts(&self, key: &str) -> Vec<String> {
        let history = self.handle.exact_keys().history(key).wait().unwrap();
        history.iter().map(|m| m.text().into_owned()).collect()
    }

    fn list(&self) -> Vec<String> {
        self.handle.list_sessions().wait().unwrap()
    }

    fn close(self) -> Result<()> {
        let result = self.parts.0.stop();
        self.parts.1.join();
        result
    }
}

fn disk(files: &[(&str, &str)]) -> MemoryStorage {
    let disk = MemoryStorage::new();
    for (name, text) in files {
        put(&disk, name, text);
    }
    disk
}

fn put(disk: &MemoryStorage, name: &str, text: &str) {
    disk.write_foreign(format!("{DIR}/{name}"), text.as_bytes())
        .unwrap();
}

fn get(disk: &MemoryStorage, name: &str) -> Option<String> {
    let bytes = disk.read_foreign(format!("{DIR}/{name}"))?;
    Some(String::from_utf8(bytes).unwrap())
}

fn session(key: &str, texts: &[&str], summary: &str) -> String {
    let messages: Vec<_> = texts
        .iter()
        .map(|text| serde_json::json!({"role": "user", "content": text}))
        .collect();
    serde_json::json!({"key": key, "messages": messages, "summary": summary}).to_string()
}

#[test]
fn every_session_is_imported_once() {
    let file = session("telegram:1", &["a", "b"], "s");
    let disk = disk(&[("t.json", &file), ("no-key.json", r#"{"messages":[{}]}"#)]);
    let rig = LegacyRig::open(&disk).unwrap();
    assert_eq!(migrate_from_json(DIR, &rig.handle).unwrap(), 2);
    assert_eq!(rig.texts("telegram:1"), ["a", "b"]);
    assert_eq!(rig.handle.summary("telegram:1").wait().unwrap(), "s");
    assert_eq!(rig.texts("no-key"), [""]);
    assert_eq!(get(&disk, "t.json"), None);
    assert_eq!(get(&disk, "t.json.migrated"), Some(file));

    rig.handle
        .add_message("telegram:1", "user", "c")
        .wait()
        .unwrap();
    assert_eq!(rig.migrate().unwrap().migrated, 0);
    assert_eq!(rig.texts("telegram:1"), ["a", "b", "c"]);
    rig.close().unwrap();
}

#[test]
fn a_directory_that_does_not_exist_holds_nothing_to_import() {
    let rig = LegacyRig::open(&disk(&[])).unwrap();
    assert_eq!(migrate_from_json("/nowhere", &rig.handle).unwrap(), 0);
    rig.close().unwrap();
}

#[test]
fn files_that_cannot_be_imported_stay_and_are_reported() {
    let good = session("good", &["x"], "");
    let long_key = session(&"k".repeat(1025), &["x"], "");
    let left = [
        (".json", session("", &["no name at all"], "")),
        ("cut.json", good[..good.len() - 1].to_owned()),
        ("long.json", long_key),
        ("type.json", r#"{"key":"t","messages":{}}"#.to_owned()),
    ];
    let disk = disk(&[("zz.json", &good), ("dir.json/inner.json", &good)]);
    for (name, text) in &left {
        put(&disk, name, text);
    }
    disk.link_foreign(format!("{DIR}/link.json")).unwrap();
    let rig = LegacyRig::open(&disk).unwrap();
    let report = rig.migrate().unwrap();
    assert_eq!(report.migrated, 1);
    let mut paths: Vec<_> = report
        .skipped
        .iter()
        .map(|(path, _)| path.clone())
        .collect();
    paths.sort();
    let expected = [".json", "cut.json", "link.json", "long.json", "type.json"];
    assert_eq!(paths, expected.map(|name| Path::new(DIR).join(name)));
    for (name, text) in left {
        assert_eq!(get(&disk, name), Some(text));
    }
    assert_eq!(rig.list(), ["good"]);
    rig.close().unwrap();
}

#[test]
fn what_is_over_a_limit_is_refused_with_nothing_changed() {
    let long = "x".repeat(17 << 20);
    let files = [
        ("line.json", session("line", &["short", &long], "")),
        ("summary.json", session("summary", &["imported"], &long)),
    ];
    let disk = disk(&[("zz.json", &session("zz", &["z"], ""))]);
    for (name, text) in &files {
        put(&disk, name, text);
    }
    let rig = LegacyRig::open(&disk).unwrap();
    for key in ["line", "summary"] {
        let added = rig.handle.add_message(key, "user", "there before");
        added.wait().unwrap();
    }
    let report = rig.migrate().unwrap();
    assert_eq!((report.migrated, report.skipped.len()), (1, 2));
    for (name, text) in files {
        assert!(get(&disk, name) == Some(text), "{name} is not what it was");
    }
    assert_eq!(rig.texts("line"), ["there before"]);
    assert_eq!(rig.texts("summary"), ["there before"]);
    assert_eq!(rig.texts("zz"), ["z"]);
    rig.close().unwrap();
}

#[test]
fn an_error_of_the_store_stops_and_leaves_the_rest_for_the_next_run() {
    let disk = disk(&[
        ("a.json", &session("a", &["a"], "")),
        ("b.json", &session("b", &["b"], "")),
    ]);
    let rig = LegacyRig::open(&disk).unwrap();
    // The name under which the second file is to be kept is taken.
    put(&disk, "b.json.migrated/x", "");
    assert!(matches!(rig.migrate(), Err(Error::Io { .. })));
    assert_eq!(get(&disk, "a.json"), None);
    assert!(get(&disk, "b.json").is_some());
    disk.remove_foreign(format!("{DIR}/b.json.migrated/x"))
        .unwrap();
    rig.close().unwrap();
}

#[test]
fn a_store_opened_read_only_refuses_even_if_there_is_nothing_to_import() {
    let disk = disk(&[("notes.txt", "")]);
    let view = DirectoryView::open(Arc::new(disk), PathBuf::from(DIR)).unwrap();
    let handle = StoreHandle::new(Side::Reader(Arc::new(view)), &StoreOptions::new());
    assert!(matches!(
        migrate_from_json(DIR, &handle),
        Err(Error::ReadOnly)
    ));
}

#[test]
fn keys_are_taken_literally() {
    let disk = disk(&[("o.json", &session("old:1", &["imported"], ""))]);
    let rig = LegacyRig::open(&disk).unwrap();
    rig.handle
        .upsert_session_meta("new", None, vec![String::from("old:1")])
        .wait()
        .unwrap();
    assert_eq!(rig.migrate().unwrap().migrated, 1);
    assert_eq!(rig.texts("old:1"), ["imported"]);
    assert!(rig.texts("new").is_empty());
    rig.close().unwrap();
}

#[test]
fn a_message_with_the_role_of_a_control_record_is_imported_as_a_message() {
    let text = r#"{"key":"k","messages":[{"role":"_usage","content":"kept","token_count":9}]}"#;
    let disk = disk(&[("k.json", text)]);
    let rig = LegacyRig::open(&disk).unwrap();
    assert_eq!(rig.migrate().unwrap().migrated, 1);
    assert_eq!(rig.texts("k"), ["kept"]);
    rig.close().unwrap();
}

/// Cuts the power at every step. Each time it tests the image with the least left, and one of the
/// other images in turn.
#[test]
fn a_run_after_a_crash_at_any_step_ends_as_if_there_had_been_none() {
    let long: Vec<String> = (0..200).map(|n| format!("{n:0>500}")).collect();
    let long: Vec<&str> = long.iter().map(String::as_str).collect();
    let before = [
        ("a.json", session("a", &["1", "2"], "sum")),
        ("b.meta.json", session("b.meta", &["3"], "")),
        ("long.json", session("long", &long, "")),
    ];
    let start = disk(&[]);
    for (name, text) in &before {
        put(&start, name, text);
    }
    let rig = LegacyRig::open(&start).unwrap();
    rig.handle.add_message("a", "user", "old").wait().unwrap();
    rig.close().unwrap();

    let mut step = 0;
    loop {
        let disk = start.image(Image::ProcessDeath);
        disk.crash_at(step);
        let finished = LegacyRig::open(&disk).and_then(|rig| {
            let outcome = rig.migrate();
            rig.close().and(outcome)
        });
        if let Ok(report) = finished {
            assert_eq!((report.migrated, report.skipped.len()), (3, 0));
            break;
        }
        let turn = Image::NAMED[step as usize % Image::NAMED.len()];
        for image in [Image::AllLost, turn] {
            let disk = disk.image(image);
            let rig = LegacyRig::open(&disk).unwrap();
            let context = format!("step {step}, {image:?}");
            let shown = rig.texts("long").len();
            assert!([0, long.len()].contains(&shown), "{context}: {shown}");
            let report = rig.migrate().unwrap();
            assert_eq!(rig.texts("long"), long, "{context}");
            assert!(report.skipped.is_empty(), "{context}: {report:?}");
            assert_eq!(rig.texts("a"), ["1", "2"], "{context}");
            assert_eq!(rig.texts("b.meta"), ["3"], "{context}");
            let summary = rig.handle.summary("a").wait().unwrap();
            assert_eq!(summary, "sum", "{context}");
            rig.close().unwrap();
            for (name, text) in &before {
                let migrated = get(&disk, &format!("{name}.migrated"));
                assert_eq!(migrated.as_ref(), Some(text), "{context}");
            }
        }
        step += 1;
    }
    assert!(step > 20, "the power was cut at {step} steps only");
}

#[test]
fn a_history_that_an_older_file_replaces_is_a_backup_and_reported() {
    let disk = MemoryStorage::new();
    let rig = LegacyRig::open(&disk).unwrap();
    rig.handle.add_message("k", "user", "live").wait().unwrap();
    let file = br#"{"key":"k","messages":[{"role":"user","content":"old"}]}"#;
    disk.write_foreign(Path::new(DIR).join("k.json"), file)
        .unwrap();
    let report = rig.migrate().unwrap();
    assert_eq!(
        (report.migrated, report.replaced),
        (1, vec!["k".to_owned()])
    );
    assert_eq!(rig.texts("k"), ["old"]);
    let backups = rig.handle.list_backups("k").wait().unwrap();
    assert_eq!(backups.len(), 1);
    assert_eq!(backups[0].reason, crate::BackupReason::Import);
    rig.close().unwrap();

    let rig = LegacyRig::open(&disk).unwrap();
    assert_eq!(rig.migrate().unwrap().replaced, [""; 0]);
    rig.handle
        .restore_backup("k", backups[0].number)
        .wait()
        .unwrap();
    assert_eq!(rig.texts("k"), ["live"]);
    rig.close().unwrap();
}

#[test]
fn a_session_keeps_its_dates_unless_it_had_messages_here() {
    let file = |key: &str| {
        format!(
            r#"{{"key":"{key}","messages":[{{"role":"user","content":"hi"}}],"summary":"s","created":"2024-03-01T09:00:00Z","updated":"2024-03-02T09:00:00Z","title":"T","aliases":["a:{key}"]}}"#
        )
    };
    let never = r#"{"key":"never","messages":[{"role":"user","content":"hi"}],"created":"0001-01-01T00:00:00Z","updated":"0001-01-01T00:00:00Z"}"#;
    let disk = disk(&[
        ("old.json", &file("old")),
        ("both.json", &file("both")),
        ("never.json", never),
    ]);
    let rig = LegacyRig::open(&disk).unwrap();
    rig.handle
        .add_message("both", "user", "newer")
        .wait()
        .unwrap();
    assert_eq!(import_picoclaw(DIR, &rig.handle).unwrap().migrated, 3);
    rig.close().unwrap();
    let rig = LegacyRig::open(&disk).unwrap();
    let meta = |key: &str| rig.handle.session_meta(key).wait().unwrap();
    let created = "2024-03-01T09:00:00Z";
    let old = meta("old");
    assert_eq!(
        (&*old.created_at, &*old.updated_at),
        (created, "2024-03-02T09:00:00Z")
    );
    let both = meta("both");
    assert_eq!(both.created_at, created);
    assert!(both.updated_at.as_str() > "2025", "{}", both.updated_at);
    assert!(meta("never").created_at.as_str() > "2025");
    rig.close().unwrap();
}
