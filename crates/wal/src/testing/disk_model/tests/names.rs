//! Names: what a crash may leave of creations, renames and removals.

use std::collections::BTreeSet;
use std::path::Path;

use super::{after, create, images, rename, root, settle};
use crate::storage::Storage;
use crate::testing::disk_model::{Image, MemoryStorage};

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
