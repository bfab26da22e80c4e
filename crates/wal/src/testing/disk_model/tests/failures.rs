//! Calls that fail, and a disk that is full.

use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

use super::{POWER_LOSS, after, create, images, root, settle};
use crate::storage::{Storage, StorageFile};
use crate::testing::disk_model::{Fault, Image, MemoryStorage, Repeat, SyncFault};

#[test]
fn a_planned_fault_strikes_its_step_once() {
    let storage = MemoryStorage::new();
    let file = create(&storage, "a", b"");
    storage.fail_at(storage.steps() + 1, Fault::Eio, Repeat::Once);
    file.write_all_at(b"1", 0).unwrap();
    let error = file.write_all_at(b"2", 1).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(5));
    file.write_all_at(b"3", 1).unwrap();
    assert_eq!(storage.read_foreign("a").unwrap(), b"13");
    assert_eq!(storage.faults_hit(), 1);
}

#[test]
fn a_lasting_fault_strikes_until_healed() {
    let storage = MemoryStorage::new();
    let file = create(&storage, "a", b"kept");
    storage.fail_at(0, Fault::Enospc, Repeat::Forever);
    for _ in 0..3 {
        let error = file.write_all_at(b"x", 4).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::StorageFull);
    }
    assert_eq!(file.info().unwrap().len, 4);
    assert_eq!(file.read_at(&mut [0; 8], 0).unwrap(), 4);
    storage.remove_file(Path::new("a")).unwrap();
    storage.heal();
    file.write_all_at(b"x", 4).unwrap();
    assert_eq!(storage.faults_hit(), 3);
}

#[test]
fn short_and_interrupted_transfers_are_finished_by_the_callers_loop() {
    for fault in [Fault::Short, Fault::Interrupted] {
        let storage = MemoryStorage::new();
        let file = create(&storage, "a", b"");
        storage.fail_at(0, fault, Repeat::Forever);
        file.write_all_at(b"all of this", 0).unwrap();
        let mut bytes = [0; 11];
        file.read_exact_at(&mut bytes, 0).unwrap();
        assert_eq!(&bytes, b"all of this");
        assert!(storage.faults_hit() > 1, "{fault:?}");
    }
}

#[test]
fn a_short_write_does_half() {
    let storage = MemoryStorage::new();
    let file = create(&storage, "a", b"");
    storage.fail_at(storage.steps(), Fault::Short, Repeat::Once);
    assert_eq!(file.write_at(b"abcd", 0).unwrap(), 2);
    assert_eq!(storage.read_foreign("a").unwrap(), b"ab");
}

/// A file with `old` on the disk and `new` written, whose sync then fails.
fn failed_sync(fault: SyncFault) -> (MemoryStorage, Arc<dyn StorageFile>) {
    let storage = MemoryStorage::new();
    let file = settle(&storage, "a", b"old");
    file.write_all_at(b"new, longer", 0).unwrap();
    storage.on_sync_failure(fault);
    storage.fail_at(storage.steps(), Fault::Eio, Repeat::Once);
    assert!(file.sync_data().is_err());
    (storage, file)
}

#[test]
fn a_retried_sync_does_not_write_what_the_failed_one_lost() {
    let (storage, file) = failed_sync(SyncFault::CleanPageStaleDisk);
    assert_eq!(storage.read_foreign("a").unwrap(), b"new, longer");
    file.sync_data().unwrap();
    storage.sync_all(root()).unwrap();
    assert_eq!(storage.read_foreign("a").unwrap(), b"new, longer");
    for image in POWER_LOSS {
        assert_eq!(after(&storage, image, "a").unwrap(), b"old", "{image:?}");
    }
}

