//! The queues that loom explores, over the locks of [`crate::sync`].

use super::Timeout;
use crate::sync::{Condvar, Mutex};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

/// The sending end of an event queue.
#[derive(Debug)]
pub struct EventSender<T>(Arc<WaitLine<T>>);

/// The receiving end of an event queue.
#[derive(Debug)]
pub struct EventReceiver<T>(Arc<WaitLine<T>>);

#[derive(Debug)]
struct WaitLine<T> {
    state: Mutex<ChannelState<T>>,
    changed: Condvar,
}

#[derive(Debug)]
struct ChannelState<T> {
    events: VecDeque<T>,
    senders: usize,
    received: bool,
}

/// An unbounded first-in first-out queue for one receiving thread.
#[must_use]
pub fn events<T>() -> (EventSender<T>, EventReceiver<T>) {
    let line = Arc::new(WaitLine {
        state: Mutex::new(ChannelState {
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
