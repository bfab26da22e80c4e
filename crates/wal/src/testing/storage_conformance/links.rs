//! Names of which one is another, symbolic or not.
#![expect(
    clippy::disallowed_methods,
    reason = "plants what the storage must cope with"
)]

use std::io::ErrorKind;
use std::path::Path;

use super::{create, on_both, open_error, read};
use crate::storage::{DiskStorage, FileKind, OpenMode, Storage};
use crate::testing::disk_model::MemoryStorage;

/// Plants a link to an existing file in both storages, then checks the claim.
fn with_a_link(claim: impl Fn(&dyn Storage, &Path)) {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("target"), b"target").unwrap();
    std::os::unix::fs::symlink("target", directory.path().join("link")).unwrap();
    claim(&DiskStorage::default(), directory.path());
    let memory = MemoryStorage::new();
    memory.write_foreign("/store/target", b"target").unwrap();
    memory.link_foreign("/store/link").unwrap();
    claim(&memory, Path::new("/store"));
}

#[test]
fn a_symbolic_link_is_never_followed() {
    with_a_link(|storage, dir| {
        let link = dir.join("link");
        for mode in [OpenMode::Read, OpenMode::ReadWrite] {
            let error = open_error(storage, &link, mode);
            assert_eq!(error.kind(), ErrorKind::InvalidInput);
            assert!(error.to_string().ends_with("is not a regular file"));
        }
        let error = open_error(storage, &link, OpenMode::CreateNew);
        assert_eq!(error.kind(), ErrorKind::AlreadyExists);
        let error = storage.try_lock(&link, "mine").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        assert_eq!(storage.info(&link).unwrap().kind, FileKind::Symlink);
        assert_eq!(read(storage, &dir.join("target")), b"target");
    });
}

#[test]
fn replacing_or_removing_a_symbolic_link_spares_its_target() {
    with_a_link(|storage, dir| {
        create(storage, &dir.join("new"), b"new");
        storage.rename(&dir.join("new"), &dir.join("link")).unwrap();
        assert_eq!(read(storage, &dir.join("link")), b"new");
        storage.remove_file(&dir.join("link")).unwrap();
        assert_eq!(read(storage, &dir.join("target")), b"target");
    });
}

#[test]
fn a_directory_lists_every_name_with_its_kind() {
    with_a_link(|storage, dir| {
        storage.create_dir(&dir.join("directory")).unwrap();
        let mut entries = storage.read_dir(dir).unwrap();
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        let entries: Vec<_> = entries.iter().map(|e| (e.name.as_str(), e.kind)).collect();
        let expected = [
            ("directory", FileKind::Directory),
            ("link", FileKind::Symlink),
            ("target", FileKind::File),
        ];
        assert_eq!(entries, expected);
    });
}

#[test]
fn a_link_is_the_same_file_until_one_of_its_names_is_given_away() {
    on_both(|storage, dir| {
        let (file, link) = (dir.join("file"), dir.join("link"));
        create(storage, &file, b"old");
        create(storage, &dir.join("next"), b"new");
        storage.link(&file, &link).unwrap();
        let taken = storage.link(&file, &link).unwrap_err();
        assert_eq!(taken.kind(), ErrorKind::AlreadyExists);
        let inode = |path| storage.info(path).unwrap().inode;
        assert_eq!(inode(&file), inode(&link));
        storage.rename(&dir.join("next"), &file).unwrap();
        assert_eq!(read(storage, &link), b"old");
        assert_eq!(read(storage, &file), b"new");
        let missing = storage.link(&dir.join("none"), &dir.join("any"));
        assert_eq!(missing.unwrap_err().kind(), ErrorKind::NotFound);
    });
}
