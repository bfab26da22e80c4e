//! What the page cache and the disk each hold of one file.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use super::content::{PAGE, SharedBytes, pieces};
use super::draw::Draw;
use super::faults::SyncFault;

/// The unit a disk writes whole.
pub(super) const SECTOR: u64 = 512;

/// One file's bytes, as readers see them and as a power loss would leave them.
#[derive(Clone, Debug, Default)]
pub(super) struct Inode {
    /// What reads see.
    cache: SharedBytes,
    /// What is on the disk for certain.
    durable: SharedBytes,
    /// What the cache held when `pending` was last empty. Equal to `durable`
    /// unless a sync failed and left pages that nobody will write again.
    base: SharedBytes,
    /// Whether `base` and `durable` may differ.
    diverged: bool,
    /// Changes since `base`, oldest first. Each piece of the file may have
    /// reached the disk as it was after any number of them.
    pending: Vec<CacheChange>,
    modified: u64,
    durable_modified: u64,
}

/// One change of the cache that the disk may not have seen.
#[derive(Clone, Debug)]
struct CacheChange {
    /// When it was made, counted over the whole file system.
    seq: u64,
    range: Range<u64>,
    /// What was written over `range`; zeros if absent, as when cutting.
    bytes: Option<Arc<[u8]>>,
    /// The file's size afterwards.
    len_after: u64,
}

/// Which of a file's pending changes a power loss leaves on the disk.
#[derive(Clone, Debug)]
pub(super) enum Survival {
    /// None of them.
    Nothing,
    /// All of them.
    Everything,
    /// The sectors that the last one touched, and the size.
    Last,
    /// The size alone.
    Size,
    /// The sectors touched at or after a moment, and the size if there are any.
    Since(u64),
    /// Each piece, and the size, as of a moment of its own.
    Torn(Draw),
}

impl Inode {
    /// A file that has been on the disk for ever.
    pub(super) fn settled(content: SharedBytes, modified: u64) -> Self {
        Self {
            cache: content.clone(),
            durable: content.clone(),
            base: content,
            diverged: false,
            pending: Vec::new(),
            modified,
            durable_modified: modified,
        }
    }

    pub(super) fn cache(&self) -> &SharedBytes {
        &self.cache
    }

    /// The count of the change that last modified the file.
    pub(super) fn modified(&self) -> u64 {
        self.modified
    }

    pub(super) fn pending_seqs(&self) -> impl Iterator<Item = u64> {
        self.pending.iter().map(|change| change.seq)
    }

    /// Whether the disk may lack a change.
    pub(super) fn owes_bytes(&self) -> bool {
        !self.pending.is_empty()
    }

    pub(super) fn write(&mut self, seq: u64, offset: u64, bytes: &[u8]) {
        self.cache.write(offset, bytes);
        let range = offset..offset + bytes.len() as u64;
        self.remember(seq, range, Some(bytes.into()));
    }

    pub(super) fn set_len(&mut self, seq: u64, len: u64) {
        let cut = len..self.cache.len().max(len);
        self.cache.set_len(len);
        self.remember(seq, cut, None);
    }

    fn remember(&mut self, seq: u64, range: Range<u64>, bytes: Option<Arc<[u8]>>) {
        self.pending.push(CacheChange {
            seq,
            range,
            bytes,
            len_after: self.cache.len(),
        });
        self.modified = seq;
    }

    /// Everything pending reaches the disk. Pages that an earlier failed sync
    /// marked clean do not: the cache has forgotten that they are owed.
    pub(super) fn sync(&mut self) {
        if self.diverged {
            self.durable = self.latest_of(&self.pending, PAGE);
        } else {
            self.durable = self.cache.clone();
        }
        self.durable_modified = self.modified;
        self.base = self.cache.clone();
        self.pending.clear();
    }

    /// A sync of this file reports failure.
    pub(super) fn fail_sync(&mut self, fault: SyncFault) {
        match fault {
            SyncFault::CleanPageStaleDisk => {
                self.diverged |= !self.pending.is_empty();
                self.base = self.cache.clone();
                self.pending.clear();
            }
            SyncFault::ContentReverted => {
                *self = Self::settled(self.durable.clone(), self.durable_modified);
            }
            SyncFault::ReportedFailedButLanded => self.sync(),
        }
    }

