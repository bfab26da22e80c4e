//! Space that is kept for letting go: without it, nobody could empty a volume that the store
//! itself has filled, for to delete takes a record, and a record a segment.
//!
//! On a volume with little space left, some files of zeros stand beside the segments, each as
//! large as the smallest one. They outlast a close. A segment is made of one at an
//! open, or for a batch with a record that frees space, and needs neither a block nor an inode
//! then; what else is committed goes there, too, while it has room. A recovery or a compaction
//! that finds no space removes them all.
//!
//! # What a crash leaves
//!
//! *A file of zeros made, synced, renamed*: before, a `.tmp`, which the next open removes;
//! after, one more. *Taken for a segment*: see [`segment::create`].

use std::io;
use std::path::{Path, PathBuf};

use super::super::budget::SMALLEST;
use super::super::segment::{self, Filling, Spare};
use super::SegmentPool;
use crate::disk::files;
use crate::error::{Error, Result};
use crate::ground::storage::{OpenMode, Storage};

/// How many files are kept at least and at most, and of which part of the space there is.
const LEAST: u64 = 8;
const MOST: u64 = 16;
const PART: u64 = 16;

/// They are kept where no more is left than this, bytes. A volume that has more is not about
/// to be full, and a store on it is not to make files that it will hardly need.
const TIGHT: u64 = 256 << 20;

/// What is left must be so many times a file's size: others need the rest.
const ROOM: u64 = 4;

/// Their numbers as `.tmp`, which no segment has.
const NUMBERS: u64 = u64::MAX - MOST;

fn name(part: u64) -> String {
    format!("reserve-{part}")
}

/// Whether a file in the journal's directory is one of these.
pub(crate) fn is_reserve(file: &str) -> bool {
    (0..MOST).any(|part| name(part) == file)
}

/// Those that there are.
fn parts(storage: &dyn Storage, dir: &Path) -> Result<Vec<PathBuf>> {
    let mut names = files::entries(storage, dir)?;
    names.retain(|name| is_reserve(name));
    Ok(names.into_iter().map(|name| dir.join(name)).collect())
}

/// Gives all of them up, for a recovery that finds no space; whether there was any.
///
/// # Errors
/// As the operating system reports them.
pub(crate) fn release(storage: &dyn Storage, dir: &Path) -> Result<bool> {
    let parts = parts(storage, dir)?;
    for path in &parts {
        match storage.remove_file(path) {
            // The committer drew on it.
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            removed => removed.map_err(|e| Error::io("remove", path, e))?,
        }
    }
    Ok(!parts.is_empty())
}

impl SegmentPool {
    /// Makes what is missing of them, if there is little space and some to spare. What cannot
    /// be made now is made later.
    pub(crate) fn keep_reserve(&self) {
        let free = || self.look().0.unspoken();
        let room = free();
        if !(ROOM * SMALLEST..TIGHT).contains(&room) || self.state.lock().ended {
            return;
        }
        let Ok(there) = parts(&*self.storage, &self.dir) else {
            return;
        };
        let space = room + there.len() as u64 * SMALLEST;
        let wanted = (space / PART / SMALLEST).clamp(LEAST, MOST);
        let missing = (0..MOST).filter(|part| !there.contains(&self.dir.join(name(*part))));
        for part in missing.take(wanted.saturating_sub(there.len() as u64) as usize) {
            if free() < ROOM * SMALLEST || self.make_reserve(part).is_err() {
                return;
            }
        }
    }

    fn make_reserve(&self, part: u64) -> Result<()> {
        let (storage, dir) = (&*self.storage, &self.dir);
        let spare = segment::zeroed(storage, dir, NUMBERS + part, SMALLEST, Filling::AtOnce)?;
        let path = dir.join(name(part));
        let kept = spare.file.sync_data();
        let kept = kept.and_then(|()| storage.rename(&spare.path, &path));
        kept.map_err(|e| {
            let _ = storage.remove_file(&spare.path);
            Error::io("create", &path, e)
        })
    }

    /// One of them, for a segment that holds a record which frees space.
    ///
    /// # Errors
    /// As the operating system reports them.
    pub(super) fn draw_on_reserve(&self, len: u64) -> Result<Option<Spare>> {
        if len > SMALLEST {
            return Ok(None);
        }
        for path in parts(&*self.storage, &self.dir)? {
            let file = match self.storage.open(&path, OpenMode::ReadWrite) {
                // A compaction gave it up.
                Err(e) if e.kind() == io::ErrorKind::NotFound => continue,
                file => file.map_err(|e| Error::io("open", &path, e))?,
            };
            let found = file.info().map_err(|e| Error::io("open", &path, e))?.len;
            if found == SMALLEST {
                return Ok(Some(Spare {
                    path,
                    file,
                    len: SMALLEST,
                }));
            }
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    use crate::disk::journal::segment::Lengths;
    use crate::testing::disk_model::MemoryStorage;

    fn pool(disk: &MemoryStorage, next: u64) -> SegmentPool {
        let dir = Path::new("/journal");
        let _ = disk.create_dir(dir);
        let lengths = Lengths::default();
        SegmentPool::new(Arc::new(disk.clone()), dir.into(), [7; 16], next, lengths)
    }

    fn count(disk: &MemoryStorage) -> usize {
        let files = disk.dump().into_keys();
        let names = files.filter(|path| path.rsplit('/').next().is_some_and(is_reserve));
        names.count()
    }

    fn fill(disk: &MemoryStorage) {
        let used: usize = disk.dump().values().map(Vec::len).sum();
        disk.capacity(used as u64);
    }

    #[test]
    fn a_full_disk_has_segments_for_records_that_free_space_and_for_no_others() {
        let disk = MemoryStorage::new();
        pool(&disk, 1).keep_reserve();
        assert_eq!(count(&disk), 0, "there is space");
        disk.capacity(6 << 20);
        pool(&disk, 1).keep_reserve();
        assert_eq!(count(&disk) as u64, LEAST);
        fill(&disk);
        let pool = pool(&disk, 1);
        let mut numbers = Vec::new();
        for left in (0..LEAST).rev() {
            let refused = pool.next(0, false);
            assert!(matches!(refused, Err(Error::StorageFull { .. })));
            numbers.push(pool.next(0, true).unwrap().number);
            assert_eq!(count(&disk) as u64, left);
        }
        assert!(matches!(pool.next(0, true), Err(Error::StorageFull { .. })));
        assert!(numbers.is_sorted());
        disk.capacity(6 << 20);
        pool.keep_reserve();
        assert_eq!(count(&disk) as u64, LEAST);
        assert!(release(&disk, Path::new("/journal")).unwrap());
        assert_eq!(count(&disk), 0);
    }
}
