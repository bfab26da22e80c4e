//! Space and descriptors that run out, and a disk that takes its time.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};

use sessionlog::testing::disk_model::{Image, MemoryStorage};
use sessionlog::testing::sim::Sim;
use sessionlog::{Durability, Error, Message, Store, StoreHandle};

use super::within;
use crate::support::{
    add_numbers, manual, numbers, open_memory, open_on, scratch, small_segments, texts,
    wait_for_spare_segment, wait_until,
};
use crate::trap::{Mishap, Trapped};

#[test]
fn a_full_disk_refuses_writes_keeps_reads_and_heals() {
    let disk = MemoryStorage::new();
    let store = open_memory(&disk).unwrap();
    wait_for_spare_segment(&disk);
    let chats = store.handle();
    let used: usize = disk.dump().values().map(Vec::len).sum();
    disk.capacity(used as u64 + 300_000);
    let filler = "x".repeat(10_000);
    let mut kept: Vec<Vec<String>> = vec![Vec::new(); 4];
    let mut refused = 0;
    for n in 0..2_000 {
        let text = format!("{n} {filler}");
        match chats
            .add_message(&format!("k{}", n % 4), "user", &text)
            .wait()
        {
            Ok(()) => kept[n % 4].push(text),
            Err(Error::StorageFull { .. }) => refused += 1,
            Err(other) => panic!("{n}: {other}"),
        }
        if refused >= 20 {
            break;
        }
    }
    assert!(refused >= 20, "the disk never filled up");
    let check = |chats: &sessionlog::StoreHandle, kept: &[Vec<String>]| {
        for (n, own) in kept.iter().enumerate() {
            let found = texts(chats, &format!("k{n}"));
            assert!(found == *own, "k{n}: {} of {}", found.len(), own.len());
        }
    };
    check(&chats, &kept);
    let error = chats
        .set_history("k0", vec![Message::user("y".repeat(1 << 20))])
        .wait();
    assert!(matches!(error, Err(Error::StorageFull { .. })), "{error:?}");
    check(&chats, &kept);

    // What a power loss leaves opens once there is space, with all of it.
    for image in [Image::AllLost, Image::AllKept, Image::ProcessDeath] {
        let after = disk.image(image);
        after.capacity(u64::MAX);
        let store = open_memory(&after).unwrap();
        check(&store.handle(), &kept);
        store.close().unwrap();
    }

    disk.capacity(u64::MAX);
    for (n, own) in kept.iter_mut().enumerate() {
        chats
            .add_message(&format!("k{n}"), "user", "healed")
            .wait()
            .unwrap();
        own.push(String::from("healed"));
    }
    check(&chats, &kept);
    chats.flush().wait().unwrap();
    store.close().unwrap();
    let store = open_memory(&disk).unwrap();
    check(&store.handle(), &kept);
    store.close().unwrap();
}

#[test]
fn a_store_closed_on_a_full_disk_loses_nothing() {
    let disk = MemoryStorage::new();
    let store = open_memory(&disk).unwrap();
    wait_for_spare_segment(&disk);
    let chats = store.handle();
    disk.capacity(disk.dump().values().map(Vec::len).sum::<usize>() as u64);
    let mut kept = Vec::new();
    for text in numbers(0..50) {
        if chats.add_message("cli", "user", &text).wait().is_ok() {
            kept.push(text);
        }
    }
    assert_eq!(texts(&chats, "cli"), kept);
    assert_eq!(store.close().is_ok(), kept.is_empty());
    disk.capacity(u64::MAX);
    let store = open_memory(&disk).unwrap();
    assert_eq!(texts(&store.handle(), "cli"), kept);
    store.close().unwrap();
}

/// What was staged for it then is gone, and its date with that.
#[test]
fn a_session_whose_first_history_found_no_space_is_dated_by_what_comes_next() {
    let disk = MemoryStorage::new();
    let mut sim = Sim::open(disk.clone(), &manual(), 0).unwrap();
    let chats = sim.handle();
    disk.capacity(disk.dump().values().map(Vec::len).sum::<usize>() as u64);
    let refused = sim.run(chats.set_history("cli", vec![Message::user("y".repeat(1 << 20))]));
    assert!(
        matches!(refused, Err(Error::StorageFull { .. })),
        "{refused:?}"
    );

    disk.capacity(u64::MAX);
    sim.run(chats.add_message("cli", "user", "x")).unwrap();
    let meta = sim.run(chats.session_meta("cli")).unwrap();
    assert_eq!(meta.created_at, meta.updated_at);
}

