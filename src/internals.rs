//! The engine's inside, for its own tests and models. No stability promise.

use std::path::Path;
use std::sync::Arc;

use crate::backend::SessionStore;
use crate::storage::Storage;
use crate::{RepairOptions, RepairReport, Result, Store, StoreOptions, VerifyReport};

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

/// Looks over a directory of any file system. `dir` is absolute.
///
/// # Errors
/// As [`Store::verify`].
pub fn verify_store(storage: &Arc<dyn Storage>, dir: &Path) -> Result<VerifyReport> {
    crate::doctor::verify(storage, dir)
}

/// Repairs a directory of any file system. `dir` is absolute.
///
/// # Errors
/// As [`Store::repair`].
pub fn repair_store(
    storage: &Arc<dyn Storage>,
    dir: &Path,
    options: RepairOptions,
) -> Result<RepairReport> {
    crate::doctor::repair(storage, dir, options)
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

/// File names, shards and aliases.
pub mod names {
    use crate::session_file;

    /// The file name that PicoClaw gives a key, without extension.
    #[must_use]
    pub fn plain_stem(key: &str) -> String {
        session_file::plain_stem(key)
    }

    /// FNV-1a, 32 bits.
    #[must_use]
    pub fn fnv1a32(bytes: &[u8]) -> u32 {
        session_file::fnv1a32(bytes)
    }

    /// The shard that owns a key.
    #[must_use]
    pub fn shard_of(key: &str) -> usize {
        session_file::shard_of(key)
    }

    /// Whether an alias names an agent's main session.
    #[must_use]
    pub fn is_main_alias(alias: &str) -> bool {
        session_file::is_main_alias(alias)
    }

    /// Whether a key resolves to itself as soon as its files exist.
    #[must_use]
    pub fn short_circuits(key: &str) -> bool {
        session_file::short_circuits(key)
    }

    /// Aliases without blanks, repetitions and the canonical key.
    #[must_use]
    pub fn normalize_aliases(canonical: &str, aliases: &[String]) -> Vec<String> {
        session_file::normalize_aliases(canonical, aliases)
    }
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
