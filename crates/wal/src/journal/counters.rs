//! Counters of the committer.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use crate::clock::{Clock, SystemClock};
use crate::meter::{Count, Measure, Meters, Metric, Unit};

/// Counters of the committer. Only the holder of the journal adds to them.
#[derive(Debug)]
pub struct CommitCounters {
    /// Batches committed.
    pub commits: Count,
    /// Syncs of segments.
    pub syncs: Count,
    /// Bytes written.
    pub bytes: Count,
    /// The durations of syncs.
    pub sync: Measure,
    /// The number of records in a commit.
    pub batch_records: Measure,
    /// The bytes of a commit.
    pub batch_bytes: Measure,
    /// True if records were refused, for lack of space or of a descriptor, and since then no
    /// records that callers wait for were accepted.
    pub refuses: AtomicBool,
    clock: Arc<dyn Clock>,
}

impl CommitCounters {
    /// Counters at zero.
    pub fn new(meters: &Meters, clock: Arc<dyn Clock>) -> Self {
        Self {
            commits: meters.count(COMMITS),
            syncs: meters.count(SYNCS),
            bytes: meters.count(BYTES),
            sync: meters.measure(SYNC),
            batch_records: meters.measure(BATCH_RECORDS),
            batch_bytes: meters.measure(BATCH_BYTES),
            refuses: AtomicBool::new(false),
            clock,
        }
    }

    pub(super) fn now(&self) -> Duration {
        self.clock.monotonic()
    }

    /// Counts a sync that began at this time and is done.
    pub(super) fn synced(&self, began: Duration) {
        let took = self.clock.monotonic().saturating_sub(began);
        self.syncs.add(1);
        self.sync.record_time_alone(took);
    }

    /// Counts a written batch.
    pub(super) fn wrote(&self, records: usize, bytes: usize) {
        self.commits.add(1);
        self.bytes.add(bytes as u64);
        self.batch_records.record_alone(records as u64);
        self.batch_bytes.record_alone(bytes as u64);
    }
}

impl Default for CommitCounters {
    fn default() -> Self {
        Self::new(&Meters::silent(), Arc::new(SystemClock::default()))
    }
}

const COMMITS: Metric = Metric::of(
    "sessionlog_commits_total",
    Unit::Count,
    "Group commits written to the journal",
);
const SYNCS: Metric = Metric::of(
    "sessionlog_syncs_total",
    Unit::Count,
    "Syncs of the journal",
);
const BYTES: Metric = Metric::of(
    "sessionlog_journal_written_bytes_total",
    Unit::Bytes,
    "Bytes of records written to the journal",
);
const SYNC: Metric = Metric::of(
    "sessionlog_sync_seconds",
    Unit::Seconds,
    "How long a sync of the journal takes",
);
const BATCH_RECORDS: Metric = Metric::of(
    "sessionlog_commit_records",
    Unit::Count,
    "Changes of sessions in one commit",
);
const BATCH_BYTES: Metric = Metric::of(
    "sessionlog_commit_bytes",
    Unit::Bytes,
    "Bytes of records in one commit",
);
