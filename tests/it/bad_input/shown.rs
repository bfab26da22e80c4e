//! What `{:?}` shows: it is called where things went wrong, and ends up in logs.

use std::fmt::Debug;

use sessionlog::backend::{EphemeralStore, JsonlBackend, LegacyJsonStore, SessionStore};
use sessionlog::{Context, Durability, Message, Store, StoreHandle};

use crate::support::scratch;

const SECRET: &str = "hunter2";

/// Bytes that a line of a log has room for.
const SMALL: usize = 1 << 10;

fn assert_small_and_silent(what: &str, shown: &dyn Debug) {
    for text in [format!("{shown:?}"), format!("{shown:#?}")] {
        assert!(text.len() < SMALL, "{what} is {} bytes", text.len());
        assert!(!text.contains(SECRET), "{what} shows {text}");
    }
}

/// A thousand sessions with something to hide, in keys, messages, summaries and
/// aliases.
fn fill(chats: &dyn SessionStore) {
    for number in 0..1_000 {
        let key = format!("{SECRET}:{number}");
        let message = Message::user(format!("{SECRET} {number}"));
        chats.add_full_message(&key, message).wait().unwrap();
        chats.set_summary(&key, SECRET).wait().unwrap();
    }
}

fn opened() -> (tempfile::TempDir, Store, StoreHandle) {
    let dir = scratch();
    let store = Store::open(dir.path()).unwrap();
    let chats = store.handle().with_durability(Durability::Buffered);
    for number in 0..1_000 {
        let key = format!("{SECRET}:{number}");
        chats.add_message(&key, "user", SECRET).wait().unwrap();
        chats.set_summary(&key, SECRET).wait().unwrap();
    }
    let aliases = vec![SECRET.to_owned()];
    chats
        .upsert_session_meta("own", None, aliases)
        .wait()
        .unwrap();
    (dir, store, chats)
}

#[test]
fn a_store_and_all_that_leads_to_it_show_no_content_and_little_at_all() {
    let (dir, store, chats) = opened();
    assert_small_and_silent("a store", &store);
    assert_small_and_silent("a handle", &chats);
    let mut reply = chats.add_message("own", "user", SECRET);
    assert_small_and_silent("a reply", &reply);
    let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
    let _ = std::pin::Pin::new(&mut reply).poll(&mut cx);
    assert_small_and_silent("a reply under way", &reply);
    let context = chats.context("own");
    context
        .append_message(Message::user(SECRET))
        .wait()
        .unwrap();
    assert_small_and_silent("a context", &context);
    let watch = chats.subscribe("own").wait().unwrap();
    assert_small_and_silent("a watch", &watch);
    let reader = Store::open_read_only(dir.path()).unwrap();
    let readers = reader.handle();
    assert!(!readers.list_sessions().wait().unwrap().is_empty());
    assert_small_and_silent("a store opened read-only", &reader);
    assert_small_and_silent("its handle", &readers);
    assert_small_and_silent("statistics", &chats.stats());
    assert_small_and_silent(
        "messages",
        &sessionlog::Messages::from(vec![Message::user(SECRET); 1_000]),
    );
    store.close().unwrap();
    assert_small_and_silent("a handle that outlived its store", &chats);
}

#[test]
fn the_other_stores_and_contexts_show_no_content_and_little_at_all() {
    let dir = scratch();
    let options = sessionlog::backend::EphemeralOptions::new().max_sessions(2_000);
    let ephemeral = EphemeralStore::with(options);
    fill(&ephemeral);
    assert_small_and_silent("an ephemeral store", &ephemeral);

    let legacy = LegacyJsonStore::open(dir.path().join("legacy")).unwrap();
    fill(&legacy);
    legacy.save(&format!("{SECRET}:7")).wait().unwrap();
    assert_small_and_silent("older files", &legacy);

    let store = Store::open(dir.path().join("store")).unwrap();
    let chats = JsonlBackend::new(store);
    fill(&chats);
    assert_small_and_silent("a session store", &chats);
    chats.close().wait().unwrap();

    let file = Context::open(dir.path().join("context.jsonl")).unwrap();
    let many = vec![Message::user(SECRET); 1_000];
    file.append_message(many).wait().unwrap();
    file.write_system_prompt(SECRET).wait().unwrap();
    assert_small_and_silent("a context file", &file);
}
