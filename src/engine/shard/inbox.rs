//! What callers queue for a shard.

use std::sync::Arc;

use super::places::Places;
use super::request::Command;
use crate::Durability;
use crate::error::{Error, Result};
use crate::ground::mailbox::Queue;
use crate::ground::sync::slot::Slot;

/// What callers queue for a shard, and where its sessions are.
#[derive(Debug)]
pub(crate) struct Inbox {
    pub(crate) queue: Queue<Item, Otherwise>,
    pub(crate) places: Arc<Places>,
}

/// One thing that a caller wants.
#[derive(Debug)]
pub(crate) enum Item {
    /// To append the lines that are queued with it. The caller is answered by number.
    Append(Append),
    /// Anything else.
    Command(Command),
}

/// Lines for a session whose place is known.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Append {
    pub(crate) session: u32,
    pub(crate) count: u32,
    pub(crate) level: Durability,
}

/// What a caller is told who is not simply told that their lines are there.
#[derive(Debug)]
pub(crate) enum Otherwise {
    /// They are not, nor will be.
    Refused(Error),
    /// They have to wait for something. Then the answer comes here.
    Later(Slot<Result<()>>),
}

impl Inbox {
    /// An empty one, with room for so many items.
    pub(crate) fn new(capacity: usize) -> Self {
        Self {
            queue: Queue::new(capacity),
            places: Arc::default(),
        }
    }
}
