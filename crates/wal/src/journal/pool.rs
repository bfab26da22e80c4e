//! The journal's segments: the one ready for use next, those still needed for recovery, and those
//! free for reuse.

mod renewal;
pub mod reserve;
mod space;
#[cfg(test)]
mod tests;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use sessionlog_core::error::{Error, Result};

use super::budget::JournalBudget;
use super::segment::{self, Filling, Lengths, Segment, Spare, StoreId};
use crate::storage::{FileKind, Storage, StorageFile};
use crate::sync::{Condvar, Mutex};

/// Retired segments are kept for reuse up to this many times the largest; more are removed. That is
/// as many as a busy store fills between two flushes: a reused segment needs no zeros written into
/// it, and a removed one costs the file system as much again.
const SPARE_SEGMENTS: u64 = 8;

/// Hands segments to the committer and takes them back.
#[derive(Debug)]
pub struct SegmentPool {
    storage: Arc<dyn Storage>,
    dir: PathBuf,
    store: StoreId,
    lengths: Lengths,
    state: Mutex<PoolState>,
    /// Notified when no segment is being made any more.
    made: Condvar,
    /// Segments of lower numbers take no more batches, and are not reused.
    renewed: AtomicU64,
}

#[expect(clippy::struct_excessive_bools, reason = "any of them may go with any")]
#[derive(Debug, Default)]
struct PoolState {
    /// True while a segment is being made. Only one at a time: if there were two, the one with the
    /// higher number could be written to first, and recovery would find the batches out of order.
    making: bool,
    /// True if the next segment is needed soon: the one in use is half full, or the committer
    /// waits.
    urgent: bool,
    /// True once the store has ended; a segment made now would be left behind.
    ended: bool,
    /// The number of the next segment. Numbers order the journal in time: recovery reads segments
    /// by number.
    next_number: u64,
    next_len: u64,
    /// The length of the segment handed out last.
    active: u64,
    /// The budget, as of the last look at the available space.
    budget: Option<JournalBudget>,
    /// True if the last request for a segment found no space.
    short: bool,
    ready: Option<Segment>,
    full: Vec<Full>,
    spares: Vec<Spare>,
}

/// A segment that takes no more batches but is needed until a checkpoint covers its last batch.
#[derive(Debug)]
struct Full {
    number: u64,
    last_sequence: u64,
    len: u64,
    file: Arc<dyn StorageFile>,
}

/// The size of the journal, and its limit.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct JournalSize {
    /// Bytes of all segments on disk.
    pub bytes: u64,
    /// The limit, as of the last look at the available space.
    pub limit: u64,
}

impl SegmentPool {
    /// A pool for the segments of `dir`; `first_number` is the number of the first.
    pub fn new(
        storage: Arc<dyn Storage>,
        dir: PathBuf,
        store: StoreId,
        first_number: u64,
        lengths: Lengths,
    ) -> Self {
        Self {
            storage,
            dir,
            store,
            lengths,
            state: Mutex::new(PoolState {
                next_number: first_number,
                next_len: lengths.first,
                ..PoolState::default()
            }),
            made: Condvar::new(),
            renewed: AtomicU64::new(0),
        }
    }

    /// The directory of the segments.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The next segment, with room for `min_len` bytes. It is made on the spot, while the committer
    /// waits, only if none is ready or the ready one is too small; a segment that is being made is
    /// waited for. `frees` means that it is for a record that frees space, and may use the
    /// [`reserve`].
    ///
    /// # Errors
    /// `StorageFull` leaves nothing behind; ask again later.
    pub fn next(&self, min_len: u64, frees: bool) -> Result<Segment> {
        let (small, _making) = {
            let mut state = self.state.lock();
            while state.making {
                state.urgent = true;
                self.made.wait(&mut state);
            }
            match state.ready.take() {
                Some(segment) if segment.len >= min_len => {
                    (state.active, state.urgent) = (segment.len, false);
                    return Ok(segment);
                }
                small => (small, Making::begin(self, &mut state)),
            }
        };
        let made = self.create(min_len, Filling::AtOnce, frees);
        match (small, &made) {
            (Some(small), Ok(_)) => self.remove(&self.dir.join(segment::name(small.number)))?,
            // It serves the next batch that is not as large.
            (small, _) => self.state.lock().ready = small,
        }
        let segment = made?;
        let mut state = self.state.lock();
        (state.active, state.urgent) = (segment.len, false);
        drop(state);
        Ok(segment)
    }

