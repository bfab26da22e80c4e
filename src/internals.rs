//! The engine's inside, for its own tests and models. No stability promise.

use std::path::Path;
use std::sync::Arc;

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

/// A store taken apart.
#[cfg(all(feature = "testing", sessionlog_loom))]
pub mod rig {
    pub use crate::rig::*;
}

/// A store without threads.
#[cfg(not(sessionlog_loom))]
pub mod sim {
    pub use crate::sim::*;
}
