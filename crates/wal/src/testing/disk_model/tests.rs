//! What a crash may and may not leave.

mod bytes;
mod failures;
mod lost_writes;
mod names;

use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

use super::{Fault, Image, MemoryStorage, Repeat};
use crate::storage::{OpenMode, Storage, StorageFile};

const POWER_LOSS: [Image; 6] = [
    Image::AllLost,
    Image::AllKept,
    Image::LastWriteOnly,
    Image::SizeWithoutData,
    Image::DataWithoutName,
    Image::Reversed,
];

/// Every named image and the first `n` random ones.
fn images(n: u64) -> impl Iterator<Item = Image> {
    let random = (0..n).map(Image::Random);
    Image::NAMED.into_iter().chain(random)
}

fn root() -> &'static Path {
    Path::new("")
}

fn create(storage: &MemoryStorage, path: &str, bytes: &[u8]) -> Arc<dyn StorageFile> {
    let file = storage.open(Path::new(path), OpenMode::CreateNew).unwrap();
    file.write_all_at(bytes, 0).unwrap();
    file
}

/// A file whose bytes and name are on the disk.
fn settle(storage: &MemoryStorage, path: &str, bytes: &[u8]) -> Arc<dyn StorageFile> {
    let file = create(storage, path, bytes);
    storage.sync_all(root()).unwrap();
    file
}

fn rename(storage: &MemoryStorage, from: &str, to: &str) {
    storage.rename(Path::new(from), Path::new(to)).unwrap();
}

fn after(storage: &MemoryStorage, image: Image, path: &str) -> Option<Vec<u8>> {
    storage.image(image).read_foreign(path)
}

fn reopen(storage: &MemoryStorage, path: &str) -> Arc<dyn StorageFile> {
    storage.open(Path::new(path), OpenMode::ReadWrite).unwrap()
}

#[test]
fn what_sync_all_covered_is_in_every_image() {
    let storage = MemoryStorage::new();
    storage.create_dir(Path::new("d")).unwrap();
    storage.create_dir(Path::new("d/e")).unwrap();
    settle(&storage, "d/e/a", &[7; 5000]);
    let dump = storage.dump();
    assert_eq!(dump["d/e/a"], [7; 5000]);
    for image in images(50) {
        assert_eq!(storage.image(image).dump(), dump, "{image:?}");
    }
}

#[test]
fn the_death_of_the_process_loses_nothing_and_settles_nothing() {
    let storage = MemoryStorage::new();
    create(&storage, "a", b"bytes");
    let survivor = storage.image(Image::ProcessDeath);
    assert_eq!(survivor.dump(), storage.dump());
    assert_eq!(after(&survivor, Image::AllLost, "a"), None);
    reopen(&survivor, "a").sync_data().unwrap();
    survivor.sync_dir(root()).unwrap();
    assert_eq!(after(&survivor, Image::AllLost, "a").unwrap(), b"bytes");
}

#[test]
fn an_image_does_not_change_with_what_it_was_taken_from() {
    let storage = MemoryStorage::new();
    let file = settle(&storage, "a", b"before");
    let images: Vec<_> = images(5).map(|image| storage.image(image)).collect();
    file.write_all_at(b"after!", 0).unwrap();
    storage.sync_all(root()).unwrap();
    for image in images {
        assert_eq!(image.read_foreign("a").unwrap(), b"before");
        reopen(&image, "a").write_all_at(b"IMAGE", 0).unwrap();
    }
    assert_eq!(storage.read_foreign("a").unwrap(), b"after!");
}

#[test]
fn the_same_seed_leaves_the_same_image() {
    let storage = MemoryStorage::new();
    let file = settle(&storage, "a", &[1; 9000]);
    file.write_all_at(&[2; 9000], 0).unwrap();
    create(&storage, "b", b"new");
    let taken = |seed| storage.image(Image::Random(seed)).dump();
    assert!((0..20).all(|seed| taken(seed) == taken(seed)));
    assert!((1..20).any(|seed| taken(seed) != taken(0)));
}

#[test]
fn after_the_power_is_off_nothing_works_and_nothing_changes() {
    let storage = MemoryStorage::new();
    let file = create(&storage, "a", b"bytes");
    storage.crash_at(storage.steps() + 1);
    file.write_all_at(b"last", 0).unwrap();
    let dump = storage.dump();
    let path = Path::new("a");
    let failures = [
        file.sync_data(),
        file.write_all_at(b"x", 0),
        file.set_len(0),
        file.info().map(drop),
        file.read_at(&mut [0], 0).map(drop),
        storage.sync_dir(root()),
        storage.sync_all(root()),
        storage.info(path).map(drop),
        storage.open(path, OpenMode::Read).map(drop),
        storage.read_dir(root()).map(drop),
        storage.create_dir(Path::new("d")),
        storage.rename(path, Path::new("b")),
        storage.remove_file(path),
        storage.try_lock(path, "").map(drop),
    ];
    for failure in failures {
        let error = failure.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Other);
        assert_eq!(error.to_string(), "power is off");
    }
    assert_eq!(storage.dump(), dump);
    assert!(storage.image(Image::AllLost).dump().is_empty());
    let on = storage.image(Image::AllKept);
    assert_eq!(on.steps(), 0);
    reopen(&on, "a").write_all_at(b"works", 0).unwrap();
}

