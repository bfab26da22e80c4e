use std::future::Future;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use crate::disk::journal::committer::{Outcome, Signal};
use crate::disk::journal::group::{Batch, Taken};
use crate::disk::session_file;
use crate::engine::open::{self, Opened, Site};
use crate::engine::position::Keep;
use crate::engine::shard::request::{Command, Verb};
use crate::engine::shard::verbs::append::Append;
use crate::engine::shard::verbs::delete::Delete;
use crate::engine::shard::verbs::look::Look;
use crate::engine::shard::verbs::subscribe::Subscribe;
use crate::engine::shard::verbs::summary::SetSummary;
use crate::engine::shard::verbs::update::Update;
use crate::engine::shard::worker::event::Event;
use crate::engine::shard::worker::limits::Limits;
use crate::ground::clock::{Clock, SystemClock};
use crate::ground::sync::Mutex;
use crate::ground::sync::slot::{Slot, slot};
use crate::testing::disk_model::MemoryStorage;
use crate::{Durability, Error, Result, StoreOptions};

mod chores;
mod intake;

/// A store with one worker, which only the test drives.
fn opened() -> Opened {
    opened_with(Arc::new(SystemClock::default()), Limits::USUAL)
}

fn opened_with(clock: Arc<dyn Clock>, limits: Limits) -> Opened {
    opened_on(&MemoryStorage::new(), clock, limits)
}

fn opened_on(storage: &MemoryStorage, clock: Arc<dyn Clock>, limits: Limits) -> Opened {
    let site = Site {
        storage: Arc::new(storage.clone()),
        clock,
        dir: Path::new("/sessions"),
        options: &StoreOptions::new(),
        workers: 1,
        mailbox: 16,
        limits,
        keep_from: 1,
    };
    open::open(&site).unwrap()
}

fn submit<V: Verb>(store: &Opened, key: &str, verb: V) -> Slot<Result<V::Output>> {
    let (answer, slot) = slot();
    let command = Command::new(key.into(), verb, answer);
    store.engine.submit(command).unwrap();
    slot
}

fn summary() -> SetSummary {
    SetSummary {
        summary: String::from("what was said"),
        level: Durability::Durable,
    }
}

fn summarize(store: &Opened, key: &str) -> Slot<Result<()>> {
    submit(store, key, summary())
}

fn append(store: &Opened, key: &str, level: Durability) -> Slot<Result<()>> {
    let append = Append {
        lines: b"{\"role\":\"user\",\"content\":\"x\"}\n".to_vec(),
        count: 1,
        once: None,
        level,
    };
    submit(store, key, append)
}

fn truncate(store: &Opened, key: &str) -> Slot<Result<()>> {
    let keep = Some(Keep::Last(0));
    let truncate = Update {
        keep,
        ..Update::default()
    };
    submit(store, key, truncate)
}

/// What the committer does once so many batches are synced.
fn synced(store: &Opened, number: u64) {
    assert!(told(store, number, Outcome::Synced));
}

/// Whether the committer settled it.
fn told(store: &Opened, number: u64, outcome: Outcome) -> bool {
    let signal = Signal {
        producer: 0,
        number,
        outcome,
    };
    let seat = store.machine.workers[0].seat();
    seat.settle(signal, usize::MAX, &mut Vec::new()).is_ok()
}

fn until_idle(store: &Opened) {
    while store.machine.workers[0].step(false) {}
}

/// A session with one line, by the batch of this number.
fn create(store: &Opened, number: u64, key: &str) {
    let created = append(store, key, Durability::Durable);
    until_idle(store);
    synced(store, number);
    until_idle(store);
    created.wait().unwrap().unwrap();
}

#[derive(Default)]
struct Wakes(AtomicUsize);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// Whoever closes the store waits for this, and nothing else would wake the
/// worker's thread.
#[test]
fn a_drain_ends_though_the_committer_settled_what_was_last_in_flight() {
    let store = opened();
    let first = summarize(&store, "cli");
    until_idle(&store);
    synced(&store, 1);
    until_idle(&store);
    first.wait().unwrap().unwrap();

    let last = summarize(&store, "cli");
    let (drained, slot) = slot();
    store.machine.alarm.workers[0].send(Event::Drain(drained));
    assert!(store.machine.workers[0].step(false));
    // Before the thread looks for how long it may sleep.
    synced(&store, 2);
    until_idle(&store);
    last.wait().unwrap().unwrap();
    let drained = slot.poll(&mut Context::from_waker(Waker::noop()));
    assert_eq!(drained, Poll::Ready(Some(())));
}

