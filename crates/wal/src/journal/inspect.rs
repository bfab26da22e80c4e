//! Reads a journal that may be damaged, segment by segment, with everything that still verifies,
//! also after damage. It decides nothing: [`Scan`](super::scan::Scan) decides whether a journal
//! holds.

use std::path::{Path, PathBuf};

use memchr::memmem;
use sessionlog_core::error::{Error, Result};

use super::pool::reserve;
use super::record::{self, COMMIT_MAGIC, Record};
use super::scan::{self, ScannedBatch, Span};
use super::segment::{self, HEADER, StoreId};
use crate::storage::{FileKind, Storage};

/// The readable part of a journal directory.
#[derive(Debug, Default)]
pub struct Inspection {
    /// By number.
    pub segments: Vec<SegmentInspection>,
    /// Names in the directory that are not segments.
    pub strays: Vec<String>,
    /// Everything up to this batch is in the session files.
    pub checkpoint: u64,
}

/// One segment.
#[derive(Debug)]
pub struct SegmentInspection {
    /// The segment's number.
    pub number: u64,
    /// Its path.
    pub path: PathBuf,
    /// Its length in bytes.
    pub len: u64,
    /// The fault of its header, or the reason why it cannot be read.
    pub fault: Option<String>,
    /// The error that kept it from being read: it need not be damaged.
    error: Option<Error>,
    /// The store that its header names.
    pub store: Option<StoreId>,
    /// Whole batches, including those after damage.
    batches: Vec<Span>,
    /// The number of whole batches before the first unreadable place.
    pub leading: usize,
    /// The number of records in whole batches.
    pub records: u64,
    /// The offset where reading from the start ended.
    pub end: u64,
    /// Bytes of whole records there that no commit follows.
    pub torn: u64,
    /// The newest batch that any commit record in it states, including commit records of unreadable
    /// batches.
    pub newest: u64,
    /// The newest watermark that any of them states.
    pub watermark: u64,
    seed: u32,
}

impl Inspection {
    /// Reads every segment in `dir`; empty if there is no such directory. Changes nothing.
    ///
    /// # Errors
    /// If the directory cannot be listed. A segment that cannot be read is recorded as such.
    pub fn read(storage: &dyn Storage, dir: &Path, store: Option<&StoreId>) -> Result<Self> {
        let mut inspection = Self::default();
        let entries = match storage.read_dir(dir) {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(inspection),
            other => other.map_err(|e| Error::io("list", dir, e))?,
        };
        for entry in entries {
            match segment::number_of(&entry.name) {
                Some(number) if entry.kind == FileKind::File => {
                    let path = dir.join(&entry.name);
                    let mut segment = SegmentInspection::unread(number, path);
                    let checkpoint = segment.read(storage, store);
                    inspection.checkpoint = inspection.checkpoint.max(checkpoint);
                    inspection.segments.push(segment);
                }
                _ if reserve::is_reserve(&entry.name) => {}
                _ => inspection.strays.push(entry.name),
            }
        }
        inspection.segments.sort_by_key(|segment| segment.number);
        Ok(inspection)
    }

    /// Fails if a segment could not be read: it need not be damaged, and must not be given up.
    ///
    /// # Errors
    /// The first such error.
    pub fn refuse_unread(self) -> Result<Self> {
        let mut errors = self
            .segments
            .iter()
            .filter_map(|segment| segment.error.clone());
        match errors.next() {
            Some(error) => Err(error),
            None => Ok(self),
        }
    }

    /// The store of this journal, if all valid headers agree.
    #[must_use]
    pub fn store(&self) -> Option<StoreId> {
        let mut stores = self.segments.iter().filter_map(|segment| segment.store);
        let first = stores.next()?;
        stores.all(|store| store == first).then_some(first)
    }

    /// The newest batch that any segment mentions.
    #[must_use]
    pub fn newest(&self) -> u64 {
        let newest = self.segments.iter().map(|segment| segment.newest);
        newest.max().unwrap_or(0).max(self.checkpoint)
    }

    /// The newest batch known to have been synced.
    #[must_use]
    pub fn watermark(&self) -> u64 {
        let marks = self.segments.iter().map(|segment| segment.watermark);
        marks.max().unwrap_or(0).max(self.checkpoint)
    }

    /// The number after the highest segment's.
    #[must_use]
    pub fn next_number(&self) -> u64 {
        self.segments
            .last()
            .map_or(1, |last| last.number.saturating_add(1))
    }

    /// The unreadable batches after the checkpoint, up to the newest readable one.
    #[must_use]
    pub fn missing(&self) -> Vec<u64> {
        let mut next = self.checkpoint + 1;
        let mut missing = Vec::new();
        for (sequence, _, _) in self.in_order() {
            // A damaged number must not make a list of billions.
            missing.extend((next..sequence).take(1000));
            next = sequence + 1;
        }
        missing.extend((next..=self.watermark()).take(1000));
        missing
    }

    /// True if everything in this segment is in the session files: a later one begins with a batch
    /// that the checkpoint covers, or the next one after it.
    pub fn is_covered(&self, segment: &SegmentInspection) -> bool {
        let later = self.segments.iter().filter(|s| s.number > segment.number);
        let mut firsts = later.filter_map(SegmentInspection::first);
        firsts.any(|first| first <= self.checkpoint + 1)
    }