    /// What the disk holds after a power loss, as a file on a fresh disk.
    pub(super) fn after_power_loss(&self, survival: &Survival) -> Self {
        if self.pending.is_empty() {
            return Self::settled(self.durable.clone(), self.durable_modified);
        }
        let content = match survival {
            Survival::Nothing => {
                return Self::settled(self.durable.clone(), self.durable_modified);
            }
            Survival::Everything => self.latest_of(&self.pending, PAGE),
            Survival::Last => self.latest_of(&self.pending[self.pending.len() - 1..], SECTOR),
            Survival::Size => self.durable.clone().sized(self.cache.len()),
            Survival::Since(moment) => {
                let first = self.pending.partition_point(|c| c.seq < *moment);
                self.latest_of(&self.pending[first..], SECTOR)
            }
            Survival::Torn(draw) => self.torn(draw.clone()),
        };
        Self::settled(content, self.modified)
    }

    /// The disk after every piece that `changes` touch was written as the cache
    /// has it now, with the size if there is any change.
    fn latest_of(&self, changes: &[CacheChange], grain: u64) -> SharedBytes {
        let mut content = self.durable.clone();
        for change in changes.iter().filter(|change| !change.range.is_empty()) {
            let start = change.range.start / grain * grain;
            let end = change.range.end.next_multiple_of(grain);
            content.copy_from(&self.cache, start..end);
        }
        let len = if changes.is_empty() {
            self.durable.len()
        } else {
            self.cache.len()
        };
        content.sized(len)
    }

    /// The disk after each piece was written back at a moment of its own.
    fn torn(&self, mut draw: Draw) -> SharedBytes {
        let grain = if draw.next().is_multiple_of(2) {
            SECTOR
        } else {
            PAGE
        };
        let moments = Moments::new(&mut draw, self.pending.len());
        let mut content = self.durable.clone();
        let mut begun = BTreeSet::new();
        for (nth, change) in self.pending.iter().enumerate() {
            for piece in pieces(change.range.clone(), grain) {
                let number = piece.start / grain;
                if nth >= moments.of(number) {
                    continue;
                }
                if self.diverged && begun.insert(number) {
                    content.copy_from(&self.base, number * grain..(number + 1) * grain);
                }
                change.apply(&mut content, piece);
            }
        }
        let len = match moments.of(u64::MAX) {
            0 => self.durable.len(),
            nth => self.pending[nth - 1].len_after,
        };
        content.sized(len)
    }
}

impl CacheChange {
    /// Repeats the part of this change that falls in `piece`.
    fn apply(&self, content: &mut SharedBytes, piece: Range<u64>) {
        match &self.bytes {
            Some(bytes) => {
                let from = (piece.start - self.range.start) as usize;
                let to = (piece.end - self.range.start) as usize;
                content.write(piece.start, &bytes[from..to]);
            }
            None => content.zero(piece),
        }
    }
}

/// How many of a file's pending changes each of its pieces had seen when it was
/// last written back.
struct Moments {
    draw: Draw,
    changes: usize,
    /// Of eight pieces, how many saw nothing.
    stale: u64,
    /// Of eight pieces, how many saw nothing or only some changes.
    late: u64,
}

impl Moments {
    fn new(draw: &mut Draw, changes: usize) -> Self {
        // Mostly lost, mixed and mostly kept tear differently: a single odds
        // would almost never leave exactly one piece of a long write behind.
        let (stale, late) = match draw.next() % 3 {
            0 => (1, 2),
            1 => (3, 5),
            _ => (6, 7),
        };
        Self {
            draw: draw.clone(),
            changes,
            stale,
            late,
        }
    }

    fn of(&self, piece: u64) -> usize {
        let mut draw = self.draw.about(piece);
        match draw.next() % 8 {
            odds if odds < self.stale => 0,
            odds if odds < self.late => draw.up_to(self.changes),
            _ => self.changes,
        }
    }
}
