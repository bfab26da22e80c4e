//! The command mailbox: bounded, rung by a bell, ended by a close.

use super::imp::Queue;
use super::waiting::Waiting;
use crate::ground::sync::atomic::{AtomicBool, Ordering};
use crate::ground::sync::wake::Runtime;
use crate::ground::sync::{Condvar, Mutex, RwLock};
use std::sync::Arc;
use std::task::{Context, Poll};

/// The producing end of a mailbox; clones send into the same one.
///
/// Dropping every sender does not end the mailbox: only its receiver does.
pub struct Sender<T> {
    shared: Arc<Shared<T>>,
}

/// The consuming end of a mailbox. Dropping it closes the mailbox.
pub struct Receiver<T> {
    shared: Arc<Shared<T>>,
    runtime: Runtime,
}

/// The mailbox no longer accepts items; here is the one that was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Closed<T>(pub T);

/// Why an item was not queued, and the item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrySendError<T> {
    /// There is no room at the moment.
    Full(T),
    /// The mailbox no longer accepts items.
    Closed(T),
}

struct Shared<T> {
    queue: Queue<T>,
    /// Whether the mailbox is closed. Senders queue under its read lock and
    /// closing takes its write lock, so an item is queued either before the
    /// close collects what is left, or not at all.
    closed: RwLock<bool>,
    /// Whether the consumer was rung and has not started a drain since.
    rung: AtomicBool,
    bell: Box<dyn Fn() + Send + Sync>,
    /// A sender registers, and looks for room once more, under this lock; the
    /// consumer takes it after it made room. Locked before `closed`, never
    /// after it.
    waiting: Mutex<Waiting>,
    room: Condvar,
}

/// A first-in first-out mailbox with room for `capacity` items, at least one.
///
/// `bell` is called by a sender after it queued an item, unless a ring is still
/// unanswered; the consumer answers it with a [`drain`](Receiver::drain), also
/// from within the bell: the sender holds no lock of this mailbox then. It must
/// not block.
pub fn bounded<T>(
    capacity: usize,
    bell: impl Fn() + Send + Sync + 'static,
) -> (Sender<T>, Receiver<T>) {
    let shared = Arc::new(Shared {
        queue: Queue::new(capacity.max(1)),
        closed: RwLock::new(false),
        rung: AtomicBool::new(false),
        bell: Box::new(bell),
        waiting: Mutex::new(Waiting::default()),
        room: Condvar::new(),
    });
    let sender = Sender {
        shared: Arc::clone(&shared),
    };
    let receiver = Receiver {
        shared,
        runtime: Runtime::default(),
    };
    (sender, receiver)
}

impl<T> Sender<T> {
    /// Queues an item, blocking this thread while the mailbox is full.
    ///
    /// # Errors
    /// When the mailbox is closed, before or while it waits.
    pub fn send(&self, item: T) -> Result<(), Closed<T>> {
        match self.try_send(item) {
            Ok(()) => Ok(()),
            Err(TrySendError::Closed(item)) => Err(Closed(item)),
            Err(TrySendError::Full(item)) => self.send_when_roomy(item),
        }
    }

    /// Queues an item if there is room at the moment.
    ///
    /// # Errors
    /// When the mailbox is full or closed.
    pub fn try_send(&self, item: T) -> Result<(), TrySendError<T>> {
        self.shared.offer(item)?;
        self.shared.ring();
        Ok(())
    }

    /// How many items are queued.
    #[must_use]
    pub fn queued(&self) -> usize {
        self.shared.queue.len()
    }

    /// Queues the item out of `item`, or registers the task to be woken when
    /// there may be room. Ready when `item` is already gone.
    ///
    /// The caller may stop polling and drop the item at any time: others that
    /// wait are woken all the same.
    ///
    /// # Errors
    /// When the mailbox is closed.
    pub fn poll_send(
        &self,
        cx: &mut Context<'_>,
        item: &mut Option<T>,
    ) -> Poll<Result<(), Closed<T>>> {
        let Some(sent) = item.take() else {
            return Poll::Ready(Ok(()));
        };
        let outcome = match self.shared.offer(sent) {
            Err(TrySendError::Full(refused)) => {
                let mut waiting = self.shared.waiting.lock();
                let again = self.shared.offer(refused);
                if matches!(again, Err(TrySendError::Full(_))) {
                    waiting.register(cx.waker());
                }
                again
            }
            outcome => outcome,
        };
        match outcome {
            Ok(()) => {
                self.shared.ring();
                Poll::Ready(Ok(()))
            }
            Err(TrySendError::Closed(refused)) => Poll::Ready(Err(Closed(refused))),
            Err(TrySendError::Full(refused)) => {
                *item = Some(refused);
                Poll::Pending
            }
        }
    }

