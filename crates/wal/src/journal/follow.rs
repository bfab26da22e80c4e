//! Follows a journal while its writer runs.

use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sessionlog_core::error::{Error, Result};

use super::record::{self, Record};
use super::scan::{goes_on, whole_batch};
use super::segment::{self, HEADER, StoreId};
use crate::storage::{OpenMode, Storage, StorageFile};

/// The bytes read first where new batches may be.
const FIRST: usize = 16 << 10;

/// The number of looks that find the same bytes in vain before these are taken for leftovers of an
/// older segment. From then on only one in [`SELDOM`] looks reads them.
const STILL: u32 = 4;
const SELDOM: u32 = 20;

/// More than the number of segments at any time.
const REMEMBERED: usize = 1024;

/// The number of tries to find the end of a journal that changes meanwhile.
const TRIES: usize = 20;

/// The place up to which a follower has read a journal.
#[derive(Debug)]
pub struct JournalTail {
    dir: PathBuf,
    store: StoreId,
    at: Option<At>,
    /// The seeds of the segments read last: segments are removed one by one, in no order.
    read: VecDeque<u32>,
    /// The batch read last, if any was.
    sequence: Option<u64>,
    /// True if no batch can follow: the writer closed the store with the last batch, or there was
    /// none. The first batch of the next writer has the number 1.
    ended: bool,
    /// The directory's time of change, if it had no segment.
    empty: Option<i128>,
}

/// A place in a segment. Its file stays readable when its name is gone.
#[derive(Debug)]
struct At {
    number: u64,
    path: PathBuf,
    file: Arc<dyn StorageFile>,
    seed: u32,
    offset: u64,
    /// The bytes at the offset that are no batch yet; `vain` is the number of looks that saw them.
    stale: [u8; record::HEAD + 1],
    vain: u32,
}

/// The result of a look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FollowStep {
    /// Every batch that follows the ones read before was read.
    All,
    /// Some batches are not there any more; the remaining ones were not read yet.
    Gap,
}

impl JournalTail {
    /// Before the first batch of a journal that `store` will make in `dir`.
    #[must_use]
    pub fn at_begin(dir: &Path, store: StoreId) -> Self {
        Self {
            dir: dir.into(),
            store,
            at: None,
            read: VecDeque::new(),
            sequence: None,
            ended: true,
            empty: None,
        }
    }

