//! The sessions of one shard that have an open file.

use std::num::NonZeroUsize;
use std::sync::Arc;

use lru::LruCache;

use crate::engine::stats::Counters;

/// Sessions with an open file, least recently used first to close.
#[derive(Debug)]
pub(crate) struct Handles {
    open: LruCache<usize, ()>,
    /// Counts the open files of all shards.
    counters: Arc<Counters>,
}

impl Handles {
    pub(crate) fn new(capacity: NonZeroUsize, counters: Arc<Counters>) -> Self {
        Self {
            open: LruCache::new(capacity),
            counters,
        }
    }

    /// Notes that a session's file was opened or used. The caller must close the file of the
    /// returned session.
    pub(crate) fn used(&mut self, session: usize) -> Option<usize> {
        let Some((evicted, ())) = self.open.push(session, ()) else {
            self.counters.open_files.rise();
            return None;
        };
        (evicted != session).then_some(evicted)
    }

    /// Notes that a session's file is closed.
    pub(crate) fn forget(&mut self, session: usize) {
        if self.open.pop(&session).is_some() {
            self.counters.open_files.fall();
        }
    }

    /// Returns the session to close next, whatever the limit: the process ran out of descriptors.
    pub(crate) fn evict(&mut self) -> Option<usize> {
        let (session, ()) = self.open.pop_lru()?;
        self.counters.open_files.fall();
        Some(session)
    }
}
