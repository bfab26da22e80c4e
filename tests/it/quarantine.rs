//! Damaged sidecars are set aside, not thrown away.

use std::fs;

use sessionlog::Store;

#[test]
fn what_is_set_aside_never_replaces_what_was_set_aside_before() {
    let dir = tempfile::tempdir().unwrap();
    let damaged = ["{\"damaged\": 1", "{\"damaged\": 2", "{\"damaged\": 3"];
    for text in damaged {
        fs::write(dir.path().join("x.meta.json"), text).unwrap();
        let store = Store::open(dir.path()).unwrap();
        let chats = store.handle();
        chats.add_message("x", "user", "hi").wait().unwrap();
        store.close().unwrap();
    }
    let aside = fs::read_dir(dir.path().join(".sessionlog/quarantine")).unwrap();
    let mut aside: Vec<_> = aside
        .map(|entry| fs::read_to_string(entry.unwrap().path()).unwrap())
        .collect();
    aside.sort();
    assert_eq!(aside, damaged);
}