    /// The segment in use is half full: if the next one were still made at leisure, committing
    /// callers would wait for the rest.
    pub fn hurry(&self) {
        self.state.lock().urgent = true;
    }

    /// Makes the next segment ahead of need, off the committer's path. Does nothing if one is ready
    /// or being made, or the store has ended.
    ///
    /// # Errors
    /// As [`SegmentPool::next`].
    pub fn prepare(&self) -> Result<()> {
        let _making = {
            let mut state = self.state.lock();
            if state.making || state.ended || state.ready.is_some() {
                return Ok(());
            }
            Making::begin(self, &mut state)
        };
        let is_urgent = || self.state.lock().urgent;
        let segment = self.create(0, Filling::InSteps(&is_urgent), false)?;
        self.state.lock().ready = Some(segment);
        Ok(())
    }

    fn create(&self, min_len: u64, filling: Filling<'_>, frees: bool) -> Result<Segment> {
        let (space, budget) = self.look();
        let min_len = min_len.next_multiple_of(4096);
        let (number, len) = {
            let mut state = self.state.lock();
            state.next_number += 1;
            let len = state.next_len.min(budget.segment).max(min_len);
            (state.next_number - 1, len)
        };
        let least = budget.least.min(len).max(min_len);
        let mut refused = None;
        let blank = match self.blank(number, len, least, space, filling) {
            Err(full @ Error::StorageFull { .. }) if frees => {
                match self.draw_on_reserve(min_len)? {
                    Some(kept) => {
                        refused = Some(full);
                        Ok(kept)
                    }
                    None => Err(full),
                }
            }
            made => made,
        };
        let blank = blank.inspect_err(|error| {
            self.state.lock().short = matches!(error, Error::StorageFull { .. });
        })?;
        let segment = segment::create(&*self.storage, &self.dir, &self.store, number, &blank)
            .inspect_err(|error| self.discard(&blank, error));
        let segment = segment.map_err(|error| match refused {
            // A compaction removed the reserve file before it got a segment's name. Asked again,
            // there may be space.
            Some(full) if is_gone(&error) => full,
            _ => error,
        })?;
        let mut state = self.state.lock();
        state.short = false;
        state.next_len = (state.next_len * 4).min(self.lengths.largest);
        Ok(segment)
    }

    /// The size of the journal, and its limit.
    pub fn standing(&self) -> JournalSize {
        let state = self.state.lock();
        JournalSize {
            bytes: state.bytes(),
            limit: state.budget.map_or(0, JournalBudget::bytes),
        }
    }

    /// True if full segments should be given up: there are enough of them, or there is no space for
    /// others.
    pub fn is_long(&self) -> bool {
        self.has_full(JournalBudget::is_long)
    }

    /// True if a flush under way should hurry: the space it gives up is needed soon.
    pub fn is_pressing(&self) -> bool {
        self.has_full(JournalBudget::is_pressing)
    }

    /// True if it has `enough` bytes of full segments, or any while there is no space for another.
    fn has_full(&self, enough: fn(JournalBudget, u64) -> bool) -> bool {
        let state = self.state.lock();
        let full = state.full_bytes();
        state.budget.is_some_and(|budget| enough(budget, full)) || state.short && full > 0
    }

    /// Removes a file that got no header: a sync of it may have failed, so it may not be whole.
    /// Left behind, its space would be lost until the close. If its name is in doubt, the store
    /// stops anyway.
    fn discard(&self, blank: &Spare, error: &Error) {
        if !matches!(error, Error::Poisoned { .. }) {
            let _ = self.storage.remove_file(&blank.path);
        }
    }

    /// Takes a full segment back; it stays on disk until a checkpoint covers `last_sequence`.
    pub fn filled(&self, segment: Segment, last_sequence: u64) {
        self.state.lock().full.push(Full {
            number: segment.number,
            last_sequence,
            len: segment.len,
            file: segment.file.into_file(),
        });
    }

    /// The bytes of full segments that wait for a checkpoint.
    #[cfg(test)]
    pub(crate) fn full_bytes(&self) -> u64 {
        self.state.lock().full_bytes()
    }

    /// The last batches of the full segments.
    #[cfg(all(feature = "testing", sessionlog_loom))]
    pub fn full_sequences(&self) -> Vec<u64> {
        let state = self.state.lock();
        state.full.iter().map(|full| full.last_sequence).collect()
    }

