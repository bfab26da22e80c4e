//! The seat of a worker: whoever holds it drives the worker's shards.
//!
//! A worker has a thread of its own. Waking it costs more than a command that only
//! has to be staged, or a commit that only has to be answered: a caller that finds
//! the seat free takes in its command itself, and the committer settles what it
//! synced. What may have to wait for a file is left to the thread.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::Waker;

use super::alarm::Alarm;
use super::bells::Bells;
use super::{Event, Worker};
use crate::disk::journal::committer::Signal;
use crate::engine::shard::command::Command;
use crate::ground::sync::{Mutex, MutexGuard, wake};

/// How often a caller goes on with what others left to it, before the worker's
/// thread has to: a caller has work of its own.
const ROUNDS: usize = 4;

/// A worker, and who may drive it.
///
/// Nothing in here waits for the seat but the worker's thread. Whoever else finds
/// it taken leaves what they brought where the one who holds it will look: in a
/// mailbox, whose bell is looked at once more after the seat was given up.
#[derive(Debug)]
pub(crate) struct Seat {
    id: usize,
    /// `None` before it is seated, and once it has ended or panicked.
    worker: Mutex<Option<Worker>>,
    bells: Bells,
    alarm: Alarm,
    runtime: wake::Runtime,
}

/// What came of driving without waiting for the seat.
enum Driven<R> {
    /// What was done, and who is to be woken because of it.
    Done(R, Vec<Waker>),
    /// Somebody else drives, or there is no worker any more.
    Taken,
    /// The worker panicked, and is gone.
    Broken,
}

impl Seat {
    /// An empty seat for worker `id`.
    pub(crate) fn new(id: usize, alarm: Alarm, runtime: wake::Runtime) -> Self {
        Self {
            id,
            worker: Mutex::new(None),
            bells: Bells::default(),
            alarm,
            runtime,
        }
    }

    /// Seats the worker.
    pub(super) fn occupy(&self, worker: Worker) {
        *self.worker.lock() = Some(worker);
    }

    /// Ends the worker: its mailboxes close.
    pub(super) fn vacate(&self) {
        let worker = self.worker.lock().take();
        // Not under the lock: what a worker drops may wake callers.
        drop(worker);
    }

    /// Something came into the mailbox of `shard`.
    pub(crate) fn ring(&self, shard: usize) {
        if self.bells.ring(shard) {
            self.answer();
        }
    }

    /// Whether a bell rang that nobody answered. To be asked after the seat was
    /// given up: a ring that found it taken counts on that.
    pub(super) fn is_rung(&self) -> bool {
        self.bells.is_rung()
    }

    /// Takes a command in on the spot, if nobody drives the worker and no file is
    /// touched; else leaves it where it is, for its mailbox.
    pub(crate) fn submit(&self, shard: usize, command: &mut Option<Command>) {
        let driven = self.try_drive(|worker, _| worker.take_directly(shard, command));
        if let Driven::Done((), wakers) = driven {
            self.runtime.wake_all(wakers);
        }
    }

    /// Settles what the committer wrote or synced, if nobody drives the worker and
    /// no file is touched. The callers to wake are added to `wakers`.
    ///
    /// # Errors
    /// The signal, for the worker's thread.
    pub(crate) fn settle(&self, signal: Signal, wakers: &mut Vec<Waker>) -> Result<(), Signal> {
        match self.try_drive(|worker, _| worker.settle_quickly(&signal)) {
            Driven::Done(settled, answered) => {
                wakers.extend(answered);
                if settled { Ok(()) } else { Err(signal) }
            }
            Driven::Taken => Err(signal),
            Driven::Broken => Ok(()),
        }
    }

    /// Lets the worker's thread drive it, for as long as `act` takes; `None` if
    /// there is no worker any more.
    pub(super) fn drive<R>(&self, act: impl FnOnce(&mut Worker, &Bells) -> R) -> Option<R> {
        let (result, wakers) = self.act(self.worker.lock(), |worker, bells| {
            (act(worker, bells), worker.take_wakers())
        })?;
        self.runtime.wake_all(wakers);
        Some(result)
    }

    /// Ends the worker as a panic in it does.
    #[cfg(all(feature = "testing", sessionlog_loom))]
    pub(crate) fn break_down(&self) {
        self.collapse(self.worker.lock());
    }