    /// At the end of the journal of `store` in `dir`. The journal may be absent.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn at_end(storage: &dyn Storage, dir: &Path, store: StoreId) -> Result<Self> {
        let mut tail = Self::try_at_end(storage, dir, store);
        for _ in 1..TRIES {
            if tail.is_ok() {
                break;
            }
            // A segment may have gone between two of our reads.
            tail = Self::try_at_end(storage, dir, store);
        }
        tail
    }

    fn try_at_end(storage: &dyn Storage, dir: &Path, store: StoreId) -> Result<Self> {
        let mut tail = Self::at_begin(dir, store);
        for (number, path) in tail.segments(storage)? {
            if let Some((at, _)) = tail.begun(storage, number, &path)? {
                tail.go_to(at);
            }
        }
        tail.ended = tail.at.is_none();
        tail.read_here(None)?;
        tail.came_and_went(storage)?;
        Ok(tail)
    }

    /// Calls `apply` with every record committed since.
    ///
    /// # Errors
    /// If the journal cannot be read. The call may be repeated.
    pub fn read_on(
        &mut self,
        storage: &dyn Storage,
        apply: &mut dyn FnMut(&Record<'_>),
    ) -> Result<FollowStep> {
        loop {
            self.read_here(Some(&mut *apply))?;
            let Some((at, first)) = self.next_segment(storage)? else {
                return self.came_and_went(storage);
            };
            // Batches committed in this segment between the two looks come before it.
            if let Some(at) = &mut self.at {
                at.vain = 0;
            }
            self.read_here(Some(&mut *apply))?;
            let follows = match self.sequence {
                Some(last) if !self.ended => first == last + 1,
                _ => first == 1,
            };
            self.ended = false;
            self.go_to(at);
            if !follows {
                return Ok(FollowStep::Gap);
            }
        }
    }

    /// Reads on in the segment that was read last.
    fn read_here(&mut self, mut apply: Option<&mut dyn FnMut(&Record<'_>)>) -> Result<()> {
        let Some(at) = &mut self.at else {
            return Ok(());
        };
        let path = at.path.clone();
        let wrap = |e| Error::io("read journal segment", &path, e);
        if !at.is_own(&self.store).map_err(wrap)? {
            self.at = None;
            return Ok(());
        }
        let len = at.file.info().map_err(wrap)?.len;
        let mut read = FIRST;
        loop {
            let left = len.saturating_sub(at.offset) as usize;
            let mut data = vec![0; read.min(left)];
            at.file.read_exact_at(&mut data, at.offset).map_err(wrap)?;
            let mut start = 0;
            while let Some(batch) = whole_batch(&data, start, at.seed) {
                if let Some(apply) = &mut apply {
                    each_record(&data[..batch.span.end], start, at.seed, *apply);
                }
                self.sequence = Some(batch.span.commit.sequence);
                self.ended = batch.checkpoint.is_some_and(|(_, clean)| clean);
                start = batch.span.end;
            }
            at.offset += start as u64;
            if start > 0 {
                read = FIRST;
            } else if data.len() == left || !goes_on(&data, at.seed) || at.is_stale(&data) {
                return Ok(());
            } else {
                read *= 16;
            }
        }
    }

    /// The segment with the next batch, and the number of its first batch; `None` if there is none
    /// yet.
    fn next_segment(&self, storage: &dyn Storage) -> Result<Option<(At, u64)>> {
        let here = self.at.as_ref().map(|at| at.number);
        for (number, path) in self.segments(storage)? {
            if here.is_some_and(|here| number <= here) && !self.ended {
                continue;
            }
            if let Some((at, first)) = self.begun(storage, number, &path)?
                && !self.read.contains(&at.seed)
            {
                return Ok(Some((at, first)));
            }
        }
        Ok(None)
    }

    /// Checks whether a writer came and went between two looks, or ended before all was read.
    /// Releases the segment's file if there is no journal any more.
    fn came_and_went(&mut self, storage: &dyn Storage) -> Result<FollowStep> {
        if !self.segments(storage)?.is_empty() {
            self.empty = None;
            return Ok(FollowStep::All);
        }
        let modified = match storage.info(&self.dir) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => 0,
            info => {
                info.map_err(|e| Error::io("look at", &self.dir, e))?
                    .modified
            }
        };
        let is_other = self.empty.is_some_and(|empty| empty != modified);
        let is_cut = !self.ended;
        self.at = None;
        (self.empty, self.ended) = (Some(modified), true);
        Ok(if is_other || is_cut {
            FollowStep::Gap
        } else {
            FollowStep::All
        })
    }

    fn go_to(&mut self, at: At) {
        if self.read.len() == REMEMBERED {
            self.read.pop_front();
        }
        self.read.push_back(at.seed);
        self.at = Some(at);
    }

    /// The beginning of a segment that has a batch, and the number of that batch.
    fn begun(&self, storage: &dyn Storage, number: u64, path: &Path) -> Result<Option<(At, u64)>> {
        let wrap = |e| Error::io("read journal segment", path, e);
        let file = match storage.open(path, OpenMode::Read) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            opened => opened.map_err(wrap)?,
        };
        let len = file.info().map_err(wrap)?.len as usize;
        let mut read = (HEADER + FIRST).min(len);
        loop {
            let mut data = vec![0; read];
            file.read_exact_at(&mut data, 0).map_err(wrap)?;
            let header = segment::stated_header(&data, path, &self.store, number)?;
            if let Some(batch) = whole_batch(&data, HEADER, header.seed) {
                let at = At {
                    number,
                    path: path.into(),
                    file,
                    seed: header.seed,
                    offset: HEADER as u64,
                    stale: [0; record::HEAD + 1],
                    vain: 0,
                };
                return Ok(Some((at, batch.span.commit.sequence)));
            }
            if read == len || !goes_on(&data[HEADER..], header.seed) {
                return Ok(None);
            }
            read = len.min(read * 16);
        }
    }

    fn segments(&self, storage: &dyn Storage) -> Result<Vec<(u64, PathBuf)>> {
        let entries = match storage.read_dir(&self.dir) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => Vec::new(),
            entries => entries.map_err(|e| Error::io("list", &self.dir, e))?,
        };
        let entries = entries.into_iter();
        let numbered = entries.filter_map(|entry| {
            let number = segment::number_of(&entry.name)?;
            Some((number, self.dir.join(entry.name)))
        });
        let mut segments: Vec<_> = numbered.collect();
        segments.sort_unstable();
        Ok(segments)
    }
}

impl At {
    /// True if the file is still the same segment: its blocks may have been reused.
    fn is_own(&self, store: &StoreId) -> io::Result<bool> {
        let mut header = [0; HEADER];
        match self.file.read_exact_at(&mut header, 0) {
            Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => return Ok(false),
            read => read?,
        }
        let stated = segment::stated_header(&header, &self.path, store, self.number);
        Ok(stated.is_ok_and(|header| header.seed == self.seed))
    }

    /// True if the bytes at the offset are not worth more reading: they were seen often, and never
    /// became a batch.
    fn is_stale(&mut self, data: &[u8]) -> bool {
        let mut head = [0; record::HEAD + 1];
        let len = head.len().min(data.len());
        head[..len].copy_from_slice(&data[..len]);
        if head != self.stale {
            (self.stale, self.vain) = (head, 0);
        }
        self.vain += 1;
        self.vain > STILL && !self.vain.is_multiple_of(SELDOM)
    }
}

fn each_record(data: &[u8], start: usize, seed: u32, apply: &mut dyn FnMut(&Record<'_>)) {
    let mut at = start;
    while let Some((record, next)) = record::decode(data, at, seed) {
        apply(&record);
        at = next;
    }
}

#[cfg(test)]
mod tests;
