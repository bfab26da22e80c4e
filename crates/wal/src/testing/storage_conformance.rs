//! What both storages do alike: each claim is checked on the disk and on the
//! model of one, so that what holds in a crash test holds on a disk.
#![expect(
    clippy::disallowed_methods,
    reason = "plants what the storage must cope with"
)]

mod bytes;
mod links;
mod renames;

use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

use super::disk_model::{Draw, MemoryStorage};
use crate::storage::{DiskStorage, FileKind, OpenMode, Storage, StorageFile};

/// Checks a claim on both storages, in an empty directory of each; on the disk by paths, and
/// from the directory.
fn on_both(claim: impl Fn(&dyn Storage, &Path)) {
    let directory = tempfile::tempdir().unwrap();
    claim(&DiskStorage::default(), directory.path());
    let directory = tempfile::tempdir().unwrap();
    claim(&*rooted(directory.path()), directory.path());
    let memory = MemoryStorage::new();
    memory.create_dir(Path::new("/store")).unwrap();
    claim(&memory, Path::new("/store"));
}

/// The disk, with names in `dir` looked up in that directory.
fn rooted(dir: &Path) -> Arc<dyn Storage> {
    DiskStorage::default().rooted(dir).unwrap().unwrap()
}

fn create(storage: &dyn Storage, path: &Path, bytes: &[u8]) -> Arc<dyn StorageFile> {
    let file = storage.open(path, OpenMode::CreateNew).unwrap();
    file.write_all_at(bytes, 0).unwrap();
    file
}

fn contents(file: &dyn StorageFile) -> Vec<u8> {
    let mut bytes = vec![0; file.info().unwrap().len as usize];
    file.read_exact_at(&mut bytes, 0).unwrap();
    bytes
}

fn read(storage: &dyn Storage, path: &Path) -> Vec<u8> {
    contents(&*storage.open(path, OpenMode::Read).unwrap())
}

fn open_error(storage: &dyn Storage, path: &Path, mode: OpenMode) -> std::io::Error {
    storage.open(path, mode).expect_err("must be refused")
}

#[test]
fn a_directory_that_was_replaced_is_not_taken_for_the_one_that_was_opened() {
    let above = tempfile::tempdir().unwrap();
    let (dir, moved) = (above.path().join("store"), above.path().join("moved"));
    std::fs::create_dir(&dir).unwrap();
    let storage = rooted(&dir);
    create(&*storage, &dir.join("a"), b"ours");
    std::fs::rename(&dir, &moved).unwrap();
    std::fs::create_dir(&dir).unwrap();
    storage.rename(&dir.join("a"), &dir.join("b")).unwrap();
    storage.link(&dir.join("b"), &dir.join("c")).unwrap();
    storage.create_dir(&dir.join("d")).unwrap();
    assert_eq!(read(&*storage, &dir.join("c")), b"ours");
    assert_eq!(std::fs::read_dir(&dir).unwrap().count(), 0);
    assert_eq!(std::fs::read_dir(&moved).unwrap().count(), 3);
    std::fs::remove_dir_all(&moved).unwrap();
    let error = open_error(&*storage, &dir.join("e"), OpenMode::CreateNew);
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert_eq!(storage.read_dir(&dir).unwrap().len(), 0);
    storage.open_dir(&dir).unwrap();
}

#[test]
fn a_taken_name_is_not_created_again() {
    on_both(|storage, dir| {
        let (file, directory) = (dir.join("file"), dir.join("directory"));
        create(storage, &file, b"kept");
        storage.create_dir(&directory).unwrap();
        for taken in [&file, &directory] {
            let error = open_error(storage, taken, OpenMode::CreateNew);
            assert_eq!(error.kind(), ErrorKind::AlreadyExists);
            let error = storage.create_dir(taken).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::AlreadyExists);
        }
        assert_eq!(read(storage, &file), b"kept");
    });
}

#[test]
fn a_missing_name_is_not_found() {
    on_both(|storage, dir| {
        let (missing, below) = (dir.join("missing"), dir.join("missing/below"));
        for path in [&missing, &below] {
            for mode in [OpenMode::Read, OpenMode::ReadWrite] {
                assert_eq!(open_error(storage, path, mode).kind(), ErrorKind::NotFound);
            }
            let not_found = [
                storage.info(path).map(drop),
                storage.read_dir(path).map(drop),
                storage.remove_file(path),
                storage.rename(path, &dir.join("other")),
                storage.sync_dir(path),
                storage.sync_all(path),
            ];
            for result in not_found {
                assert_eq!(result.unwrap_err().kind(), ErrorKind::NotFound);
            }
        }
        let error = open_error(storage, &below, OpenMode::CreateNew);
        assert_eq!(error.kind(), ErrorKind::NotFound);
        let error = storage.create_dir(&below).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound);
        let error = storage.try_lock(&below, "").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound);
    });
}

#[test]
fn a_file_is_not_a_directory() {
    on_both(|storage, dir| {
        let file = dir.join("file");
        let below = file.join("below");
        create(storage, &file, b"");
        let not_a_directory = [
            storage.read_dir(&file).map(drop),
            storage.sync_dir(&file),
            storage.info(&below).map(drop),
            storage.create_dir(&below),
            storage.open(&below, OpenMode::CreateNew).map(drop),
            storage.open(&below, OpenMode::Read).map(drop),
        ];
        for result in not_a_directory {
            assert_eq!(result.unwrap_err().kind(), ErrorKind::NotADirectory);
        }
    });
}