    /// Keeps everybody else from driving the worker.
    #[cfg(feature = "testing")]
    pub(crate) fn hold(&self) -> Held<'_> {
        Held(self.worker.lock())
    }

    /// Takes in what rang, if nobody drives the worker; if somebody does, they
    /// look at the bells once more when they are done.
    fn answer(&self) {
        for _ in 0..ROUNDS {
            let driven = self.try_act(|worker, bells| {
                worker.take_in(bells);
                worker.holds_back()
            });
            let Driven::Done(held, wakers) = driven else {
                return;
            };
            self.runtime.wake_all(wakers);
            // What is held back the worker's thread was told of; it looks at the
            // bells, too.
            if held || !self.is_rung() {
                return;
            }
        }
        self.nudge();
    }

    /// Drives, if nobody else does, and answers who found the seat taken.
    fn try_drive<R>(&self, act: impl FnOnce(&mut Worker, &Bells) -> R) -> Driven<R> {
        let driven = self.try_act(act);
        if matches!(driven, Driven::Done(..)) && self.is_rung() {
            self.answer();
        }
        driven
    }

    fn try_act<R>(&self, act: impl FnOnce(&mut Worker, &Bells) -> R) -> Driven<R> {
        let Some(seat) = self.worker.try_lock().filter(|seat| seat.is_some()) else {
            return Driven::Taken;
        };
        let driven = self.act(seat, |worker, bells| {
            let result = act(worker, bells);
            (result, worker.take_wakers(), worker.rouse())
        });
        let Some((result, wakers, nudge)) = driven else {
            return Driven::Broken;
        };
        if nudge {
            self.nudge();
        }
        Driven::Done(result, wakers)
    }

    /// Drives, and gives the seat up. A panic ends the worker and poisons the
    /// store; it goes no further, for neither callers nor the committer must be
    /// unwound by what broke in a shard.
    fn act<R>(
        &self,
        mut seat: MutexGuard<'_, Option<Worker>>,
        act: impl FnOnce(&mut Worker, &Bells) -> R,
    ) -> Option<R> {
        let worker = seat.as_mut()?;
        let acted = catch_unwind(AssertUnwindSafe(|| act(worker, &self.bells)));
        if acted.is_err() {
            self.collapse(seat);
        }
        acted.ok()
    }

    /// The worker leaves the seat before anybody else can take it: what a panic
    /// left of it must not settle anything. It is dropped after the alarm: whoever
    /// finds its mailboxes closed must find the reason as well.
    fn collapse(&self, mut seat: MutexGuard<'_, Option<Worker>>) {
        let mut broken = seat.take();
        drop(seat);
        self.alarm.raise(&"a shard panicked".into());
        // Whoever was answered before the panic has their answer, and waits to be
        // told.
        let wakers = broken.as_mut().map(Worker::take_wakers);
        drop(broken);
        self.runtime.wake_all(wakers.unwrap_or_default());
    }

    fn nudge(&self) {
        self.alarm.workers[self.id].send(Event::Ready);
    }
}

/// A seat that somebody holds and does nothing with.
#[cfg(feature = "testing")]
#[derive(Debug)]
pub(crate) struct Held<'a>(#[expect(dead_code, reason = "held")] MutexGuard<'a, Option<Worker>>);

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::path::Path;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::{Context, Poll, Wake, Waker};

    use super::super::Event;
    use crate::disk::journal::committer::{Outcome, Signal};
    use crate::disk::session_file;
    use crate::engine::open::{self, Opened, Site};
    use crate::engine::shard::command::{Command, Verb};
    use crate::engine::shard::converse::Converse;
    use crate::ground::clock::SystemClock;
    use crate::ground::sync::Mutex;
    use crate::ground::sync::slot::{Slot, slot};
    use crate::testing::disk_model::MemoryStorage;
    use crate::{Durability, Result, StoreOptions};

    /// A store with one worker, which only the test drives.
    fn opened() -> Opened {
        let site = Site {
            storage: Arc::new(MemoryStorage::new()),
            clock: Arc::new(SystemClock::default()),
            dir: Path::new("/sessions"),
            options: &StoreOptions::new(),
            workers: 1,
            mailbox: 16,
        };
        open::open(&site).unwrap()
    }

    fn summarize(store: &Opened, key: &str) -> Slot<Result<()>> {
        let (answer, slot) = slot();
        let verb = Verb::SetSummary {
            summary: String::from("what was said"),
            level: Durability::Durable,
            answer,
        };
        let key = key.into();
        store.engine.submit(Command { key, verb }).unwrap();
        slot
    }

    fn append(store: &Opened, key: &str, level: Durability) -> Slot<Result<()>> {
        let (answer, slot) = slot();
        let verb = Verb::Append {
            lines: b"{\"role\":\"user\",\"content\":\"x\"}\n".to_vec(),
            count: 1,
            level,
            answer,
        };
        let key = key.into();
        store.engine.submit(Command { key, verb }).unwrap();
        slot
    }

    fn truncate(store: &Opened, key: &str) -> Slot<Result<()>> {
        let (answer, slot) = slot();
        let verb = Verb::Truncate {
            keep_last: 0,
            answer,
        };
        let key = key.into();
        store.engine.submit(Command { key, verb }).unwrap();
        slot
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
        seat.settle(signal, &mut Vec::new()).is_ok()
    }

    fn until_idle(store: &Opened) {
        while store.machine.workers[0].step(false) {}
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
        let created = append(&store, "cli", Durability::Durable);
        until_idle(&store);
        synced(&store, 1);
        until_idle(&store);
        created.wait().unwrap().unwrap();
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

    /// Held back, commands take up no room in their mailbox: were all mailboxes
    /// emptied behind the first of them, nothing would hold the callers up.
    #[test]
    fn behind_a_command_held_back_the_other_mailboxes_keep_theirs() {
        let store = opened();
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

    /// Of buffered records many are shown and not synced: looked through at every
    /// write, they would cost the more the more there are.
    #[test]
    fn what_is_shown_already_says_nothing_of_what_is_shown_next() {
        let store = opened();
        for (number, key) in [(1, "a"), (2, "b")] {
            let created = append(&store, key, Durability::Durable);
            until_idle(&store);
            synced(&store, number);
            until_idle(&store);
            created.wait().unwrap().unwrap();
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
            let messages = self.counters.read().messages;
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
            let created = append(&store, key, Durability::Durable);
            until_idle(&store);
            synced(&store, number);
            until_idle(&store);
            created.wait().unwrap().unwrap();
        }
        let (answer, watch) = slot();
        let verb = Verb::Converse(Box::new(Converse::Subscribe { answer }));
        let key = other.as_str().into();
        store.engine.submit(Command { key, verb }).unwrap();
        until_idle(&store);
        let mut watch = watch.wait().unwrap().unwrap();

        let seat = store.machine.workers[0].seat();
        let held = seat.worker.lock();
        let first = append(&store, "a", Durability::Buffered);
        let _second = append(&store, &other, Durability::Buffered);
        drop(held);
        seat.answer();
        let counters = store.engine.context.counters.clone();
        let before = counters.read().messages;
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
}
