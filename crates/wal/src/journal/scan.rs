//! Reads a journal back: decides which batches hold, where it ends, and whether the end is a torn
//! tail or damage.
//!
//! A batch is started only after everything that its predecessor promised was synced, and its
//! commit record says up to which batch that was. So a hole at or below a watermark found after it
//! is damage to committed data. A hole above every watermark is a commit that was under way: no
//! caller was told that it held.

use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use memchr::memmem;
use sessionlog_core::error::{Error, Result};

use super::record::{self, COMMIT_LEN, COMMIT_MAGIC, Commit, Record};
use super::segment::{self, HEADER, StoreId};
use crate::storage::{FileKind, OpenMode, Storage, StorageFile};

/// The contents of a journal directory.
#[derive(Debug, Default)]
pub struct Scan {
    marks: CommitMarks,
    /// Segments in order.
    segments: Vec<SegmentSpans>,
    /// Everything up to this batch is in the session files.
    pub checkpoint: u64,
    /// True if the last writer closed the store.
    pub clean: bool,
    /// The last batch that holds; 0 for none.
    pub sequence: u64,
    /// The last batch known to have been synced when it was written.
    durable: u64,
    /// The number after the highest segment's.
    pub next_number: u64,
    /// Bytes of whole records in a commit that never finished.
    pub torn_bytes: u64,
    /// Names in the directory that are not segments.
    pub strays: Vec<String>,
    /// The places where the next batch can be: after the last one, or in a segment that was made
    /// ahead of need.
    pub tips: Vec<Tip>,
}

/// The place where a segment takes its next batch.
#[derive(Debug, Clone)]
pub struct Tip {
    path: PathBuf,
    seed: u32,
    at: u64,
}

#[derive(Debug)]
struct SegmentSpans {
    number: u64,
    path: PathBuf,
    seed: u32,
    batches: Vec<Span>,
    /// The offset of the next batch.
    end: usize,
    /// True if no batch can follow: it was read on after a batch was found in a later segment.
    is_full: bool,
}

/// A whole batch in a segment.
#[derive(Debug, Clone, Copy)]
pub(super) struct Span {
    pub(super) start: usize,
    /// The offset after its commit record.
    pub(super) end: usize,
    pub(super) commit: Commit,
}

impl Scan {
    /// Reads all segments of `dir` and decides what holds. Changes nothing.
    ///
    /// # Errors
    /// `Corrupt` if committed batches are damaged or missing, or a segment
    /// is of another store.
    pub fn read(storage: &dyn Storage, dir: &Path, store: &StoreId) -> Result<Self> {
        let mut scan = Self::default();
        scan.read_further(storage, dir, store)?;
        Ok(scan)
    }

    /// Reads batches that a writer added since, and forgets the segments that it gave up. Each byte
    /// is read once, except bytes that were no batch yet.
    ///
    /// # Errors
    /// As [`read`](Self::read). A segment that is removed while it is read looks like damage, and
    /// so do batches that are written between two reads: the next call does not find that damage.
    pub fn read_on(&mut self, storage: &dyn Storage, dir: &Path, store: &StoreId) -> Result<()> {
        for _ in 1..TRIES {
            let before = self.sequence;
            let read = self.read_further(storage, dir, store);
            // Other batches may follow the last one that holds, if one between them was written
            // meanwhile.
            let is_all = self.marks.newest <= self.sequence || self.sequence == before;
            if read.is_ok() && is_all {
                return Ok(());
            }
        }
        // Data read before may be the cause.
        *self = Self::default();
        let read = self.read_further(storage, dir, store);
        if read.is_err() {
            *self = Self::default();
        }
        read
    }

    fn read_further(&mut self, storage: &dyn Storage, dir: &Path, store: &StoreId) -> Result<()> {
        let is_first = self.segments.is_empty();
        let read = self.read_segments(storage, dir, store);
        if is_first && read.is_err() {
            // Only the first read searches segments to their ends. So nothing is kept of a failed
            // one: the next read must be the first again.
            *self = Self::default();
        }
        read?;
        self.conclude()
    }

