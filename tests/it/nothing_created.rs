//! Commands that find nothing to change.

use sessionlog::Store;

#[test]
fn truncating_compacting_or_deleting_what_is_not_there_leaves_no_trace() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    let chats = store.handle();
    chats.truncate_history("telegram:1", 0).wait().unwrap();
    chats.truncate_history("telegram:1", 5).wait().unwrap();
    chats.compact("telegram:1").wait().unwrap();
    chats.delete_session("telegram:1").wait().unwrap();

    assert!(chats.list_sessions().wait().unwrap().is_empty());
    assert_eq!(
        chats.resolve_session_key("telegram:1").wait().unwrap(),
        None
    );

    // Nor does the key hold on to the file name that another shares with it.
    chats
        .add_message("telegram_1", "user", "hi")
        .wait()
        .unwrap();
    let found = chats.history("telegram:1").wait().unwrap();
    assert!(found.is_empty());
    store.close().unwrap();
    let names = std::fs::read_dir(dir.path()).unwrap();
    let mut names: Vec<_> = names
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name != ".sessionlog")
        .collect();
    names.sort();
    assert_eq!(names, ["telegram_1.jsonl", "telegram_1.meta.json"]);
}
