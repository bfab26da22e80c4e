//! The seat of a worker: whoever holds it drives the worker's shards.
//!
//! A worker has a thread of its own. It is not worth waking for a command that
//! only has to be staged, nor for a commit that only has to be answered: a caller
//! that finds the seat free takes in what is in the mailboxes itself, and the
//! committer settles what it synced. Whatever may have to wait for a file is left
//! to the thread.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::Waker;

use super::bells::Bells;
use super::{Alarm, Event, Worker};
use crate::journal::committer::Signal;
use crate::shard::command::Command;
use crate::sync::Mutex;
use crate::sync::wake;

/// How often a caller goes on with what others left it, before the worker's
/// thread has to.
const ROUNDS: usize = 4;

/// A seat that somebody holds and does nothing with.
#[cfg(all(feature = "testing", not(sessionlog_loom)))]
#[derive(Debug)]
pub(crate) struct Held<'a>(
    #[expect(dead_code, reason = "held")] crate::sync::MutexGuard<'a, Option<Worker>>,
);

/// A worker, and who may drive it.
#[derive(Debug)]
pub(crate) struct Seat {
    id: usize,
    /// `None` before it is seated, and once it has ended or panicked.
    worker: Mutex<Option<Worker>>,
    /// Looked at by whoever gave the seat up: a ring that found it taken is
    /// theirs to answer.
    bells: Bells,
    alarm: Alarm,
    runtime: wake::Runtime,
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

    /// Has a command carried out on the spot, if nobody drives the worker and no
    /// file is touched.
    ///
    /// # Errors
    /// The command, for its mailbox.
    pub(crate) fn submit(&self, shard: usize, command: Command) -> Result<(), Command> {
        let Some(mut seat) = self.worker.try_lock() else {
            return Err(command);
        };
        let Some(worker) = seat.as_mut() else {
            return Err(command);
        };
        let taken = catch_unwind(AssertUnwindSafe(|| {
            let taken = worker.take_directly(shard, command);
            (taken, worker.take_wakers(), worker.rouse())
        }));
        drop(seat);
        let Ok((taken, wakers, nudge)) = taken else {
            self.collapse();
            return Ok(());
        };
        self.runtime.wake_all(wakers);
        if nudge {
            self.nudge();
        }
        self.pass_on();
        taken
    }

    /// Whether a bell rang that nobody answered. True for whoever gave the seat
    /// up before, if the ring found it taken.
    pub(super) fn is_rung(&self) -> bool {
        self.bells.is_rung()
    }

    /// Lets the worker's thread drive it, for as long as `act` takes; `None` if
    /// there is no worker any more.
    pub(super) fn drive<R>(&self, act: impl FnOnce(&mut Worker, &Bells) -> R) -> Option<R> {
        let (result, wakers) = {
            let mut seat = self.worker.lock();
            let worker = seat.as_mut()?;
            (act(worker, &self.bells), worker.take_wakers())
        };
        self.runtime.wake_all(wakers);
        Some(result)
    }

    /// Settles what the committer synced, if nobody drives the worker and no file
    /// is touched. The callers to wake are added to `wakers`.
    ///
    /// # Errors
    /// The signal, for the worker's thread.
    pub(crate) fn settle(&self, signal: Signal, wakers: &mut Vec<Waker>) -> Result<(), Signal> {
        let Some(mut seat) = self.worker.try_lock() else {
            return Err(signal);
        };
        let Some(worker) = seat
            .as_mut()
            .filter(|worker| worker.settles_quickly(&signal))
        else {
            return Err(signal);
        };
        let settled = catch_unwind(AssertUnwindSafe(|| {
            worker.settle_quickly(signal);
            worker.take_wakers()
        }));
        match settled {
            Ok(answered) => {
                let nudge = worker.rouse();
                drop(seat);
                wakers.extend(answered);
                if nudge {
                    self.nudge();
                }
                self.pass_on();
            }
            Err(_) => {
                drop(seat);
                self.collapse();
            }
        }
        Ok(())
    }

    /// Keeps everybody else from driving the worker.
    #[cfg(all(feature = "testing", not(sessionlog_loom)))]
    pub(crate) fn hold(&self) -> Held<'_> {
        Held(self.worker.lock())
    }

    /// Takes in what rang, if nobody drives the worker; if somebody does, they
    /// look at the bells once more when they are done.
    fn answer(&self) {
        for _ in 0..ROUNDS {
            let Some(mut seat) = self.worker.try_lock() else {
                return;
            };
            let Some(worker) = seat.as_mut() else {
                return;
            };
            let taken = catch_unwind(AssertUnwindSafe(|| {
                worker.take_in(&self.bells);
                (worker.take_wakers(), worker.rouse(), worker.holds_back())
            }));
            drop(seat);
            let Ok((wakers, nudge, held)) = taken else {
                return self.collapse();
            };
            self.runtime.wake_all(wakers);
            if nudge {
                self.nudge();
            }
            if held || !self.is_rung() {
                return;
            }
        }
        self.nudge();
    }

    /// Looks at the bells after the seat was given up.
    fn pass_on(&self) {
        if self.is_rung() {
            self.answer();
        }
    }

    fn nudge(&self) {
        self.alarm.workers[self.id].send(Event::Ready);
    }

    /// A caller, or the committer, must not be unwound by what broke in a shard:
    /// the store is poisoned, as when the worker's thread panics.
    fn collapse(&self) {
        self.alarm.raise(&"a shard panicked".into());
        self.vacate();
    }
}