    fn read_segments(&mut self, storage: &dyn Storage, dir: &Path, store: &StoreId) -> Result<()> {
        let listed = self.list(storage, dir)?;
        let is_first = self.segments.is_empty();
        let is_there =
            |found: &SegmentSpans| listed.iter().any(|(number, _)| *number == found.number);
        self.segments.retain(is_there);
        for (number, path) in listed {
            let known = self
                .segments
                .iter_mut()
                .find(|found| found.number == number);
            match known {
                Some(found) if found.is_full => {}
                Some(found) => found.read_on(storage, &mut self.marks)?,
                None => {
                    let mut found = SegmentSpans::begun(storage, (number, path), store)?;
                    found.read_on(storage, &mut self.marks)?;
                    // The zeros in a segment that is being filled need not be searched twice.
                    if is_first {
                        found.look_behind(storage, &mut self.marks)?;
                        // Without the batches before them, watermarks that a running writer wrote
                        // meanwhile look like damage.
                        found.read_on(storage, &mut self.marks)?;
                    }
                    self.segments.push(found);
                }
            }
        }
        Ok(())
    }

    /// Decides which of the batches read hold.
    fn conclude(&mut self) -> Result<()> {
        self.settle()?;
        let used = |found: &SegmentSpans| !found.batches.is_empty();
        let last = self.segments.iter().rposition(used).unwrap_or(0);
        let begin = self
            .segments
            .get(last)
            .and_then(|found| found.batches.first());
        // The sequence has no gap before that: the others were read to their ends.
        if begin.is_some_and(|span| span.commit.sequence <= self.sequence) {
            for found in &mut self.segments[..last] {
                found.is_full = true;
            }
        }
        self.tips = self.segments[last.min(self.segments.len())..]
            .iter()
            .map(SegmentSpans::tip)
            .collect();
        Ok(())
    }

