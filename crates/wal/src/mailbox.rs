//! Queues between threads: the only door to channels.
//!
//! A [`Queue`] carries callers' items to a shard. It is full at its capacity, and so a slow store
//! slows its callers down. It ends by an explicit close, so that a thread that will answer knows of
//! every accepted item. [`events`] carries the engine's own messages (a finished job, a flush). It
//! is unbounded because the engine must never block on its own queue; the work in flight bounds it
//! all the same.
//!
//! Production's event queues are crossbeam's. Under loom they are a few lines over
//! [`crate::sync`].

mod queue;
mod waiting;

#[cfg(not(sessionlog_loom))]
mod native;
#[cfg(not(sessionlog_loom))]
use native as imp;

#[cfg(sessionlog_loom)]
mod model;
#[cfg(sessionlog_loom)]
use model as imp;

pub use imp::{EventReceiver, EventSender, events};
pub use queue::{Lot, Queue, QueueAnswer, QueueRefusal, QueueTicket};

/// The result of a timed receive.
#[derive(Debug, PartialEq, Eq)]
pub enum Timeout<T> {
    /// The oldest queued item.
    Item(T),
    /// Nothing arrived in time.
    TimedOut,
    /// Nothing is queued and every sender is gone.
    Disconnected,
}
