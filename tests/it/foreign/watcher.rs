//! A program that reads a store's files as PicoClaw does, while the store is busy.
//!
//! A writer's lines reach the files a moment after they are acknowledged, and a
//! sidecar up to a second later. So what is seen must be a state that the session had,
//! and none before the one seen last, or before the one that a flush promised; or such
//! a state with the lines right before it that truncations have hidden, which may be all
//! there are to see. Fewer never. A write is not one step to who reads meanwhile: of
//! several messages that one command adds, the first ones may be there before the others.
//!
//! Two files are two reads. A look counts only if both were the same before and after:
//! then they stood together.

mod author;
mod eyes;
mod look;
mod past;

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use sessionlog::{Store, StoreOptions};

use author::Author;
use eyes::Eyes;
use past::Past;

/// Who writes, each to sessions of its own.
const AUTHORS: usize = 4;

/// Sessions of each.
const SESSIONS: usize = 3;

fn seconds() -> u64 {
    let asked = std::env::var("SESSIONLOG_WATCH_SECONDS").ok();
    asked.map_or(3, |asked| asked.parse().expect("a number of seconds"))
}

#[test]
fn a_watcher_beside_a_busy_writer_never_sees_fewer_messages_than_the_session_had() {
    let dir = tempfile::tempdir().unwrap();
    let options = StoreOptions::new().journal_segments(64 << 10, 1 << 20);
    let store = Store::open_with(dir.path(), options).unwrap();
    let key = |nth: usize| format!("telegram:{nth}");
    let pasts: Vec<_> = (0..AUTHORS * SESSIONS)
        .map(|nth| Arc::new(Past::new(key(nth))))
        .collect();
    let authors = pasts.chunks(SESSIONS).zip(1..);
    let authors = authors.map(|(own, seed)| Author::new(&store.handle(), own.to_vec(), seed));
    let authors: Vec<_> = authors.collect();
    let mut eyes = Eyes::new(dir.path(), &pasts);
    let end = Instant::now() + Duration::from_secs(seconds());
    let commands: u64 = thread::scope(|scope| {
        let busy = authors.into_iter();
        let busy = busy.map(|author| scope.spawn(move || author.write_until(end)));
        let busy: Vec<_> = busy.collect();
        while !busy.iter().all(thread::ScopedJoinHandle::is_finished) {
            eyes.look_at_all();
        }
        busy.into_iter().map(|author| author.join().unwrap()).sum()
    });
    let compactions = store.handle().stats().compactions;
    store.close().unwrap();
    eyes.look_at_the_end();
    let tally = &eyes.tally;
    println!("{commands} commands, {compactions} compactions\n{tally}");
    assert_eq!(tally.wrong, 0, "{tally}");
    assert!(tally.judged() > 500, "{tally}");
    assert!(tally.moved > 100, "{tally}");
    assert!(compactions > 10, "{compactions} compactions");
}