    /// Calls `apply` with every record after the checkpoint, in order.
    ///
    /// # Errors
    /// If a segment cannot be read any more.
    pub fn replay(&self, storage: &dyn Storage, apply: impl FnMut(&Record<'_>)) -> Result<()> {
        self.replay_after(storage, self.checkpoint, apply)
    }

    /// Calls `apply` with every record after batch `sequence`, in order. Records before the
    /// checkpoint may be missing.
    ///
    /// # Errors
    /// If a segment cannot be read any more.
    pub fn replay_after(
        &self,
        storage: &dyn Storage,
        sequence: u64,
        mut apply: impl FnMut(&Record<'_>),
    ) -> Result<()> {
        for found in &self.segments {
            let wanted = |span: &&Span| {
                span.commit.sequence > sequence && span.commit.sequence <= self.sequence
            };
            let mut wanted = found.batches.iter().filter(wanted).peekable();
            if wanted.peek().is_none() {
                continue;
            }
            let mut segment = SegmentReader::open(storage, &found.path)?;
            while let Some(first) = wanted.next() {
                let (start, mut end, mut spans) = (first.start, first.end, vec![first]);
                while let Some(next) = wanted.next_if(|next| next.end - start <= LATER_BYTES) {
                    end = next.end;
                    spans.push(next);
                }
                let data = segment.read(start..end)?;
                for span in spans {
                    let mut at = span.start - start;
                    let end = at + span.commit.batch_len as usize;
                    while at < end {
                        let Some((record, next)) = record::decode(data, at, found.seed) else {
                            return Err(changed(&found.path));
                        };
                        apply(&record);
                        at = next;
                    }
                }
            }
        }
        Ok(())
    }

    /// True if all batches from after `sequence` to the last are there.
    #[must_use]
    pub fn has_all_after(&self, sequence: u64) -> bool {
        let batches = self.segments.iter().flat_map(|found| &found.batches);
        let numbers = batches.map(|span| span.commit.sequence);
        let after = numbers.filter(|number| *number > sequence && *number <= self.sequence);
        self.sequence >= sequence && after.count() as u64 == self.sequence - sequence
    }

    /// Makes the batches that hold survive power loss. If only the process died, the last ones may
    /// be in the page cache alone; replayed from there, they would leave bytes in session files
    /// that are in no journal. They are written again, because after a failed sync the cache treats
    /// unwritten data as written.
    ///
    /// # Errors
    /// As the operating system reports them.
    pub fn persist(&self, storage: &dyn Storage) -> Result<()> {
        for found in &self.segments {
            let owed = |span: &&Span| {
                span.commit.sequence > self.durable && span.commit.sequence <= self.sequence
            };
            let mut owed = found.batches.iter().filter(owed);
            let Some(first) = owed.next() else { continue };
            let end = owed.next_back().unwrap_or(first).end;
            let wrap = |e| Error::io("sync journal segment", &found.path, e);
            let file = storage
                .open(&found.path, OpenMode::ReadWrite)
                .map_err(wrap)?;
            let mut bytes = vec![0; end - first.start];
            let at = first.start as u64;
            file.read_exact_at(&mut bytes, at)
                .and_then(|()| file.write_all_at(&bytes, at))
                .and_then(|()| file.sync_data())
                .map_err(wrap)?;
        }
        Ok(())
    }

    /// True if there is no segment at all.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }

    /// A mark of the journal's end: while it stays the same, and its [tips](Tip::is_taken) are
    /// free, nothing was committed and no segment came or went. `None` if there is no journal.
    ///
    /// # Errors
    /// As the operating system reports them.
    pub fn end(storage: &dyn Storage, dir: &Path) -> io::Result<Option<End>> {
        let mut segments: Vec<_> = storage
            .read_dir(dir)?
            .into_iter()
            .filter_map(|entry| segment::number_of(&entry.name).map(|n| (n, entry.name)))
            .collect();
        segments.sort_unstable();
        let mut modified = Vec::new();
        for (number, name) in segments {
            let info = storage.info(&dir.join(name))?;
            modified.push((number, info.inode, info.modified));
        }
        Ok((!modified.is_empty()).then_some(End { modified }))
    }

    /// The segments' paths, oldest first.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        self.segments.iter().map(|found| found.path.as_path())
    }

    fn list(&mut self, storage: &dyn Storage, dir: &Path) -> Result<Vec<(u64, PathBuf)>> {
        let entries = storage
            .read_dir(dir)
            .map_err(|e| Error::io("list", dir, e))?;
        self.strays.clear();
        let mut segments = Vec::new();
        for entry in entries {
            match segment::number_of(&entry.name) {
                Some(number) if entry.kind == FileKind::File => {
                    segments.push((number, dir.join(&entry.name)));
                }
                _ => self.strays.push(entry.name),
            }
        }
        segments.sort_unstable();
        let last = segments.last().map_or(0, |(number, _)| *number);
        self.next_number = last.checked_add(1).ok_or_else(|| Error::Corrupt {
            path: dir.into(),
            detail: String::from("a segment has the largest number there is"),
        })?;
        Ok(segments)
    }

    fn settle(&mut self) -> Result<()> {
        let marks = &self.marks;
        self.checkpoint = marks.checkpoint;
        self.durable = marks.durable;
        self.clean = marks.clean_at.is_some_and(|at| at == marks.newest);
        self.sequence = self.checkpoint;
        // Batches at or below the checkpoint may be missing: their segments are removed one by one,
        // and a power loss may keep any of them.
        for span in self.segments.iter().flat_map(|found| &found.batches) {
            if span.commit.sequence.checked_sub(1) == Some(self.sequence) {
                self.sequence += 1;
            }
        }
        if marks.durable > self.sequence {
            // The segment that holds the last batch before the gap.
            let reads = |found: &&SegmentSpans| {
                let mut batches = found.batches.iter();
                batches.any(|span| span.commit.sequence <= self.sequence)
            };
            let found = self.segments.iter().rev().find(reads);
            let found = found.or(self.segments.first());
            return Err(Error::Corrupt {
                path: found.map(|found| found.path.clone()).unwrap_or_default(),
                detail: format!(
                    "journal batch {} was committed and does not read back; batch {} was \
                     synced after it",
                    self.sequence + 1,
                    marks.durable,
                ),
            });
        }
        self.torn_bytes = marks.torn_bytes;
        Ok(())
    }
}

impl SegmentSpans {
    /// A segment of which only the header was read.
    fn begun(
        storage: &dyn Storage,
        (number, path): (u64, PathBuf),
        store: &StoreId,
    ) -> Result<Self> {
        let mut segment = SegmentReader::open(storage, &path)?;
        let len = segment.len;
        let header = segment.read(0..HEADER.min(len))?;
        let header = segment::decode_header(header, len, &path, store, number)?;
        Ok(Self {
            number,
            path,
            seed: header.seed,
            batches: Vec::new(),
            end: HEADER,
            is_full: false,
        })
    }

