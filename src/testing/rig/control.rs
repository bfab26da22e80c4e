//! What the threads of a model share.

use std::sync::Arc;

use sessionlog_core::error::Result;
use sessionlog_wal::journal::pool::SegmentPool;
use sessionlog_wal::journal::progress::Progress;
use sessionlog_wal::sync::slot::Slot;

use crate::StoreStats;
use crate::engine::Engine;
use crate::engine::open::OpenedStore;
use crate::engine::reader;
use crate::engine::shard::worker::alarm::Alarm;
use crate::engine::shard::worker::event::Event;
use crate::engine::snapshot::View;
use crate::engine::supervisor::SupervisorRequest;
use crate::engine::supervisor::machine::Machine;

/// Asks a store what its [`Store`](crate::Store) asks it.
#[derive(Clone, Debug)]
pub struct RigControl {
    pub(super) engine: Arc<Engine>,
    pub(super) progress: Arc<Progress>,
    pub(super) pool: Arc<SegmentPool>,
    pub(super) alarm: Alarm,
}

/// One moment of a session, as a reader gets it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeenMoment {
    /// Live lines, from the file and after it.
    pub lines: Vec<String>,
    /// Lines that the sidecar counts, skipped ones included.
    pub count: i64,
    /// Lines that the sidecar skips.
    pub skip: i64,
}

impl RigControl {
    pub(in crate::testing) fn of(opened: &OpenedStore) -> Self {
        let Machine {
            supervisor, alarm, ..
        } = &opened.machine;
        Self {
            engine: opened.engine.clone(),
            progress: supervisor.supervisor.progress.clone(),
            pool: supervisor.supervisor.pool.clone(),
            alarm: alarm.clone(),
        }
    }

    /// What [`Store::close`](crate::Store::close) asks for, short of joining the
    /// threads.
    ///
    /// # Errors
    /// As there.
    pub fn close(&self) -> Result<()> {
        self.engine.stop()
    }

    /// Refuses every later call and asks for the end; the answer arrives in the
    /// slot.
    ///
    /// # Panics
    /// If the supervisor has ended.
    #[must_use]
    pub fn start_close(&self) -> Slot<Result<()>> {
        self.engine.refuse_calls();
        self.engine
            .request(SupervisorRequest::Stop)
            .expect("supervised")
    }

    /// Asks for a flush; the answer arrives in the slot.
    ///
    /// # Panics
    /// If the supervisor has ended.
    #[must_use]
    pub fn start_flush(&self) -> Slot<Result<()>> {
        self.engine
            .request(SupervisorRequest::Flush)
            .expect("supervised")
    }

    /// The last batch synced, as a flush reads it.
    #[must_use]
    pub fn synced(&self) -> u64 {
        self.progress.synced()
    }

    /// Whether a flush has to have the journal synced first.
    #[must_use]
    pub fn owes_sync(&self) -> bool {
        self.progress.owes_sync()
    }

    /// Ends the leader's thread once it has committed what is queued.
    pub fn end_leader(&self) {
        self.alarm.ready.close();
    }

    /// Ends the worker's thread.
    pub fn end_worker(&self) {
        self.alarm.worker.send(Event::Exit);
    }

    /// Why the store takes no more records, if it does not.
    #[must_use]
    pub fn poisoned(&self) -> Option<Arc<str>> {
        self.alarm.ready.poisoned()
    }

    /// Makes a journal segment ahead of need, as a background job does.
    ///
    /// # Errors
    /// As the job.
    pub fn prepare_segment(&self) -> Result<()> {
        self.pool.prepare()
    }

    /// Takes the next segment and gives it back full, as the committer does;
    /// its number.
    ///
    /// # Errors
    /// As the committer's.
    pub fn use_segment(&self, last_sequence: u64) -> Result<u64> {
        let segment = self.pool.next(0, false)?;
        let number = segment.number;
        self.pool.filled(segment, last_sequence);
        Ok(number)
    }

    /// Gives up the segments that a checkpoint covers.
    ///
    /// # Errors
    /// As the supervisor's.
    pub fn retire_segments(&self, upto: u64) -> Result<()> {
        self.pool.retire(upto)
    }

    /// The last batches of the segments that wait for a checkpoint.
    #[must_use]
    pub fn full_segments(&self) -> Vec<u64> {
        self.pool.full_sequences()
    }

    /// This moment of a session, without asking its owner; `None` if a reader
    /// has to ask.
    ///
    /// # Panics
    /// If what a reader holds cannot be read.
    #[must_use]
    pub fn moment(&self, key: &str) -> Option<SeenMoment> {
        let shared = &self.engine.shared;
        let entry = shared.catalog.get(key)?;
        let view = entry.view.load();
        let View::Live(live) = &*view else {
            return None;
        };
        let snapshot = live.snapshot();
        if snapshot.lacks_file() {
            return None;
        }
        let live = reader::live_lines(&snapshot).expect("is readable");
        let text = String::from_utf8(live.bytes).expect("is text");
        Some(SeenMoment {
            lines: text.lines().map(String::from).collect(),
            count: snapshot.meta.count,
            skip: snapshot.meta.skip,
        })
    }

    /// What the store counted.
    #[must_use]
    pub fn stats(&self) -> StoreStats {
        self.engine.shared.counters.read(0)
    }
}
