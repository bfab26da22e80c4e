//! What calls cost, counted in calls of the file system, not in time.

use std::fmt::Write as _;

use sessionlog::testing::disk_model::MemoryStorage;
use sessionlog::{Message, StoreHandle};

use crate::support::{
    MEMORY_DIR, add_numbers, in_memory, line, numbers, open, open_memory, scratch, sidecar, texts,
};

/// A modelled disk with `sessions` sessions, each with an alias.
fn many_sessions(sessions: usize) -> MemoryStorage {
    let disk = MemoryStorage::new();
    for n in 0..sessions {
        let meta = sidecar(&format!("telegram:{n}"), "", 0, 1);
        let meta = meta.replace("\n}", &format!(",\n  \"aliases\": [\"alias-{n}\"]\n}}"));
        let stem = in_memory(&format!("telegram_{n}"));
        disk.write_foreign(stem.with_extension("meta.json"), meta.as_bytes())
            .unwrap();
        disk.write_foreign(stem.with_extension("jsonl"), line("x").as_bytes())
            .unwrap();
    }
    disk
}

/// How many calls `work` costs by itself: the store's threads make some of
/// their own now and then, so the cheapest of several runs counts.
fn calls(disk: &MemoryStorage, mut work: impl FnMut()) -> u64 {
    let run = |_| {
        let before = disk.steps();
        work();
        disk.steps() - before
    };
    (0..50).map(run).min().unwrap()
}

#[test]
fn p08_resolving_a_key_reads_nothing_however_many_sessions_there_are() {
    let disk = many_sessions(500);
    let store = open_memory(&disk).unwrap();
    let chats = store.handle();
    chats.flush().wait().unwrap();
    let resolve = |key: &str| chats.resolve_session_key(key).wait().unwrap();
    let alias = calls(&disk, || {
        assert_eq!(resolve("alias-321").as_deref(), Some("telegram:321"));
    });
    assert_eq!(alias, 0, "an alias");
    assert_eq!(
        calls(&disk, || assert_eq!(resolve("telegram:no"), None)),
        0,
        "an unknown key"
    );
    let listed = calls(&disk, || {
        assert_eq!(chats.list_sessions().wait().unwrap().len(), 500);
    });
    assert_eq!(listed, 0, "a listing");
    store.close().unwrap();
}

#[test]
fn p08_a_message_added_through_an_alias_scans_no_directory() {
    let disk = many_sessions(300);
    let store = open_memory(&disk).unwrap();
    let chats = store.handle();
    chats
        .add_message("alias-3", "user", "first")
        .wait()
        .unwrap();
    chats.flush().wait().unwrap();
    let cost = calls(&disk, || {
        chats.add_message("alias-3", "user", "x").wait().unwrap();
    });
    assert!(cost < 10, "{cost} calls");
    assert_eq!(texts(&chats, "telegram:3")[..2], ["x", "first"]);
    store.close().unwrap();
}

/// The calls from number `from` on, as the trace tells them.
fn calls_since(disk: &MemoryStorage, from: u64) -> Vec<String> {
    let number = |call: &str| -> u64 {
        let number = call.strip_prefix("step ").unwrap().split(':').next();
        number.unwrap().parse().unwrap()
    };
    let mut calls = disk.last_calls(512);
    calls.retain(|call| number(call) >= from);
    calls
}

#[test]
fn p09_a_durable_append_costs_one_write_and_one_sync_of_the_journal() {
    let disk = MemoryStorage::new();
    let store = open_memory(&disk).unwrap();
    let chats = store.handle();
    add_numbers(&chats, "cli", 0..3);
    // Until a run is met in which nothing of the background's got between.
    let clean = (0..200).any(|_| {
        chats.flush().wait().unwrap();
        let (from, syncs) = (disk.steps(), chats.stats().syncs);
        chats.add_message("cli", "user", "x").wait().unwrap();
        let calls = calls_since(&disk, from);
        assert_eq!(chats.stats().syncs, syncs + 1, "{calls:#?}");
        let of_journal = |call: &&String| call.contains("/journal/");
        let journal: Vec<_> = calls.iter().filter(of_journal).collect();
        assert!(journal[0].contains("write_at"), "{calls:#?}");
        let costly = [
            "rename", "create", "remove", "set_len", "sync_dir", "sync_all",
        ];
        let of_files = calls.iter().filter(|call| !of_journal(call));
        let unexpected = of_files.filter(|call| costly.iter().any(|name| call.contains(name)));
        unexpected.count() == 0 && journal.len() == 2 && journal[1].contains("sync_data")
    });
    assert!(
        clean,
        "an append never went through with one write and one sync"
    );
    store.close().unwrap();
}

