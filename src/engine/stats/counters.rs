//! The numbers behind [`StoreStats`].

use std::sync::Arc;

use sessionlog_core::error::{Error, ErrorKind};
use sessionlog_wal::clock::{Clock, SystemClock};
use sessionlog_wal::journal::counters;
use sessionlog_wal::meter::{Count, Level, Measure, Meters};

use super::{StoreStats, names};

/// The numbers of [`StoreStats`]. They synchronise nothing: numbers that change together are not
/// read in one step.
#[derive(Debug)]
pub(crate) struct Counters {
    pub(crate) commands: Count,
    pub(crate) messages: Count,
    pub(crate) message_bytes: Count,
    pub(crate) session_bytes: Count,
    pub(crate) compactions_begun: Count,
    pub(crate) compactions: Count,
    pub(crate) compactions_failed: Count,
    pub(crate) compaction_bytes: Count,
    pub(crate) compaction_dropped: Count,
    pub(crate) flushes: Count,
    pub(crate) flushes_failed: Count,
    pub(crate) corrupt_lines: Count,
    refused_full: Count,
    refused_descriptors: Count,
    refused_overloaded: Count,
    failed_commands: Count,
    pub(crate) background_failures: Count,
    pub(crate) slow_commits: Count,
    pub(crate) recoveries: Count,
    pub(crate) recovered_records: Count,
    pub(crate) open_time: Level,
    pub(crate) open_files: Level,
    pub(crate) sessions_resident: Level,
    pub(crate) commit: Measure,
    pub(crate) queue_depth: Measure,
    pub(crate) flush: Measure,
    pub(crate) compaction: Measure,
    pub(crate) journal: Arc<counters::CommitCounters>,
    /// Numbers that are sampled from time to time.
    pub(crate) sampled: Samples,
}

/// Numbers that are sampled from time to time for export.
#[derive(Debug)]
pub(crate) struct Samples {
    pub(crate) sessions: Level,
    pub(crate) queued: Level,
    pub(crate) journal_bytes: Level,
    pub(crate) journal_limit: Level,
    pub(crate) free_space: Level,
    pub(crate) full: Level,
    pub(crate) poisoned: Level,
}

impl Counters {
    pub(crate) fn new(meters: &Meters, clock: Arc<dyn Clock>) -> Self {
        Self {
            commands: meters.count(names::COMMANDS),
            messages: meters.count(names::MESSAGES),
            message_bytes: meters.count(names::MESSAGE_BYTES),
            session_bytes: meters.count(names::SESSION_BYTES),
            compactions_begun: meters.count(names::COMPACTIONS_BEGUN),
            compactions: meters.count(names::COMPACTIONS),
            compactions_failed: meters.count(names::COMPACTIONS_FAILED),
            compaction_bytes: meters.count(names::COMPACTION_BYTES),
            compaction_dropped: meters.count(names::COMPACTION_DROPPED),
            flushes: meters.count(names::FLUSHES),
            flushes_failed: meters.count(names::FLUSHES_FAILED),
            corrupt_lines: meters.count(names::CORRUPT_LINES),
            refused_full: meters.count(names::REFUSED.because("full")),
            refused_descriptors: meters.count(names::REFUSED.because("descriptors")),
            refused_overloaded: meters.count(names::REFUSED.because("overloaded")),
            failed_commands: meters.count(names::FAILED_COMMANDS),
            background_failures: meters.count(names::BACKGROUND_FAILURES),
            slow_commits: meters.count(names::SLOW_COMMITS),
            recoveries: meters.count(names::RECOVERIES),
            recovered_records: meters.count(names::RECOVERED_RECORDS),
            open_time: meters.level(names::OPEN_TIME),
            open_files: meters.level(names::OPEN_FILES),
            sessions_resident: meters.level(names::SESSIONS_RESIDENT),
            commit: meters.measure(names::COMMIT),
            queue_depth: meters.measure(names::QUEUE_DEPTH),
            flush: meters.measure(names::FLUSH),
            compaction: meters.measure(names::COMPACTION),
            journal: Arc::new(counters::CommitCounters::new(meters, clock)),
            sampled: Samples::new(meters),
        }
    }

