//! The seat of a worker: whoever holds it drives the worker's shards.
//!
//! A worker has a thread of its own. Waking it costs more than a command that only
//! has to be staged, or a commit that only has to be answered: a caller that finds
//! the seat free takes in its command itself, and the committer settles what it
//! synced. What may have to wait for a session's files is left to the thread. What was
//! staged whoever drove may write to the journal, without the seat.

use std::fmt::Debug;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::task::Waker;

use super::Worker;
use super::alarm::Alarm;
use super::bells::Bells;
use super::event::Event;
use crate::disk::journal::committer::Signal;
use crate::disk::journal::group::{Lead, Led};
use crate::engine::shard::request::Command;
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
    journal: Arc<dyn Leads>,
}

/// Whom records are committed through in the committer's place, while it sleeps or is away.
pub(crate) trait Leads: Debug + Send + Sync {
    /// Commits what is queued, as far as `lead` goes, unless somebody does already: they
    /// look once more when they are done.
    fn lead(&self, lead: Lead);
}

/// What came of driving without waiting for the seat.
enum Driven<R> {
    /// What was done, and what is to be seen to because of it.
    Done(R, Left),
    /// Somebody else drives, or there is no worker any more.
    Taken,
    /// The worker panicked, and is gone.
    Broken,
}

/// What whoever drove sees to once the seat is given up: settling takes the seat, and who
/// is woken may want it.
struct Left {
    wakers: Vec<Waker>,
    /// Whether the committer sleeps over what was handed to it.
    led: bool,
}

impl Left {
    fn by(worker: &mut Worker) -> Self {
        Self {
            wakers: worker.take_wakers(),
            led: worker.take_led(),
        }
    }
}

impl Seat {
    /// An empty seat for worker `id`.
    pub(crate) fn new(
        id: usize,
        alarm: Alarm,
        runtime: wake::Runtime,
        journal: Arc<dyn Leads>,
    ) -> Self {
        Self {
            id,
            worker: Mutex::tried(None),
            bells: Bells::default(),
            alarm,
            runtime,
            journal,
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
    /// touched; else leaves it where it is, for its mailbox. Says whether the caller has
    /// to see to its records, as `lead` allows.
    pub(crate) fn submit(&self, shard: usize, command: &mut Option<Command>, lead: Lead) -> Led {
        let driven = self.try_drive(|worker, _| worker.take_directly(shard, command, lead));
        let Driven::Done(seen_to, left) = driven else {
            return Led::Elsewhere;
        };
        self.see_to(left);
        seen_to
    }

    /// Settles what the committer wrote or synced, if it is `most` bytes of records at
    /// most, nobody drives the worker and no file is touched. The callers to wake are added
    /// to `wakers`.
    ///
    /// # Errors
    /// The signal, for the worker's thread.
    pub(crate) fn settle(
        &self,
        signal: Signal,
        most: usize,
        wakers: &mut Vec<Waker>,
    ) -> Result<(), Signal> {
        match self.try_drive(|worker, _| worker.settle_quickly(&signal, most)) {
            // Whoever settles holds the journal, and looks at the queue again.
            Driven::Done(settled, left) => {
                wakers.extend(left.wakers);
                if settled { Ok(()) } else { Err(signal) }
            }
            Driven::Taken => Err(signal),
            Driven::Broken => Ok(()),
        }
    }

    /// Lets the worker's thread drive it, for as long as `act` takes; `None` if
    /// there is no worker any more.
    pub(super) fn drive<R>(&self, act: impl FnOnce(&mut Worker, &Bells) -> R) -> Option<R> {
        let (result, left) = self.act(self.worker.lock(), |worker, bells| {
            (act(worker, bells), Left::by(worker))
        })?;
        self.see_to(left);
        Some(result)
    }

    /// Does for the worker what needs no seat, on its thread. A panic ends the worker as
    /// one under the seat does. Who rang while the thread held the seat is answered first:
    /// they would wait for all of it.
    pub(super) fn beside<R>(&self, act: impl FnOnce() -> R) -> Option<R> {
        if self.is_rung() {
            self.answer();
        }
        let acted = catch_unwind(AssertUnwindSafe(act));
        if acted.is_err() {
            self.collapse(self.worker.lock());
        }
        acted.ok()
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
            let Driven::Done(held, left) = driven else {
                return;
            };
            self.see_to(left);
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
            (result, Left::by(worker), worker.rouse())
        });
        let Some((result, left, nudge)) = driven else {
            return Driven::Broken;
        };
        if nudge {
            self.nudge();
        }
        Driven::Done(result, left)
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

    fn see_to(&self, left: Left) {
        self.runtime.wake_all(left.wakers);
        if left.led {
            self.journal.lead(Lead::Write);
        }
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
mod tests;
