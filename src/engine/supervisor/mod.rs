//! The supervisor: flushes, retires journal segments, and stops everything in order.
//!
//! A flush brings every session file and sidecar up to date, syncs them, and then writes a
//! checkpoint record to the journal; only the segments that this record covers are given up.
//! Flushes follow the journal's size and idleness first: an append that is alone in its session
//! costs a whole page when it is flushed, and the files of an idle store should be complete. A
//! store that is never idle is flushed after a time
//! ([`checkpoint_every`](crate::StoreOptions::checkpoint_every)).
//!
//! # What a crash leaves
//!
//! * *Flush: lines and sidecars written and synced*. Unfinished or finished: everything
//!   since the last checkpoint is replayed; finished, that changes nothing. Copies of
//!   sidecars are written before the checkpoint ([`copies`](crate::disk::copies)).
//! * *Checkpoint, retiring segments*: see [`journal`](mod@sessionlog_wal::journal).
//! * *Close: clean checkpoint*. Before: the next open recovers as ever and finds the
//!   store not `clean`. After: `clean`; what is left of the journal is skipped.
//! * *Close: catalog kept*: see [`kept`](mod@crate::engine::kept).
//! * *Close: segments removed, the active one last*. While any is left, the clean
//!   checkpoint stands beside it. After: an empty journal is a clean store.

pub(crate) mod background;
pub(crate) mod commits;
pub(crate) mod event_loop;
pub(crate) mod guard;
pub(crate) mod leader;
pub(crate) mod machine;
pub(crate) mod publisher;
mod purge;
pub(crate) mod threads;
pub(crate) mod wait;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use sessionlog_core::error::{Error, Result};
use sessionlog_core::session_file;
use sessionlog_wal::journal::record::{self, Record};
use sessionlog_wal::journal::{pool::SegmentPool, progress::Progress};
use sessionlog_wal::mailbox::EventReceiver;
use sessionlog_wal::storage::StorageFile;
use sessionlog_wal::sync::atomic::{AtomicBool, Ordering};
use sessionlog_wal::sync::slot::{Promise, Slot, slot};

use self::wait::Wait;
use crate::disk::copies::copy_file::CopyFile;
use crate::engine::shard::flushed::{FlushPart, FlushedSession};
use crate::engine::shard::owed::SYNC_EACH;
use crate::engine::shard::shared::SharedState;
use crate::engine::shard::worker::alarm::Alarm;
use crate::engine::shard::worker::event::Event;

/// A flush starts once nothing was written for this time.
const IDLE: Duration = Duration::from_millis(300);

/// The time by which sidecars may fall behind while the store is busy.
const SIDECARS: Duration = Duration::from_millis(900);

/// The period at which the supervisor looks while the store is busy.
pub(crate) const TICK: Duration = Duration::from_millis(100);

/// A request to the supervisor.
#[derive(Debug)]
pub(crate) enum SupervisorRequest {
    /// Something was committed, for the first time since the last flush.
    Active,
    /// A journal segment is full.
    SegmentFull,
    /// Flush now.
    Flush(Promise<Result<()>>),
    /// Flush, and leave no byte of a deleted session in the journal and the copies.
    Purge(Promise<Result<()>>),
    /// The journal failed: nothing is to be done, but a reader of the statistics may be looking.
    Failed,
    /// Carry out the accepted commands, flush, end.
    Stop(Promise<Result<()>>),
}

/// Owns the flush.
#[derive(Debug)]
pub(crate) struct Supervisor {
    pub(super) shared: Arc<SharedState>,
    alarm: Alarm,
    pub(crate) pool: Arc<SegmentPool>,
    pub(crate) progress: Arc<Progress>,
    /// True if something was committed since the last flush began.
    active: Arc<AtomicBool>,
    outcomes: EventReceiver<Result<()>>,
    copies: CopyFile,
    /// Sessions that a flush brought up to date before it failed: the next flush that succeeds must
    /// sync them too, for its checkpoint covers them.
    unsynced: Vec<FlushedSession>,
    /// The value of `SharedState::rebased` up to which everything is synced.
    rebased_synced: u64,
    commits_seen: u64,
    changed_at: Duration,
    sidecars_at: Duration,
    /// The time since which the journal holds records that no checkpoint covers, and the longest
    /// time that it may.
    uncovered_since: Duration,
    checkpoint_every: Duration,
}