    /// Reads batches added since. Does nothing if the segment is gone: all its batches are in the
    /// files then.
    fn read_on(&mut self, storage: &dyn Storage, marks: &mut CommitMarks) -> Result<()> {
        let Some(mut segment) = SegmentReader::open_if_there(storage, &self.path)? else {
            return Ok(());
        };
        let mut read = TIP_BYTES;
        loop {
            let left = segment.len.saturating_sub(self.end);
            let data = segment.read(self.end..self.end + read.min(left))?;
            let mut start = 0;
            while let Some(mut batch) = whole_batch(data, start, self.seed) {
                marks.note(&batch);
                start = batch.span.end;
                batch.span.start += self.end;
                batch.span.end += self.end;
                self.batches.push(batch.span);
            }
            let is_end = data.len() == left || !goes_on(&data[start..], self.seed);
            self.end += start;
            if is_end {
                return Ok(());
            }
            read *= if start == 0 || read < LATER_BYTES {
                16
            } else {
                1
            };
        }
    }

    /// Searches beyond the first unreadable place: for watermarks, which tell damage from an end,
    /// and for whole records of a commit that never finished.
    fn look_behind(&self, storage: &dyn Storage, marks: &mut CommitMarks) -> Result<()> {
        let Some(mut segment) = SegmentReader::open_if_there(storage, &self.path)? else {
            return Ok(());
        };
        let len = segment.len;
        let mut start = self.end;
        while start < len {
            let end = len.min(start + LATER_BYTES);
            marks.look_behind(segment.read(start..end)?, self.seed);
            // A commit record that is cut at the end of a part is seen whole in the next one.
            start = if end == len { len } else { end - COMMIT_LEN };
        }
        let (left, mut read) = (len.saturating_sub(self.end), TIP_BYTES);
        loop {
            let data = segment.read(self.end..self.end + read.min(left))?;
            let whole = whole_records(data, self.seed);
            if data.len() == left || !record::may_go_on(data, whole) {
                marks.torn_bytes += whole as u64;
                return Ok(());
            }
            read *= 16;
        }
    }

    fn tip(&self) -> Tip {
        Tip {
            path: self.path.clone(),
            seed: self.seed,
            at: self.end as u64,
        }
    }
}

impl Tip {
    /// True if a batch is here now. A writer's file changes its time first and its bytes
    /// afterwards: the time may already report a commit whose bytes were not there when they were
    /// looked for.
    ///
    /// # Errors
    /// As the operating system reports them.
    pub fn is_taken(&self, storage: &dyn Storage) -> io::Result<bool> {
        let file = storage.open(&self.path, OpenMode::Read)?;
        let left = file.info()?.len.saturating_sub(self.at) as usize;
        let mut read = TIP_BYTES.min(left);
        loop {
            let mut data = vec![0; read];
            file.read_exact_at(&mut data, self.at)?;
            let mut at = 0;
            while let Some((record, next)) = record::decode(&data, at, self.seed) {
                if matches!(record, Record::Commit(_)) {
                    return Ok(true);
                }
                at = next;
            }
            if read == left || !record::may_go_on(&data, at) {
                return Ok(false);
            }
            read = left.min(read * 16);
        }
    }
}

/// The bytes of a tip that are read first: mostly there is nothing, and the first bytes tell.
const TIP_BYTES: usize = 4096;

/// The most bytes that are read at a time, unless a batch takes more.
const LATER_BYTES: usize = 1 << 20;

/// The number of times that a journal that looks damaged is read on before it is read anew.
const TRIES: usize = 20;

/// See [`Scan::end`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct End {
    /// Number, inode and time of last change of each segment.
    modified: Vec<(u64, u64, i128)>,
}

/// The combined contents of the commit records of all segments.
#[derive(Debug, Default)]
struct CommitMarks {
    checkpoint: u64,
    clean_at: Option<u64>,
    newest: u64,
    durable: u64,
    torn_bytes: u64,
}

impl CommitMarks {
    fn note(&mut self, batch: &ScannedBatch) {
        self.newest = self.newest.max(batch.span.commit.sequence);
        self.durable = self.durable.max(batch.span.commit.durable);
        if let Some((checkpoint, clean)) = batch.checkpoint {
            self.checkpoint = self.checkpoint.max(checkpoint);
            self.durable = self.durable.max(checkpoint);
            if clean {
                self.clean_at = Some(batch.span.commit.sequence);
            }
        }
    }

