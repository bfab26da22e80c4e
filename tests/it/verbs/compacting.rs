//! Compactions beside those who go on writing, and what waits meanwhile.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};
use std::thread;

use sessionlog::{Error, Message, Store, StoreHandle};

use crate::intercept::{Flags, Intercepted};
use crate::support::{add_numbers, numbers, open_on, small_segments, texts};

/// A store of which the next new session file waits, once it is begun, for `go`; and
/// how many such files were begun.
fn held() -> (Store, StoreHandle, Flags, Arc<AtomicUsize>) {
    let storage = Intercepted::default();
    let store = open_on(Arc::new(storage.clone()), small_segments()).unwrap();
    let chats = store.handle();
    let (flags, begun) = (Flags::default(), Arc::new(AtomicUsize::new(0)));
    let (told, counted) = (flags.clone(), begun.clone());
    storage.at_every_call(move |call, path, _| {
        if call == "create" && path.to_string_lossy().contains(".sessionlog-") {
            counted.fetch_add(1, Ordering::AcqRel);
            told.raise("begun");
            told.wait_for("go");
        }
        Ok(())
    });
    (store, chats, flags, begun)
}

#[test]
fn a_compaction_keeps_its_copy_whatever_is_truncated_and_appended_meanwhile() {
    let (store, chats, flags, begun) = held();
    add_numbers(&chats, "k", 0..100);
    chats.truncate_history("k", 10).wait().unwrap();
    let compacting = {
        let chats = chats.clone();
        thread::spawn(move || chats.compact("k").wait())
    };
    flags.wait_for("begun");
    add_numbers(&chats, "k", 100..120);
    chats.truncate_history("k", 5).wait().unwrap();
    add_numbers(&chats, "k", 120..123);
    flags.raise("go");
    compacting.join().unwrap().unwrap();

    assert_eq!(begun.load(Ordering::Acquire), 1, "it was begun anew");
    assert_eq!(chats.stats().compactions, 1);
    assert_eq!(texts(&chats, "k"), numbers(115..123));
    // What went meanwhile is hidden in the copy: 5 of the 10 it was made of, and those
    // that came and went.
    let meta = chats.session_meta("k").wait().unwrap();
    assert_eq!((meta.skip, meta.count), (25, 33));
    chats.compact("k").wait().unwrap();
    assert_eq!(texts(&chats, "k"), numbers(115..123));
    assert_eq!(chats.session_meta("k").wait().unwrap().skip, 0);
    store.close().unwrap();
}

#[test]
fn what_a_compaction_hides_stays_hidden_after_the_next_open() {
    let storage = Intercepted::default();
    let store = open_on(Arc::new(storage.clone()), small_segments()).unwrap();
    let chats = store.handle();
    let chat = chats.context("k");
    chat.update_token_count(7).wait().unwrap();
    add_numbers(&chats, "k", 0..50);
    chats.truncate_history("k", 20).wait().unwrap();
    let flags = Flags::default();
    let told = flags.clone();
    storage.at_every_call(move |call, path, _| {
        if call == "create" && path.to_string_lossy().contains(".sessionlog-") {
            told.raise("begun");
            told.wait_for("go");
        }
        Ok(())
    });
    let compacting = {
        let chats = chats.clone();
        thread::spawn(move || chats.compact("k").wait())
    };
    flags.wait_for("begun");
    chats.truncate_history("k", 3).wait().unwrap();
    flags.raise("go");
    compacting.join().unwrap().unwrap();
    store.close().unwrap();

    let store = open_on(Arc::new(storage), small_segments()).unwrap();
    let chats = store.handle();
    assert_eq!(texts(&chats, "k"), numbers(47..50));
    assert_eq!(chats.context("k").token_count().wait().unwrap(), 7);
    store.close().unwrap();
}