#[test]
fn an_over_long_name_is_refused() {
    on_both(|storage, dir| {
        create(storage, &dir.join("n".repeat(255)), b"");
        let error = open_error(storage, &dir.join("n".repeat(256)), OpenMode::CreateNew);
        assert_eq!(error.kind(), ErrorKind::InvalidFilename);
    });
}

#[test]
fn a_directory_has_one_lock_and_no_file_for_it() {
    on_both(|storage, dir| {
        let held = storage.try_lock_dir(dir).unwrap();
        assert!(held.is_some());
        assert!(storage.try_lock_dir(dir).unwrap().is_none());
        drop(held);
        assert!(storage.try_lock_dir(dir).unwrap().is_some());
        assert!(storage.read_dir(dir).unwrap().is_empty());
        create(storage, &dir.join("file"), b"");
        let error = storage.try_lock_dir(&dir.join("file")).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotADirectory);
        let error = storage.try_lock_dir(&dir.join("none")).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound);
    });
}

#[test]
fn a_directory_is_not_opened_or_removed_as_a_file() {
    on_both(|storage, dir| {
        let directory = dir.join("directory");
        storage.create_dir(&directory).unwrap();
        for mode in [OpenMode::Read, OpenMode::ReadWrite] {
            let error = open_error(storage, &directory, mode);
            assert_eq!(error.kind(), ErrorKind::InvalidInput);
            assert!(error.to_string().ends_with("is not a regular file"));
        }
        let error = storage.try_lock(&directory, "").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        let error = storage.remove_file(&directory).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::IsADirectory);
        assert!(storage.read_dir(&directory).unwrap().is_empty());
    });
}

#[test]
fn what_is_created_is_private_and_ours() {
    on_both(|storage, dir| {
        let (file, directory, lock) = (dir.join("f"), dir.join("d"), dir.join("l"));
        let open = create(storage, &file, b"abc");
        storage.create_dir(&directory).unwrap();
        let _held = storage.try_lock(&lock, "").unwrap().unwrap();
        for (path, kind, mode) in [
            (&file, FileKind::File, 0o600),
            (&directory, FileKind::Directory, 0o700),
            (&lock, FileKind::File, 0o600),
        ] {
            let info = storage.info(path).unwrap();
            assert_eq!((info.kind, info.mode), (kind, mode));
            assert_eq!(info.owner, storage.current_user());
        }
        assert_eq!(storage.info(&file).unwrap(), open.info().unwrap());
        assert_eq!(storage.info(&file).unwrap().len, 3);
    });
}

#[test]
fn a_held_lock_is_refused_and_keeps_its_note() {
    on_both(|storage, dir| {
        let path = dir.join("lock");
        let held = storage.try_lock(&path, "a long first note").unwrap();
        assert!(held.is_some());
        assert!(storage.try_lock(&path, "second").unwrap().is_none());
        assert_eq!(read(storage, &path), b"a long first note");
        drop(held);
        let next = storage.try_lock(&path, "next").unwrap();
        assert!(next.is_some());
        assert_eq!(read(storage, &path), b"next");
    });
}

#[test]
fn open_files_are_limited_to_more_than_none() {
    on_both(|storage, _| assert!(storage.open_file_limit() > 0));
}

/// One random call, the same on whichever storage it is made, and what came of
/// it.
fn random_call(storage: &dyn Storage, dir: &Path, draw: &mut Draw) -> String {
    let names = ["a", "b", "d", "d/a", "d/b", "a/x"];
    let path = dir.join(names[draw.up_to(5)]);
    let other = dir.join(names[draw.up_to(5)]);
    let (offset, len) = (draw.up_to(9000) as u64, draw.up_to(5000));
    let bytes = vec![draw.next() as u8; len];
    let open = || storage.open(&path, OpenMode::ReadWrite);
    let result = match draw.up_to(10) {
        0 | 1 => storage.open(&path, OpenMode::CreateNew).map(|_| 0),
        2 => storage.create_dir(&path).map(|()| 0),
        3 => storage.rename(&path, &other).map(|()| 0),
        4 => storage.remove_file(&path).map(|()| 0),
        5 => open().and_then(|f| f.set_len(offset)).map(|()| 0),
        6 => open().and_then(|f| f.sync_data()).map(|()| 0),
        7 => storage.info(&path).map(|info| info.len),
        8 => storage.remove_dir(&path).map(|()| 0),
        _ => open()
            .and_then(|f| f.write_at(&bytes, offset))
            .map(|n| n as u64),
    };
    let result = result.map_err(|e| e.kind());
    match storage.info(&path) {
        // The size of a directory is the file system's own business.
        Ok(info) if info.kind == FileKind::Directory => format!("{path:?} directory"),
        Ok(_) => format!(
            "{path:?} {result:?} {:?}",
            open().map(|f| crc32fast::hash(&contents(&*f))).ok()
        ),
        Err(e) => format!("{path:?} {result:?} {:?}", e.kind()),
    }
}

#[test]
fn any_history_of_calls_has_the_same_outcome() {
    for seed in 0..40 {
        let directory = tempfile::tempdir().unwrap();
        let memory = MemoryStorage::new();
        // The same absolute path on both makes the same text of every outcome.
        memory
            .write_foreign(directory.path().join("seed"), b"")
            .unwrap();
        std::fs::write(directory.path().join("seed"), b"").unwrap();
        let (mut left, mut right) = (Draw::new(seed), Draw::new(seed));
        for call in 0..150 {
            assert_eq!(
                random_call(&DiskStorage::default(), directory.path(), &mut left),
                random_call(&memory, directory.path(), &mut right),
                "call {call} of seed {seed}: {:?}",
                memory.last_calls(4)
            );
        }
    }
}