/// The committer may tell of a sync that it had begun before somebody else
/// stopped the store. Lines that nobody may write any more are no work.
#[test]
fn a_worker_that_stopped_rests_whatever_it_is_told_after() {
    let store = opened();
    create(&store, 1, "cli");
    let unwritten = append(&store, "cli", Durability::Durable);
    synced(&store, 2);
    unwritten.wait().unwrap().unwrap();
    for outcome in [Outcome::Poisoned("a job panicked".into()), Outcome::Synced] {
        let signal = Signal {
            producer: 0,
            number: 2,
            outcome,
        };
        store.machine.alarm.workers[0].send(Event::Journal(signal));
    }
    let rests = (0..100).any(|_| !store.machine.workers[0].step(false));
    assert!(rests, "it goes on for ever");
}

#[test]
fn who_was_answered_before_a_panic_is_woken() {
    let store = opened();
    let (promise, slot) = slot::<Result<()>>();
    let wakes = Arc::new(Wakes::default());
    let caller = Waker::from(wakes.clone());
    assert!(slot.poll(&mut Context::from_waker(&caller)).is_pending());
    let seat = store.machine.workers[0].seat();
    let driven = seat.drive(|worker, _| {
        worker.out.answer(promise, Ok(()));
        panic!("as a broken shard does");
    });
    assert!(driven.is_none());
    assert_eq!(wakes.0.load(Ordering::Relaxed), 1);
}

/// Of what a panic left of a worker nothing can be believed.
#[test]
fn a_worker_that_panicked_settles_nothing() {
    let store = opened();
    let waiting = summarize(&store, "cli");
    until_idle(&store);
    let seat = store.machine.workers[0].seat();
    let driven = seat.drive(|_, _| panic!("as a broken shard does"));
    assert!(driven.is_none());
    assert!(!told(&store, 1, Outcome::Synced), "it was settled");
    assert!(waiting.wait().is_none_or(|answer| answer.is_err()));
}

/// Who decided on what the session was must not take away what was said since.
#[test]
fn a_session_that_changed_is_not_deleted_for_who_expects_another_version() {
    let store = opened();
    create(&store, 1, "cli");
    let looked = submit(&store, "cli", Look);
    until_idle(&store);
    let expect = looked.wait().unwrap().unwrap().snapshot.meta.version;
    let said = append(&store, "cli", Durability::Durable);
    let late = Delete {
        expect: Some(expect),
    };
    let late = submit(&store, "cli", late);
    until_idle(&store);
    let signal = Signal {
        producer: 0,
        number: 2,
        outcome: Outcome::Synced,
    };
    // What waits may touch files: the committer leaves it to the worker.
    let seat = store.machine.workers[0].seat();
    let _driven = seat.drive(|worker, _| worker.signal(signal));
    until_idle(&store);
    said.wait().unwrap().unwrap();
    let refused = late.wait().unwrap();
    assert!(
        matches!(refused, Err(Error::VersionConflict { .. })),
        "{refused:?}"
    );
    let looked = submit(&store, "cli", Look);
    until_idle(&store);
    assert_eq!(looked.wait().unwrap().unwrap().lines, 2);
}

/// Of buffered records many are shown and not synced: looked through at every
/// write, they would cost the more the more there are.
#[test]
fn what_is_shown_already_says_nothing_of_what_is_shown_next() {
    let store = opened();
    for (number, key) in [(1, "a"), (2, "b")] {
        create(&store, number, key);
    }
    let shown = append(&store, "a", Durability::Buffered);
    assert!(told(&store, 3, Outcome::Written));
    shown.wait().unwrap().unwrap();
    // Waits for the sync, and may touch the file then.
    let _truncated = truncate(&store, "a");
    until_idle(&store);
    let next = append(&store, "b", Durability::Buffered);
    assert!(told(&store, 4, Outcome::Written));
    next.wait().unwrap().unwrap();
    assert!(!told(&store, 4, Outcome::Synced));
}

/// Reads, when it is woken, whether a caller was answered and how many messages
/// were counted.
struct Witness {
    answered: Slot<Result<()>>,
    counters: Arc<crate::engine::stats::Counters>,
    seen: Mutex<Option<(bool, u64)>>,
}

impl Wake for Witness {
    fn wake(self: Arc<Self>) {
        let answer = self.answered.poll(&mut Context::from_waker(Waker::noop()));
        let messages = self.counters.read(0).messages;
        *self.seen.lock() = Some((answer.is_ready(), messages));
    }
}

