//! Imports of PicoClaw's older files, cut short. They wait for their answers on
//! a thread of their own, so the engine runs on its threads here, and which call
//! comes when is not the same every time.

use std::path::Path;
use std::sync::Arc;

use sessionlog::testing::disk_model::{Image, MemoryStorage};
use sessionlog::testing::open_store;
use sessionlog::testing::sim::DIR;
use sessionlog::{StoreOptions, migrate_from_json};

use crate::crash::check::Verdict;

const FILES: [(&str, &str, &str); 2] = [
    (
        "a:1",
        "a_1.json",
        r#"{"key":"a:1","messages":[{"role":"user","content":"one"}],"summary":"s"}"#,
    ),
    (
        "b",
        "b.json",
        r#"{"key":"b","messages":[{"role":"user","content":"two"}]}"#,
    ),
];

/// Cuts the power before each of so many calls of an open, an import and a
/// close, and imports again. Returns how many disks were tried, and what is wrong.
pub(crate) fn crashes(calls: u64) -> (u64, Vec<String>) {
    let (mut images, mut wrong) = (0, Vec::new());
    for call in 0..calls {
        let disk = MemoryStorage::new();
        for (_, name, text) in FILES {
            let path = format!("{DIR}/{name}");
            disk.write_foreign(path, text.as_bytes())
                .expect("the disk is new");
        }
        disk.crash_at(call);
        // How far it comes is what the images are about.
        let _ = import(&disk);
        for image in [Image::AllLost, Image::AllKept, Image::Random(call)] {
            images += 1;
            if let Err(fault) = finish(&disk.image(image)) {
                wrong.push(format!("import/{call}/{image:?}: {fault}"));
            }
        }
    }
    (images, wrong)
}

fn import(disk: &MemoryStorage) -> sessionlog::Result<usize> {
    let options = StoreOptions::new().journal_segments(8 << 10, 8 << 10);
    let store = open_store(Arc::new(disk.clone()), Path::new(DIR), options)?;
    let migrated = migrate_from_json(DIR, &store.handle());
    store.close().and(migrated)
}

/// Whatever was left, the next import makes the sessions whole, and the one
/// after that has nothing to do.
fn finish(disk: &MemoryStorage) -> Verdict<()> {
    import(disk).map_err(|e| format!("again: {e}"))?;
    if import(disk).map_err(|e| format!("once more: {e}"))? > 0 {
        return Err("imported for ever".into());
    }
    let shown = sessionlog::testing::sim::read_only(disk.clone()).map_err(|e| e.to_string())?;
    for (key, name, text) in FILES {
        let history = sessionlog::testing::sim::read_now(shown.history(key));
        let history = history.map_err(|e| e.to_string())?;
        let texts: Vec<_> = history.iter().map(|m| m.text().to_string()).collect();
        if texts.len() != 1 || !text.contains(&texts[0]) {
            return Err(format!("{key} holds {texts:?}"));
        }
        let path = format!("{DIR}/{name}.migrated");
        if disk.read_foreign(&path).as_deref() != Some(text.as_bytes()) {
            return Err(format!("{path} is not the older file"));
        }
    }
    Ok(())
}
