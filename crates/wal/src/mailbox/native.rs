//! The production queues: newtypes over crossbeam-channel.

#![expect(clippy::disallowed_types, reason = "this is the seam")]

use super::Timeout;
use crossbeam_channel::RecvTimeoutError;
use std::time::Duration;

/// The sending end of an event queue.
#[derive(Debug)]
pub struct EventSender<T>(crossbeam_channel::Sender<T>);

/// The receiving end of an event queue.
#[derive(Debug)]
pub struct EventReceiver<T>(crossbeam_channel::Receiver<T>);

/// An unbounded first-in first-out queue for one receiving thread.
#[must_use]
pub fn events<T>() -> (EventSender<T>, EventReceiver<T>) {
    let (sender, receiver) = crossbeam_channel::unbounded();
    (EventSender(sender), EventReceiver(receiver))
}

impl<T> EventSender<T> {
    /// Queues an event without blocking. False if the receiver is gone.
    pub fn send(&self, event: T) -> bool {
        self.0.send(event).is_ok()
    }
}

impl<T> Clone for EventSender<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T> EventReceiver<T> {
    /// Blocks until there is an event. `None` once every sender is gone and
    /// the queue is empty.
    #[must_use]
    pub fn recv(&self) -> Option<T> {
        self.0.recv().ok()
    }

    /// The oldest queued event, without blocking.
    #[must_use]
    pub fn try_recv(&self) -> Option<T> {
        self.0.try_recv().ok()
    }

    /// As [`recv`](Self::recv), blocking for at most `timeout`.
    #[must_use]
    pub fn recv_timeout(&self, timeout: Duration) -> Timeout<T> {
        match self.0.recv_timeout(timeout) {
            Ok(event) => Timeout::Item(event),
            Err(RecvTimeoutError::Timeout) => Timeout::TimedOut,
            Err(RecvTimeoutError::Disconnected) => Timeout::Disconnected,
        }
    }
}
