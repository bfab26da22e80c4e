//! What only tests and models use: the engine's inside, a store without threads, a
//! store taken apart, and the model of a disk. No stability promise.

#[cfg(any(test, feature = "testing", sessionlog_loom))]
pub mod disk_model;
pub mod mailbox_conformance;
#[cfg(feature = "testing")]
mod parts;
#[cfg(all(feature = "testing", sessionlog_loom))]
pub mod rig;
#[cfg(all(sessionlog_loom, feature = "shuttle"))]
pub mod running;
#[cfg(all(feature = "testing", not(sessionlog_loom)))]
pub mod sim;
#[cfg(test)]
mod storage_conformance;

pub use crate::ground::{clock, storage};

use std::path::Path;
use std::sync::Arc;

use crate::front::backend::SessionStore;
use crate::ground::storage::Storage;
use crate::{
    PublishedStats, RepairOptions, RepairReport, Result, Store, StoreOptions, VerifyReport,
};

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

/// What a store on any file system that [is shared](Storage::is_shared) said of itself last.
///
/// # Errors
/// As [`published_stats`](crate::published_stats).
pub fn published_stats(storage: &dyn Storage, dir: &Path) -> Result<Option<PublishedStats>> {
    crate::engine::published::read(storage, dir)
}

/// Looks over a directory of any file system. `dir` is absolute.
///
/// # Errors
/// As [`Store::verify`].
pub fn verify_store(storage: &Arc<dyn Storage>, dir: &Path) -> Result<VerifyReport> {
    crate::engine::doctor::verify(storage, dir)
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
    crate::engine::doctor::repair(storage, dir, options)
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
    crate::front::backend::open_on(&storage, dir, &options)
}

/// Locks, atomics, threads and replies.
pub mod sync {
    pub use crate::ground::sync::*;
}

/// File names, shards and aliases.
pub mod names {
    use crate::disk::session_file;

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
    pub use crate::ground::mailbox::*;
}
