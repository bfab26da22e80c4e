//! How commands come from the mailboxes into the shards.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use time::OffsetDateTime;

use super::{opened_with, submit, summary, synced, truncate, until_idle};
use crate::disk::session_file;
use crate::engine::shard::request::Command;
use crate::engine::shard::verbs::look::Look;
use crate::engine::shard::worker::event::Event;
use crate::engine::shard::worker::limits::Limits;
use crate::ground::clock::{Clock, Stamp, SystemClock};
use crate::ground::sync::Mutex;
use crate::ground::sync::slot::slot;

/// Held back, commands take up no room in their mailbox: were all mailboxes
/// emptied after the first of them, nothing would hold the callers up.
#[test]
fn after_a_command_held_back_the_other_mailboxes_keep_theirs() {
    let one_by_one = Limits {
        drained: 1,
        ..Limits::USUAL
    };
    let store = opened_with(Arc::new(SystemClock::default()), one_by_one);
    let other = (0..).map(|n| format!("k{n}"));
    let shard_of = |key: &str| session_file::shard_of(key);
    let mut other = other.filter(|key| shard_of(key) > shard_of("cli"));
    let other = other.next().unwrap();
    let seat = store.machine.workers[0].seat();
    let held = seat.worker.lock();
    let first = truncate(&store, "cli");
    let second = truncate(&store, &other);
    drop(held);
    seat.answer();
    let waiting = seat.drive(|worker, _| worker.held.len());
    assert_eq!(waiting, Some(1));
    until_idle(&store);
    first.wait().unwrap().unwrap();
    second.wait().unwrap().unwrap();
}

/// A clock that ticks once a look, and tells somebody of the first.
struct Ticking {
    ticks: AtomicI64,
    told: Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

impl std::fmt::Debug for Ticking {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.ticks.fmt(f)
    }
}

impl Clock for Ticking {
    fn now(&self) -> OffsetDateTime {
        let ticks = self.ticks.fetch_add(1, Ordering::Relaxed);
        let told = self.told.lock().take();
        if let Some(told) = told {
            told();
        }
        OffsetDateTime::UNIX_EPOCH + Duration::from_secs(ticks.unsigned_abs())
    }

    fn monotonic(&self) -> Duration {
        Duration::ZERO
    }
}

/// Who looks for what was updated since some moment would miss a change asked for after it.
#[test]
fn a_change_that_comes_within_a_turn_is_not_older_than_its_call() {
    let clock = Arc::new(Ticking {
        ticks: AtomicI64::new(0),
        told: Mutex::new(None),
    });
    let store = opened_with(clock.clone(), Limits::USUAL);
    let (engine, asked) = (store.engine.clone(), clock.clone());
    let (moment, called) = slot();
    *clock.told.lock() = Some(Box::new(move || {
        let now = asked.now();
        let (answer, _) = slot();
        let command = Command::new("cli".into(), summary(), answer);
        engine.submit(command).unwrap();
        assert!(moment.fulfil(now).is_none());
    }));
    store.machine.alarm.workers[0].send(Event::Ready);
    until_idle(&store);
    synced(&store, 1);
    let looked = submit(&store, "cli", Look);
    until_idle(&store);
    let called = Stamp::of(called.wait().unwrap());
    let looked = looked.wait().unwrap().unwrap();
    let changed = &looked.snapshot.meta.updated_at;
    assert!(changed.nanos() >= called.nanos(), "{changed} {called}");
}
