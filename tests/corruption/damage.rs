//! Ways in which a medium damages a file.

use std::ops::Range;
use std::sync::Arc;

use sessionlog::testing::disk_model::{Image, MemoryStorage};

use crate::image::Store;

/// How much a disk writes at once.
const SECTOR: usize = 512;

/// One file, damaged.
#[derive(Clone, Debug)]
pub(crate) struct Damage {
    pub(crate) path: String,
    /// The bytes that are not what they were.
    pub(crate) range: Range<usize>,
    pub(crate) how: String,
    change: Change,
}

/// What happens to a file. Made when it is needed: the damaged copies of all
/// damages together would be gigabytes.
#[derive(Clone, Debug)]
enum Change {
    Flip {
        at: usize,
        bit: u32,
    },
    Cut(usize),
    Removed,
    Fill(Range<usize>, u8),
    /// Two sectors from here on change places.
    Swap(usize),
    /// The bytes of this range, or all, are what they once were.
    Stale(Option<Range<usize>>, Arc<[u8]>),
}

impl Change {
    /// The file's bytes then; `None`: it is gone.
    fn of(&self, bytes: &[u8]) -> Option<Vec<u8>> {
        let mut bytes = bytes.to_vec();
        match self {
            Self::Flip { at, bit } => bytes[*at] ^= 1 << bit,
            Self::Cut(len) => bytes.truncate(*len),
            Self::Removed => return None,
            Self::Fill(range, fill) => bytes[range.clone()].fill(*fill),
            Self::Swap(at) => bytes[*at..at + 2 * SECTOR].rotate_left(SECTOR),
            Self::Stale(Some(range), old) => {
                bytes[range.clone()].copy_from_slice(&old[range.clone()]);
            }
            Self::Stale(None, old) => bytes = old.to_vec(),
        }
        Some(bytes)
    }
}

impl Damage {
    /// A copy of `disk` with the damage done.
    pub(crate) fn inflict(&self, disk: &MemoryStorage) -> MemoryStorage {
        let disk = disk.image(Image::ProcessDeath);
        let bytes = disk.read_foreign(&self.path).expect("the file is there");
        match self.change.of(&bytes) {
            Some(bytes) => disk.write_foreign(&self.path, &bytes),
            None => disk.remove_foreign(&self.path),
        }
        .expect("the file is there");
        disk
    }
}

/// Every damage to one store. Of the bits, every `stride`th byte has one
/// flipped; with 1, every bit of every byte.
pub(crate) fn all(store: &Store, stride: usize) -> Vec<Damage> {
    let files = store.files();
    let mut all = Vec::new();
    for (path, bytes, used) in &files {
        let file = File {
            path,
            bytes,
            used: *used,
        };
        file.flips(stride, &mut all);
        file.cuts(stride, &mut all);
        file.sectors(&mut all);
        file.swaps(&mut all);
        file.stale(store, &mut all);
    }
    all
}

struct File<'a> {
    path: &'a str,
    bytes: &'a [u8],
    used: usize,
}

impl File<'_> {
    fn is_segment(&self) -> bool {
        self.path.contains("/journal/")
    }

    /// Every byte of a header's fields and of records.
    fn parts(&self) -> Vec<usize> {
        let whole = |at: &usize| !self.is_segment() || !(56..4096).contains(at);
        (0..self.used).filter(whole).collect()
    }

    fn flips(&self, stride: usize, into: &mut Vec<Damage>) {
        for at in self.parts() {
            for bit in 0..8_u32 {
                if !(at * 8 + bit as usize).is_multiple_of(stride) {
                    continue;
                }
                let how = format!("flip bit {bit} of {at}");
                self.push(into, how, at..at + 1, Change::Flip { at, bit });
            }
        }
    }

    fn cuts(&self, stride: usize, into: &mut Vec<Damage>) {
        let end = self.bytes.len();
        for len in self.parts().into_iter().step_by(stride.min(7)) {
            self.push(into, format!("cut to {len}"), len..end, Change::Cut(len));
        }
        self.push(into, "removed".into(), 0..end, Change::Removed);
    }

    fn sectors(&self, into: &mut Vec<Damage>) {
        for at in (0..self.used).step_by(SECTOR) {
            let range = at..(at + SECTOR).min(self.bytes.len());
            for (how, fill) in [("zeroed", 0), ("filled with ones", 255)] {
                let change = Change::Fill(range.clone(), fill);
                self.push(into, format!("sector {at} {how}"), range.clone(), change);
            }
        }
    }

    fn swaps(&self, into: &mut Vec<Damage>) {
        let starts = (0..self.used.saturating_sub(SECTOR)).step_by(SECTOR);
        for at in starts.filter(|at| at + 2 * SECTOR <= self.bytes.len()) {
            let how = format!("sectors {at} swapped");
            self.push(into, how, at..at + 2 * SECTOR, Change::Swap(at));
        }
    }

    /// A write that the disk reported and did not do.
    fn stale(&self, store: &Store, into: &mut Vec<Damage>) {
        let Some(older) = store.older.read_foreign(self.path) else {
            return;
        };
        let older: Arc<[u8]> = older.into();
        for at in (0..self.used.min(older.len())).step_by(SECTOR) {
            let range = at..(at + SECTOR).min(self.bytes.len());
            if older.len() < range.end {
                break;
            }
            let change = Change::Stale(Some(range.clone()), older.clone());
            self.push(into, format!("sector {at} stale"), range, change);
        }
        let end = self.bytes.len();
        self.push(into, "stale".into(), 0..end, Change::Stale(None, older));
    }

    fn push(&self, into: &mut Vec<Damage>, how: String, range: Range<usize>, change: Change) {
        let bytes = change.of(self.bytes);
        if bytes.as_deref() == Some(self.bytes) {
            return;
        }
        // Bytes inside the range that stayed as they were are not damaged.
        let range = match &bytes {
            Some(bytes) if bytes.len() == self.bytes.len() => {
                let differs = |at: &usize| bytes[*at] != self.bytes[*at];
                let first = range.clone().find(differs).unwrap_or(range.start);
                let last = range.clone().rev().find(differs).unwrap_or(range.start);
                first..last + 1
            }
            _ => range,
        };
        let path = self.path.to_owned();
        into.push(Damage {
            path,
            range,
            how,
            change,
        });
    }
}
