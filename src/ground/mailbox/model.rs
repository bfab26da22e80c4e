//! The queues that loom explores, over the locks of [`crate::ground::sync`].

use super::Timeout;
use crate::ground::sync::atomic::{AtomicUsize, Ordering};
use crate::ground::sync::{Condvar, Mutex};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

/// A bounded queue; see the production type.
///
/// Weaker than crossbeam's on purpose: whether it is empty or full is read
/// without any order, so it can look empty after a push and full after a pop
/// to a thread that nothing else has told of it. The mailbox must do that
/// telling itself and cannot lean on what crossbeam happens to order.
pub(super) struct Queue<T> {
    items: Mutex<VecDeque<T>>,
    length: AtomicUsize,
    capacity: usize,
}

impl<T> Queue<T> {
    pub(super) fn new(capacity: usize) -> Self {
        Self {
            items: Mutex::new(VecDeque::new()),
            length: AtomicUsize::new(0),
            capacity,
        }
    }

    pub(super) fn try_push(&self, item: T) -> Result<(), T> {
        if self.length.load(Ordering::Relaxed) == self.capacity {
            return Err(item);
        }
        let mut items = self.items.lock();
        if items.len() == self.capacity {
            return Err(item);
        }
        items.push_back(item);
        self.length.store(items.len(), Ordering::Relaxed);
        Ok(())
    }

    pub(super) fn try_pop(&self) -> Option<T> {
        if self.is_empty() {
            return None;
        }
        let mut items = self.items.lock();
        let item = items.pop_front();
        self.length.store(items.len(), Ordering::Relaxed);
        item
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(super) fn len(&self) -> usize {
        self.length.load(Ordering::Relaxed)
    }
}

/// The sending end of an event queue.
#[derive(Debug)]
pub struct EventSender<T>(Arc<Line<T>>);

/// The receiving end of an event queue.
#[derive(Debug)]
pub struct EventReceiver<T>(Arc<Line<T>>);

#[derive(Debug)]
struct Line<T> {
    state: Mutex<State<T>>,
    changed: Condvar,
}

#[derive(Debug)]
struct State<T> {
    events: VecDeque<T>,
    senders: usize,
    received: bool,
}

/// An unbounded first-in first-out queue for one receiving thread.
#[must_use]
pub fn events<T>() -> (EventSender<T>, EventReceiver<T>) {
    let line = Arc::new(Line {
        state: Mutex::new(State {
            events: VecDeque::new(),
            senders: 1,
            received: true,
        }),
        changed: Condvar::new(),
    });
    (EventSender(Arc::clone(&line)), EventReceiver(line))
}

impl<T> EventSender<T> {
    /// Queues an event without blocking. False if the receiver is gone.
    pub fn send(&self, event: T) -> bool {
        let mut state = self.0.state.lock();
        if state.received {
            state.events.push_back(event);
            self.0.changed.notify_one();
        }
        state.received
    }
}

impl<T> Clone for EventSender<T> {
    fn clone(&self) -> Self {
        self.0.state.lock().senders += 1;
        Self(Arc::clone(&self.0))
    }
}

impl<T> Drop for EventSender<T> {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.senders -= 1;
        if state.senders == 0 {
            self.0.changed.notify_one();
        }
    }
}

impl<T> EventReceiver<T> {
    /// Blocks until there is an event. `None` once every sender is gone and
    /// the queue is empty.
    #[must_use]
    pub fn recv(&self) -> Option<T> {
        let mut state = self.0.state.lock();
        loop {
            if let Some(event) = state.events.pop_front() {
                return Some(event);
            }
            if state.senders == 0 {
                return None;
            }
            self.0.changed.wait(&mut state);
        }
    }

    /// The oldest queued event, without blocking.
    #[must_use]
    pub fn try_recv(&self) -> Option<T> {
        self.0.state.lock().events.pop_front()
    }

    /// As [`recv`](Self::recv), blocking for at most `timeout`. Under loom it never runs
    /// out.
    #[must_use]
    pub fn recv_timeout(&self, timeout: Duration) -> Timeout<T> {
        let mut state = self.0.state.lock();
        loop {
            if let Some(event) = state.events.pop_front() {
                return Timeout::Item(event);
            }
            if state.senders == 0 {
                return Timeout::Disconnected;
            }
            if self.0.changed.wait_timeout(&mut state, timeout) {
                return Timeout::TimedOut;
            }
        }
    }
}

impl<T> Drop for EventReceiver<T> {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.received = false;
        let unread = std::mem::take(&mut state.events);
        drop(state);
        drop(unread);
    }
}
