//! The journal's segments: the one ready for use next, those still needed for
//! recovery, those free to be used again.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::segment::{self, Filling, Lengths, Segment, Spare, StoreId};
use crate::error::{Error, Result};
use crate::ground::storage::{FileKind, Storage, StorageFile};
use crate::ground::sync::{Condvar, Mutex};

/// Retired segments are kept for reuse up to so many times the largest; more are
/// removed. As many as a busy store fills between two flushes: a segment taken
/// over needs no zeros written into it, and a removed one costs the file system
/// as much again.
const SPARE_SEGMENTS: u64 = 5;

/// Hands segments to the committer and takes them back.
#[derive(Debug)]
pub(crate) struct SegmentPool {
    storage: Arc<dyn Storage>,
    dir: PathBuf,
    store: StoreId,
    lengths: Lengths,
    state: Mutex<State>,
    /// No segment is being made any more.
    made: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// Whether a segment is being made. One at a time: of two, the one with the
    /// higher number could be written to first, and recovery would find the
    /// batches out of order.
    making: bool,
    /// The store has ended; a segment made now would be left behind.
    ended: bool,
    /// The number the next segment gets. Numbers order the journal in time:
    /// recovery reads segments by number.
    next_number: u64,
    next_len: u64,
    ready: Option<Segment>,
    full: Vec<Full>,
    spares: Vec<Spare>,
}

/// A segment that takes no more batches but is needed until a checkpoint
/// covers its last batch.
#[derive(Debug)]
struct Full {
    number: u64,
    last_sequence: u64,
    len: u64,
    file: Arc<dyn StorageFile>,
}

impl SegmentPool {
    /// A pool for the segments of `dir`, of which `first_number` is the first.
    pub(crate) fn new(
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
            state: Mutex::new(State {
                next_number: first_number,
                next_len: lengths.first,
                ..State::default()
            }),
            made: Condvar::new(),
        }
    }

    /// Where the segments are.
    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// The next segment, with room for `min_len` bytes. Made on the spot, while
    /// the committer waits, only where none is ready or the ready one is small;
    /// one that is being made is waited for.
    ///
    /// # Errors
    /// `StorageFull` leaves nothing behind; asking again is right.
    pub(crate) fn next(&self, min_len: u64) -> Result<Segment> {
        let (small, _making) = {
            let mut state = self.state.lock();
            while state.making {
                self.made.wait(&mut state);
            }
            match state.ready.take() {
                Some(segment) if segment.len >= min_len => return Ok(segment),
                small => (small, Making::begin(self, &mut state)),
            }
        };
        if let Some(small) = small {
            self.remove(&self.dir.join(segment::name(small.number)))?;
        }
        self.create(min_len, Filling::AtOnce)
    }

    /// Makes the next segment ahead of need, off the committer's path. Does
    /// nothing where one is ready or being made, or the store has ended.
    ///
    /// # Errors
    /// As [`SegmentPool::next`].
    pub(crate) fn prepare(&self) -> Result<()> {
        let _making = {
            let mut state = self.state.lock();
            if state.making || state.ended || state.ready.is_some() {
                return Ok(());
            }
            Making::begin(self, &mut state)
        };
        let segment = self.create(0, Filling::InSteps)?;
        self.state.lock().ready = Some(segment);
        Ok(())
    }

    fn create(&self, min_len: u64, filling: Filling) -> Result<Segment> {
        let (number, len, spare) = {
            let mut state = self.state.lock();
            let number = state.next_number;
            state.next_number += 1;
            let len = state.next_len.max(min_len.next_multiple_of(4096));
            let fits = state.spares.iter().position(|spare| spare.len >= len);
            (number, len, fits.map(|at| state.spares.swap_remove(at)))
        };
        let blank = match spare {
            Some(spare) => spare,
            None => segment::zeroed(&*self.storage, &self.dir, number, len, filling)?,
        };
        let segment = segment::create(&*self.storage, &self.dir, &self.store, number, &blank)
            .inspect_err(|error| self.keep_blank(blank, error))?;
        let mut state = self.state.lock();
        state.next_len = (state.next_len * 4).min(self.lengths.largest);
        Ok(segment)
    }

    /// What found no header can be tried again; forgotten, its space would be gone
    /// until the close. Not where its name is in doubt.
    fn keep_blank(&self, blank: Spare, error: &Error) {
        if !matches!(error, Error::Poisoned { .. }) {
            self.state.lock().spares.push(blank);
        }
    }

    /// Takes a full segment back; it stays on disk until a checkpoint covers
    /// `last_sequence`.
    pub(crate) fn filled(&self, segment: Segment, last_sequence: u64) {
        self.state.lock().full.push(Full {
            number: segment.number,
            last_sequence,
            len: segment.len,
            file: segment.file,
        });
    }

    /// How many bytes of full segments wait for a checkpoint.
    pub(crate) fn full_bytes(&self) -> u64 {
        self.state.lock().full.iter().map(|full| full.len).sum()
    }

    /// The last batches of the full segments.
    #[cfg(all(feature = "testing", sessionlog_loom))]
    pub(crate) fn full_sequences(&self) -> Vec<u64> {
        let state = self.state.lock();
        state.full.iter().map(|full| full.last_sequence).collect()
    }

    /// Gives up every segment whose batches all lie at or below `sequence`,
    /// which a synced checkpoint record must cover. Called earlier than that,
    /// a crash would find session files without the journal that mends them.
    ///
    /// # Errors
    /// What could not be given up is kept, for the next call or the end of the
    /// store to try again. Forgotten, it would outlive the clean checkpoint that
    /// covers it, and the next open would replay it or refuse the store.
    pub(crate) fn retire(&self, sequence: u64) -> Result<()> {
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
        // Only now may a spare be written to: with its old name still on disk,
        // a new header in it would look like a damaged segment.
        self.sync_dir()?;
        self.state.lock().spares.append(&mut spares);
        Ok(())
    }

    fn release(&self, full: &Full, spares: &mut Vec<Spare>) -> Result<()> {
        let path = self.dir.join(segment::name(full.number));
        let wrap = |e| Error::io("retire journal segment", &path, e);
        let kept: u64 = {
            let state = self.state.lock();
            spares.iter().chain(&state.spares).map(|s| s.len).sum()
        };
        if kept + full.len > SPARE_SEGMENTS * self.lengths.largest {
            return self.storage.remove_file(&path).map_err(wrap);
        }
        let spare = self.dir.join(format!("spare-{:016x}.tmp", full.number));
        self.storage.rename(&path, &spare).map_err(wrap)?;
        spares.push(Spare {
            path: spare,
            file: full.file.clone(),
            len: full.len,
        });
        Ok(())
    }

    /// Removes every segment, spares included, `active` last. Only after a
    /// synced checkpoint record in `active` covers everything: while any older
    /// segment is left, that record is what keeps it from being replayed.
    ///
    /// # Errors
    /// What is left on disk is skipped or removed by the next open.
    pub(crate) fn remove_all(&self, active: &Segment) -> Result<()> {
        self.end();
        let active = segment::name(active.number);
        // What is there counts, not what is known: a segment that an error made
        // us lose sight of would be replayed once the checkpoint is gone.
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
            self.made.wait(&mut state);
        }
        *state = State {
            ended: true,
            ..State::default()
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

/// A segment is being made until this is dropped, also where that fails: the
/// committer waits for it.
#[derive(Debug)]
struct Making<'a>(&'a SegmentPool);