#[test]
fn every_call_is_one_step_and_helpers_are_none() {
    let storage = MemoryStorage::new();
    storage.write_foreign("d/a", b"foreign").unwrap();
    storage.read_foreign("d/a").unwrap();
    storage.own_foreign("d/a", 7, 0o640).unwrap();
    storage.current_user();
    storage.open_file_limit();
    let _ = (storage.dump(), storage.image(Image::AllKept));
    assert_eq!(storage.steps(), 0);
    let info = storage.info(Path::new("d/a")).unwrap();
    assert_eq!((info.owner, info.mode, info.len), (7, 0o640, 7));
    let file = reopen(&storage, "d/a");
    file.write_at(b"x", 0).unwrap();
    file.sync_data().unwrap();
    drop(storage.try_lock(Path::new("l"), "").unwrap());
    drop(file);
    assert_eq!(storage.steps(), 5);
}

#[test]
fn what_is_foreign_is_on_the_disk_already() {
    let storage = MemoryStorage::new();
    storage.create_dir(Path::new("d")).unwrap();
    create(&storage, "d/ours", b"unsynced");
    storage.write_foreign("d/theirs", b"1").unwrap();
    storage.write_foreign("d/ours", b"2").unwrap();
    for image in POWER_LOSS {
        let left = storage.image(image);
        assert_eq!(left.read_foreign("d/theirs").unwrap(), b"1", "{image:?}");
        assert_eq!(left.read_foreign("d/ours").unwrap(), b"2", "{image:?}");
    }
    storage.remove_foreign("d/theirs").unwrap();
    assert_eq!(after(&storage, Image::AllLost, "d/theirs"), None);
}

#[test]
fn who_has_a_file_open_sees_what_others_append_and_not_what_replaces_it() {
    let storage = MemoryStorage::new();
    let open = create(&storage, "a", b"ours, ");
    storage.append_foreign("a", b"theirs").unwrap();
    let mut bytes = [0; 12];
    open.read_exact_at(&mut bytes, 0).unwrap();
    assert_eq!(&bytes, b"ours, theirs");
    storage.replace_foreign("a", b"new").unwrap();
    open.read_exact_at(&mut bytes, 0).unwrap();
    assert_eq!(&bytes, b"ours, theirs");
    let info = storage.info(Path::new("a")).unwrap();
    assert_ne!(info.inode, open.info().unwrap().inode);
    storage.replace_foreign("b/c", b"made").unwrap();
    storage.append_foreign("b/d", b"made, too").unwrap();
    for image in POWER_LOSS {
        let left = storage.image(image);
        assert_eq!(left.read_foreign("a").unwrap(), b"new", "{image:?}");
        assert_eq!(left.read_foreign("b/c").unwrap(), b"made", "{image:?}");
        assert_eq!(left.read_foreign("b/d").unwrap(), b"made, too", "{image:?}");
    }
}

#[test]
fn nothing_is_open_or_locked_after_a_crash() {
    let storage = MemoryStorage::new();
    let lock = Path::new("lock");
    let held = storage.try_lock(lock, "first").unwrap();
    let file = create(&storage, "a", b"");
    storage.sync_all(root()).unwrap();
    assert_eq!(storage.open_files(), 1);
    for image in images(1) {
        let left = storage.image(image);
        assert_eq!(left.open_files(), 0);
        assert!(left.try_lock(lock, "second").unwrap().is_some());
    }
    assert!(storage.try_lock(lock, "third").unwrap().is_none());
    drop((held, file));
    assert_eq!(storage.open_files(), 0);
}

#[test]
fn removed_files_are_forgotten_once_nothing_leads_to_them() {
    let storage = MemoryStorage::new();
    let open = settle(&storage, "a", b"open");
    for _ in 0..1000 {
        create(&storage, "tmp", b"bytes");
        rename(&storage, "tmp", "a");
        storage.sync_dir(root()).unwrap();
    }
    assert!(storage.machine.lock().tree.nodes.len() < 200);
    let mut bytes = [0; 4];
    open.read_exact_at(&mut bytes, 0).unwrap();
    assert_eq!(&bytes, b"open");
}

#[test]
fn the_last_calls_tell_what_happened() {
    let storage = MemoryStorage::new();
    let file = create(&storage, "a", b"bytes");
    storage.fail_at(storage.steps(), Fault::Eio, Repeat::Once);
    assert!(file.sync_data().is_err());
    rename(&storage, "a", "b");
    let calls = storage.last_calls(3);
    assert_eq!(calls[0], "step 1: write_at a 0..5");
    assert!(calls[1].starts_with("step 2: sync_data a failed: "));
    assert_eq!(calls[2], "step 3: rename a -> b");
}
