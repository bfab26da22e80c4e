use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use sessionlog_core::error::{Error, Result};
use sessionlog_wal::storage::Storage;
use sessionlog_wal::testing::disk_model::{Fault, Image, MemoryStorage, Repeat};

use super::CopyDir;

/// The files of two states of a store; in the second, one has changed, one is gone and one is new.
const STATES: [&[(&str, &str)]; 2] = [
    &[
        ("a.jsonl", "one"),
        ("b.jsonl", "same"),
        ("c.jsonl", "gone"),
        (".sessionlog/backups/a.1-clear-0-0.jsonl", "kept"),
    ],
    &[
        ("a.jsonl", "one, two"),
        ("b.jsonl", "same"),
        ("d.jsonl", "new"),
        (".sessionlog/once/d.ids.jsonl", "id"),
    ],
];

fn copy(disk: &MemoryStorage, state: usize) -> Result<u64> {
    let storage: Arc<dyn Storage> = Arc::new(disk.clone());
    let copy = CopyDir::prepare(storage, Path::new("/copies/c"), "a store", &[])?;
    for (name, text) in STATES[state] {
        copy.put(name, &text.as_bytes().to_vec().into())?;
    }
    copy.finish()
}

/// The files in a directory of copies, without marker and lock.
fn found(disk: &MemoryStorage, name: &str) -> BTreeMap<String, String> {
    let prefix = format!("copies/{name}/");
    let files = disk.dump().into_iter().filter_map(|(path, bytes)| {
        let name = path.strip_prefix(&prefix)?.to_owned();
        let is_own = [".sessionlog/copy", ".sessionlog/lock"].contains(&&*name);
        (!is_own).then(|| (name, String::from_utf8_lossy(&bytes).into()))
    });
    files.collect()
}

fn state(state: usize) -> BTreeMap<String, String> {
    let own = |(name, text): &(&str, &str)| ((*name).to_owned(), (*text).to_owned());
    STATES[state].iter().map(own).collect()
}

/// A disk with a copy of the first state.
fn first() -> MemoryStorage {
    let disk = MemoryStorage::new();
    assert_eq!(copy(&disk, 0).unwrap(), 15);
    assert_eq!(found(&disk, "c"), state(0));
    disk
}

/// The calls that a second copy makes.
fn steps() -> std::ops::Range<u64> {
    let disk = first();
    let before = disk.steps();
    copy(&disk, 1).unwrap();
    before..disk.steps()
}

#[test]
fn a_second_copy_writes_only_what_changed() {
    let disk = first();
    let inode = |name: &str| disk.info(&Path::new("/copies/c").join(name)).unwrap().inode;
    let before = inode("b.jsonl");
    assert_eq!(copy(&disk, 1).unwrap(), 13);
    assert_eq!(found(&disk, "c"), state(1));
    assert_eq!(inode("b.jsonl"), before);
    assert_eq!(disk.read_dir(Path::new("/copies")).unwrap().len(), 1);
    assert_eq!(copy(&disk, 1).unwrap(), 0);
}

#[test]
fn a_crash_at_any_call_leaves_one_copy_or_the_other() {
    let mut images = Image::NAMED.to_vec();
    images.extend((0..5).map(Image::Random));
    let mut seen = [0; 3];
    for step in steps() {
        let disk = first();
        disk.crash_at(step);
        assert!(copy(&disk, 1).is_err());
        for image in &images {
            let left = disk.image(*image);
            let now = found(&left, "c");
            let what = [
                now == state(0),
                now == state(1),
                now.is_empty() && found(&left, ".c.replaced") == state(0),
            ];
            let what = what.iter().position(|is| *is);
            seen[what.unwrap_or_else(|| panic!("{step} {image:?}: {now:?}"))] += 1;
            copy(&left, 1).unwrap();
            assert_eq!(found(&left, "c"), state(1), "{step} {image:?}");
            assert_eq!(left.read_dir(Path::new("/copies")).unwrap().len(), 1);
        }
    }
    assert!(seen.iter().all(|many| *many > 0), "{seen:?}");
}

#[test]
fn a_call_that_fails_leaves_the_copy_that_was_there() {
    for step in steps() {
        let disk = first();
        disk.fail_at(step, Fault::Eio, Repeat::Once);
        let failed = copy(&disk, 1);
        if failed.is_err() {
            let now = found(&disk, "c");
            let replaced = now.is_empty() && found(&disk, ".c.replaced") == state(0);
            assert!(now == state(0) || now == state(1) || replaced, "{step}");
        }
        disk.heal();
        copy(&disk, 1).unwrap();
        for image in [Image::ProcessDeath, Image::AllLost] {
            assert_eq!(found(&disk.image(image), "c"), state(1), "{step} {image:?}");
        }
    }
}

#[test]
fn what_is_no_copy_is_not_replaced() {
    let refused = |path: &str| {
        let disk = first();
        disk.write_foreign(path, b"mine").unwrap();
        let before = disk.dump();
        let refused = copy(&disk, 1).unwrap_err();
        assert_eq!(disk.dump(), before, "{path}");
        refused
    };
    for path in [
        "/copies/c/notes.txt",
        "/copies/c/.sessionlog/journal",
        "/copies/.c.copying",
    ] {
        assert!(matches!(refused(path), Error::Io { .. }), "{path}");
    }
    assert!(matches!(
        refused("/copies/c/.sessionlog/identity"),
        Error::InStore { .. }
    ));
    let disk = first();
    let storage: Arc<dyn Storage> = Arc::new(disk.clone());
    let other = CopyDir::prepare(storage, Path::new("/copies/c"), "another store", &[]);
    assert!(other.unwrap_err().to_string().contains("a store"));
    assert_eq!(found(&disk, "c"), state(0));
}

#[test]
fn an_empty_directory_in_its_place_does_not_cost_the_copy() {
    let disk = first();
    let [dir, replaced] = ["/copies/c", "/copies/.c.replaced"].map(Path::new);
    disk.rename(dir, replaced).unwrap();
    disk.create_dir(dir).unwrap();
    let storage: Arc<dyn Storage> = Arc::new(disk.clone());
    let copy = CopyDir::prepare(storage, dir, "a store", &[]).unwrap();
    assert_eq!(found(&disk, "c"), state(0));
    copy.keep(&[String::from("a.jsonl")]).unwrap();
    assert_eq!(copy.finish().unwrap(), 0);
    assert_eq!(found(&disk, "c")["a.jsonl"], "one");
    assert_eq!(found(&disk, "c").len(), 1);
}
