//! The items that callers queue for a shard.

use std::sync::Arc;

use sessionlog_core::error::{Error, Result};
use sessionlog_wal::mailbox::Queue;
use sessionlog_wal::sync::slot::Slot;

use super::places::Places;
use super::request::Command;
use crate::Durability;

/// The items that callers queue for a shard, and the numbers of its sessions.
#[derive(Debug)]
pub(crate) struct Inbox {
    pub(crate) queue: Queue<Item, Otherwise>,
    pub(crate) places: Arc<Places>,
}

/// One request of a caller.
#[derive(Debug)]
pub(crate) enum Item {
    /// To append the lines that are queued with it. The caller is answered by number.
    Append(QueuedAppend),
    /// Anything else.
    Command(Command),
}

/// Lines for a session whose place is known.
#[derive(Debug, Clone, Copy)]
pub(crate) struct QueuedAppend {
    pub(crate) session: u32,
    pub(crate) count: u32,
    pub(crate) level: Durability,
}

/// The answer to a caller whose lines are not simply there.
#[derive(Debug)]
pub(crate) enum Otherwise {
    /// The lines are not there, and will not be.
    Refused(Error),
    /// The lines have to wait for something. The answer comes here.
    Later(Slot<Result<()>>),
}

impl Inbox {
    /// Returns an empty inbox with room for `capacity` items.
    pub(crate) fn new(capacity: usize) -> Self {
        Self {
            queue: Queue::new(capacity),
            places: Arc::default(),
        }
    }
}