impl<'a> Making<'a> {
    fn begin(pool: &'a SegmentPool, state: &mut State) -> Self {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ground::sync::thread;
    use crate::testing::disk_model::{Fault, MemoryStorage, Repeat};

    fn pool() -> (Arc<SegmentPool>, Arc<dyn Storage>) {
        let storage: Arc<dyn Storage> = Arc::new(MemoryStorage::new());
        let dir = Path::new("journal");
        storage.create_dir(dir).unwrap();
        let small = Lengths {
            first: segment::HEADER as u64,
            largest: segment::HEADER as u64,
        };
        let pool = SegmentPool::new(storage.clone(), dir.into(), [7; 16], 1, small);
        (Arc::new(pool), storage)
    }

    /// Recovery reads segments by number. Were batches written into segment 4
    /// before segment 3, it would find a hole between them and refuse to open
    /// the store.
    #[test]
    fn segments_are_handed_out_in_the_order_of_their_numbers() {
        for _ in 0..50 {
            let (pool, _storage) = pool();
            let preparing = pool.clone();
            let background = thread::spawn("background", move || {
                for _ in 0..20 {
                    preparing.prepare().unwrap();
                }
            })
            .unwrap();
            let mut last = 0;
            for _ in 0..20 {
                let segment = pool.next(0).unwrap();
                assert!(segment.number > last, "{} after {last}", segment.number);
                last = segment.number;
            }
            background.join().unwrap();
        }
    }

    #[test]
    fn segments_prepared_twice_at_once_leave_no_file_that_nobody_knows() {
        for _ in 0..50 {
            let (pool, storage) = pool();
            let preparing = pool.clone();
            let background =
                thread::spawn("background", move || preparing.prepare().unwrap()).unwrap();
            pool.prepare().unwrap();
            background.join().unwrap();
            let active = pool.next(0).unwrap();
            pool.remove_all(&active).unwrap();
            assert_eq!(storage.read_dir(&pool.dir).unwrap(), []);
        }
    }

    /// A segment left behind makes the next open think of a crash.
    #[test]
    fn a_store_that_has_ended_prepares_no_more_segments() {
        let (pool, storage) = pool();
        let active = pool.next(0).unwrap();
        pool.remove_all(&active).unwrap();
        pool.prepare().unwrap();
        assert_eq!(storage.read_dir(&pool.dir).unwrap(), []);
    }

    /// Left behind by a store that closed in order, its batches would have no
    /// checkpoint over them: the next open would replay them onto files that are
    /// ahead of them, or find a hole before them and refuse the store.
    #[test]
    fn a_segment_that_could_not_be_given_up_is_given_up_later() {
        let storage = MemoryStorage::new();
        let dir = Path::new("journal");
        storage.create_dir(dir).unwrap();
        let shared: Arc<dyn Storage> = Arc::new(storage.clone());
        let pool = SegmentPool::new(shared, dir.into(), [7; 16], 1, Lengths::default());
        for sequence in 1..=3 {
            let full = pool.next(0).unwrap();
            pool.filled(full, sequence);
        }
        let active = pool.next(0).unwrap();
        storage.fail_at(storage.steps() + 1, Fault::Eio, Repeat::Once);
        pool.retire(3).unwrap_err();
        assert!(pool.full_bytes() > 0);
        pool.remove_all(&active).unwrap();
        let left = storage.read_dir(dir).unwrap();
        assert!(
            left.iter()
                .all(|entry| segment::number_of(&entry.name).is_none()),
            "{left:?}"
        );
    }
}
