//! The seat of the worker: the thread that holds it works on the shards.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use sessionlog_wal::sync::{Mutex, MutexGuard, wake};

use super::Worker;
use super::alarm::Alarm;
use super::event::Event;
use crate::engine::shard::inbox::Inbox;

/// The worker, behind the lock of the thread that works on it.
///
/// The lock is held for microseconds, except by the worker's thread while it loads a session or
/// puts a new file in an old one's place.
#[derive(Debug)]
pub(crate) struct Seat {
    /// `None` before it is seated, and once it has ended or panicked.
    worker: Mutex<Option<Worker>>,
    inboxes: Arc<[Inbox]>,
    alarm: Alarm,
    runtime: wake::Runtime,
}

impl Seat {
    /// An empty seat.
    pub(crate) fn new(inboxes: Arc<[Inbox]>, alarm: Alarm, runtime: wake::Runtime) -> Self {
        Self {
            worker: Mutex::tried(None),
            inboxes,
            alarm,
            runtime,
        }
    }

    /// Seats the worker.
    pub(super) fn occupy(&self, worker: Worker) {
        *self.worker.lock() = Some(worker);
    }

    /// True if another thread works on the worker at this moment.
    pub(crate) fn is_taken(&self) -> bool {
        self.worker.try_lock().is_none()
    }

    /// Ends the worker: queued items get no answer any more.
    pub(super) fn vacate(&self) {
        let worker = self.worker.lock().take();
        // Not under the lock: dropping a worker may wake callers.
        self.end(worker);
    }

    /// Ends all answers: all waiting callers are woken and told so.
    fn end(&self, mut worker: Option<Worker>) {
        let mut wakers = worker.as_mut().map(Worker::take_wakers).unwrap_or_default();
        drop(worker);
        wakers.append(&mut Worker::end_inboxes(&self.inboxes));
        self.runtime.wake_all(wakers);
    }

    /// Lets the worker's thread work on it, for as long as `act` takes, and wakes the callers that
    /// were answered. Also returns true if something is staged. `None` if there is no worker any
    /// more.
    pub(super) fn drive<R>(&self, act: impl FnOnce(&mut Worker) -> R) -> Option<(R, bool)> {
        let (result, wakers, staged) = self.act(self.worker.lock(), |worker| {
            let result = act(worker);
            let wakers = std::mem::take(&mut worker.out.wakers);
            (result, wakers, worker.has_staged())
        })?;
        self.runtime.wake_all(wakers);
        Some((result, staged))
    }

    /// Lets the leader work on it. The worker's thread is told if it has something to do, and the
    /// leader's thread if something is left staged.
    pub(crate) fn lead<R>(&self, act: impl FnOnce(&mut Worker) -> R) -> Option<R> {
        let (result, wakers, nudge, staged) = self.act(self.worker.lock(), |worker| {
            let result = act(worker);
            let wakers = std::mem::take(&mut worker.out.wakers);
            (result, wakers, worker.rouse(), worker.has_staged())
        })?;
        if nudge {
            self.alarm.worker.send(Event::Ready);
        }
        if staged {
            self.alarm.ready.look();
        }
        self.runtime.wake_all(wakers);
        Some(result)
    }

    /// Runs work of the worker's thread that needs no seat. A panic ends the worker as one under
    /// the seat does.
    pub(super) fn beside<R>(&self, act: impl FnOnce() -> R) -> Option<R> {
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

    /// Runs `act` on the worker. A panic ends the worker and poisons the store; it goes no further,
    /// because a broken shard must unwind neither callers nor the leader.
    fn act<R>(
        &self,
        mut seat: MutexGuard<'_, Option<Worker>>,
        act: impl FnOnce(&mut Worker) -> R,
    ) -> Option<R> {
        let worker = seat.as_mut()?;
        let acted = catch_unwind(AssertUnwindSafe(|| act(worker)));
        if acted.is_err() {
            self.collapse(seat);
        }
        acted.ok()
    }

    /// Ends the worker after a panic. It leaves the seat before any other thread can take it: its
    /// broken state must not settle anything. It is dropped after the alarm: a caller that finds
    /// its answer missing must find the reason as well.
    fn collapse(&self, mut seat: MutexGuard<'_, Option<Worker>>) {
        let broken = seat.take();
        drop(seat);
        self.alarm.raise(&"a shard panicked".into());
        self.end(broken);
    }
}
