//! Counters a person watching the store wants.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::disk::journal::committer;

/// What the store did since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoreStats {
    /// Changes of sessions whose record is on disk.
    pub commands: u64,
    /// Messages written, each of a batch or a replaced history counted.
    pub messages: u64,
    /// Group commits written to the journal.
    pub commits: u64,
    /// Syncs of the journal.
    pub syncs: u64,
    /// Bytes of records written to the journal, without headers and the zeros
    /// that segments are made of.
    pub journal_bytes: u64,
    /// Bytes appended to session files; rewrites are not counted.
    pub session_bytes: u64,
    /// Sessions rewritten to drop skipped lines.
    pub compactions: u64,
    /// Bytes of the copies that compactions made.
    pub compaction_bytes: u64,
    /// Flushes: session files and sidecars synced, journal segments retired.
    pub flushes: u64,
    /// Lines met while reading that could not be decoded. A line counts each
    /// time it is met.
    pub corrupt_lines: u64,
}

/// The counters of [`StoreStats`]. Not part of any protocol: of two that change
/// together one may be read before it does.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) commands: AtomicU64,
    pub(crate) messages: AtomicU64,
    pub(crate) session_bytes: AtomicU64,
    pub(crate) compactions: AtomicU64,
    pub(crate) compaction_bytes: AtomicU64,
    pub(crate) flushes: AtomicU64,
    pub(crate) corrupt_lines: AtomicU64,
    pub(crate) journal: Arc<committer::Counters>,
}

impl Counters {
    /// Counts what is settled together.
    pub(crate) fn add(&self, messages: u64, commands: u64) {
        self.messages.fetch_add(messages, Ordering::Relaxed);
        self.commands.fetch_add(commands, Ordering::Relaxed);
    }

    pub(crate) fn read(&self) -> StoreStats {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        StoreStats {
            commands: read(&self.commands),
            messages: read(&self.messages),
            commits: read(&self.journal.commits),
            syncs: read(&self.journal.syncs),
            journal_bytes: read(&self.journal.bytes),
            session_bytes: read(&self.session_bytes),
            compactions: read(&self.compactions),
            compaction_bytes: read(&self.compaction_bytes),
            flushes: read(&self.flushes),
            corrupt_lines: read(&self.corrupt_lines),
        }
    }
}