    /// Gives up every segment with all batches at or below `sequence`, which a synced
    /// checkpoint record must cover. If this were called earlier, a crash would leave session files
    /// without the journal that mends them.
    ///
    /// # Errors
    /// Segments that could not be given up are kept; the next call or the end of the store tries
    /// again. If they were forgotten, they would outlive the clean checkpoint that covers them, and
    /// the next open would replay them or refuse the store.
    pub fn retire(&self, sequence: u64) -> Result<()> {
        let retired: Vec<Full> = {
            let mut state = self.state.lock();
            state
                .full
                .extract_if(.., |full| full.last_sequence <= sequence)
                .collect()
        };
        if retired.is_empty() {
            return Ok(());
        }
        let mut spares = Vec::new();
        let mut retired = retired.into_iter();
        while let Some(full) = retired.next() {
            if let Err(error) = self.release(&full, &mut spares) {
                // The next flush tries again.
                let left = std::iter::once(full).chain(retired);
                self.state.lock().full.extend(left);
                return Err(error);
            }
        }
        // A spare may be written to only now: with its old name still on disk, a new header in it
        // would look like a damaged segment.
        self.sync_dir()?;
        self.state.lock().spares.append(&mut spares);
        self.fit()
    }

    fn release(&self, full: &Full, spares: &mut Vec<Spare>) -> Result<()> {
        let path = self.dir.join(segment::name(full.number));
        let wrap = |e| Error::io("retire journal segment", &path, e);
        let kept: u64 = {
            let state = self.state.lock();
            spares.iter().chain(&state.spares).map(|s| s.len).sum()
        };
        let enough = kept + full.len > SPARE_SEGMENTS * self.lengths.largest;
        if enough || self.is_outdated(full.number) {
            return self.storage.remove_file(&path).map_err(wrap);
        }
        let spare = self.dir.join(format!("spare-{:016x}.tmp", full.number));
        match self.storage.rename(&path, &spare).map_err(wrap) {
            // A new name can need space, but this call is meant to free some.
            Err(Error::StorageFull { .. }) => {
                return self.storage.remove_file(&path).map_err(wrap);
            }
            renamed => renamed?,
        }
        spares.push(Spare {
            path: spare,
            file: full.file.clone(),
            len: full.len,
        });
        Ok(())
    }

    /// Removes every segment, spares included, `active` last. Call this only after a synced
    /// checkpoint record in `active` covers everything: while any older segment is left, that
    /// record keeps it from being replayed.
    ///
    /// # Errors
    /// Files left on disk are skipped or removed by the next open.
    pub fn remove_all(&self, active: &Segment) -> Result<()> {
        self.end();
        let active = segment::name(active.number);
        // The files on disk count, not the known ones: a segment that was lost track of after an
        // error would be replayed once the checkpoint is gone.
        for name in self.names()? {
            if name != active {
                self.remove(&self.dir.join(name))?;
            }
        }
        self.sync_dir()?;
        self.remove(&self.dir.join(active))?;
        self.sync_dir()
    }

    fn end(&self) {
        let mut state = self.state.lock();
        while state.making {
            state.urgent = true;
            self.made.wait(&mut state);
        }
        *state = PoolState {
            ended: true,
            ..PoolState::default()
        };
    }

    /// Every segment, half-made segment and spare on disk.
    fn names(&self) -> Result<Vec<String>> {
        let entries = self
            .storage
            .read_dir(&self.dir)
            .map_err(|e| Error::io("list", &self.dir, e))?;
        let names = entries.into_iter().filter(|e| e.kind == FileKind::File);
        let names = names.map(|entry| entry.name);
        let ours = |name: &String| {
            segment::number_of(name).is_some() || name.strip_suffix(".tmp").is_some()
        };
        Ok(names.filter(ours).collect())
    }

    fn remove(&self, path: &Path) -> Result<()> {
        self.storage
            .remove_file(path)
            .map_err(|e| Error::io("remove journal segment", path, e))
    }

    fn sync_dir(&self) -> Result<()> {
        self.storage
            .sync_dir(&self.dir)
            .map_err(|e| Error::sync(&self.dir, e))
    }
}

/// A segment is being made until this is dropped, also if making it fails: the committer waits for
/// it.
#[derive(Debug)]
struct Making<'a>(&'a SegmentPool);

fn is_gone(error: &Error) -> bool {
    matches!(error, Error::Io { source, .. } if source.kind() == io::ErrorKind::NotFound)
}

impl<'a> Making<'a> {
    fn begin(pool: &'a SegmentPool, state: &mut PoolState) -> Self {
        state.making = true;
        Self(pool)
    }
}

impl Drop for Making<'_> {
    fn drop(&mut self) {
        self.0.state.lock().making = false;
        self.0.made.notify_all();
    }
}
