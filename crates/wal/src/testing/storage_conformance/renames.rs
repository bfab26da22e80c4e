//! Names that change.

use std::io::ErrorKind;

use super::{contents, create, on_both, read};

#[test]
fn a_rename_replaces_and_open_files_keep_what_they_had() {
    on_both(|storage, dir| {
        let (old, new) = (dir.join("old"), dir.join("new"));
        let replaced = create(storage, &new, b"replaced");
        let moved = create(storage, &old, b"moved");
        storage.rename(&old, &new).unwrap();
        assert_eq!(storage.info(&old).unwrap_err().kind(), ErrorKind::NotFound);
        assert_eq!(read(storage, &new), b"moved");
        assert_eq!(contents(&*replaced), b"replaced");
        moved.write_all_at(b"!", 5).unwrap();
        assert_eq!(read(storage, &new), b"moved!");
        let now = storage.info(&new).unwrap().inode;
        assert_eq!(now, moved.info().unwrap().inode);
        assert_ne!(now, replaced.info().unwrap().inode);
    });
}

#[test]
fn a_rename_onto_itself_changes_nothing() {
    on_both(|storage, dir| {
        let path = dir.join("a");
        create(storage, &path, b"kept");
        storage.rename(&path, &path).unwrap();
        assert_eq!(read(storage, &path), b"kept");
    });
}

#[test]
fn a_rename_reaches_into_another_directory() {
    on_both(|storage, dir| {
        let inner = dir.join("inner");
        storage.create_dir(&inner).unwrap();
        create(storage, &dir.join("a"), b"moved");
        storage.rename(&dir.join("a"), &inner.join("b")).unwrap();
        assert_eq!(read(storage, &inner.join("b")), b"moved");
        storage.rename(&inner, &dir.join("outer")).unwrap();
        assert_eq!(read(storage, &dir.join("outer/b")), b"moved");
    });
}

#[test]
fn a_rename_does_not_mix_files_and_directories() {
    on_both(|storage, dir| {
        let (file, directory) = (dir.join("file"), dir.join("directory"));
        create(storage, &file, b"");
        storage.create_dir(&directory).unwrap();
        let error = storage.rename(&file, &directory).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::IsADirectory);
        let error = storage.rename(&directory, &file).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotADirectory);
        let full = dir.join("full");
        storage.create_dir(&full).unwrap();
        create(storage, &full.join("a"), b"");
        let error = storage.rename(&directory, &full).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::DirectoryNotEmpty);
        let error = storage.rename(&full, &full.join("below")).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        storage.rename(&full, &directory).unwrap();
        assert_eq!(read(storage, &directory.join("a")), b"");
    });
}

#[test]
fn a_directory_is_removed_when_it_is_empty() {
    on_both(|storage, dir| {
        let inner = dir.join("inner");
        storage.create_dir(&inner).unwrap();
        create(storage, &inner.join("a"), b"");
        let error = storage.remove_dir(&inner).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::DirectoryNotEmpty);
        let error = storage.remove_dir(&inner.join("a")).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotADirectory);
        storage.remove_file(&inner.join("a")).unwrap();
        storage.remove_dir(&inner).unwrap();
        for gone in [&inner, &dir.join("never")] {
            let error = storage.remove_dir(gone).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::NotFound);
        }
    });
}
