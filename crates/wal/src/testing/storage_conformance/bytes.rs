//! What is in a file.

use std::io::ErrorKind;

use super::{contents, create, on_both, read};
use crate::storage::OpenMode;

#[test]
fn what_is_written_is_read_back_at_any_offset() {
    on_both(|storage, dir| {
        let file = create(storage, &dir.join("a"), b"hello world");
        file.write_all_at(b"there", 6).unwrap();
        let mut buf = [0; 8];
        assert_eq!(file.read_at(&mut buf, 6).unwrap(), 5);
        assert_eq!(&buf[..5], b"there");
        assert_eq!(file.read_at(&mut buf, 11).unwrap(), 0);
        assert_eq!(file.read_at(&mut buf, 1000).unwrap(), 0);
        let past = file.read_exact_at(&mut buf, 6).unwrap_err();
        assert_eq!(past.kind(), ErrorKind::UnexpectedEof);
    });
}

#[test]
fn a_write_past_the_end_leaves_zeros_between() {
    on_both(|storage, dir| {
        let file = create(storage, &dir.join("a"), b"ab");
        file.write_all_at(b"z", 5000).unwrap();
        let bytes = contents(&*file);
        assert_eq!(bytes.len(), 5001);
        assert_eq!(&bytes[..2], b"ab");
        assert!(bytes[2..5000].iter().all(|b| *b == 0));
        assert_eq!(bytes[5000], b'z');
    });
}

#[test]
fn an_empty_write_changes_nothing() {
    on_both(|storage, dir| {
        let file = create(storage, &dir.join("a"), b"ab");
        assert_eq!(file.write_at(b"", 100).unwrap(), 0);
        assert_eq!(contents(&*file), b"ab");
    });
}

#[test]
fn a_cut_file_grows_again_with_zeros() {
    on_both(|storage, dir| {
        let file = create(storage, &dir.join("a"), b"secret");
        file.set_len(2).unwrap();
        assert_eq!(contents(&*file), b"se");
        file.set_len(6).unwrap();
        assert_eq!(contents(&*file), b"se\0\0\0\0");
    });
}

#[test]
fn an_open_file_sees_what_another_open_of_it_wrote() {
    on_both(|storage, dir| {
        let path = dir.join("a");
        let writer = create(storage, &path, b"one");
        let reader = storage.open(&path, OpenMode::Read).unwrap();
        writer.write_all_at(b"two", 3).unwrap();
        assert_eq!(contents(&*reader), b"onetwo");
        assert_eq!(reader.info().unwrap().inode, writer.info().unwrap().inode);
    });
}

#[test]
fn a_file_opened_for_reading_is_not_written() {
    on_both(|storage, dir| {
        let path = dir.join("a");
        create(storage, &path, b"kept");
        let reader = storage.open(&path, OpenMode::Read).unwrap();
        assert!(reader.write_at(b"x", 0).is_err());
        assert!(reader.set_len(0).is_err());
        assert_eq!(read(storage, &path), b"kept");
    });
}

#[test]
fn a_copy_has_the_bytes_asked_for_and_no_more() {
    on_both(|storage, dir| {
        let bytes = vec![b'x'; (3 << 20) + 5];
        let from = create(storage, &dir.join("from"), &bytes);
        for len in [0, 1, 1 << 20, bytes.len() as u64] {
            let name = dir.join(format!("to {len}"));
            let to = create(storage, &name, b"");
            from.copy_to(&*to, len).unwrap();
            assert_eq!(contents(&*to), bytes[..len as usize]);
        }
        let to = create(storage, &dir.join("short"), b"");
        let past = from.copy_to(&*to, bytes.len() as u64 + 1).unwrap_err();
        assert_eq!(past.kind(), ErrorKind::UnexpectedEof);
    });
}

#[test]
fn a_removed_file_stays_usable_while_open() {
    on_both(|storage, dir| {
        let path = dir.join("a");
        let file = create(storage, &path, b"still");
        storage.remove_file(&path).unwrap();
        let another = create(storage, &path, b"another");
        file.write_all_at(b" here", 5).unwrap();
        file.sync_data().unwrap();
        assert_eq!(contents(&*file), b"still here");
        assert_eq!(read(storage, &path), b"another");
        assert_ne!(file.info().unwrap().inode, another.info().unwrap().inode);
    });
}

#[test]
fn syncing_changes_nothing_that_is_seen() {
    on_both(|storage, dir| {
        let file = create(storage, &dir.join("a"), b"seen");
        file.sync_data().unwrap();
        storage.sync_dir(dir).unwrap();
        storage.sync_all(dir).unwrap();
        assert_eq!(contents(&*file), b"seen");
    });
}
