//! Bytes that the system wrote back and lost, and calls that find no descriptor.

use std::path::Path;
use std::sync::Arc;

use super::{after, rename, reopen, root, settle};
use crate::storage::{OpenMode, Storage, StorageDir, StorageFile};
use crate::testing::disk_model::{Fault, Image, MemoryStorage, Repeat};

/// A disk on which a file's last write was lost in the background, and whether
/// somebody was told of it.
fn lost_write(told: Fault) -> (MemoryStorage, Arc<dyn StorageFile>, Arc<dyn StorageDir>) {
    let storage = MemoryStorage::new();
    let file = settle(&storage, "a", b"old");
    let dir = storage.open_dir(root()).unwrap();
    file.write_all_at(b"new", 0).unwrap();
    storage.fail_at(storage.steps(), told, Repeat::Once);
    storage.info(root()).unwrap();
    assert_eq!(storage.faults_hit(), 1);
    (storage, file, dir)
}

#[test]
fn a_lost_write_is_told_once_to_every_descriptor_that_was_open() {
    for fault in [Fault::WriteBack, Fault::WriteBackTold] {
        let (storage, file, dir) = lost_write(fault);
        let mut read = [0; 3];
        file.read_exact_at(&mut read, 0).unwrap();
        assert_eq!(&read, b"new");
        assert!(file.sync_data().is_err(), "{fault:?}");
        assert!(dir.sync_file_system().is_err(), "{fault:?}");
        file.sync_data().unwrap();
        dir.sync_file_system().unwrap();
        assert_eq!(after(&storage, Image::AllKept, "a").unwrap(), b"old");
    }
}

#[test]
fn a_descriptor_opened_later_is_told_of_a_lost_write_only_if_nobody_was() {
    let (storage, ..) = lost_write(Fault::WriteBackTold);
    reopen(&storage, "a").sync_data().unwrap();
    storage.sync_all(root()).unwrap();
    let (storage, ..) = lost_write(Fault::WriteBack);
    let (first, second) = (reopen(&storage, "a"), reopen(&storage, "a"));
    assert!(first.sync_data().is_err());
    assert!(second.sync_data().is_err());
    reopen(&storage, "a").sync_data().unwrap();
    assert!(storage.sync_all(root()).is_err());
    storage.sync_all(root()).unwrap();
}

#[test]
fn only_calls_that_open_something_lack_a_descriptor() {
    let storage = MemoryStorage::new();
    let file = settle(&storage, "a", b"bytes");
    let dir = storage.open_dir(root()).unwrap();
    storage.fail_at(0, Fault::Emfile, Repeat::Forever);
    let refused = [
        storage.open(Path::new("a"), OpenMode::Read).map(drop),
        storage.open(Path::new("b"), OpenMode::CreateNew).map(drop),
        storage.open_dir(root()).map(drop),
        storage.read_dir(root()).map(drop),
        storage.try_lock(Path::new("b"), "").map(drop),
        storage.sync_dir(root()),
    ];
    for result in refused {
        assert_eq!(result.unwrap_err().raw_os_error(), Some(24));
    }
    file.write_all_at(b"more", 0).unwrap();
    file.sync_data().unwrap();
    dir.sync_names().unwrap();
    rename(&storage, "a", "b");
    storage.remove_file(Path::new("b")).unwrap();
}