    /// Counts messages and commands that settle together.
    pub(crate) fn add(&self, (messages, bytes): (u64, u64), commands: u64) {
        self.messages.add(messages);
        self.message_bytes.add(bytes);
        self.commands.add(commands);
    }

    /// Counts a command that was not carried out; returns the reason if the store was unable to.
    pub(crate) fn refused(&self, error: &Error) -> Option<&'static str> {
        let (count, why) = match error.kind() {
            ErrorKind::StorageFull => (&self.refused_full, "no space is left"),
            _ if error.out_of_descriptors() => (&self.refused_descriptors, "no descriptor is left"),
            ErrorKind::Busy => (&self.refused_overloaded, "too much waits for a session"),
            ErrorKind::Poisoned | ErrorKind::Corrupt | ErrorKind::Io => {
                self.failed_commands.add(1);
                return None;
            }
            _ => return None,
        };
        count.add(1);
        Some(why)
    }

    /// Clears the levels: a closed store holds nothing.
    pub(crate) fn closed(&self) {
        let Samples {
            sessions,
            queued,
            journal_bytes,
            journal_limit,
            free_space,
            full,
            poisoned: _,
        } = &self.sampled;
        let held = [&self.open_files, &self.sessions_resident, sessions, queued];
        let of_journal = [journal_bytes, journal_limit, free_space, full];
        for level in held.into_iter().chain(of_journal) {
            level.set(0);
        }
    }

    /// Reads all numbers; `sessions` comes from the catalog.
    pub(crate) fn read(&self, sessions: usize) -> StoreStats {
        let journal = &self.journal;
        StoreStats {
            commands: self.commands.read(),
            messages: self.messages.read(),
            message_bytes: self.message_bytes.read(),
            commits: journal.commits.read(),
            syncs: journal.syncs.read(),
            journal_bytes: journal.bytes.read(),
            session_bytes: self.session_bytes.read(),
            compactions_begun: self.compactions_begun.read(),
            compactions: self.compactions.read(),
            compactions_failed: self.compactions_failed.read(),
            compaction_bytes: self.compaction_bytes.read(),
            compaction_dropped_bytes: self.compaction_dropped.read(),
            flushes: self.flushes.read(),
            flushes_failed: self.flushes_failed.read(),
            corrupt_lines: self.corrupt_lines.read(),
            refused_full: self.refused_full.read(),
            refused_descriptors: self.refused_descriptors.read(),
            refused_overloaded: self.refused_overloaded.read(),
            failed_commands: self.failed_commands.read(),
            background_failures: self.background_failures.read(),
            slow_commits: self.slow_commits.read(),
            recoveries: self.recoveries.read(),
            recovered_records: self.recovered_records.read(),
            open_nanos: self.open_time.read(),
            open_files: self.open_files.read(),
            sessions_resident: self.sessions_resident.read(),
            sessions_known: sessions as u64,
            commit_nanos: self.commit.read(),
            sync_nanos: journal.sync.read(),
            commit_records: journal.batch_records.read(),
            commit_bytes: journal.batch_bytes.read(),
            queue_depth: self.queue_depth.read(),
            flush_nanos: self.flush.read(),
            compaction_nanos: self.compaction.read(),
        }
    }
}

impl Default for Counters {
    fn default() -> Self {
        Self::new(&Meters::silent(), Arc::new(SystemClock::default()))
    }
}

impl Samples {
    fn new(meters: &Meters) -> Self {
        Self {
            sessions: meters.level(names::SESSIONS),
            queued: meters.level(names::QUEUED),
            journal_bytes: meters.level(names::JOURNAL),
            journal_limit: meters.level(names::JOURNAL_LIMIT),
            free_space: meters.level(names::FREE_SPACE),
            full: meters.level(names::FULL),
            poisoned: meters.level(names::POISONED),
        }
    }
}