impl Supervisor {
    pub(crate) fn new(
        shared: Arc<SharedState>,
        alarm: Alarm,
        pool: Arc<SegmentPool>,
        progress: Arc<Progress>,
        active: Arc<AtomicBool>,
        outcomes: EventReceiver<Result<()>>,
        (copies, checkpoint_every): (CopyFile, Duration),
    ) -> Self {
        Self {
            shared,
            alarm,
            pool,
            progress,
            active,
            outcomes,
            copies,
            unsynced: Vec::new(),
            rebased_synced: 0,
            commits_seen: 0,
            changed_at: Duration::ZERO,
            sidecars_at: Duration::ZERO,
            uncovered_since: Duration::ZERO,
            checkpoint_every,
        }
    }

    /// Logs a failure.
    pub(crate) fn warn(&self, error: &Error, what: &'static str) {
        self.shared.warn(error, what);
    }

    /// Looks at the time; returns the work that is due.
    pub(crate) fn tick(&mut self) -> Due {
        let now = self.shared.clock.monotonic();
        let commits = self.shared.counters.journal.commits.read();
        if commits != self.commits_seen {
            self.commits_seen = commits;
            self.changed_at = now;
        }
        if now >= self.sidecars_at + SIDECARS {
            self.sidecars_at = now;
            self.alarm.worker.send(Event::Sidecars);
        }
        // Other programs may have taken space meanwhile, or given some back.
        if let Err(error) = self.pool.fit() {
            self.warn(&error, "spare journal segments stay");
        }
        self.pool.keep_reserve();
        let old = now >= self.uncovered_since.saturating_add(self.checkpoint_every);
        if now >= self.changed_at + IDLE {
            Due::Idle
        } else if old || self.journal_is_long() {
            Due::Busy
        } else {
            Due::Nothing
        }
    }

    /// Notes that something was committed that no checkpoint covers, the first since the last
    /// flush.
    pub(crate) fn went_active(&mut self) {
        self.uncovered_since = self.shared.clock.monotonic();
    }

    /// True if the journal has grown enough for a flush.
    pub(crate) fn journal_is_long(&self) -> bool {
        self.pool.is_long()
    }

    /// Gives up the journal's spare segments, for a flush that finds no space; returns true if
    /// there were any.
    ///
    /// # Errors
    /// As the operating system reports them.
    pub(crate) fn give_way(&self) -> Result<bool> {
        self.pool.give_way()
    }

    /// Syncs records that the journal only wrote so far: callers that were told of them may rely on
    /// a flush, and session files get only synced lines.
    ///
    /// # Errors
    /// If the journal cannot be written or synced.
    pub(crate) fn sync_journal(&mut self, wait: &mut impl Wait) -> Result<()> {
        if !self.progress.owes_sync() {
            return Ok(());
        }
        self.alarm.ready.submit(&[])?;
        self.await_synced(wait)
    }

    /// Starts a flush: the worker brings its sessions up to date.
    pub(crate) fn begin(&mut self) -> Flush {
        // A store that is not written to must come to rest: were it always old, its flushes, which
        // are commits too, would keep it from ever being idle.
        self.uncovered_since = self.shared.clock.monotonic();
        // Before the watermark is read: later commits start the next flush. Swapped, not stored: a
        // commit that swapped before this is seen in the watermark, and one that swaps later finds
        // the flag cleared and says so. With a store, both could overlook each other.
        self.active.swap(false, Ordering::AcqRel);
        // Read before the worker is asked: every batch up to here is settled, or left to its
        // thread, which settles it before the request. Read later, the watermark could cover lines
        // that no session file holds yet.
        let upto = self.progress.synced();
        let (promise, slot) = slot();
        self.alarm.worker.send(Event::Flush(promise));
        Flush { upto, slot }
    }

    /// Syncs the files that the worker brought up to date.
    ///
    /// # Errors
    /// The error that kept the worker from it; the next flush tries again. A failed sync poisons
    /// the store.
    pub(crate) fn sync(&mut self, part: FlushPart) -> Result<()> {
        self.unsynced.extend(part.sessions);
        for copy in part.copies {
            self.copies.add(copy);
        }
        // With more than this, all are synced at once, whichever they are. If they were kept, their
        // names and open files would pile up for as long as flushes fail.
        self.unsynced.truncate(SYNC_EACH + 1);
        if let Some(error) = part.error {
            return Err(error);
        }
        // Synced with the rest, before the checkpoint: until then the journal has the content of
        // the sidecars, and afterwards only the copies do.
        self.copies.write();
        self.sync_files().map_err(|error| self.poison(&error))?;
        self.unsynced.clear();
        Ok(())
    }

