//! The engine's inside, for its own tests and models. No stability promise.

use std::path::Path;
use std::sync::Arc;

use crate::backend::SessionStore;
use crate::storage::Storage;
use crate::{Result, Store, StoreOptions};

/// Opens a store on any file system. `dir` is absolute.
///
/// # Errors
/// As [`Store::open_with`].
#[expect(
    clippy::needless_pass_by_value,
    reason = "what opens a store takes its options by value, as its face does"
)]
pub fn open_store(storage: Arc<dyn Storage>, dir: &Path, options: StoreOptions) -> Result<Store> {
    Store::open_on(storage, dir, &options)
}

/// Opens a session store on any file system. `dir` is absolute.
///
/// # Errors
/// As [`open_session_store_with`](crate::backend::open_session_store_with).
#[expect(
    clippy::needless_pass_by_value,
    reason = "what opens a store takes its options by value, as its face does"
)]
pub fn open_session_store(
    storage: Arc<dyn Storage>,
    dir: &Path,
    options: StoreOptions,
) -> Result<Arc<dyn SessionStore>> {
    crate::backend::open_on(storage, dir, &options)
}

/// Locks, atomics, threads and replies.
pub mod sync {
    pub use crate::sync::*;
}

/// Queues between threads.
pub mod mailbox {
    pub use crate::mailbox::*;
}

/// The journal.
pub mod journal {
    pub use crate::journal::*;
}

/// A store without threads.
#[cfg(not(sessionlog_loom))]
pub mod sim {
    pub use crate::sim::*;
}
