//! The numbers of a shard's sessions.

use std::collections::HashMap;
use std::sync::Arc;

use sessionlog_wal::sync::RwLock;

/// The numbers of the sessions of a shard that were asked for since the open. A number once given
/// stays.
#[derive(Debug, Default)]
pub(crate) struct Places(RwLock<HashMap<Arc<str>, u32, foldhash::fast::RandomState>>);

impl Places {
    /// Returns the number of a session, if a request for it came since the open.
    pub(crate) fn find(&self, key: &str) -> Option<usize> {
        self.0.read().get(key).map(|&place| place as usize)
    }

    /// Enters the number of a session.
    pub(super) fn enter(&self, key: &Arc<str>, place: usize) {
        self.0.write().insert(key.clone(), place as u32);
    }
}
