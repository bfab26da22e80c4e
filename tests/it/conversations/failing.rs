//! What goes on in a store that stopped writing.

use std::sync::mpsc;
use std::time::Duration;

use sessionlog::testing::sim;
use sessionlog::{Error, Store, StoreHandle};

use super::open;
use crate::intercept::Intercepted;
use crate::support::texts;

fn talked() -> (Intercepted, Store, StoreHandle) {
    let (storage, store, chats) = open();
    chats.add_message("a", "user", "one").wait().unwrap();
    chats.context("a").update_token_count(7).wait().unwrap();
    chats.flush().wait().unwrap();
    (storage, store, chats)
}

/// Makes the store stop writing.
fn poison(storage: &Intercepted, chats: &StoreHandle) {
    storage.fail_flushes(sim::DIR);
    assert!(chats.flush().wait().is_err());
    let refused = chats.add_message("a", "user", "x").wait();
    assert!(matches!(refused, Err(Error::Poisoned { .. })));
}

#[test]
fn a_poisoned_store_says_what_its_conversations_say() {
    let (storage, _store, chats) = talked();
    chats
        .add_message("b", "user", "never asked")
        .wait()
        .unwrap();
    chats.add_message("a", "user", "two").wait().unwrap();
    poison(&storage, &chats);
    assert_eq!(texts(&chats, "a"), ["one", "two"]);
    assert_eq!(chats.context("a").token_count().wait().unwrap(), 7);
    assert_eq!(chats.context("a").n_checkpoints().wait().unwrap(), 0);
    assert_eq!(chats.context("b").token_count().wait().unwrap(), 0);
    let noted = chats.context("a").update_token_count(8).wait();
    assert!(matches!(noted, Err(Error::Poisoned { .. })));
}

#[test]
fn who_watches_a_store_learns_that_it_was_poisoned() {
    let (storage, _store, chats) = talked();
    chats.add_message("a", "user", "two").wait().unwrap();
    let mut watches = vec![
        chats.subscribe("a").wait().unwrap(),
        chats.subscribe("never there").wait().unwrap(),
    ];
    poison(&storage, &chats);
    let (told, answers) = mpsc::channel();
    std::thread::spawn(move || {
        for watch in &mut watches {
            told.send(watch.wait_changed()).unwrap();
        }
    });
    for _ in 0..2 {
        let answer = answers.recv_timeout(Duration::from_secs(30));
        assert!(matches!(answer, Ok(Err(Error::Poisoned { .. }))));
    }
    let late = chats.subscribe("a").wait();
    assert!(matches!(late, Err(Error::Poisoned { .. })));
}