/// As with durable ones: who has an answer finds it counted.
#[test]
fn a_buffered_append_is_counted_before_it_is_answered() {
    let store = opened();
    // Of one shard, so that they come into one batch in this order.
    let shard = session_file::shard_of("a");
    let mut others = (0..).map(|n| format!("k{n}"));
    let other = others
        .find(|key| session_file::shard_of(key) == shard)
        .unwrap();
    for (number, key) in [(1, "a"), (2, other.as_str())] {
        create(&store, number, key);
    }
    let watch = submit(&store, &other, Subscribe);
    until_idle(&store);
    let mut watch = watch.wait().unwrap().unwrap();

    let seat = store.machine.workers[0].seat();
    let held = seat.worker.lock();
    let first = append(&store, "a", Durability::Buffered);
    let _second = append(&store, &other, Durability::Buffered);
    drop(held);
    seat.answer();
    let counters = store.engine.shared.counters.clone();
    let before = counters.read(0).messages;
    let witness = Arc::new(Witness {
        answered: first,
        counters,
        seen: Mutex::default(),
    });
    let waker = Waker::from(witness.clone());
    let mut changed = Box::pin(watch.changed());
    let pending = changed.as_mut().poll(&mut Context::from_waker(&waker));
    assert!(pending.is_pending());
    assert!(told(&store, 3, Outcome::Written));
    let seen = witness.seen.lock().unwrap();
    assert!(seen.0, "the first is answered by then");
    assert!(seen.1 > before, "answered, and not counted");
}

/// Without it, a truncation after a buffered append would wait for nothing.
#[test]
fn whoever_waits_for_a_buffered_change_has_it_synced() {
    let store = opened();
    let seat = store.machine.workers[0].seat();
    let taken = || {
        let mut batch = Batch::new();
        let taken = seat.drive(|worker, _| worker.group.take(&mut batch));
        (taken.unwrap(), batch.durable)
    };
    let created = append(&store, "a", Durability::Durable);
    until_idle(&store);
    assert_eq!(taken(), (Taken::Batch, true));
    synced(&store, 1);
    until_idle(&store);
    created.wait().unwrap().unwrap();
    let _shown = append(&store, "a", Durability::Buffered);
    until_idle(&store);
    assert_eq!(taken(), (Taken::Batch, false));
    let _next = append(&store, "a", Durability::Buffered);
    let _truncated = truncate(&store, "a");
    until_idle(&store);
    assert_eq!(taken(), (Taken::Batch, true));
}

/// With so much in flight that nothing more is taken in, a closing store still
/// carries out what it accepted, in its order, before it says that it is done.
#[test]
fn a_drain_carries_out_what_was_held_back_first() {
    let store = opened();
    let seat = store.machine.workers[0].seat();
    let large = |len: usize| Append {
        lines: [&vec![b'x'; len][..], b"\n"].concat(),
        count: 1,
        once: None,
        level: Durability::Durable,
    };
    let held = seat.worker.lock();
    let mut appends = Vec::new();
    for len in [40 << 20, 40 << 20, 1] {
        appends.push(submit(&store, "a", large(len)));
    }
    drop(held);
    until_idle(&store);
    let waiting = seat.drive(|worker, _| worker.held.len());
    assert_eq!(waiting, Some(1), "nothing is held back");
    appends.push(submit(&store, "a", large(2)));
    let (promise, drained) = slot();
    assert!(
        seat.drive(|worker, _| worker.start_drain(promise))
            .is_some()
    );
    until_idle(&store);
    let lens = seat.drive(|worker, _| {
        let lines = worker.inflight.ops().chain(&worker.staging.ops);
        let lens = lines.map(|op| op.change.added().map_or(0, |added| added.len));
        lens.collect::<Vec<_>>()
    });
    let expected = [(40 << 20) + 1, (40 << 20) + 1, 2, 3];
    assert_eq!(lens.unwrap(), expected);
    let mut context = Context::from_waker(Waker::noop());
    assert!(drained.poll(&mut context).is_pending());
    let last = seat.drive(|worker, _| worker.next_number - 1).unwrap();
    // Of so much the session's file is written: that is the worker's thread's.
    let _ = told(&store, last, Outcome::Synced);
    let signal = Signal {
        producer: 0,
        number: last,
        outcome: Outcome::Synced,
    };
    seat.drive(|worker, _| worker.signal(signal));
    until_idle(&store);
    for append in appends {
        append.wait().unwrap().unwrap();
    }
    drained.wait().unwrap();
}
