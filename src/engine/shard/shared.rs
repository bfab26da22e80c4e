//! The state that all shards of a store share.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use sessionlog_core::error::Error;
use sessionlog_wal::clock::Clock;
use sessionlog_wal::seldom::Seldom;
use sessionlog_wal::storage::Storage;
use sessionlog_wal::sync::atomic::{AtomicU64, Ordering};

use super::backups::Backups;
use super::owed::Keeper;
use super::steps::LastRewrite;
use crate::disk::files;
use crate::engine::archive::Archive;
use crate::engine::catalog::Catalog;
use crate::engine::feed::Feed;
use crate::engine::home::LifeFile;
use crate::engine::kept::KeptCatalog;
use crate::engine::stats::Counters;

/// The state that all shards of a store share.
#[derive(Debug)]
pub(crate) struct SharedState {
    pub(crate) storage: Arc<dyn Storage>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) dir: PathBuf,
    /// The directory in which damaged files are set aside.
    pub(crate) quarantine: PathBuf,
    /// The directory of copies of sidecars, for lost ones.
    pub(crate) copies: PathBuf,
    /// The directory of the ids of messages taken once, and the number of ids kept for each
    /// session.
    pub(crate) once: PathBuf,
    pub(crate) once_ids: usize,
    pub(crate) backups: Backups,
    pub(crate) archive: Archive,
    pub(crate) catalog: Catalog,
    pub(crate) kept: KeptCatalog,
    /// The file that tells readers that the store ended or that another writer came.
    pub(crate) life: LifeFile,
    pub(crate) counters: Arc<Counters>,
    /// The changes of all sessions.
    pub(crate) feed: Feed,
    pub(crate) auto_compact: bool,
    /// The time that deleted sessions stay in the trash; `None` if there is none.
    pub(crate) trash: Option<Duration>,
    /// The largest sidecar that a command may make, encoded, bytes.
    pub(crate) max_sidecar: usize,
    /// The first version number: no other opening of the store gave the same.
    pub(crate) versions: u64,
    pub(crate) temp_counter: AtomicU64,
    /// Counts the files that became backups or stopped being backups: the flush after one syncs
    /// everything.
    pub(crate) rebased: AtomicU64,
    /// Keeps sidecars open until a flush syncs them.
    pub(crate) keeper: Keeper,
    pub(crate) last_rewrite: LastRewrite,
    /// When a lack of space or descriptors was last logged.
    pub(crate) lacking: Seldom,
    /// When a refusal was last logged.
    pub(crate) refusing: Seldom,
    /// The shards that found no space for their lines.
    pub(crate) full: FullShards,
    /// Counts the copies made of sidecars.
    pub(crate) copied: AtomicU64,
}

impl SharedState {
    pub(crate) fn next_temp(&self) -> String {
        files::temp_name(self.temp_counter.fetch_add(1, Ordering::Relaxed))
    }

    /// Notes that a compaction failed.
    pub(crate) fn compaction_failed(&self, error: &Error) {
        self.counters.compactions_failed.add(1);
        self.warn(error, "a session is not compacted");
    }

    /// Logs that a command is refused because of the state of the store, unless one was logged just
    /// now: on a full disk every command is refused.
    pub(crate) fn refused(&self, error: &Error) {
        let Some(why) = self.counters.refused(error) else {
            return;
        };
        if self.refusing.is_due(self.clock.monotonic()) {
            // Without the error, which may name the session.
            tracing::warn!(why, "commands are refused");
        }
    }

    /// Logs a failure. A lack of space or descriptors is not logged every time, because every
    /// command meets it.
    pub(crate) fn warn(&self, error: &Error, what: &'static str) {
        self.counters.background_failures.add(1);
        if !error.may_pass() || self.lacking.is_due(self.clock.monotonic()) {
            tracing::warn!(%error, what);
        }
    }

    /// Keeps the catalog for the next open: nothing changes it any more.
    pub(crate) fn keep_catalog(&self) {
        self.kept.keep(&*self.storage, &self.dir, &self.catalog);
    }

    /// Notes that names among the backups, or in the quarantine, are about to change, or did.
    pub(crate) fn names_changed(&self) {
        self.rebased.fetch_add(1, Ordering::AcqRel);
    }
}

/// The shards that found no space for their lines at the last write, one bit for each of the 64.
/// For status reports only: no protocol depends on it.
#[derive(Debug)]
pub(crate) struct FullShards(AtomicU64);

impl FullShards {
    pub(crate) fn set(&self, shard: usize, full: bool) {
        let bit = 1 << shard;
        if full {
            self.0.fetch_or(bit, Ordering::Relaxed);
        } else {
            self.0.fetch_and(!bit, Ordering::Relaxed);
        }
    }

    pub(crate) fn any(&self) -> bool {
        self.0.load(Ordering::Relaxed) != 0
    }
}

impl Default for FullShards {
    fn default() -> Self {
        Self(AtomicU64::new(0))
    }
}
