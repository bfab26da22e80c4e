//! What a person watching the store wants to know.

mod counters;
mod names;

pub(crate) use self::counters::Counters;

use serde::{Deserialize, Serialize};

use crate::Histogram;

/// What the store did since it was opened, and what it holds now.
///
/// Of two numbers that change together one may be read before it changes.
/// [`since`](Self::since) says what came between two samples, [`merge`](Self::merge) adds
/// several stores up. With the feature `metrics` the same numbers, and those of
/// [`StoreStatus`](crate::StoreStatus), go to the recorder of the crate `metrics` that the
/// process installed before it opened the store.
///
/// It serialises; what another version does not know, or lacks, is left out and 0.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct StoreStats {
    /// Changes of sessions whose record is on disk.
    pub commands: u64,
    /// Messages written, each of a batch or a replaced history counted.
    pub messages: u64,
    /// Bytes of their lines.
    pub message_bytes: u64,
    /// Group commits written to the journal.
    pub commits: u64,
    /// Syncs of the journal.
    pub syncs: u64,
    /// Bytes of records written to the journal, without headers and the zeros
    /// that segments are made of.
    pub journal_bytes: u64,
    /// Bytes appended to session files; rewrites are not counted.
    pub session_bytes: u64,
    /// Copies that compactions began. One that a truncation, a new history or a deletion
    /// overtakes is thrown away, and begun anew if there is still something to drop: it is
    /// neither finished nor failed.
    pub compactions_begun: u64,
    /// Sessions rewritten to drop skipped lines.
    pub compactions: u64,
    /// Compactions that an error ended. The session stays as it is.
    pub compactions_failed: u64,
    /// Bytes of the copies that compactions made.
    pub compaction_bytes: u64,
    /// Bytes by which compactions made session files shorter.
    pub compaction_dropped_bytes: u64,
    /// Flushes: session files and sidecars synced, journal segments retired.
    pub flushes: u64,
    /// Flushes that an error ended. The journal keeps what they were to bring to the files.
    pub flushes_failed: u64,
    /// Lines met while reading that could not be decoded. A line counts each
    /// time it is met.
    pub corrupt_lines: u64,
    /// Commands refused because there was no space, compactions that the store began by
    /// itself among them.
    pub refused_full: u64,
    /// Commands refused because the process, or the system, had no descriptor left.
    pub refused_descriptors: u64,
    /// Commands refused because too much waited for their session
    /// ([`Error::Overloaded`](crate::Error::Overloaded)).
    pub refused_overloaded: u64,
    /// Commands that failed for another reason than what they asked for: input and output,
    /// damage, a store that stopped writing.
    pub failed_commands: u64,
    /// What failed between commands, where nobody is told of it but the log: flushes,
    /// sidecars, copies, the next segment.
    pub background_failures: u64,
    /// Commits that took longer than [`StoreOptions::slow_commit`](crate::StoreOptions::slow_commit).
    pub slow_commits: u64,
    /// 1 if opening found that the last writer had not ended in order, else 0.
    pub recoveries: u64,
    /// Records that recovery found beyond the last checkpoint.
    pub recovered_records: u64,

    /// How long opening took, recovery included, ns.
    pub open_nanos: u64,
    /// Session files open now.
    pub open_files: u64,
    /// Sessions in memory now: those used since the store was opened.
    pub sessions_resident: u64,
    /// Sessions of the directory now, as of the last look: taken when asked for, or every
    /// second for what is exported.
    pub sessions_known: u64,

    /// How long a group commit took, ns: from when the committer took what was queued until
    /// the answers were on their way.
    pub commit_nanos: Histogram,
    /// How long a sync of the journal took, ns.
    pub sync_nanos: Histogram,
    /// Changes of sessions in one commit: what had queued up for it. 0 if it held a
    /// checkpoint only.
    pub commit_records: Histogram,
    /// Bytes of records in one commit.
    pub commit_bytes: Histogram,
    /// Commands that waited for their shard to take them in, looked at ten times a second
    /// while the store is busy.
    pub queue_depth: Histogram,
    /// How long a flush took, ns.
    pub flush_nanos: Histogram,
    /// How long a compaction took, from its beginning until the new file was in place, ns.
    pub compaction_nanos: Histogram,
}

/// The fields of a [`StoreStats`] by how they are compared. Every one stands in one of them.
struct Parts<'a> {
    counts: [&'a mut u64; 23],
    /// What it holds now.
    levels: [&'a mut u64; 4],
    histograms: [&'a mut Histogram; 7],
}

impl StoreStats {
    /// What was done since `earlier`, an older sample of the same store. What the store holds
    /// now, such as open files, is as it is.
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

    /// Adds what another store did, and holds.
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

    fn parts(&mut self) -> Parts<'_> {
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
        Parts {
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