#[test]
fn p09_concurrent_appends_share_their_syncs() {
    const TASKS: usize = 64;
    const EACH: usize = 25;
    let dir = scratch();
    let store = open(dir.path());
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .build()
        .unwrap();
    let before = store.handle().stats();
    runtime.block_on(async {
        let tasks: Vec<_> = (0..TASKS)
            .map(|task| tokio::spawn(append_each(store.handle(), task, EACH)))
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
    });
    let after = store.handle().stats();
    assert_eq!(after.messages - before.messages, (TASKS * EACH) as u64);
    let syncs = after.syncs - before.syncs;
    assert!(syncs * 4 < (TASKS * EACH) as u64, "{syncs} syncs");
    for task in 0..TASKS {
        assert_eq!(
            texts(&store.handle(), &format!("chat:{task}")),
            numbers(0..EACH)
        );
    }
    store.close().unwrap();
}

async fn append_each(chats: StoreHandle, task: usize, each: usize) {
    let key = format!("chat:{task}");
    for text in numbers(0..each) {
        chats.add_message(&key, "user", &text).await.unwrap();
    }
}

/// How many bytes of session files the calls of a trace read.
fn bytes_read(calls: &[String]) -> u64 {
    let read = |call: &&String| call.contains("read_at") && call.contains(".jsonl");
    let range = |call: &String| -> u64 {
        let range = call.split_whitespace().next_back().unwrap();
        let (from, to) = range.split_once("..").unwrap();
        to.parse::<u64>().unwrap() - from.parse::<u64>().unwrap()
    };
    calls.iter().filter(read).map(range).sum()
}

#[test]
fn p13_a_truncation_reads_what_it_keeps_and_no_more() {
    let cost = |lines: usize| {
        let disk = MemoryStorage::new();
        let mut log = String::new();
        for n in 0..lines {
            write!(log, "{}", line(&n.to_string())).unwrap();
        }
        disk.write_foreign(in_memory("cli.jsonl"), log.as_bytes())
            .unwrap();
        let meta = sidecar("cli", "", 0, lines);
        disk.write_foreign(in_memory("cli.meta.json"), meta.as_bytes())
            .unwrap();
        let store = open_memory(&disk).unwrap();
        let chats = store.handle();
        // Brought in once, which counts its lines.
        chats
            .add_message("cli", "user", &lines.to_string())
            .wait()
            .unwrap();
        chats.flush().wait().unwrap();
        let from = disk.steps();
        chats.truncate_history("cli", 5).wait().unwrap();
        let read = bytes_read(&calls_since(&disk, from));
        assert_eq!(texts(&chats, "cli"), numbers(lines - 4..lines + 1));
        store.close().unwrap();
        read
    };
    let (short, long) = (cost(2_000), cost(40_000));
    assert_eq!(short, long, "bytes read at {MEMORY_DIR}");
    assert!(long < 64 << 10, "{long} bytes read to keep five lines");
}

#[test]
fn p13_a_tail_reads_what_it_returns_and_no_more() {
    let disk = MemoryStorage::new();
    let store = open_memory(&disk).unwrap();
    let chats = store.handle();
    let batch = (0..20_000).map(|n| Message::user(n.to_string())).collect();
    chats.append_all("cli", batch).wait().unwrap();
    chats.flush().wait().unwrap();
    let from = disk.steps();
    assert_eq!(chats.tail("cli", 3).wait().unwrap().len(), 3);
    let read = bytes_read(&calls_since(&disk, from));
    assert!(read < 64 << 10, "{read} bytes read for three lines");
    store.close().unwrap();
}