#[test]
fn rewriting_a_page_after_a_failed_sync_writes_the_whole_page() {
    let (storage, file) = failed_sync(SyncFault::CleanPageStaleDisk);
    file.write_all_at(b"!", 11).unwrap();
    for image in images(50) {
        let bytes = after(&storage, image, "a").unwrap();
        let known = [
            &b"old"[..],
            b"new, longer!",
            b"new",
            b"old\0\0\0\0\0\0\0\0\0",
        ];
        assert!(known.contains(&&bytes[..]), "{image:?}: {bytes:?}");
    }
    file.sync_data().unwrap();
    assert_eq!(
        after(&storage, Image::AllLost, "a").unwrap(),
        b"new, longer!"
    );
}

#[test]
fn a_page_lost_by_a_failed_sync_stays_lost_beside_one_written_later() {
    let storage = MemoryStorage::new();
    let file = settle(&storage, "a", b"");
    file.write_all_at(&[1; 4096], 0).unwrap();
    storage.fail_at(storage.steps(), Fault::Eio, Repeat::Once);
    assert!(file.sync_data().is_err());
    file.write_all_at(&[2; 4096], 4096).unwrap();
    file.sync_data().unwrap();
    let bytes = after(&storage, Image::AllKept, "a").unwrap();
    assert_eq!(bytes[..4096], [0; 4096]);
    assert_eq!(bytes[4096..], [2; 4096]);
}

#[test]
fn a_failed_sync_can_take_back_what_was_written() {
    let (storage, file) = failed_sync(SyncFault::ContentReverted);
    assert_eq!(storage.read_foreign("a").unwrap(), b"old");
    assert_eq!(file.info().unwrap().len, 3);
    for image in POWER_LOSS {
        assert_eq!(after(&storage, image, "a").unwrap(), b"old");
    }
}

#[test]
fn a_failed_sync_can_have_landed() {
    let (storage, _file) = failed_sync(SyncFault::ReportedFailedButLanded);
    for image in POWER_LOSS {
        assert_eq!(after(&storage, image, "a").unwrap(), b"new, longer");
    }
}

#[test]
fn a_failed_directory_sync_leaves_names_as_its_mode_says() {
    for (fault, seen, kept) in [
        (SyncFault::CleanPageStaleDisk, true, false),
        (SyncFault::ContentReverted, false, false),
        (SyncFault::ReportedFailedButLanded, true, true),
    ] {
        let storage = MemoryStorage::new();
        create(&storage, "a", b"").sync_data().unwrap();
        storage.on_sync_failure(fault);
        // The directory is opened first.
        storage.fail_at(storage.steps() + 1, Fault::Eio, Repeat::Once);
        assert!(storage.sync_dir(root()).is_err());
        storage.sync_dir(root()).unwrap();
        assert_eq!(storage.read_foreign("a").is_some(), seen, "{fault:?}");
        let left = after(&storage, Image::AllKept, "a");
        assert_eq!(left.is_some(), kept, "{fault:?}");
    }
}

#[test]
fn a_full_disk_takes_what_fits_and_heals_with_space() {
    let storage = MemoryStorage::new();
    let file = create(&storage, "a", b"12345");
    let other = create(&storage, "b", b"12");
    storage.capacity(10);
    assert_eq!(file.write_at(b"6789", 5).unwrap(), 3);
    let error = file.write_at(b"9", 8).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::StorageFull);
    let error = file.set_len(9).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::StorageFull);
    assert_eq!(
        file.write_at(b"xx", 0).unwrap(),
        2,
        "overwriting takes none"
    );
    storage.remove_file(Path::new("b")).unwrap();
    assert!(
        file.write_at(b"9", 8).is_err(),
        "an open file keeps its space"
    );
    drop(other);
    assert_eq!(file.write_at(b"9", 8).unwrap(), 1);
    file.set_len(1).unwrap();
    create(&storage, "c", b"123456789");
    assert_eq!(storage.dump().values().map(Vec::len).sum::<usize>(), 10);
}

#[test]
fn a_full_disk_can_be_locked() {
    let storage = MemoryStorage::new();
    storage.capacity(0);
    let held = storage.try_lock(Path::new("lock"), "note").unwrap();
    assert!(held.is_some());
}