/// Descriptors of this process that lead into `dir`.
fn descriptors_into(dir: &std::path::Path) -> usize {
    std::fs::read_dir("/proc/self/fd")
        .unwrap()
        .filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok())
        .filter(|target| target.starts_with(dir))
        .count()
}

#[test]
fn a_thousand_sessions_get_by_with_sixty_four_open_files() {
    const SESSIONS: usize = 1_000;
    let dir = scratch();
    let store = Store::open_with(dir.path(), manual().max_open_files(64)).unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .build()
        .unwrap();
    let chats = store.handle();
    let done = AtomicBool::new(false);
    let most = std::thread::scope(|scope| {
        let sampler = scope.spawn(|| {
            let mut most = 0;
            while !done.load(Ordering::Acquire) {
                most = most.max(descriptors_into(dir.path()));
            }
            most
        });
        for round in 0..3 {
            runtime.block_on(add_to_each(&chats, SESSIONS, round));
            chats.flush().wait().unwrap();
        }
        done.store(true, Ordering::Release);
        sampler.join().unwrap()
    });
    for n in 0..SESSIONS {
        assert_eq!(texts(&chats, &format!("k:{n}")), numbers(0..3));
    }
    // The lock, a few journal segments and the files of a flush, besides.
    assert!(most <= 64 + 32, "{most} open at once");
    store.close().unwrap();
}