    fn send_when_roomy(&self, mut item: T) -> Result<(), Closed<T>> {
        let mut waiting = self.shared.waiting.lock();
        loop {
            match self.shared.offer(item) {
                Ok(()) => break,
                Err(TrySendError::Closed(refused)) => return Err(Closed(refused)),
                Err(TrySendError::Full(refused)) => item = refused,
            }
            waiting.threads += 1;
            self.shared.room.wait(&mut waiting);
            waiting.threads -= 1;
        }
        drop(waiting);
        self.shared.ring();
        Ok(())
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
        }
    }
}

impl<T> Receiver<T> {
    /// The same receiver, waking tasks that wait for room through `runtime`.
    #[must_use]
    pub fn waking_through(mut self, runtime: Runtime) -> Self {
        self.runtime = runtime;
        self
    }

    /// Moves up to `max` items, oldest first, to the end of `into`, and lets
    /// waiting senders in. Never blocks for items.
    ///
    /// True if items are left. No bell announces those: the consumer must come
    /// back by itself.
    #[must_use = "items left behind are not announced again"]
    pub fn drain(&self, into: &mut Vec<T>, max: usize) -> bool {
        let shared = &*self.shared;
        // Before the last look at the queue: an item queued after that look
        // finds the bell silent and rings it. Cleared afterwards, such an item
        // would lie in the mailbox until somebody sends another one. Both sides
        // swap, so that whoever finds the bell already rung is seen by this
        // drain.
        shared.rung.swap(false, Ordering::AcqRel);
        let taken = shared.take(into, max);
        let left = !shared.queue.is_empty();
        if taken > 0 {
            self.admit(taken, left);
        }
        left
    }

    /// Whether nothing is queued. An item whose sending happened before counts.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.shared.queue.is_empty()
    }

    /// Refuses every later send and returns what was accepted but not drained,
    /// oldest first. Every item sent is drained, returned here, or handed back
    /// to its sender; closing again returns nothing.
    #[must_use = "the returned items were accepted and must be answered"]
    pub fn close(&self) -> Vec<T> {
        let mut rest = Vec::new();
        {
            let mut closed = self.shared.closed.write();
            *closed = true;
            self.shared.take(&mut rest, usize::MAX);
        }
        let tasks = self.shared.waiting.lock().all_tasks();
        self.shared.room.notify_all();
        self.runtime.wake_all(tasks);
        rest
    }

    fn admit(&self, freed: usize, items_left: bool) {
        let admitted = self.shared.waiting.lock().admit(freed, items_left);
        for _ in 0..admitted.threads {
            self.shared.room.notify_one();
        }
        self.runtime.wake_all(admitted.tasks);
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        drop(self.close());
    }
}

impl<T> Shared<T> {
    fn offer(&self, item: T) -> Result<(), TrySendError<T>> {
        let closed = self.closed.read();
        if *closed {
            return Err(TrySendError::Closed(item));
        }
        self.queue.try_push(item).map_err(TrySendError::Full)
    }

    fn ring(&self) {
        if !self.rung.swap(true, Ordering::AcqRel) {
            (self.bell)();
        }
    }

    fn take(&self, into: &mut Vec<T>, max: usize) -> usize {
        let before = into.len();
        into.extend(std::iter::from_fn(|| self.queue.try_pop()).take(max));
        into.len() - before
    }
}

impl<T> std::fmt::Debug for Sender<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sender").finish_non_exhaustive()
    }
}

impl<T> std::fmt::Debug for Receiver<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Receiver").finish_non_exhaustive()
    }
}
