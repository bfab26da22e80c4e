//! The status of a store.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use serde::{Deserialize, Serialize};
use sessionlog_wal::storage::Storage;

use super::Engine;
use super::stats::StoreStats;
use super::view::DirectoryView;

/// The status of a store, for a health page, and for acting before writes fail. See
/// [`StoreHandle::status`](crate::StoreHandle::status).
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub struct StoreStatus {
    /// Tells whether the store takes writes.
    pub health: Health,
    /// The number of commands that wait for their shard to take them in: above 0 for long, the
    /// store has more to do than it can. Commands that a shard took in and that wait for their
    /// session do not count; [`Error::Overloaded`](crate::Error::Overloaded) bounds those.
    pub queued: usize,
    /// The commands that wait for the one shard of 64 with the most. From 1,024 on its callers
    /// wait.
    pub queued_in_fullest_shard: usize,
    /// Bytes of the journal's segments on disk, including those kept for reuse. 0 once the store is
    /// closed, and on a store opened read-only.
    pub journal_bytes: u64,
    /// The bytes that the journal may take: its [budget](crate::StoreOptions::journal_budget), or
    /// an eighth of the available space, if that is less, as of the last look. It may take more
    /// while flushes last. 0 once the store is closed, and on a store opened read-only.
    pub journal_limit: u64,
    /// Bytes that the file system of the directory has left for this process; `None` if that is
    /// unknown. If there are many and the store is [full](Health::Full), inodes or a quota are
    /// exhausted.
    pub free_space: Option<u64>,
}

/// The store's ability to take writes.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Health {
    /// It takes writes, as far as known from the last attempts. A command that needs space of its
    /// own, such as a new history or a compaction, may be refused all the same.
    Healthy,
    /// No space, no inode or no file descriptor was left when the journal or a session file was
    /// last written to: messages are refused, of some sessions or of all. The next write finds out
    /// whether there is space again; nothing has to be reopened.
    Full,
    /// It stopped writing until it is opened again; see
    /// [`Error::Poisoned`](crate::Error::Poisoned). Stays so once it is closed.
    Poisoned {
        /// The first failure.
        reason: Arc<str>,
    },
    /// It was closed, or is being closed.
    Closed,
}

impl Engine {
    /// The store's counters and current levels.
    pub(crate) fn stats(&self) -> StoreStats {
        self.shared.counters.read(self.shared.catalog.len())
    }

    /// The number of commands that wait for their shards.
    pub(crate) fn queued(&self) -> usize {
        self.queued_by_shard().sum()
    }

    fn queued_by_shard(&self) -> impl Iterator<Item = usize> {
        self.inboxes.iter().map(|inbox| inbox.queue.queued())
    }

    /// The status of the store. Asks the file system.
    pub(crate) fn status(&self) -> StoreStatus {
        let queued: Vec<_> = self.queued_by_shard().collect();
        let journal = self.pool.upgrade().map(|pool| pool.standing());
        let journal = journal.unwrap_or_default();
        StoreStatus {
            health: self.health(),
            queued: queued.iter().sum(),
            queued_in_fullest_shard: queued.into_iter().max().unwrap_or(0),
            journal_bytes: journal.bytes,
            journal_limit: journal.limit,
            free_space: free_space(&*self.shared.storage, &self.shared.dir),
        }
    }

    fn health(&self) -> Health {
        if let Some(reason) = self.ready.poisoned() {
            return Health::Poisoned { reason };
        }
        let journal = &self.shared.counters.journal;
        let refuses = journal.refuses.load(Ordering::Relaxed);
        match (self.is_closed(), refuses || self.shared.full.any()) {
            (true, _) => Health::Closed,
            (false, true) => Health::Full,
            (false, false) => Health::Healthy,
        }
    }
}

impl DirectoryView {
    /// The status of the store, as far as it can be seen from outside.
    pub(crate) fn status(&self) -> StoreStatus {
        let health = if self.is_closed() {
            Health::Closed
        } else {
            Health::Healthy
        };
        StoreStatus {
            health,
            queued: 0,
            queued_in_fullest_shard: 0,
            journal_bytes: 0,
            journal_limit: 0,
            free_space: free_space(&*self.storage(), self.dir()),
        }
    }
}

fn free_space(storage: &dyn Storage, dir: &std::path::Path) -> Option<u64> {
    storage.open_dir(dir).ok()?.free_space().ok()
}
