//! Reads a journal on from where it was read to, beside its writer.

use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};

use super::record::{self, Record};
use super::scan::whole_batch;
use super::segment::{self, HEADER, StoreId};
use crate::error::{Error, Result};
use crate::ground::storage::{OpenMode, Storage};

/// How much is read first of what may be new, bytes.
const FIRST: usize = 64 << 10;

/// How many looks find a segment's time unchanged before its bytes are not looked at any
/// more: a write that follows another at once leaves the time as it is.
const STILL: u32 = 4;

/// More segments than there are at a time.
const REMEMBERED: usize = 1024;

/// Where one who follows a journal has read to.
#[derive(Debug)]
pub(crate) struct JournalTail {
    dir: PathBuf,
    store: StoreId,
    at: Option<At>,
    /// The seeds of the segments read last: they go one by one, in no order.
    read: VecDeque<u32>,
    /// The batch read last, if any was.
    sequence: Option<u64>,
    /// Whether the writer ended in order with it: the next one's batches have numbers of
    /// their own.
    ended: bool,
}

/// A place in a segment.
#[derive(Debug)]
struct At {
    number: u64,
    path: PathBuf,
    seed: u32,
    offset: u64,
    modified: i128,
    still: u32,
}

/// What was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// Every batch that follows those read before.
    All,
    /// Some are not there any more; those that are were not read yet.
    Gap,
}

impl JournalTail {
    /// At the end of the journal of `store` in `dir`, which need not be there.
    ///
    /// # Errors
    /// If it cannot be read.
    pub(crate) fn at_end(storage: &dyn Storage, dir: &Path, store: StoreId) -> Result<Self> {
        let mut tail = Self {
            dir: dir.into(),
            store,
            at: None,
            read: VecDeque::new(),
            sequence: None,
            ended: true,
        };
        // From the segment that was begun last: those before it are full.
        for (number, path) in tail.segments(storage)?.into_iter().rev() {
            if let Some((at, _)) = tail.begun(storage, number, &path)? {
                tail.go_to(at);
                break;
            }
        }
        tail.ended = tail.at.is_none();
        tail.read_here(storage, &mut |_| {})?;
        Ok(tail)
    }

    /// Calls `apply` with every record that was committed since.
    ///
    /// # Errors
    /// If the journal cannot be read: the call may be made again.
    pub(crate) fn read_on(
        &mut self,
        storage: &dyn Storage,
        apply: &mut dyn FnMut(&Record<'_>),
    ) -> Result<Found> {
        loop {
            self.read_here(storage, apply)?;
            match self.next_segment(storage)? {
                None => return Ok(Found::All),
                Some(Found::All) => {}
                Some(Found::Gap) => return Ok(Found::Gap),
            }
        }
    }

    /// Reads on in the segment that was read last.
    fn read_here(
        &mut self,
        storage: &dyn Storage,
        apply: &mut dyn FnMut(&Record<'_>),
    ) -> Result<()> {
        let Some(at) = &mut self.at else {
            return Ok(());
        };
        let wrap = |e| Error::io("read journal segment", &at.path, e);
        let file = match storage.open(&at.path, OpenMode::Read) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => None,
            opened => Some(opened.map_err(wrap)?),
        };
        // It was retired, and another writer's may have its name.
        let own = file.filter(|file| {
            let mut header = [0; HEADER];
            let read = file.read_exact_at(&mut header, 0);
            let stated = segment::stated_header(&header, &at.path, &self.store, at.number);
            read.is_ok() && stated.is_ok_and(|header| header.seed == at.seed)
        });
        let Some(file) = own else {
            self.at = None;
            return Ok(());
        };
        let info = file.info().map_err(wrap)?;
        if info.modified != at.modified {
            (at.modified, at.still) = (info.modified, 0);
        } else if at.still == STILL {
            return Ok(());
        }
        at.still += 1;
        let mut read = FIRST;
        loop {
            let left = info.len.saturating_sub(at.offset) as usize;
            let mut data = vec![0; read.min(left)];
            file.read_exact_at(&mut data, at.offset).map_err(wrap)?;
            let mut start = 0;
            while let Some(batch) = whole_batch(&data, start, at.seed) {
                each_record(&data[..batch.span.end], start, at.seed, apply);
                self.sequence = Some(batch.span.commit.sequence);
                self.ended = batch.checkpoint.is_some_and(|(_, clean)| clean);
                start = batch.span.end;
            }
            at.offset += start as u64;
            if start > 0 {
                read = FIRST;
            } else if data.len() == left || !goes_on(&data, at.seed) {
                return Ok(());
            } else {
                read *= 16;
            }
        }
    }

    /// Goes on to the segment with the next batch; `None` if there is none yet.
    fn next_segment(&mut self, storage: &dyn Storage) -> Result<Option<Found>> {
        let here = self.at.as_ref().map(|at| at.number);
        for (number, path) in self.segments(storage)? {
            if here.is_some_and(|here| number <= here) {
                continue;
            }
            let Some((at, first)) = self.begun(storage, number, &path)? else {
                continue;
            };
            if self.read.contains(&at.seed) {
                continue;
            }
            let follows = self.sequence.is_none_or(|last| first == last + 1);
            self.go_to(at);
            return Ok(Some(if follows || self.ended {
                Found::All
            } else {
                Found::Gap
            }));
        }
        Ok(None)
    }

    fn go_to(&mut self, at: At) {
        if self.read.len() == REMEMBERED {
            self.read.pop_front();
        }
        self.read.push_back(at.seed);
        self.at = Some(at);
    }

    /// The beginning of a segment that has a batch, and the number of that.
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
                    seed: header.seed,
                    offset: HEADER as u64,
                    modified: 0,
                    still: 0,
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

fn each_record(data: &[u8], start: usize, seed: u32, apply: &mut dyn FnMut(&Record<'_>)) {
    let mut at = start;
    while let Some((record, next)) = record::decode(data, at, seed) {
        apply(&record);
        at = next;
    }
}

/// Whether a batch may go on after `data`.
fn goes_on(data: &[u8], seed: u32) -> bool {
    let mut at = 0;
    while let Some((_, next)) = record::decode(data, at, seed) {
        at = next;
    }
    record::may_go_on(data, at)
}