    /// Calls `apply` with every readable record after the checkpoint, in the order of batches.
    ///
    /// # Errors
    /// If a segment cannot be read any more.
    pub fn replay(&self, storage: &dyn Storage, mut apply: impl FnMut(&Record<'_>)) -> Result<()> {
        let mut loaded: Option<(&Path, Vec<u8>)> = None;
        for (_, segment, span) in self.in_order() {
            let data = match &loaded {
                Some((path, data)) if *path == segment.path => data,
                _ => {
                    &loaded
                        .insert((&segment.path, scan::load(storage, &segment.path)?))
                        .1
                }
            };
            let end = span.start + span.commit.batch_len as usize;
            let mut at = span.start;
            while at < end {
                let Some((record, next)) = record::decode(data, at, segment.seed) else {
                    break;
                };
                apply(&record);
                at = next;
            }
        }
        Ok(())
    }

    fn in_order(&self) -> Vec<(u64, &SegmentInspection, Span)> {
        let every = self.segments.iter().flat_map(|segment| {
            let batches = segment.batches.iter();
            batches.map(move |span| (span.commit.sequence, segment, *span))
        });
        let mut every: Vec<_> = every.filter(|(n, ..)| *n > self.checkpoint).collect();
        every.sort_by_key(|(sequence, segment, span)| (*sequence, segment.number, span.start));
        every.dedup_by_key(|(sequence, ..)| *sequence);
        every
    }
}

impl SegmentInspection {
    fn unread(number: u64, path: PathBuf) -> Self {
        Self {
            number,
            path,
            len: 0,
            fault: None,
            error: None,
            store: None,
            batches: Vec::new(),
            leading: 0,
            records: 0,
            end: HEADER as u64,
            torn: 0,
            newest: 0,
            watermark: 0,
            seed: 0,
        }
    }

    /// The first readable batch.
    #[must_use]
    pub fn first(&self) -> Option<u64> {
        self.batches.first().map(|span| span.commit.sequence)
    }

    /// The last readable batch.
    #[must_use]
    pub fn last(&self) -> Option<u64> {
        self.batches.last().map(|span| span.commit.sequence)
    }

    /// The number of whole batches, including those after damage.
    #[must_use]
    pub fn batches(&self) -> usize {
        self.batches.len()
    }

    /// Returns the newest checkpoint in it.
    fn read(&mut self, storage: &dyn Storage, store: Option<&StoreId>) -> u64 {
        let data = match scan::load(storage, &self.path) {
            Ok(data) => data,
            Err(e) => {
                self.fault = Some(e.to_string());
                self.error = Some(e);
                return 0;
            }
        };
        self.len = data.len() as u64;
        let claims = segment::salvage_header(&data, self.number);
        self.store = claims.and_then(|claims| claims.store);
        let owner = store.copied().or(self.store).unwrap_or_default();
        if let Err(error) =
            segment::decode_header(&data, data.len(), &self.path, &owner, self.number)
        {
            // It is not damaged, and its contents must not be given up.
            if claims.is_some_and(|claims| claims.is_of_another_version) {
                self.error = Some(error.clone());
            }
            self.fault = Some(match error {
                Error::Corrupt { detail, .. } => detail,
                other => other.to_string(),
            });
        }
        let foreign = self.store.is_some_and(|mine| mine != owner);
        let Some(claims) = claims.filter(|_| !foreign) else {
            return 0;
        };
        self.seed = claims.seed;
        self.read_batches(&data)
    }

    fn read_batches(&mut self, data: &[u8]) -> u64 {
        let (mut start, mut checkpoint) = (HEADER, 0);
        while let Some(batch) = scan::whole_batch(data, start, self.seed) {
            start = batch.span.end;
            checkpoint = checkpoint.max(self.note(&batch, data));
        }
        self.leading = self.batches.len();
        self.end = start.min(data.len()) as u64;
        let mut at = start;
        while let Some((_, next)) = record::decode(data, at, self.seed) {
            at = next;
        }
        self.torn = (at - start) as u64;
        let behind = data.get(start..).unwrap_or(&[]);
        for magic in memmem::find_iter(behind, &COMMIT_MAGIC) {
            let magic = start + magic;
            let Some(commit) = record::commit_at_magic(data, magic, self.seed) else {
                continue;
            };
            self.newest = self.newest.max(commit.sequence);
            self.watermark = self.watermark.max(commit.durable);
            let begin = (magic - record::HEAD - 1).checked_sub(commit.batch_len as usize);
            let whole = begin.filter(|begin| *begin >= start);
            if let Some(batch) = whole.and_then(|at| scan::whole_batch(data, at, self.seed)) {
                checkpoint = checkpoint.max(self.note(&batch, data));
            }
        }
        checkpoint
    }

    fn note(&mut self, batch: &ScannedBatch, data: &[u8]) -> u64 {
        let (span, checkpoint) = (batch.span, batch.checkpoint.map_or(0, |(at, _)| at));
        self.newest = self.newest.max(span.commit.sequence);
        self.watermark = self.watermark.max(span.commit.durable).max(checkpoint);
        let mut at = span.start;
        while let Some((_, next)) = record::decode(data, at, self.seed).filter(|_| at < span.end) {
            self.records += 1;
            at = next;
        }
        // The commit record does not count as one of its records.
        self.records = self.records.saturating_sub(1);
        self.batches.push(span);
        checkpoint
    }
}
