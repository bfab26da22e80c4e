//! The statistics of a store.
//!
//! [`numbers`] is the table of them: a number is declared there and nowhere else. From it follow the
//! fields of [`StoreStats`], which the published file and `sessionlog top` show, the counters behind
//! them, and what goes to the crate `metrics`.

mod counters;

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use sessionlog_wal::clock::Clock;
use sessionlog_wal::journal::counters::CommitCounters;
use sessionlog_wal::meter::{Count, Level, Measure, Meters, Metric, Unit};

use crate::Histogram;

/// Declares the numbers of a store. One of the journal names its counter there; any other one has
/// its exported name, its unit, a description for people and, if several share a name, the reason
/// that tells it apart.
macro_rules! numbers {
    (
        journal counts { $($(#[$jc_doc:meta])* $jc:ident: $jc_of:ident;)* }
        counts { $($(#[$c_doc:meta])* $c:ident: $c_name:literal, $c_unit:ident, $c_about:literal $(, because $c_why:literal)?;)* }
        levels { $($(#[$l_doc:meta])* $l:ident: $l_name:literal, $l_unit:ident, $l_about:literal;)* }
        journal histograms { $($(#[$jh_doc:meta])* $jh:ident: $jh_of:ident;)* }
        histograms { $($(#[$h_doc:meta])* $h:ident: $h_name:literal, $h_unit:ident, $h_about:literal;)* }
        samples { $($s:ident: $s_name:literal, $s_unit:ident, $s_about:literal;)* }
    ) => {
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
            $($(#[$jc_doc])* pub $jc: u64,)*
            $($(#[$c_doc])* pub $c: u64,)*
            $($(#[$l_doc])* pub $l: u64,)*
            /// Sessions of the directory, as of the last look: at each call, or every second for exported
            /// numbers.
            pub sessions_known: u64,
            $($(#[$jh_doc])* pub $jh: Histogram,)*
            $($(#[$h_doc])* pub $h: Histogram,)*
        }

        /// The numbers of [`StoreStats`]. They synchronise nothing: numbers that change together are
        /// not read in one step.
        #[derive(Debug)]
        pub(crate) struct Counters {
            $(pub(crate) $c: Count,)*
            $(pub(crate) $l: Level,)*
            $(pub(crate) $h: Measure,)*
            pub(crate) journal: Arc<CommitCounters>,
            /// Numbers that are sampled from time to time.
            pub(crate) sampled: Samples,
        }

        /// Numbers that are sampled from time to time for export.
        #[derive(Debug)]
        pub(crate) struct Samples {
            $(pub(crate) $s: Level,)*
        }

        impl Counters {
            pub(crate) fn new(meters: &Meters, clock: Arc<dyn Clock>) -> Self {
                Self {
                    $($c: meters.count(Metric::of($c_name, Unit::$c_unit, $c_about)$(.because($c_why))?),)*
                    $($l: meters.level(Metric::of($l_name, Unit::$l_unit, $l_about)),)*
                    $($h: meters.measure(Metric::of($h_name, Unit::$h_unit, $h_about)),)*
                    journal: Arc::new(CommitCounters::new(meters, clock)),
                    sampled: Samples {
                        $($s: meters.level(Metric::of($s_name, Unit::$s_unit, $s_about)),)*
                    },
                }
            }

            /// Reads all numbers; `sessions` comes from the catalog.
            pub(crate) fn read(&self, sessions: usize) -> StoreStats {
                StoreStats {
                    $($jc: self.journal.$jc_of.read(),)*
                    $($c: self.$c.read(),)*
                    $($l: self.$l.read(),)*
                    sessions_known: sessions as u64,
                    $($jh: self.journal.$jh_of.read(),)*
                    $($h: self.$h.read(),)*
                }
            }
        }

        impl StoreStats {
            fn groups(&mut self) -> FieldGroups<'_> {
                FieldGroups {
                    counts: vec![$(&mut self.$jc,)* $(&mut self.$c,)*],
                    levels: vec![$(&mut self.$l,)* &mut self.sessions_known],
                    histograms: vec![$(&mut self.$jh,)* $(&mut self.$h,)*],
                }
            }
        }
    };
}

numbers! {
    journal counts {
        /// Group commits written to the journal.
        commits: commits;
        /// Syncs of the journal.
        syncs: syncs;
        /// Bytes of records written to the journal, without headers and the zeros that segments are
        /// filled with.
        journal_bytes: bytes;
    }
    counts {
        /// Changes of sessions, counted once their record is on disk.
        commands: "sessionlog_commands_total", Count, "Changes of sessions whose record is on disk";
        /// Messages written, counting each message of a batch or a replaced history.
        messages: "sessionlog_messages_total", Count, "Messages written";
        /// Bytes of their lines.
        message_bytes: "sessionlog_message_bytes_total", Bytes, "Bytes of the lines of messages written";
        /// Bytes appended to session files; rewrites are not counted.
        session_bytes: "sessionlog_session_written_bytes_total", Bytes, "Bytes appended to session files";
        /// Compactions begun. One that a truncation, a new history or a deletion overtakes is thrown
        /// away, and begun anew if there is still something to drop: it is neither finished nor failed.
        compactions_begun: "sessionlog_compactions_begun_total", Count, "Copies that compactions began";
        /// Sessions rewritten to drop skipped lines.
        compactions: "sessionlog_compactions_total", Count, "Sessions rewritten to drop skipped lines";
        /// Compactions that failed with an error. The session stays as it is.
        compactions_failed: "sessionlog_compactions_failed_total", Count, "Compactions that an error ended";
        /// Bytes of the copies that compactions made.
        compaction_bytes: "sessionlog_compaction_copied_bytes_total", Bytes, "Bytes of the copies that compactions made";
        /// Bytes by which compactions made session files shorter.
        compaction_dropped_bytes: "sessionlog_compaction_dropped_bytes_total", Bytes, "Bytes by which compactions made session files shorter";
        /// Flushes: session files and sidecars synced, journal segments retired.
        flushes: "sessionlog_flushes_total", Count, "Flushes of session files and sidecars";
        /// Flushes that failed with an error. The journal keeps the data that they were to bring to the
        /// files.
        flushes_failed: "sessionlog_flushes_failed_total", Count, "Flushes that an error ended";
        /// Undecodable lines met while reading. A line counts each time it is met.
        corrupt_lines: "sessionlog_corrupt_lines_total", Count, "Lines met while reading that could not be decoded";
        /// Commands refused because there was no space, including compactions that the store began by
        /// itself.
        refused_full: "sessionlog_refused_commands_total", Count, "Commands refused, by reason: full, descriptors, overloaded", because "full";
        /// Commands refused because the process, or the system, had no descriptor left.
        refused_descriptors: "sessionlog_refused_commands_total", Count, "Commands refused, by reason: full, descriptors, overloaded", because "descriptors";
        /// Commands refused because too much waited for their session
        /// ([`Error::Overloaded`](crate::Error::Overloaded)).
        refused_overloaded: "sessionlog_refused_commands_total", Count, "Commands refused, by reason: full, descriptors, overloaded", because "overloaded";
        /// Commands that failed for another reason than their input: I/O errors, damage, a store that
        /// stopped writing.
        failed_commands: "sessionlog_failed_commands_total", Count, "Commands that failed by input and output, damage, or a store that stopped writing";
        /// Failures between commands, of which only the log is told: flushes, sidecars, copies, the
        /// next segment.
        background_failures: "sessionlog_background_failures_total", Count, "What failed between commands";
        /// Commits that took longer than
        /// [`StoreOptions::slow_commit`](crate::StoreOptions::slow_commit).
        slow_commits: "sessionlog_slow_commits_total", Count, "Commits slower than the threshold of the store";
        /// 1 if opening found that the last writer had not closed the store, else 0.
        recoveries: "sessionlog_recoveries_total", Count, "Opens that found no orderly end";
        /// Records that recovery found beyond the last checkpoint.
        recovered_records: "sessionlog_recovered_records_total", Count, "Records that recoveries found beyond the last checkpoint";
    }
    levels {
        /// The duration of opening, recovery included, in ns.
        open_nanos: "sessionlog_open_seconds", Seconds, "How long opening took, recovery included";
        /// Session files open now.
        open_files: "sessionlog_open_files", Count, "Session files open";
        /// Sessions in memory now: those used since the store was opened.
        sessions_resident: "sessionlog_sessions_resident", Count, "Sessions in memory";
    }
    journal histograms {
        /// Duration of syncs of the journal, in ns.
        sync_nanos: sync;
        /// Changes of sessions per commit. 0 if it held a checkpoint only.
        commit_records: batch_records;
        /// Bytes of records per commit.
        commit_bytes: batch_bytes;
    }
    histograms {
        /// Duration of group commits in ns: from taking the queued commands until the answers are on
        /// their way.
        commit_nanos: "sessionlog_commit_seconds", Seconds, "How long a group commit takes";
        /// Commands that waited for their shard to take them in, sampled ten times a second while the
        /// store is busy.
        queue_depth: "sessionlog_queue_depth", Count, "Commands that wait for their shard, sampled while the store is busy";
        /// Duration of flushes, in ns.
        flush_nanos: "sessionlog_flush_seconds", Seconds, "How long a flush takes";
        /// Duration of compactions, from the beginning until the new file is in place, in ns.
        compaction_nanos: "sessionlog_compaction_seconds", Seconds, "How long a compaction takes";
    }
    samples {
        sessions: "sessionlog_sessions", Count, "Sessions of the directory";
        queued: "sessionlog_queued_commands", Count, "Commands that wait for their shard, as of the last look";
        journal_bytes: "sessionlog_journal_bytes", Bytes, "Bytes of the journal's segments on disk";
        journal_limit: "sessionlog_journal_limit_bytes", Bytes, "What the journal may take";
        free_space: "sessionlog_free_bytes", Bytes, "What the file system has left for the process";
        full: "sessionlog_full", Count, "1 if space or descriptors lacked at the last write, else 0";
        poisoned: "sessionlog_poisoned", Count, "1 if the store stopped writing, else 0";
    }
}

/// The fields of a [`StoreStats`] by the way they are compared. Each field is in exactly one list.
struct FieldGroups<'a> {
    counts: Vec<&'a mut u64>,
    /// Current levels.
    levels: Vec<&'a mut u64>,
    histograms: Vec<&'a mut Histogram>,
}

impl StoreStats {
    /// The difference to `earlier`, an older sample of the same store. Current levels, such as open
    /// files, stay as they are.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let (mut since, mut earlier) = (self.clone(), earlier.clone());
        let (now, then) = (since.groups(), earlier.groups());
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
        let (all, other) = (self.groups(), other.groups());
        let counts = all.counts.into_iter().zip(other.counts);
        let levels = all.levels.into_iter().zip(other.levels);
        for (all, other) in counts.chain(levels) {
            *all = all.saturating_add(*other);
        }
        for (all, other) in all.histograms.into_iter().zip(other.histograms) {
            all.merge(other);
        }
    }
}
