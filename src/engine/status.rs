//! How a store is doing.

use std::sync::Arc;

use super::Engine;
use super::view::DirectoryView;
use crate::ground::mailbox::Sender;
use crate::ground::storage::Storage;

/// How a store is doing: what to show on a health page, and to act on before writes fail.
/// See [`StoreHandle::status`](crate::StoreHandle::status).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoreStatus {
    /// Whether it takes writes.
    pub health: Health,
    /// Commands that wait for their shard to take them in; 0 on a store opened read-only.
    pub queued: usize,
    /// Those of the shard with the most. From 1,024 on its callers wait.
    pub queued_most: usize,
    /// Bytes of the journal's segments on disk, those kept for reuse included; 0 on a
    /// store opened read-only.
    pub journal_bytes: u64,
    /// What the journal may take, in bytes: its
    /// [budget](crate::StoreOptions::journal_budget), or an eighth of the space there was
    /// when it last made a segment; 0 on a store opened read-only.
    pub journal_limit: u64,
    /// Bytes that the file system of the directory has left for this process; `None` if
    /// it does not tell.
    pub free_space: Option<u64>,
}

/// Whether a store takes writes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Health {
    /// As far as is known. What nobody tried since the last write is not known.
    Healthy,
    /// The journal, or a session file, found no space when it was last written to, so
    /// that some or all writes are refused. It is tried again with the next write to it,
    /// and every few moments; nothing has to be reopened.
    Full,
    /// It stopped writing until it is opened again; see
    /// [`Error::Poisoned`](crate::Error::Poisoned). Reads go on.
    Poisoned {
        /// The first failure.
        reason: Arc<str>,
    },
    /// It was closed.
    Closed,
}

impl Engine {
    /// How the store is doing. Asks the file system.
    pub(crate) fn status(&self) -> StoreStatus {
        let queued = self.mailboxes.iter().map(Sender::queued);
        let journal = self.pool.standing();
        StoreStatus {
            health: self.health(journal.short),
            queued: queued.clone().sum(),
            queued_most: queued.max().unwrap_or(0),
            journal_bytes: journal.bytes,
            journal_limit: journal.limit,
            free_space: free_space(&*self.shared.storage, &self.shared.dir),
        }
    }

    fn health(&self, short: bool) -> Health {
        if let Some(reason) = self.group.poisoned() {
            return Health::Poisoned { reason };
        }
        match (self.is_closed(), short || self.shared.full.any()) {
            (true, _) => Health::Closed,
            (false, true) => Health::Full,
            (false, false) => Health::Healthy,
        }
    }
}

impl DirectoryView {
    /// How the store is doing, as far as it can be seen from outside.
    pub(crate) fn status(&self) -> StoreStatus {
        let health = if self.is_closed() {
            Health::Closed
        } else {
            Health::Healthy
        };
        StoreStatus {
            health,
            queued: 0,
            queued_most: 0,
            journal_bytes: 0,
            journal_limit: 0,
            free_space: free_space(&*self.storage(), self.dir()),
        }
    }
}

fn free_space(storage: &dyn Storage, dir: &std::path::Path) -> Option<u64> {
    storage.open_dir(dir).ok()?.free_space().ok()
}
