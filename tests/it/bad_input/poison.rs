//! Failures after which the store must not go on writing.

use std::sync::Arc;

use sessionlog::testing::disk_model::Image;
use sessionlog::{Error, Message, Store, StoreHandle};

use super::within;
use crate::support::{
    add_numbers, numbers, open_memory, open_on, small_segments, texts, wait_for_spare_segment,
    wait_until,
};
use crate::trap::{Mishap, Trapped};

fn prepared() -> (Trapped, Store, StoreHandle) {
    let trapped = Trapped::default();
    let store = open_on(Arc::new(trapped.clone()), small_segments()).unwrap();
    wait_for_spare_segment(&trapped.disk);
    let chats = store.handle();
    add_numbers(&chats, "cli", 0..3);
    chats.flush().wait().unwrap();
    (trapped, store, chats)
}

fn add(chats: &StoreHandle, text: &str) -> sessionlog::Result<()> {
    let (chats, text) = (chats.clone(), text.to_owned());
    within("an add", move || {
        chats.add_message("cli", "user", &text).wait()
    })
}

#[test]
fn a_failed_sync_of_the_journal_poisons_the_store_and_keeps_what_is_durable_readable() {
    let (trapped, store, chats) = prepared();
    trapped.arm("sync_data", "/journal/", Mishap::Eio);
    let waiting: Vec<_> = (0..20)
        .map(|n| {
            let chats = chats.clone();
            std::thread::spawn(move || chats.add_message(&format!("k{n}"), "user", "x").wait())
        })
        .collect();
    for waiter in waiting {
        let result = within("a waiter", move || waiter.join().unwrap());
        assert!(matches!(result, Err(Error::Poisoned { .. })), "{result:?}");
    }
    // The disk works again; the store does not trust it.
    trapped.disarm();
    let result = add(&chats, "late");
    let Err(Error::Poisoned { reason }) = &result else {
        panic!("{result:?}");
    };
    assert!(reason.contains("sync"), "{reason}");
    assert_eq!(trapped.sprung(), 1, "a failed sync is not tried again");
    for (verb, result) in super::every_write(&chats, "cli") {
        let harmless = verb == "promote_alias_history" || verb.contains("without");
        let poisoned = matches!(result, Err(Error::Poisoned { .. }));
        assert!(poisoned || harmless, "{verb}: {result:?}");
    }
    assert_eq!(texts(&chats, "cli"), numbers(0..3));
    assert_eq!(chats.list_sessions().wait().unwrap(), ["cli"]);
    let flushed = within("a flush", {
        let chats = chats.clone();
        move || chats.flush().wait()
    });
    assert!(
        matches!(flushed, Err(Error::Poisoned { .. })),
        "{flushed:?}"
    );
    let closed = within("close", move || store.close());
    assert!(matches!(closed, Err(Error::Poisoned { .. })), "{closed:?}");

    for image in Image::NAMED {
        let disk = trapped.disk.image(image);
        let store = open_memory(&disk).unwrap();
        assert_eq!(texts(&store.handle(), "cli"), numbers(0..3), "{image:?}");
        // It works again, whatever became of what was refused.
        add_numbers(&store.handle(), "cli", 3..4);
        assert_eq!(texts(&store.handle(), "cli"), numbers(0..4), "{image:?}");
        store.close().unwrap();
    }
}

#[test]
fn a_buffered_write_whose_sync_failed_later_poisons_the_store() {
    let (trapped, store, chats) = prepared();
    let quick = chats.with_durability(sessionlog::Durability::Buffered);
    trapped.arm("sync_data", "/journal/", Mishap::Eio);
    quick.add_message("cli", "user", "3").wait().unwrap();
    wait_until("the failed sync", || trapped.sprung() > 0);
    let result = add(&chats, "late");
    assert!(matches!(result, Err(Error::Poisoned { .. })), "{result:?}");
    trapped.disarm();
    assert!(within("close", move || store.close()).is_err());
    // The process died, not the machine: a buffered write survives that.
    let store = open_memory(&trapped.disk.image(Image::ProcessDeath)).unwrap();
    let found = texts(&store.handle(), "cli");
    assert!(found.starts_with(&numbers(0..4)), "{found:?}");
    store.close().unwrap();
}

#[test]
fn a_failed_write_of_a_session_file_loses_nothing() {
    let (trapped, store, chats) = prepared();
    trapped.arm("write_at", "cli.jsonl", Mishap::Eio);
    let mut kept = numbers(0..3);
    for text in numbers(3..100) {
        if add(&chats, &text).is_err() {
            break;
        }
        kept.push(text);
    }
    wait_until("the failed write", || trapped.sprung() > 0);
    wait_until("poison", || {
        add(&chats, "late")
            .inspect(|()| kept.push("late".into()))
            .is_err()
    });
    assert_eq!(texts(&chats, "cli"), kept);
    trapped.disarm();
    assert!(within("close", move || store.close()).is_err());
    let store = open_memory(&trapped.disk).unwrap();
    let found = texts(&store.handle(), "cli");
    assert!(found.starts_with(&kept), "{found:?} of {kept:?}");
    store.close().unwrap();
}

/// Everything that a panic can strike: both halves of a commit, a shard that
/// loads, reads or writes a session, a job of the background, the supervisor.
#[test]
fn a_panic_anywhere_poisons_the_store_and_hangs_nobody() {
    let places = [
        ("write_at", "/journal/"),
        ("sync_data", "/journal/"),
        ("write_at", "cli.jsonl"),
        ("create", "fresh.jsonl"),
        ("open", "fresh.meta.json"),
        ("create", "/.sessionlog-"),
        ("sync_data", "/.sessionlog-"),
        ("rename", "cli.jsonl"),
        ("remove_file", "cli.jsonl"),
        ("write_at", "cli.meta.json"),
        ("sync_data", "cli.meta.json"),
        ("sync_dir", "/s"),
    ];
    for (call, path) in places {
        let place = format!("{call} of {path}");
        let (trapped, store, chats) = prepared();
        trapped.arm(call, path, Mishap::Panic);
        let work = chats.clone();
        within(&place, move || {
            let _ = work.add_message("cli", "user", "3").wait();
            let _ = work.flush().wait();
            let _ = work.add_message("fresh", "user", "0").wait();
            let _ = work.truncate_history("cli", 2).wait();
            let _ = work.flush().wait();
            let _ = work.compact("cli").wait();
            let _ = work.set_history("cli", vec![Message::user("new")]).wait();
            let _ = work.delete_session("cli").wait();
            let _ = work.flush().wait();
        });
        wait_until(&place, || trapped.sprung() > 0);
        let mut result = Ok(());
        wait_until(&place, || {
            result = add(&chats, "late");
            result.is_err()
        });
        assert!(
            matches!(result, Err(Error::Poisoned { .. })),
            "{place}: {result:?}"
        );
        let reads = chats.clone();
        within(&place, move || {
            for (_, result) in super::every_read(&reads, "cli") {
                let _ = result;
            }
            let _ = reads.list_sessions().wait();
        });
        let closed = within(&place, move || store.close());
        assert!(
            matches!(closed, Err(Error::Poisoned { .. })),
            "{place}: {closed:?}"
        );
        trapped.disarm();
        let store = open_memory(&trapped.disk).unwrap();
        add_numbers(&store.handle(), "cli", 0..1);
        store.close().unwrap();
    }
}