    /// Removes the copies of deleted sessions' sidecars.
    ///
    /// # Errors
    /// A failed sync poisons the store.
    pub(crate) fn clear_gone(&mut self) -> Result<()> {
        self.copies.clear_gone();
        self.copies.sync().map_err(|error| self.poison(&error))
    }

    /// Hands a checkpoint record to the journal.
    ///
    /// # Errors
    /// If the journal takes no more records.
    pub(crate) fn submit_checkpoint(&self, upto: u64, clean: bool) -> Result<()> {
        let mut records = Vec::new();
        let checkpoint = Record::Checkpoint {
            sequence: upto,
            clean,
        };
        record::encode(&mut records, &checkpoint);
        self.alarm.ready.submit(&records)
    }

    /// Waits until the journal holds the records that were handed to it, and all before them.
    ///
    /// # Errors
    /// If it does not hold them.
    pub(crate) fn await_synced(&self, wait: &mut impl Wait) -> Result<()> {
        wait.event(&self.outcomes).unwrap_or(Err(Error::Closed))
    }

    /// Gives up the segments that a checkpoint covers.
    ///
    /// # Errors
    /// They stay on disk, and recovery skips them.
    pub(crate) fn retire(&self, upto: u64) -> Result<()> {
        let flushes = &self.shared.counters.flushes;
        flushes.add(1);
        self.pool.retire(upto).map_err(|error| match error {
            Error::Poisoned { .. } => self.poison(&error),
            other => other,
        })
    }

    fn sync_files(&mut self) -> Result<()> {
        let SharedState { storage, dir, .. } = &*self.shared;
        let rebased = || self.shared.rebased.load(Ordering::Acquire);
        let before = rebased();
        if let Some(files) = self.held_files()
            && before == self.rebased_synced
        {
            self.sync_each(&files)?;
            self.copies.sync()?;
            if rebased() == before {
                return Ok(());
            }
            // One of them has another name now, and was passed over.
        }
        let before = rebased();
        storage
            .sync_all(dir)
            .map_err(|e| Error::io("sync", dir, e))?;
        self.copies.all_synced();
        self.rebased_synced = before;
        Ok(())
    }

    /// Returns the files that a flush is to sync, if they are few and all were kept open.
    fn held_files(&self) -> Option<Vec<(PathBuf, Arc<dyn StorageFile>)>> {
        let dir = &self.shared.dir;
        let mut files = Vec::new();
        for flushed in &self.unsynced {
            if let Some(log) = &flushed.log {
                files.push((dir.join(session_file::log_name(&flushed.stem)), log.clone()));
            }
            if let Some(kept) = &flushed.sidecar {
                let path = dir.join(session_file::sidecar_name(&flushed.stem));
                files.push((path, kept.file()?));
            }
        }
        let held = self.unsynced.iter().all(|flushed| !flushed.unheld);
        (held && self.unsynced.len() <= SYNC_EACH).then_some(files)
    }

    fn sync_each(&self, files: &[(PathBuf, Arc<dyn StorageFile>)]) -> Result<()> {
        let SharedState { storage, dir, .. } = &*self.shared;
        for (path, file) in files {
            file.sync_data().map_err(|e| Error::io("sync", path, e))?;
        }
        if self.unsynced.is_empty() {
            return Ok(());
        }
        storage.sync_dir(dir).map_err(|e| Error::io("sync", dir, e))
    }

    fn poison(&self, error: &Error) -> Error {
        if error.out_of_descriptors() {
            return error.clone();
        }
        let reason = error.reason();
        self.alarm.raise(&reason);
        Error::Poisoned { reason }
    }
}

/// The work that is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Due {
    Nothing,
    /// A flush: nothing was written for a while.
    Idle,
    /// A flush: the journal has grown long, or its records old. After a crash, the journal tells
    /// other programs' changes from ours, line by line; the less it holds, the less there is to
    /// compare.
    Busy,
}

/// A flush under way.
#[derive(Debug)]
pub(crate) struct Flush {
    /// The last batch that the checkpoint will cover.
    pub(crate) upto: u64,
    pub(crate) slot: Slot<FlushPart>,
}
