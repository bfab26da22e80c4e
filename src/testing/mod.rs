//! What only tests and models use: the engine's inside, a store without threads, a
//! store taken apart, and the model of a disk. No stability promise.

#[cfg(feature = "testing")]
mod parts;
#[cfg(all(feature = "testing", sessionlog_loom))]
pub mod rig;
#[cfg(all(sessionlog_loom, feature = "shuttle"))]
pub mod running;
#[cfg(all(feature = "testing", not(sessionlog_loom)))]
pub mod sim;

pub use sessionlog_wal::testing::{disk_model, mailbox_conformance};
pub use sessionlog_wal::{mailbox, storage, sync};

/// The clocks, and times as texts.
pub mod clock {
    pub use sessionlog_core::stamp::*;
    pub use sessionlog_wal::clock::*;
}

use std::path::Path;
use std::sync::Arc;

use sessionlog_wal::storage::Storage;

use crate::front::backend::SessionStore;
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
    crate::maintenance::doctor::verify(storage, dir)
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
    crate::maintenance::doctor::repair(storage, dir, options)
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

/// File names, shards and aliases.
pub mod names {
    pub use sessionlog_core::session_file::{
        fnv1a32, is_main_alias, normalize_aliases, plain_stem, short_circuits,
    };

    /// The shard that owns a key.
    #[must_use]
    pub fn shard_of(key: &str) -> usize {
        crate::engine::shard::number::shard_of(key)
    }
}