    /// Takes in the watermarks in `data`, whatever stands around them.
    fn look_behind(&mut self, data: &[u8], seed: u32) {
        for at in memmem::find_iter(data, &COMMIT_MAGIC) {
            let commit = record::commit_at_magic(data, at, seed);
            if let Some(commit) = commit.filter(|commit| is_possible(*commit)) {
                self.durable = self.durable.max(commit.durable);
                self.newest = self.newest.max(commit.sequence);
            }
        }
    }
}

/// The number of bytes of whole records at the start of `data`.
fn whole_records(data: &[u8], seed: u32) -> usize {
    let mut at = 0;
    while let Some((_, next)) = record::decode(data, at, seed) {
        at = next;
    }
    at
}

pub(super) struct ScannedBatch {
    pub(super) span: Span,
    pub(super) checkpoint: Option<(u64, bool)>,
}

/// The batch at `start`, if every record of it verifies.
pub(super) fn whole_batch(data: &[u8], start: usize, seed: u32) -> Option<ScannedBatch> {
    let (mut at, mut checkpoint) = (start, None);
    loop {
        let (record, next) = record::decode(data, at, seed)?;
        match record {
            Record::Commit(commit) => {
                let covered = checkpoint.map_or(0, |(covered, _)| covered);
                let holds = commit.batch_len as usize == at - start
                    && is_possible(commit)
                    && covered < commit.sequence;
                return holds.then_some(ScannedBatch {
                    span: Span {
                        start,
                        end: next,
                        commit,
                    },
                    checkpoint,
                });
            }
            Record::Checkpoint { sequence, clean } => checkpoint = Some((sequence, clean)),
            _ => {}
        }
        at = next;
    }
}

/// True for a possible commit: it can only refer to batches before it, and no store lives to see
/// half of all numbers.
fn is_possible(commit: Commit) -> bool {
    commit.durable < commit.sequence && commit.sequence <= u64::MAX / 2
}

/// True if a batch may go on after `data`.
pub(super) fn goes_on(data: &[u8], seed: u32) -> bool {
    record::may_go_on(data, whole_records(data, seed))
}

/// A segment that is read part by part, into the same memory.
struct SegmentReader<'a> {
    path: &'a Path,
    file: Arc<dyn StorageFile>,
    /// Its length when it was opened, in bytes.
    len: usize,
    memory: Vec<u8>,
}

impl<'a> SegmentReader<'a> {
    fn open(storage: &dyn Storage, path: &'a Path) -> Result<Self> {
        let wrap = |e| Error::io("read journal segment", path, e);
        let file = storage.open(path, OpenMode::Read).map_err(wrap)?;
        let len = file.info().map_err(wrap)?.len as usize;
        Ok(Self {
            path,
            file,
            len,
            memory: Vec::new(),
        })
    }

    fn open_if_there(storage: &dyn Storage, path: &'a Path) -> Result<Option<Self>> {
        match Self::open(storage, path) {
            Err(Error::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => Ok(None),
            opened => opened.map(Some),
        }
    }

    /// The bytes of a range, valid until the next call.
    fn read(&mut self, range: Range<usize>) -> Result<&[u8]> {
        if self.memory.len() < range.len() {
            self.memory.resize(range.len(), 0);
        }
        let bytes = &mut self.memory[..range.len()];
        let read = self.file.read_exact_at(bytes, range.start as u64);
        read.map_err(|e| Error::io("read journal segment", self.path, e))?;
        Ok(bytes)
    }
}

pub(super) fn load(storage: &dyn Storage, path: &Path) -> Result<Vec<u8>> {
    let wrap = |e| Error::io("read journal segment", path, e);
    let file = storage.open(path, OpenMode::Read).map_err(wrap)?;
    let len = file.info().map_err(wrap)?.len as usize;
    let mut data = vec![0; len];
    file.read_exact_at(&mut data, 0).map_err(wrap)?;
    Ok(data)
}

fn changed(path: &Path) -> Error {
    Error::Corrupt {
        path: path.into(),
        detail: String::from("journal segment changed while it was read"),
    }
}