async fn add_to_each(chats: &StoreHandle, sessions: usize, round: usize) {
    let tasks: Vec<_> = (0..sessions)
        .map(|n| {
            let (chats, text) = (chats.clone(), round.to_string());
            tokio::spawn(async move {
                chats
                    .add_message(&format!("k:{n}"), "user", &text)
                    .await
                    .unwrap();
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
}

#[test]
fn a_store_keeps_to_half_of_the_descriptors_there_are() {
    let disk = MemoryStorage::new();
    disk.set_open_file_limit(256);
    let store = open_memory(&disk).unwrap();
    let chats = store.handle();
    let mut most = 0;
    for n in 0..400 {
        chats
            .add_message(&format!("k:{n}"), "user", "0")
            .wait()
            .unwrap();
        most = most.max(disk.open_files());
    }
    chats.flush().wait().unwrap();
    // The lock and a few journal segments, besides.
    assert!(most <= 128 + 16, "{most} open at once");
    store.close().unwrap();
    assert_eq!(disk.open_files(), 0);
}

/// The engine believes that it may open hundreds of files; the process cannot.
#[test]
fn a_process_short_of_descriptors_closes_session_files_for_others() {
    let trapped = Trapped::default();
    let store = open_on(std::sync::Arc::new(trapped.clone()), small_segments()).unwrap();
    wait_for_spare_segment(&trapped.disk);
    let chats = store.handle();
    // One session in every shard, so that each has a file to close.
    let keys: Vec<_> = (0..600).map(|n| format!("k:{n}")).collect();
    for key in &keys[..500] {
        add_numbers(&chats, key, 0..1);
    }
    trapped.limit_descriptors(trapped.disk.open_files() + 1);
    add_numbers(&chats, "k:0", 1..2);
    for key in &keys {
        add_numbers(&chats, key, 2..3);
    }
    assert_eq!(texts(&chats, "k:0"), numbers(0..3));
    for key in &keys[500..] {
        assert_eq!(texts(&chats, key), ["2"]);
    }
    chats.truncate_history("k:0", 1).wait().unwrap();
    chats.flush().wait().unwrap();
    store.close().unwrap();
    trapped.limit_descriptors(0);
    let store = open_memory(&trapped.disk).unwrap();
    assert_eq!(texts(&store.handle(), "k:1"), ["0", "2"]);
    store.close().unwrap();
}

#[test]
fn a_process_without_any_descriptor_keeps_what_it_acknowledged() {
    let trapped = Trapped::default();
    let store = open_on(std::sync::Arc::new(trapped.clone()), small_segments()).unwrap();
    wait_for_spare_segment(&trapped.disk);
    let chats = store.handle();
    add_numbers(&chats, "old", 0..2);
    chats.flush().wait().unwrap();
    trapped.limit_descriptors(1);
    let mut kept = 0;
    for n in 0..20 {
        if chats
            .add_message("new", "user", &n.to_string())
            .wait()
            .is_err()
        {
            break;
        }
        kept += 1;
    }
    assert_eq!(texts(&chats, "old"), numbers(0..2));
    trapped.limit_descriptors(0);
    assert_eq!(texts(&chats, "new"), numbers(0..kept));
    chats.add_message("new", "user", "after").wait().unwrap();
    chats.flush().wait().unwrap();
    store.close().unwrap();
    let store = open_memory(&trapped.disk).unwrap();
    let mut expected = numbers(0..kept);
    expected.push(String::from("after"));
    assert_eq!(texts(&store.handle(), "new"), expected);
    store.close().unwrap();
}

/// Ends a stall also if the test fails: the store would never end.
struct Released<'a>(&'a Trapped);

impl Drop for Released<'_> {
    fn drop(&mut self) {
        self.0.disarm();
    }
}

/// A store whose journal is being synced for as long as nothing else is armed.
fn stalled(trapped: &Trapped) -> (Store, StoreHandle, Released<'_>) {
    let options = small_segments().durability(Durability::Buffered);
    let store = open_on(Arc::new(trapped.clone()), options).unwrap();
    wait_for_spare_segment(&trapped.disk);
    let chats = store.handle();
    add_numbers(&chats, "cli", 0..3);
    chats.flush().wait().unwrap();
    trapped.arm("sync_data", "/journal/", Mishap::Stall);
    add_numbers(&chats, "cli", 3..4);
    wait_until("the sync of what is buffered", || trapped.sprung() == 1);
    (store, chats, Released(trapped))
}

#[test]
fn who_asks_for_no_sync_does_not_wait_for_one() {
    let trapped = Trapped::default();
    let (store, chats, _released) = stalled(&trapped);
    let buffered = chats.clone();
    within("buffered adds", move || {
        add_numbers(&buffered, "cli", 4..6);
        add_numbers(&buffered, "new", 0..2);
    });
    assert_eq!(texts(&chats, "cli"), numbers(0..6));

    let durable = chats.with_durability(Durability::Durable);
    let mut reply = pin!(durable.add_message("cli", "user", "6"));
    let mut cx = Context::from_waker(Waker::noop());
    assert!(reply.as_mut().poll(&mut cx).is_pending());
    assert_eq!(trapped.sprung(), 1, "one sync at a time");
    trapped.disarm();
    within("the sync", move || durable.flush().wait()).unwrap();
    assert!(matches!(reply.poll(&mut cx), Poll::Ready(Ok(()))));
    store.close().unwrap();
    let store = open_memory(&trapped.disk.image(Image::AllLost)).unwrap();
    assert_eq!(texts(&store.handle(), "cli"), numbers(0..7));
    assert_eq!(texts(&store.handle(), "new"), numbers(0..2));
}

#[test]
fn what_was_written_beside_a_sync_that_failed_outlives_the_process() {
    let trapped = Trapped::default();
    let (store, chats, _released) = stalled(&trapped);
    let buffered = chats.clone();
    within("buffered adds", move || {
        add_numbers(&buffered, "cli", 4..6);
    });
    trapped.arm("sync_data", "/journal/", Mishap::Eio);
    wait_until("the failure", || {
        let result = chats.add_message("cli", "user", "late").wait();
        matches!(result, Err(Error::Poisoned { .. }))
    });
    trapped.disarm();
    assert_eq!(texts(&chats, "cli")[..6], numbers(0..6));
    assert!(store.close().is_err());
    let store = open_memory(&trapped.disk.image(Image::ProcessDeath)).unwrap();
    assert_eq!(texts(&store.handle(), "cli")[..6], numbers(0..6));
}
