//! Ways in which a medium damages a file.

use std::ops::Range;

use sessionlog::storage::memory::{Image, MemoryStorage};

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
    /// The file's bytes now; `None`: it is gone.
    bytes: Option<Vec<u8>>,
}

impl Damage {
    /// A copy of `disk` with the damage done.
    pub(crate) fn inflict(&self, disk: &MemoryStorage) -> MemoryStorage {
        let disk = disk.image(Image::ProcessDeath);
        match &self.bytes {
            Some(bytes) => disk.write_foreign(&self.path, bytes),
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
            for bit in 0..8 {
                if (at * 8 + bit) % stride != 0 {
                    continue;
                }
                let mut bytes = self.bytes.to_vec();
                bytes[at] ^= 1 << bit;
                self.push(
                    into,
                    format!("flip bit {bit} of {at}"),
                    at..at + 1,
                    Some(bytes),
                );
            }
        }
    }

    fn cuts(&self, stride: usize, into: &mut Vec<Damage>) {
        let end = self.bytes.len();
        for len in self.parts().into_iter().step_by(stride.min(7)) {
            let bytes = self.bytes[..len].to_vec();
            self.push(into, format!("cut to {len}"), len..end, Some(bytes));
        }
        self.push(into, "removed".into(), 0..end, None);
    }

    fn sectors(&self, into: &mut Vec<Damage>) {
        for at in (0..self.used).step_by(SECTOR) {
            let range = at..(at + SECTOR).min(self.bytes.len());
            for (how, fill) in [("zeroed", 0), ("filled with ones", 255)] {
                let mut bytes = self.bytes.to_vec();
                bytes[range.clone()].fill(fill);
                self.push(
                    into,
                    format!("sector {at} {how}"),
                    range.clone(),
                    Some(bytes),
                );
            }
        }
    }

    fn swaps(&self, into: &mut Vec<Damage>) {
        let starts = (0..self.used.saturating_sub(SECTOR)).step_by(SECTOR);
        for at in starts.filter(|at| at + 2 * SECTOR <= self.bytes.len()) {
            let mut bytes = self.bytes.to_vec();
            bytes[at..at + 2 * SECTOR].rotate_left(SECTOR);
            let how = format!("sectors {at} swapped");
            self.push(into, how, at..at + 2 * SECTOR, Some(bytes));
        }
    }

    /// A write that the disk reported and did not do.
    fn stale(&self, store: &Store, into: &mut Vec<Damage>) {
        let Some(older) = store.older.read_foreign(self.path) else {
            return;
        };
        for at in (0..self.used).step_by(SECTOR) {
            let range = at..(at + SECTOR).min(self.bytes.len());
            let Some(old) = older.get(range.clone()) else {
                break;
            };
            let mut bytes = self.bytes.to_vec();
            bytes[range.clone()].copy_from_slice(old);
            self.push(into, format!("sector {at} stale"), range, Some(bytes));
        }
        let end = self.bytes.len();
        self.push(into, "stale".into(), 0..end, Some(older));
    }

    fn push(
        &self,
        into: &mut Vec<Damage>,
        how: String,
        range: Range<usize>,
        bytes: Option<Vec<u8>>,
    ) {
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
            bytes,
        });
    }
}
