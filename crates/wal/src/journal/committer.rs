//! The committer: the single writer of the journal.

use std::io;
use std::sync::Arc;

use bytes::BytesMut;
use sessionlog_core::error::{Error, Result};

use super::counters::CommitCounters;
use super::cursor::{JournalCursor, RESERVE, Route};
use super::pool::SegmentPool;
use super::progress::Progress;
use super::record::{self, Commit, Record};
use super::segment::HEADER;
use super::syncing::Syncing;
use crate::sync::atomic::Ordering;

/// Records that go to disk together: after a crash all of them hold, or none.
#[derive(Debug, Default)]
pub struct Batch {
    /// Encoded records, in the order they were staged.
    pub bytes: BytesMut,
    /// The number of changes of sessions.
    pub changes: usize,
    /// True if it is synced as soon as it is written.
    pub durable: bool,
    /// True if one of its records frees space once it holds.
    pub frees: bool,
    /// True if the records are the supervisor's, for which room is kept.
    pub own: bool,
}

/// The single writer of the journal.
#[derive(Debug)]
pub struct Committer {
    pool: Arc<SegmentPool>,
    cursor: JournalCursor,
    /// The last batch written.
    sequence: u64,
    progress: Arc<Progress>,
    /// A batch was written that is not synced.
    has_unsynced: bool,
    /// A [sync](Self::begin_sync) is under way.
    syncs: bool,
    counters: Arc<CommitCounters>,
}

impl Committer {
    /// Continues after batch `sequence` in a fresh segment.
    ///
    /// # Errors
    /// If the first segment cannot be made.
    pub fn new(
        pool: Arc<SegmentPool>,
        sequence: u64,
        progress: Arc<Progress>,
        counters: Arc<CommitCounters>,
    ) -> Result<Self> {
        let segment = pool.next(0, true)?;
        progress.written.store(sequence, Ordering::Relaxed);
        progress.synced.store(sequence, Ordering::Relaxed);
        Ok(Self {
            pool,
            cursor: JournalCursor::new(segment),
            sequence,
            progress,
            has_unsynced: false,
            syncs: false,
            counters,
        })
    }

    /// Writes one batch. No other thread may write, or sync for it, meanwhile.
    ///
    /// # Errors
    /// After a full disk, or a lack of descriptors, nothing of the batch is there, and the next one
    /// may be tried. Any other error poisons the store: the state of the batch is unknown.
    pub fn write(&mut self, batch: &mut Batch) -> Result<()> {
        let written = self.append(batch);
        let refuses = &self.counters.refuses;
        match &written {
            // The supervisor's records have reserved room: their success does not mean that there
            // is space.
            Ok(()) if batch.own => {}
            Ok(()) => refuses.store(false, Ordering::Relaxed),
            Err(_) => refuses.store(true, Ordering::Relaxed),
        }
        written
    }

    /// Writes one batch and syncs it.
    ///
    /// # Errors
    /// As [`write`](Self::write) and [`end_sync`](Self::end_sync).
    pub fn commit(&mut self, batch: &mut Batch) -> Result<()> {
        batch.durable = true;
        self.write(batch)?;
        let Some(syncing) = self.begin_sync() else {
            return Ok(());
        };
        let synced = syncing.run();
        self.end_sync(&syncing, synced, || {})
    }

    /// True if a batch of this many bytes goes into the present segment.
    #[must_use]
    pub fn has_room(&self, len: usize) -> bool {
        let len = (len + record::COMMIT_LEN) as u64 + self.cursor.reserve();
        self.cursor.takes(len) && !self.is_outdated()
    }

    fn is_outdated(&self) -> bool {
        self.pool.is_outdated(self.segment_number())
    }

    /// The number of the segment that takes the next batch.
    #[must_use]
    pub fn segment_number(&self) -> u64 {
        self.cursor.segment().number
    }

    /// Begins a sync of everything written, if anything was. One sync covers every batch before it.
    /// Until it is ended, only batches may be written that are not `durable` and that fit into the
    /// segment.
    pub fn begin_sync(&mut self) -> Option<Syncing> {
        self.syncs = std::mem::take(&mut self.has_unsynced);
        self.syncs.then(|| Syncing {
            file: self.cursor.file(),
            sequence: self.sequence,
            began: self.counters.now(),
        })
    }

    /// Reports the result of a sync. The watermark is raised only after `tell` was called: a flush
    /// reads the watermark and then asks the shards what they applied.
    ///
    /// # Errors
    /// A failed sync poisons the store. It is never tried again, because the page cache may then
    /// show bytes that the disk does not have.
    pub fn end_sync(
        &mut self,
        syncing: &Syncing,
        synced: io::Result<()>,
        tell: impl FnOnce(),
    ) -> Result<()> {
        self.syncs = false;
        synced.map_err(|e| Error::io("sync journal", self.pool.dir(), e))?;
        self.counters.synced(syncing.began);
        tell();
        let synced = &self.progress.synced;
        synced.store(syncing.sequence, Ordering::Release);
        Ok(())
    }

    /// Ends the journal after a clean checkpoint: nothing is left to recover.
    ///
    /// # Errors
    /// Files that stay on disk are skipped by the next open.
    pub fn finish(self) -> Result<()> {
        self.pool.remove_all(self.cursor.segment())
    }

    fn append(&mut self, batch: &mut Batch) -> Result<()> {
        let reserve = if batch.own { 0 } else { self.cursor.reserve() };
        let records = &mut batch.bytes;
        // A batch with a stated length that is too small would be taken for a torn end after a
        // crash.
        let Ok(batch_len) = u32::try_from(records.len()) else {
            let full = io::ErrorKind::StorageFull.into();
            return Err(Error::io("write journal", self.pool.dir(), full));
        };
        record::encode(
            records,
            &Record::Commit(Commit {
                sequence: self.sequence + 1,
                batch_len,
                durable: self.progress.synced(),
            }),
        );
        let stays = self.cursor.takes(records.len() as u64 + reserve);
        // Not while the segment is being synced: after a power loss, batches in the next segment
        // could be there while batches of this one are missing.
        if !stays || self.is_outdated() && !self.syncs {
            self.rotate(records.len() as u64, batch.frees || batch.own)?;
        }
        record::seal(records, self.cursor.segment().seed);
        let is_synced_next = batch.durable && !self.has_unsynced;
        let route = if is_synced_next {
            Route::Disk
        } else {
            Route::Cache
        };
        let was_past = self.cursor.is_past_half();
        self.cursor
            .write(records, route)
            .map_err(|e| Error::io("write journal", self.pool.dir(), e))?;
        if !was_past && self.cursor.is_past_half() {
            self.pool.hurry();
        }
        self.sequence += 1;
        self.has_unsynced = true;
        self.progress
            .written
            .store(self.sequence, Ordering::Relaxed);
        self.counters.wrote(batch.changes, records.len());
        Ok(())
    }

    /// Continues in the next segment. The old segment is synced first: later syncs do not reach it.
    fn rotate(&mut self, batch_len: u64, frees: bool) -> Result<()> {
        let next = self.pool.next(HEADER as u64 + batch_len + RESERVE, frees)?;
        let began = self.counters.now();
        if self.has_unsynced {
            // Not `StorageFull`, which may pass: a sync is never tried again.
            self.cursor.file().sync_data().map_err(|e| Error::Io {
                operation: "sync journal",
                path: self.pool.dir().into(),
                source: Arc::new(e),
            })?;
            self.counters.synced(began);
        }
        let full = self.cursor.go_on_in(next);
        self.pool.filled(full, self.sequence);
        Ok(())
    }
}
