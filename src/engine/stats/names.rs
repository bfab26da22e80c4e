//! The exported names of a store's numbers.

use sessionlog_wal::meter::{Metric, Unit};

pub(super) const COMMANDS: Metric = Metric::of(
    "sessionlog_commands_total",
    Unit::Count,
    "Changes of sessions whose record is on disk",
);
pub(super) const MESSAGES: Metric =
    Metric::of("sessionlog_messages_total", Unit::Count, "Messages written");
pub(super) const MESSAGE_BYTES: Metric = Metric::of(
    "sessionlog_message_bytes_total",
    Unit::Bytes,
    "Bytes of the lines of messages written",
);
pub(super) const SESSION_BYTES: Metric = Metric::of(
    "sessionlog_session_written_bytes_total",
    Unit::Bytes,
    "Bytes appended to session files",
);
pub(super) const COMPACTIONS_BEGUN: Metric = Metric::of(
    "sessionlog_compactions_begun_total",
    Unit::Count,
    "Copies that compactions began",
);
pub(super) const COMPACTIONS: Metric = Metric::of(
    "sessionlog_compactions_total",
    Unit::Count,
    "Sessions rewritten to drop skipped lines",
);
pub(super) const COMPACTIONS_FAILED: Metric = Metric::of(
    "sessionlog_compactions_failed_total",
    Unit::Count,
    "Compactions that an error ended",
);
pub(super) const COMPACTION_BYTES: Metric = Metric::of(
    "sessionlog_compaction_copied_bytes_total",
    Unit::Bytes,
    "Bytes of the copies that compactions made",
);
pub(super) const COMPACTION_DROPPED: Metric = Metric::of(
    "sessionlog_compaction_dropped_bytes_total",
    Unit::Bytes,
    "Bytes by which compactions made session files shorter",
);
pub(super) const FLUSHES: Metric = Metric::of(
    "sessionlog_flushes_total",
    Unit::Count,
    "Flushes of session files and sidecars",
);
pub(super) const FLUSHES_FAILED: Metric = Metric::of(
    "sessionlog_flushes_failed_total",
    Unit::Count,
    "Flushes that an error ended",
);
pub(super) const CORRUPT_LINES: Metric = Metric::of(
    "sessionlog_corrupt_lines_total",
    Unit::Count,
    "Lines met while reading that could not be decoded",
);
pub(super) const REFUSED: Metric = Metric::of(
    "sessionlog_refused_commands_total",
    Unit::Count,
    "Commands refused, by reason: full, descriptors, overloaded",
);
pub(super) const FAILED_COMMANDS: Metric = Metric::of(
    "sessionlog_failed_commands_total",
    Unit::Count,
    "Commands that failed by input and output, damage, or a store that stopped writing",
);
pub(super) const BACKGROUND_FAILURES: Metric = Metric::of(
    "sessionlog_background_failures_total",
    Unit::Count,
    "What failed between commands",
);
pub(super) const SLOW_COMMITS: Metric = Metric::of(
    "sessionlog_slow_commits_total",
    Unit::Count,
    "Commits slower than the threshold of the store",
);
pub(super) const RECOVERIES: Metric = Metric::of(
    "sessionlog_recoveries_total",
    Unit::Count,
    "Opens that found no orderly end",
);
pub(super) const RECOVERED_RECORDS: Metric = Metric::of(
    "sessionlog_recovered_records_total",
    Unit::Count,
    "Records that recoveries found beyond the last checkpoint",
);
pub(super) const OPEN_TIME: Metric = Metric::of(
    "sessionlog_open_seconds",
    Unit::Seconds,
    "How long opening took, recovery included",
);
pub(super) const OPEN_FILES: Metric =
    Metric::of("sessionlog_open_files", Unit::Count, "Session files open");
pub(super) const SESSIONS_RESIDENT: Metric = Metric::of(
    "sessionlog_sessions_resident",
    Unit::Count,
    "Sessions in memory",
);
pub(super) const COMMIT: Metric = Metric::of(
    "sessionlog_commit_seconds",
    Unit::Seconds,
    "How long a group commit takes",
);
pub(super) const QUEUE_DEPTH: Metric = Metric::of(
    "sessionlog_queue_depth",
    Unit::Count,
    "Commands that wait for their shard, sampled while the store is busy",
);
pub(super) const FLUSH: Metric = Metric::of(
    "sessionlog_flush_seconds",
    Unit::Seconds,
    "How long a flush takes",
);
pub(super) const COMPACTION: Metric = Metric::of(
    "sessionlog_compaction_seconds",
    Unit::Seconds,
    "How long a compaction takes",
);
pub(super) const SESSIONS: Metric = Metric::of(
    "sessionlog_sessions",
    Unit::Count,
    "Sessions of the directory",
);
pub(super) const QUEUED: Metric = Metric::of(
    "sessionlog_queued_commands",
    Unit::Count,
    "Commands that wait for their shard, as of the last look",
);
pub(super) const JOURNAL: Metric = Metric::of(
    "sessionlog_journal_bytes",
    Unit::Bytes,
    "Bytes of the journal's segments on disk",
);
pub(super) const JOURNAL_LIMIT: Metric = Metric::of(
    "sessionlog_journal_limit_bytes",
    Unit::Bytes,
    "What the journal may take",
);
pub(super) const FREE_SPACE: Metric = Metric::of(
    "sessionlog_free_bytes",
    Unit::Bytes,
    "What the file system has left for the process",
);
pub(super) const FULL: Metric = Metric::of(
    "sessionlog_full",
    Unit::Count,
    "1 if space or descriptors lacked at the last write, else 0",
);
pub(super) const POISONED: Metric = Metric::of(
    "sessionlog_poisoned",
    Unit::Count,
    "1 if the store stopped writing, else 0",
);