/// Truncated and appended to without a pause, a session gave its compaction no moment
/// at which the copy was good: it was made again and again.
#[test]
fn a_compaction_ends_beside_truncations_and_appends_that_do_not() {
    let storage = Intercepted::default();
    let store = open_on(Arc::new(storage), small_segments()).unwrap();
    let chats = store.handle();
    let text = "x".repeat(100 << 10);
    let message = |n: usize| Message::user(format!("{n} {text}"));
    chats
        .append_all("k", (0..100).map(message).collect())
        .wait()
        .unwrap();
    chats.truncate_history("k", 60).wait().unwrap();
    let (done, goes_on) = (Arc::new(AtomicBool::new(false)), chats.clone());
    let compacting = {
        let (chats, done) = (chats.clone(), done.clone());
        thread::spawn(move || {
            let result = chats.compact("k").wait();
            done.store(true, Ordering::Release);
            result
        })
    };
    let mut last = 100;
    while !done.load(Ordering::Acquire) {
        goes_on.append_all("k", vec![message(last)]).wait().unwrap();
        goes_on.truncate_history("k", 60).wait().unwrap();
        last += 1;
    }
    compacting.join().unwrap().unwrap();
    let firsts = |text: &String| text.split(' ').next().unwrap().to_owned();
    let told: Vec<_> = texts(&chats, "k").iter().map(firsts).collect();
    assert_eq!(told, numbers(last - 60..last));
    store.close().unwrap();
}

/// A caller that gave up leaves its command behind.
#[test]
fn commands_that_wait_for_one_session_are_bounded() {
    const MOST: usize = 4096;
    let (store, chats, flags, _) = held();
    let replacing = {
        let chats = chats.clone();
        thread::spawn(move || chats.set_history("k", vec![Message::user("first")]).wait())
    };
    flags.wait_for("begun");
    let mut waiting: Vec<_> = (0..MOST + 1000)
        .map(|n| Some(chats.add_message("k", "user", &n.to_string())))
        .collect();
    let mut cx = Context::from_waker(Waker::noop());
    let mut refused = 0;
    // A full mailbox takes no more until the worker has looked.
    while refused < 1000 {
        for place in &mut waiting {
            let Some(reply) = place else { continue };
            match pin!(reply).poll(&mut cx) {
                Poll::Pending => {}
                Poll::Ready(Err(Error::Overloaded { key, waiting })) => {
                    assert_eq!((key.as_str(), waiting), ("k", MOST));
                    refused += 1;
                    *place = None;
                }
                Poll::Ready(other) => panic!("{other:?}"),
            }
        }
    }
    flags.raise("go");
    replacing.join().unwrap().unwrap();
    let accepted: Vec<_> = waiting.into_iter().flatten().collect();
    assert_eq!(accepted.len(), MOST);
    for reply in accepted {
        reply.wait().unwrap();
    }
    assert_eq!(chats.history("k").wait().unwrap().len(), MOST + 1);
    chats
        .add_message("k", "user", "there is room again")
        .wait()
        .unwrap();
    store.close().unwrap();
}

/// Three big sessions to compact, and a loading that takes long: whoever writes to, or
/// loads, another session is not held up by the compactions.
#[test]
fn compactions_keep_no_other_session_from_being_rewritten_or_loaded() {
    let storage = Intercepted::default();
    let text = "x".repeat(100 << 10);
    let big: Vec<_> = (0..60).map(|_| Message::user(text.clone())).collect();
    let store = open_on(Arc::new(storage.clone()), small_segments()).unwrap();
    store
        .handle()
        .append_all("cold", big.clone())
        .wait()
        .unwrap();
    store.close().unwrap();

    let store = open_on(Arc::new(storage.clone()), small_segments()).unwrap();
    let chats = store.handle();
    let flags = Flags::default();
    for key in ["a", "b", "c"] {
        chats.append_all(key, big.clone()).wait().unwrap();
        chats.truncate_history(key, 50).wait().unwrap();
    }
    let told = flags.clone();
    storage.at_every_call(move |call, path, _| {
        let hidden = call == "create" && path.to_string_lossy().contains(".sessionlog-");
        // Of the first of them, which is a compaction's.
        if hidden && told.raise("begun") {
            told.wait_for("go");
        }
        Ok(())
    });
    let compacting: Vec<_> = ["a", "b", "c"]
        .map(|key| {
            let chats = chats.clone();
            thread::spawn(move || chats.compact(key).wait())
        })
        .into();
    flags.wait_for("begun");
    let replaced = chats.set_history("small", vec![Message::user("one line")]);
    replaced.wait().unwrap();
    assert_eq!(chats.tail("cold", 1).wait().unwrap().len(), 1);
    chats.add_message("cold", "user", "more").wait().unwrap();
    assert_eq!(chats.stats().compactions, 0);
    flags.raise("go");
    for thread in compacting {
        thread.join().unwrap().unwrap();
    }
    assert_eq!(chats.stats().compactions, 3);
    store.close().unwrap();
}
