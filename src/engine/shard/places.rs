//! Where the sessions of a shard are.

use std::collections::HashMap;
use std::sync::Arc;

use crate::ground::sync::RwLock;

/// The sessions of a shard that were asked for since the open. A number once given stays.
#[derive(Debug, Default)]
pub(crate) struct Places(RwLock<HashMap<Arc<str>, u32, foldhash::fast::RandomState>>);

impl Places {
    /// Where a session is, if anything was asked of it since the open.
    pub(crate) fn find(&self, key: &str) -> Option<usize> {
        self.0.read().get(key).map(|&place| place as usize)
    }

    /// Says where a session is.
    pub(super) fn enter(&self, key: &Arc<str>, place: usize) {
        self.0.write().insert(key.clone(), place as u32);
    }
}
