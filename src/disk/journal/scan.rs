//! Reads a journal back: which batches hold, where it ends, and whether the end
//! is a torn tail or damage.
//!
//! A batch is started only after everything its predecessor promised was
//! synced, and says in its commit record up to which batch that was. So a hole
//! at or below a watermark found after it is damage to committed data, and a
//! hole above every watermark is a commit that was under way: nobody was told
//! it held.

use std::io;
use std::path::{Path, PathBuf};

use memchr::memmem;

use super::record::{self, COMMIT_MAGIC, Commit, Record};
use super::segment::{self, HEADER, StoreId};
use crate::error::{Error, Result};
use crate::ground::storage::{FileKind, OpenMode, Storage};

/// What a journal directory holds.
#[derive(Debug, Default)]
pub(crate) struct Scan {
    /// Segments in order.
    segments: Vec<Found>,
    /// Everything up to here is in the session files.
    pub(crate) checkpoint: u64,
    /// Whether the last writer ended in order.
    pub(crate) clean: bool,
    /// The last batch that holds; 0 for none.
    pub(crate) sequence: u64,
    /// The last batch known to have been synced when it was written.
    durable: u64,
    /// The number after the highest segment's.
    pub(crate) next_number: u64,
    /// Bytes of whole records in a commit that never finished.
    pub(crate) torn_bytes: u64,
    /// Names in the directory that are no segments.
    pub(crate) strays: Vec<String>,
    /// Where the next batch can stand: after the last one, or in a segment that
    /// was made ahead of need.
    pub(crate) tips: Vec<Tip>,
}

/// Where a segment takes its next batch.
#[derive(Debug, Clone)]
pub(crate) struct Tip {
    path: PathBuf,
    seed: u32,
    at: u64,
}

#[derive(Debug)]
struct Found {
    path: PathBuf,
    seed: u32,
    batches: Vec<Span>,
}

/// A whole batch in a segment.
#[derive(Debug, Clone, Copy)]
pub(super) struct Span {
    pub(super) start: usize,
    /// Behind its commit record.
    pub(super) end: usize,
    pub(super) commit: Commit,
}

impl Scan {
    /// Reads all segments of `dir` and decides what holds. Changes nothing.
    ///
    /// # Errors
    /// `Corrupt` if committed batches are damaged or missing, or a segment
    /// is of another store.
    pub(crate) fn read(storage: &dyn Storage, dir: &Path, store: &StoreId) -> Result<Self> {
        let mut scan = Self::default();
        let mut marks = Marks::default();
        for (number, path) in scan.list(storage, dir)? {
            let data = load(storage, &path)?;
            let header = segment::decode_header(&data, &path, store, number)?;
            let batches = marks.read_segment(&data, header.seed);
            if !batches.is_empty() {
                scan.tips.clear();
            }
            scan.tips.push(Tip {
                path: path.clone(),
                seed: header.seed,
                at: batches.last().map_or(HEADER, |span| span.end) as u64,
            });
            scan.segments.push(Found {
                path,
                seed: header.seed,
                batches,
            });
        }
        scan.settle(&marks)?;
        Ok(scan)
    }

