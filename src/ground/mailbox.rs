//! Queues between threads: the only door to channels.
//!
//! A [`Queue`] carries what callers want to a shard. It is full at its capacity, which
//! is how a slow store slows its callers down, and it ends by an explicit
//! close, so that everything accepted is known to somebody who will answer
//! it. [`events`] carries what the engine tells itself (a finished
//! job, a flush); it is unbounded because the engine must never block on its own
//! queue, and bounded all the same by what is in flight.
//!
//! Production's event queues are crossbeam's. Under loom they are a few lines over
//! [`crate::ground::sync`].

#![cfg_attr(
    not(any(feature = "testing", sessionlog_loom)),
    expect(
        unreachable_pub,
        reason = "reachable from outside only through `testing`"
    )
)]

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
pub use queue::{Answered, Asked, Lot, Queue, Refused};

/// What a timed receive found.
#[derive(Debug, PartialEq, Eq)]
pub enum Timeout<T> {
    /// The oldest queued item.
    Item(T),
    /// Nothing arrived in time.
    TimedOut,
    /// Nothing is queued and every sender is gone.
    Disconnected,
}
