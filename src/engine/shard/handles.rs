//! Which sessions of one shard have their file open.

use std::num::NonZeroUsize;

use lru::LruCache;

/// Sessions with an open file, least recently used first to close.
#[derive(Debug)]
pub(crate) struct Handles {
    open: LruCache<usize, ()>,
}

impl Handles {
    pub(crate) fn new(capacity: NonZeroUsize) -> Self {
        Self {
            open: LruCache::new(capacity),
        }
    }

    /// Notes that a session's file was opened or used. What is returned must
    /// be closed.
    pub(crate) fn used(&mut self, session: usize) -> Option<usize> {
        let (evicted, ()) = self.open.push(session, ())?;
        (evicted != session).then_some(evicted)
    }

    /// Notes that a session's file is closed.
    pub(crate) fn forget(&mut self, session: usize) {
        self.open.pop(&session);
    }

    /// What to close next, whatever the limit: the process ran out of
    /// descriptors.
    pub(crate) fn evict(&mut self) -> Option<usize> {
        self.open.pop_lru().map(|(session, ())| session)
    }
}