    /// Calls `apply` with every record after the checkpoint, in order.
    ///
    /// # Errors
    /// If a segment cannot be read any more.
    pub(crate) fn replay(
        &self,
        storage: &dyn Storage,
        mut apply: impl FnMut(&Record<'_>),
    ) -> Result<()> {
        for found in &self.segments {
            let wanted = |span: &&Span| {
                span.commit.sequence > self.checkpoint && span.commit.sequence <= self.sequence
            };
            if found.batches.iter().find(wanted).is_none() {
                continue;
            }
            let data = load(storage, &found.path)?;
            for span in found.batches.iter().filter(wanted) {
                let mut at = span.start;
                let end = span.start + span.commit.batch_len as usize;
                while at < end {
                    let Some((record, next)) = record::decode(&data, at, found.seed) else {
                        return Err(changed(&found.path));
                    };
                    apply(&record);
                    at = next;
                }
            }
        }
        Ok(())
    }

    /// Makes the batches that hold survive power loss. If only the process
    /// died, the last ones may stand in the page cache alone; carried out from
    /// there, they would leave bytes in session files that no journal accounts
    /// for. They are written again, for after a failed sync the cache takes
    /// what it never wrote for written.
    ///
    /// # Errors
    /// As the operating system reports them.
    pub(crate) fn persist(&self, storage: &dyn Storage) -> Result<()> {
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

    /// Whether there is no segment at all.
    pub(crate) fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }

    /// A mark of where a journal ends: while it stays the same, and its
    /// [tips](Tip::is_taken) are free, nothing was committed and no segment came or
    /// went. `None` if there is none.
    ///
    /// # Errors
    /// As the operating system reports them.
    pub(crate) fn end(storage: &dyn Storage, dir: &Path) -> io::Result<Option<End>> {
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
    pub(crate) fn paths(&self) -> impl Iterator<Item = &Path> {
        self.segments.iter().map(|found| found.path.as_path())
    }

    fn list(&mut self, storage: &dyn Storage, dir: &Path) -> Result<Vec<(u64, PathBuf)>> {
        let entries = storage
            .read_dir(dir)
            .map_err(|e| Error::io("list", dir, e))?;
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

    fn settle(&mut self, marks: &Marks) -> Result<()> {
        self.checkpoint = marks.checkpoint;
        self.durable = marks.durable;
        self.clean = marks.clean_at.is_some_and(|at| at == marks.newest);
        self.sequence = self.checkpoint;
        // Batches at or below the checkpoint may be missing: their segments are
        // removed one by one, and a power loss may keep any of them.
        for span in self.segments.iter().flat_map(|found| &found.batches) {
            if span.commit.sequence.checked_sub(1) == Some(self.sequence) {
                self.sequence += 1;
            }
        }
        if marks.durable > self.sequence {
            // The one that holds the last batch before the gap.
            let reads = |found: &&Found| {
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

impl Tip {
    /// Whether a batch stands here now. A writer's file changes its time first and
    /// its bytes then: of a commit that the time tells of, the bytes may not have
    /// been there when they were looked for.
    ///
    /// # Errors
    /// As the operating system reports them.
    pub(crate) fn is_taken(&self, storage: &dyn Storage) -> io::Result<bool> {
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

/// What is looked at first of a tip, bytes: mostly there is nothing, which the first
/// bytes tell.
const TIP_BYTES: usize = 4096;

/// See [`Scan::end`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct End {
    /// Number, inode and time of last change of each segment.
    modified: Vec<(u64, u64, i128)>,
}

/// What the commit records of all segments say together.
#[derive(Debug, Default)]
struct Marks {
    checkpoint: u64,
    clean_at: Option<u64>,
    newest: u64,
    durable: u64,
    torn_bytes: u64,
}

impl Marks {
    /// The batches of one segment up to the first place that does not read;
    /// after it, only watermarks are looked for.
    fn read_segment(&mut self, data: &[u8], seed: u32) -> Vec<Span> {
        let mut batches = Vec::new();
        let mut start = HEADER;
        while let Some(batch) = whole_batch(data, start, seed) {
            self.note(&batch);
            batches.push(batch.span);
            start = batch.span.end;
        }
        self.look_behind(data, start, seed);
        batches
    }

    fn note(&mut self, batch: &Batch) {
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

    fn look_behind(&mut self, data: &[u8], start: usize, seed: u32) {
        let behind = &data[start.min(data.len())..];
        for at in memmem::find_iter(behind, &COMMIT_MAGIC) {
            let commit = record::commit_at_magic(data, start + at, seed);
            if let Some(commit) = commit.filter(|commit| is_possible(*commit)) {
                self.durable = self.durable.max(commit.durable);
                self.newest = self.newest.max(commit.sequence);
            }
        }
        let mut at = start;
        while let Some((_, next)) = record::decode(data, at, seed) {
            at = next;
        }
        self.torn_bytes += (at - start) as u64;
    }
}

pub(super) struct Batch {
    pub(super) span: Span,
    pub(super) checkpoint: Option<(u64, bool)>,
}

/// The batch at `start`, if every record of it verifies.
pub(super) fn whole_batch(data: &[u8], start: usize, seed: u32) -> Option<Batch> {
    let (mut at, mut checkpoint) = (start, None);
    loop {
        let (record, next) = record::decode(data, at, seed)?;
        match record {
            Record::Commit(commit) => {
                let covered = checkpoint.map_or(0, |(covered, _)| covered);
                let holds = commit.batch_len as usize == at - start
                    && is_possible(commit)
                    && covered < commit.sequence;
                return holds.then_some(Batch {
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

/// What a batch speaks of came before it, and no store lives to see half of all
/// numbers.
fn is_possible(commit: Commit) -> bool {
    commit.durable < commit.sequence && commit.sequence <= u64::MAX / 2
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
