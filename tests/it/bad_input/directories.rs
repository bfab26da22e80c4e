//! Directories that no store opens.

use std::os::unix::fs::{PermissionsExt, chown, symlink};

use sessionlog::backend::open_session_store_with;
use sessionlog::{Error, RepairOptions, Store};

use crate::support::{add_numbers, files, line, manual, numbers, open, scratch, texts};

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

fn refused(result: sessionlog::Result<Store>) -> String {
    match result {
        Err(error @ Error::Io { .. }) => error.to_string(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_file_is_no_directory() {
    let outer = scratch();
    let path = outer.path().join("file");
    std::fs::write(&path, "mine").unwrap();
    assert!(refused(Store::open(&path)).contains("file"));
    refused(Store::open_read_only(&path));
    refused(Store::open(path.join("below")));
    assert_eq!(std::fs::read(&path).unwrap(), b"mine");
}

#[test]
fn a_symbolic_link_is_not_followed() {
    let outer = scratch();
    let real = outer.path().join("real");
    std::fs::create_dir(&real).unwrap();
    symlink(&real, outer.path().join("link")).unwrap();
    assert!(refused(Store::open(outer.path().join("link"))).contains("symbolic link"));
    symlink(outer.path().join("nowhere"), outer.path().join("dangling")).unwrap();
    refused(Store::open(outer.path().join("dangling")));
    assert!(files(&real).is_empty());
    assert!(!outer.path().join("nowhere").exists());
}

#[test]
fn a_directory_of_another_user_is_refused() {
    if !is_root() {
        println!("skipped: only root can give a directory away");
        return;
    }
    let outer = scratch();
    let dir = outer.path().join("theirs");
    std::fs::create_dir(&dir).unwrap();
    chown(&dir, Some(12_345), None).unwrap();
    assert!(refused(Store::open(&dir)).contains("another user"));
    assert!(files(&dir).is_empty());
    chown(&dir, Some(0), None).unwrap();
    open(&dir).close().unwrap();
    chown(dir.join(".sessionlog"), Some(12_345), None).unwrap();
    assert!(refused(Store::open(&dir)).contains("another user"));
}

/// As volumes are that a group shares.
#[test]
fn a_directory_of_another_user_is_accepted_where_that_is_asked_for() {
    if !is_root() {
        println!("skipped: only root can give a directory away");
        return;
    }
    let outer = scratch();
    let dir = outer.path().join("theirs");
    std::fs::create_dir(&dir).unwrap();
    chown(&dir, Some(12_345), None).unwrap();
    let options = || manual().allow_other_owner(true);
    for round in 0..2 {
        let store = Store::open_with(&dir, options()).unwrap();
        assert_eq!(texts(&store.handle(), "cli"), numbers(0..round));
        add_numbers(&store.handle(), "cli", round..round + 1);
        store.close().unwrap();
        chown(dir.join(".sessionlog"), Some(12_345), None).unwrap();
    }
    let store = open_session_store_with(&dir, options()).unwrap();
    assert_eq!(store.history("cli").wait().unwrap().len(), 2);
    store.close().wait().unwrap();
    assert!(Store::repair(&dir, RepairOptions::new()).is_err());
    Store::repair(&dir, RepairOptions::new().allow_other_owner(true)).unwrap();
    symlink(&dir, outer.path().join("link")).unwrap();
    refused(Store::open_with(outer.path().join("link"), options()));
}

#[test]
fn a_directory_that_cannot_be_written_is_refused_and_reads_all_the_same() {
    if is_root() {
        println!("skipped: root can write everywhere");
        return;
    }
    let outer = scratch();
    let dir = outer.path().join("frozen");
    std::fs::create_dir(&dir).unwrap();
    std::fs::write(dir.join("cli.jsonl"), line("0")).unwrap();
    let set_mode = |mode| {
        std::fs::set_permissions(&dir, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    set_mode(0o500);
    refused(Store::open(&dir));
    let store = Store::open_read_only(&dir).unwrap();
    assert_eq!(texts(&store.handle(), "cli"), ["0"]);
    set_mode(0o700);
}

#[test]
fn a_second_writer_in_the_same_process_is_refused_until_the_first_has_closed() {
    let dir = scratch();
    let first = open(dir.path());
    add_numbers(&first.handle(), "cli", 0..1);
    let Err(Error::Locked { path, pid }) = Store::open(dir.path()) else {
        panic!("two writers of one directory");
    };
    assert_eq!(
        (path.as_path(), pid),
        (dir.path(), Some(std::process::id()))
    );
    add_numbers(&first.handle(), "cli", 1..2);
    first.close().unwrap();
    let second = open(dir.path());
    assert_eq!(texts(&second.handle(), "cli"), numbers(0..2));
    second.close().unwrap();
}

#[test]
fn a_directory_that_is_missing_is_made_to_write_and_missed_to_read() {
    let outer = scratch();
    let dir = outer.path().join("a/b/c");
    refused(Store::open_read_only(&dir));
    assert!(!outer.path().join("a").exists());
    let store = open(&dir);
    add_numbers(&store.handle(), "cli", 0..1);
    store.close().unwrap();
    assert!(dir.join("cli.jsonl").exists());
}

#[test]
fn what_else_lies_in_the_directory_is_left_alone() {
    use std::os::unix::ffi::OsStrExt;
    let dir = scratch();
    let odd_name = std::ffi::OsStr::from_bytes(b"\xff\xfe.jsonl");
    std::fs::write(dir.path().join(odd_name), b"x").unwrap();
    std::fs::write(dir.path().join("notes.txt"), b"mine").unwrap();
    std::fs::write(dir.path().join(".hidden.tmp"), b"mine").unwrap();
    let store = open(dir.path());
    let chats = store.handle();
    assert!(chats.list_sessions().wait().unwrap().is_empty());
    add_numbers(&chats, "cli", 0..2);
    store.close().unwrap();
    assert_eq!(std::fs::read(dir.path().join(odd_name)).unwrap(), b"x");
    assert_eq!(
        std::fs::read(dir.path().join("notes.txt")).unwrap(),
        b"mine"
    );
    assert_eq!(
        std::fs::read(dir.path().join(".hidden.tmp")).unwrap(),
        b"mine"
    );
    let store = open(dir.path());
    assert_eq!(texts(&store.handle(), "cli"), numbers(0..2));
    store.close().unwrap();
}

#[test]
fn a_damaged_identity_is_an_error_that_changes_nothing() {
    let dir = scratch();
    let store = open(dir.path());
    add_numbers(&store.handle(), "cli", 0..2);
    store.close().unwrap();
    let identity = dir.path().join(".sessionlog/identity");
    std::fs::write(&identity, "garbage").unwrap();
    let before = files(dir.path());
    let result = Store::open(dir.path());
    assert!(
        matches!(&result, Err(Error::Corrupt { path, .. }) if *path == identity),
        "{result:?}"
    );
    drop(result);
    let mut after = files(dir.path());
    let mut expected = before;
    // The lock file is the opener's to write.
    for files in [&mut after, &mut expected] {
        files.retain(|name, _| !name.ends_with("lock"));
    }
    assert_eq!(after, expected);
}
