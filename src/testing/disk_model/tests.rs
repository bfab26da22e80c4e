//! What a crash may and may not leave.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

use super::draw::Draw;
use super::{Fault, Image, MemoryStorage, Repeat, SyncFault};
use crate::ground::storage::{OpenMode, Storage, StorageDir, StorageFile};

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
fn a_synced_file_without_a_directory_sync_can_lose_its_name() {
    let storage = MemoryStorage::new();
    create(&storage, "a", b"bytes").sync_data().unwrap();
    assert_eq!(after(&storage, Image::AllLost, "a"), None);
    assert_eq!(after(&storage, Image::DataWithoutName, "a"), None);
    storage.sync_dir(root()).unwrap();
    for image in images(50) {
        let found = after(&storage, image, "a");
        assert_eq!(found.as_deref(), Some(&b"bytes"[..]), "{image:?}");
    }
}

#[test]
fn a_synced_name_does_not_sync_its_bytes() {
    let storage = MemoryStorage::new();
    create(&storage, "a", b"bytes");
    storage.sync_dir(root()).unwrap();
    assert_eq!(after(&storage, Image::AllLost, "a").unwrap(), b"");
    assert_eq!(
        after(&storage, Image::SizeWithoutData, "a").unwrap(),
        b"\0\0\0\0\0"
    );
    assert_eq!(after(&storage, Image::AllKept, "a").unwrap(), b"bytes");
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
fn an_unsynced_rename_is_there_wholly_or_not() {
    let storage = MemoryStorage::new();
    settle(&storage, "a", b"old");
    settle(&storage, "b", b"new");
    rename(&storage, "b", "a");
    let mut seen = BTreeSet::new();
    for image in images(50) {
        let left = storage.image(image);
        let state = (left.read_foreign("a").unwrap(), left.read_foreign("b"));
        let whole = state == (b"new".to_vec(), None);
        let not = state == (b"old".to_vec(), Some(b"new".to_vec()));
        assert!(whole || not, "{image:?}: {state:?}");
        seen.insert(whole);
    }
    assert_eq!(seen.len(), 2);
}

#[test]
fn a_rename_across_directories_never_loses_the_file() {
    for synced in [None, Some("from"), Some("to")] {
        let storage = MemoryStorage::new();
        storage.create_dir(Path::new("from")).unwrap();
        storage.create_dir(Path::new("to")).unwrap();
        settle(&storage, "from/a", b"bytes");
        rename(&storage, "from/a", "to/b");
        if let Some(directory) = synced {
            storage.sync_dir(Path::new(directory)).unwrap();
        }
        for image in images(50) {
            let files: Vec<_> = storage.image(image).dump().into_keys().collect();
            assert_eq!(files.len(), 1, "{image:?}");
            assert!(synced.is_none() || files == ["to/b"], "{image:?}");
        }
    }
}

#[test]
fn syncing_a_directory_settles_what_its_names_build_on() {
    let storage = MemoryStorage::new();
    storage.create_dir(Path::new("from")).unwrap();
    storage.create_dir(Path::new("to")).unwrap();
    storage.sync_all(root()).unwrap();
    create(&storage, "from/a", b"bytes").sync_data().unwrap();
    rename(&storage, "from/a", "to/b");
    storage.sync_dir(Path::new("to")).unwrap();
    for image in images(50) {
        let files: Vec<_> = storage.image(image).dump().into_keys().collect();
        assert_eq!(files, ["to/b"], "{image:?}");
    }
}

#[test]
fn a_rename_can_land_before_the_bytes_it_names() {
    let storage = MemoryStorage::new();
    settle(&storage, "a", b"old");
    create(&storage, "a.tmp", b"new");
    rename(&storage, "a.tmp", "a");
    storage.sync_dir(root()).unwrap();
    assert_eq!(after(&storage, Image::AllLost, "a").unwrap(), b"");
}

#[test]
fn a_removal_that_was_not_synced_can_be_taken_back() {
    let storage = MemoryStorage::new();
    settle(&storage, "a", b"bytes");
    storage.remove_file(Path::new("a")).unwrap();
    assert_eq!(after(&storage, Image::AllLost, "a").unwrap(), b"bytes");
    assert_eq!(after(&storage, Image::AllKept, "a"), None);
    storage.sync_dir(root()).unwrap();
    assert_eq!(after(&storage, Image::AllLost, "a"), None);
}

#[test]
fn names_in_one_directory_can_land_out_of_order() {
    let storage = MemoryStorage::new();
    create(&storage, "first", b"");
    create(&storage, "second", b"");
    let reordered = |image| {
        let names = storage.image(image).dump();
        names.contains_key("second") && !names.contains_key("first")
    };
    assert!(reordered(Image::Reversed));
    assert!((0..100).map(Image::Random).any(reordered));
}

#[test]
fn the_history_of_one_name_lands_in_order() {
    let storage = MemoryStorage::new();
    settle(&storage, "a", b"0");
    for n in [b"1", b"2", b"3"] {
        create(&storage, "tmp", n).sync_data().unwrap();
        rename(&storage, "tmp", "a");
    }
    let mut seen = BTreeSet::new();
    for image in images(300) {
        let left = storage.image(image);
        let named = left.read_foreign("a").unwrap();
        let awaited = left.read_foreign("tmp");
        // A temporary file is there exactly between its creation and renaming.
        assert!(awaited.is_none_or(|next| next[0] == named[0] + 1));
        seen.insert(named);
    }
    assert_eq!(seen.len(), 4, "every moment of the name's history is seen");
}

#[test]
fn what_lies_in_a_lost_directory_is_lost() {
    let storage = MemoryStorage::new();
    storage.create_dir(Path::new("d")).unwrap();
    create(&storage, "d/a", b"bytes").sync_data().unwrap();
    storage.sync_dir(Path::new("d")).unwrap();
    let left = storage.image(Image::AllLost);
    assert!(left.dump().is_empty());
    left.create_dir(Path::new("d")).unwrap();
    assert!(left.read_dir(Path::new("d")).unwrap().is_empty());
}

#[test]
fn a_write_of_many_sectors_can_tear_anywhere() {
    let storage = MemoryStorage::new();
    let file = settle(&storage, "a", &[1; 8 * 512]);
    file.write_all_at(&[2; 8 * 512], 0).unwrap();
    let mut torn = BTreeSet::new();
    for seed in 0..200 {
        let bytes = after(&storage, Image::Random(seed), "a").unwrap();
        for sector in bytes.chunks(512) {
            assert!(sector.iter().all(|b| *b == sector[0]), "a sector is whole");
        }
        let sectors: Vec<u8> = bytes.chunks(512).map(|sector| sector[0]).collect();
        if sectors.contains(&1) && sectors.contains(&2) {
            torn.insert(sectors);
        }
    }
    assert!(
        torn.iter()
            .any(|sectors| sectors[0] == 1 && sectors[7] == 2)
    );
    assert!(
        torn.iter()
            .any(|sectors| sectors[0] == 2 && sectors[7] == 1)
    );
    assert!(torn.len() > 20, "only {} ways to tear", torn.len());
}

#[test]
fn a_sector_can_be_as_it_was_after_any_of_its_writes() {
    let storage = MemoryStorage::new();
    let file = settle(&storage, "a", b"0");
    for n in [b"1", b"2", b"3"] {
        file.write_all_at(n, 0).unwrap();
    }
    let versions = (0..300).map(|seed| after(&storage, Image::Random(seed), "a").unwrap());
    let seen: BTreeSet<_> = versions.collect();
    let all: BTreeSet<_> = [b"0", b"1", b"2", b"3"].map(|v| v.to_vec()).into();
    assert_eq!(seen, all);
}

#[test]
fn an_append_can_leave_zeros_or_nothing_or_a_part() {
    let storage = MemoryStorage::new();
    let file = settle(&storage, "a", &[1; 100]);
    file.write_all_at(&[2; 2000], 100).unwrap();
    assert_eq!(after(&storage, Image::AllLost, "a").unwrap(), [1; 100]);
    let zeros = after(&storage, Image::SizeWithoutData, "a").unwrap();
    assert_eq!(zeros[..100], [1; 100]);
    assert_eq!(zeros[100..], [0; 2000]);
    for seed in 0..100 {
        let bytes = after(&storage, Image::Random(seed), "a").unwrap();
        assert_eq!(bytes[..100], [1; 100], "old bytes stay, seed {seed}");
        assert!(bytes[100..].iter().all(|b| *b == 2 || *b == 0));
    }
}

#[test]
fn the_last_write_can_land_without_the_one_before() {
    let storage = MemoryStorage::new();
    let file = settle(&storage, "a", b"");
    file.write_all_at(&[1; 512], 0).unwrap();
    file.write_all_at(&[2; 512], 512).unwrap();
    for image in [Image::LastWriteOnly, Image::Reversed] {
        let bytes = after(&storage, image, "a").unwrap();
        assert_eq!(bytes[..512], [0; 512], "{image:?}");
        assert_eq!(bytes[512..], [2; 512], "{image:?}");
    }
}

#[test]
fn changes_of_one_file_can_land_before_earlier_ones_of_another() {
    let storage = MemoryStorage::new();
    let journal = settle(&storage, "journal", b"");
    let session = settle(&storage, "session", b"");
    journal.write_all_at(b"record", 0).unwrap();
    session.write_all_at(b"line", 0).unwrap();
    assert_eq!(after(&storage, Image::Reversed, "journal").unwrap(), b"");
    assert_eq!(
        after(&storage, Image::Reversed, "session").unwrap(),
        b"line"
    );
}

#[test]
fn a_synced_cut_never_comes_back() {
    let storage = MemoryStorage::new();
    let file = settle(&storage, "a", &[1; 3000]);
    file.set_len(10).unwrap();
    file.sync_data().unwrap();
    file.set_len(3000).unwrap();
    for image in images(50) {
        let bytes = after(&storage, image, "a").unwrap();
        assert_eq!(bytes[..10], [1; 10], "{image:?}");
        assert!(bytes[10..].iter().all(|b| *b == 0), "{image:?}");
    }
}

#[test]
fn an_unsynced_cut_can_come_back() {
    let storage = MemoryStorage::new();
    let file = settle(&storage, "a", b"removed");
    file.set_len(0).unwrap();
    assert_eq!(after(&storage, Image::AllLost, "a").unwrap(), b"removed");
    assert_eq!(after(&storage, Image::AllKept, "a").unwrap(), b"");
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

/// A random history of one file; each sync makes what came before certain.
#[test]
fn no_image_loses_a_synced_byte_or_invents_one() {
    for seed in 0..60 {
        let mut draw = Draw::new(seed);
        let storage = MemoryStorage::new();
        let file = settle(&storage, "a", b"");
        let mut certain = 0;
        for value in 1..=20_u8 {
            let len = file.info().unwrap().len;
            file.write_all_at(&vec![value; 1 + draw.up_to(3000)], len)
                .unwrap();
            if draw.next().is_multiple_of(6) {
                file.sync_data().unwrap();
                certain = file.info().unwrap().len as usize;
            }
        }
        let all = storage.read_foreign("a").unwrap();
        for image in images(20) {
            let left = after(&storage, image, "a").unwrap();
            assert_eq!(left[..certain], all[..certain], "{seed} {image:?}");
            let mut rest = left[certain..].iter().zip(&all[certain..]);
            assert!(rest.all(|(l, a)| l == a || *l == 0), "{seed} {image:?}");
        }
    }
}

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
