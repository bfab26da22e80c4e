//! The statistics of a store.

mod counters;
mod names;

pub(crate) use self::counters::Counters;

use serde::{Deserialize, Serialize};

use crate::Histogram;

/// The store's counters since it was opened, and its current levels.
///
/// Numbers that change together are not read in one step: one may be older than the other.
/// [`since`](Self::since) gives the difference of two samples, [`merge`](Self::merge) adds several
/// stores up. With the feature `metrics` the same numbers, and those of
/// [`StoreStatus`](crate::StoreStatus), go to the recorder of the crate `metrics` that the process
/// installed before it opened the store.
///
/// It can be serialised; fields that another version does not know are left out, missing ones are
/// 0.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct StoreStats {
    /// Changes of sessions, counted once their record is on disk.
    pub commands: u64,
    /// Messages written, counting each message of a batch or a replaced history.
    pub messages: u64,
    /// Bytes of their lines.
    pub message_bytes: u64,
    /// Group commits written to the journal.
    pub commits: u64,
    /// Syncs of the journal.
    pub syncs: u64,
    /// Bytes of records written to the journal, without headers and the zeros that segments are
    /// filled with.
    pub journal_bytes: u64,
    /// Bytes appended to session files; rewrites are not counted.
    pub session_bytes: u64,
    /// Compactions begun. One that a truncation, a new history or a deletion overtakes is thrown
    /// away, and begun anew if there is still something to drop: it is neither finished nor failed.
    pub compactions_begun: u64,
    /// Sessions rewritten to drop skipped lines.
    pub compactions: u64,
    /// Compactions that failed with an error. The session stays as it is.
    pub compactions_failed: u64,
    /// Bytes of the copies that compactions made.
    pub compaction_bytes: u64,
    /// Bytes by which compactions made session files shorter.
    pub compaction_dropped_bytes: u64,
    /// Flushes: session files and sidecars synced, journal segments retired.
    pub flushes: u64,
    /// Flushes that failed with an error. The journal keeps the data that they were to bring to the
    /// files.
    pub flushes_failed: u64,
    /// Undecodable lines met while reading. A line counts each time it is met.
    pub corrupt_lines: u64,
    /// Commands refused because there was no space, including compactions that the store began by
    /// itself.
    pub refused_full: u64,
    /// Commands refused because the process, or the system, had no descriptor left.
    pub refused_descriptors: u64,
    /// Commands refused because too much waited for their session
    /// ([`Error::Overloaded`](crate::Error::Overloaded)).
    pub refused_overloaded: u64,
    /// Commands that failed for another reason than their input: I/O errors, damage, a store that
    /// stopped writing.
    pub failed_commands: u64,
    /// Failures between commands, of which only the log is told: flushes, sidecars, copies, the
    /// next segment.
    pub background_failures: u64,
    /// Commits that took longer than
    /// [`StoreOptions::slow_commit`](crate::StoreOptions::slow_commit).
    pub slow_commits: u64,
    /// 1 if opening found that the last writer had not closed the store, else 0.
    pub recoveries: u64,
    /// Records that recovery found beyond the last checkpoint.
    pub recovered_records: u64,

    /// The duration of opening, recovery included, in ns.
    pub open_nanos: u64,
    /// Session files open now.
    pub open_files: u64,
    /// Sessions in memory now: those used since the store was opened.
    pub sessions_resident: u64,
    /// Sessions of the directory, as of the last look: at each call, or every second for exported
    /// numbers.
    pub sessions_known: u64,

    /// Duration of group commits in ns: from taking the queued commands until the answers are on
    /// their way.
    pub commit_nanos: Histogram,
    /// Duration of syncs of the journal, in ns.
    pub sync_nanos: Histogram,
    /// Changes of sessions per commit. 0 if it held a checkpoint only.
    pub commit_records: Histogram,
    /// Bytes of records per commit.
    pub commit_bytes: Histogram,
    /// Commands that waited for their shard to take them in, sampled ten times a second while the
    /// store is busy.
    pub queue_depth: Histogram,
    /// Duration of flushes, in ns.
    pub flush_nanos: Histogram,
    /// Duration of compactions, from the beginning until the new file is in place, in ns.
    pub compaction_nanos: Histogram,
}

/// The fields of a [`StoreStats`] by the way they are compared. Each field is in exactly one array.
struct FieldGroups<'a> {
    counts: [&'a mut u64; 23],
    /// Current levels.
    levels: [&'a mut u64; 4],
    histograms: [&'a mut Histogram; 7],
}

impl StoreStats {
    /// The difference to `earlier`, an older sample of the same store. Current levels, such as open
    /// files, stay as they are.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let (mut since, mut earlier) = (self.clone(), earlier.clone());
        let (now, then) = (since.parts(), earlier.parts());
        for (now, then) in now.counts.into_iter().zip(then.counts) {
            *now = now.saturating_sub(*then);
        }
        for (now, then) in now.histograms.into_iter().zip(then.histograms) {
            *now = now.since(then);
        }
        since
    }

    /// Adds another store's counters and levels.
    pub fn merge(&mut self, other: &Self) {
        let mut other = other.clone();
        let (all, other) = (self.parts(), other.parts());
        let counts = all.counts.into_iter().zip(other.counts);
        let levels = all.levels.into_iter().zip(other.levels);
        for (all, other) in counts.chain(levels) {
            *all = all.saturating_add(*other);
        }
        for (all, other) in all.histograms.into_iter().zip(other.histograms) {
            all.merge(other);
        }
    }

    fn parts(&mut self) -> FieldGroups<'_> {
        let Self {
            commands,
            messages,
            message_bytes,
            commits,
            syncs,
            journal_bytes,
            session_bytes,
            compactions_begun,
            compactions,
            compactions_failed,
            compaction_bytes,
            compaction_dropped_bytes,
            flushes,
            flushes_failed,
            corrupt_lines,
            refused_full,
            refused_descriptors,
            refused_overloaded,
            failed_commands,
            background_failures,
            slow_commits,
            recoveries,
            recovered_records,
            open_nanos,
            open_files,
            sessions_resident,
            sessions_known,
            commit_nanos,
            sync_nanos,
            commit_records,
            commit_bytes,
            queue_depth,
            flush_nanos,
            compaction_nanos,
        } = self;
        FieldGroups {
            counts: [
                commands,
                messages,
                message_bytes,
                commits,
                syncs,
                journal_bytes,
                session_bytes,
                compactions_begun,
                compactions,
                compactions_failed,
                compaction_bytes,
                compaction_dropped_bytes,
                flushes,
                flushes_failed,
                corrupt_lines,
                refused_full,
                refused_descriptors,
                refused_overloaded,
                failed_commands,
                background_failures,
                slow_commits,
                recoveries,
                recovered_records,
            ],
            levels: [open_nanos, open_files, sessions_resident, sessions_known],
            histograms: [
                commit_nanos,
                sync_nanos,
                commit_records,
                commit_bytes,
                queue_depth,
                flush_nanos,
                compaction_nanos,
            ],
        }
    }
}
