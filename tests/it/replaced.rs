//! A directory that is removed or moved under a running store, and another store in its place.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use sessionlog::backend::{LegacyJsonStore, SessionStore};
use sessionlog::{Store, StoreHandle};

use crate::support::{scratch, small_segments, texts};

/// As much as needs new journal segments, new sessions, rewritten files, and a flush. Whether
/// all of it was acknowledged.
fn live(chats: &StoreHandle, who: &str) -> bool {
    let long = "x".repeat(4 << 10);
    let mut results = Vec::new();
    for n in 0..600 {
        let key = format!("s{}", n % 30);
        let text = format!("{who} {n} {long}");
        results.push(chats.add_message(&key, "user", &text).wait());
    }
    for n in 0..30 {
        let key = format!("s{n}");
        results.push(chats.truncate_history(&key, 5).wait());
        results.push(chats.compact(&key).wait());
        results.push(chats.set_summary(&key, who).wait());
    }
    results.push(chats.delete_session("s0").wait());
    results.push(chats.flush().wait());
    results.iter().all(Result::is_ok)
}

/// Removes a directory in which a store still makes files: it may not be empty at once.
fn remove(dir: &Path) {
    while let Err(error) = fs::remove_dir_all(dir) {
        assert_eq!(error.kind(), ErrorKind::DirectoryNotEmpty);
    }
}

fn open(dir: &Path) -> Store {
    Store::open_with(dir, small_segments()).unwrap()
}

fn assert_is_all_of(who: &str, dir: &Path) {
    let report = Store::verify(dir).unwrap();
    assert!(report.is_sound(), "{:?}", report.problems());
    let store = open(dir);
    let chats = store.handle();
    for n in 1..30 {
        let texts = texts(&chats, &format!("s{n}"));
        assert_eq!(texts.len(), 5, "s{n}");
        let own = |text: &String| text.starts_with(who);
        assert!(texts.iter().all(own), "s{n}");
    }
    assert!(!chats.exists("s0").wait().unwrap());
    store.close().unwrap();
}

#[test]
fn a_store_whose_directory_was_removed_does_nothing_to_the_next_one_there() {
    let above = scratch();
    let dir = above.path().join("sessions");
    let old = open(&dir);
    assert!(live(&old.handle(), "old"));
    remove(&dir);
    let new = open(&dir);
    let (old_chats, new_chats) = (old.handle(), new.handle());
    let acknowledged = std::thread::scope(|scope| {
        let gone = scope.spawn(move || live(&old_chats, "old"));
        assert!(live(&new_chats, "new"));
        gone.join().unwrap()
    });
    assert!(!acknowledged, "what is nowhere was acknowledged");
    assert!(old.close().is_err());
    new.close().unwrap();
    assert_is_all_of("new", &dir);
}

#[test]
fn a_store_whose_directory_was_moved_goes_on_where_it_is() {
    let above = scratch();
    let (dir, moved) = (above.path().join("sessions"), above.path().join("moved"));
    let old = open(&dir);
    assert!(live(&old.handle(), "old"));
    fs::rename(&dir, &moved).unwrap();
    let new = open(&dir);
    let (old_chats, new_chats) = (old.handle(), new.handle());
    std::thread::scope(|scope| {
        scope.spawn(move || assert!(live(&old_chats, "old")));
        assert!(live(&new_chats, "new"));
    });
    old.close().unwrap();
    new.close().unwrap();
    assert_is_all_of("old", &moved);
    assert_is_all_of("new", &dir);
}

#[test]
fn a_store_of_older_files_keeps_to_its_directory_too() {
    let above = scratch();
    let (dir, moved) = (above.path().join("sessions"), above.path().join("moved"));
    let old = LegacyJsonStore::open(&dir).unwrap();
    fs::rename(&dir, &moved).unwrap();
    fs::create_dir(&dir).unwrap();
    old.add_message("a", "user", "old").wait().unwrap();
    old.save("a").wait().unwrap();
    assert!(moved.join("a.json").exists());
    assert_eq!(fs::read_dir(&dir).unwrap().count(), 0);
}
