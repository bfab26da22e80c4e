//! The store as a reader beside it sees it.

use std::sync::Arc;

use sessionlog_core::error::Result;
use sessionlog_wal::storage::Storage;
use sessionlog_wal::testing::disk_model::MemoryStorage;

use crate::testing::parts;
use crate::{Reply, StoreHandle};

/// A handle that reads the store on `storage` as
/// [`Store::open_read_only`](crate::Store::open_read_only) does.
///
/// # Errors
/// As there.
pub fn read_only(storage: MemoryStorage) -> Result<StoreHandle> {
    read_only_on(Arc::new(storage))
}

/// As [`read_only`], on any file system.
///
/// # Errors
/// As there.
pub fn read_only_on(storage: Arc<dyn Storage>) -> Result<StoreHandle> {
    parts::read_only(storage)
}

/// The answer to a read, which needs no one else to go on.
///
/// # Errors
/// As the verb documents.
///
/// # Panics
/// If it waits for someone.
pub fn read_now<T: Send + 'static>(reply: Reply<T>) -> Result<T> {
    parts::now(reply).expect("a read-only view answers at once")
}
