//! Space that is reserved for freeing space. A deletion takes a record, and a record takes a
//! segment: without a reserve, a volume that the store itself has filled could not be emptied.
//!
//! On a volume with little space left, some files of zeros stand beside the segments, each as large
//! as the smallest segment. They outlast a close. At an open, or for a batch with a record that
//! frees space, a segment is made from one of them, and then needs neither a block nor an inode.
//! Other commits go to that segment too, while it has room. A recovery or a compaction that finds
//! no space removes all of these files.
//!
//! # What a crash leaves
//!
//! *A file of zeros made, synced, renamed*: before, a `.tmp`, which the next open removes; after,
//! one more file. *Used for a segment*: see [`segment::create`].

use std::io;
use std::path::{Path, PathBuf};

use sessionlog_core::error::{Error, Result};

use super::super::budget::SMALLEST;
use super::super::segment::{self, Filling, Spare};
use super::SegmentPool;
use crate::storage::{self, OpenMode, Storage};

/// The least and the most of these files, and the part of the available space that they may take.
const LEAST: u64 = 8;
const MOST: u64 = 16;
const PART: u64 = 16;

/// They are kept only if no more space than this is left, in bytes. A volume with more is not about
/// to be full, and a store on it should not make files that it will hardly need.
const TIGHT: u64 = 256 << 20;

/// The free space must be this many times a file's size: other files need the rest.
const ROOM: u64 = 4;

/// Their numbers while they are `.tmp`; no segment has these.
const NUMBERS: u64 = u64::MAX - MOST;

fn name(part: u64) -> String {
    format!("reserve-{part}")
}

/// True if a file in the journal's directory is a reserve file.
pub(crate) fn is_reserve(file: &str) -> bool {
    (0..MOST).any(|part| name(part) == file)
}

/// The existing reserve files.
fn parts(storage: &dyn Storage, dir: &Path) -> Result<Vec<PathBuf>> {
    let mut names = storage::names(storage, dir).map_err(|e| Error::io("list", dir, e))?;
    names.retain(|name| is_reserve(name));
    Ok(names.into_iter().map(|name| dir.join(name)).collect())
}

/// Removes all reserve files, for a recovery that finds no space; returns true if there were any.
///
/// # Errors
/// As the operating system reports them.
pub fn release(storage: &dyn Storage, dir: &Path) -> Result<bool> {
    let parts = parts(storage, dir)?;
    for path in &parts {
        match storage.remove_file(path) {
            // The committer used it.
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            removed => removed.map_err(|e| Error::io("remove", path, e))?,
        }
    }
    Ok(!parts.is_empty())
}

impl SegmentPool {
    /// Makes missing reserve files, if there is little space but enough for them. If one cannot be
    /// made now, it is made later.
    pub fn keep_reserve(&self) {
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

    /// One reserve file, for a segment with a record that frees space.
    ///
    /// # Errors
    /// As the operating system reports them.
    pub(super) fn draw_on_reserve(&self, len: u64) -> Result<Option<Spare>> {
        if len > SMALLEST {
            return Ok(None);
        }
        for path in parts(&*self.storage, &self.dir)? {
            let file = match self.storage.open(&path, OpenMode::ReadWrite) {
                // A compaction removed it.
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

    use crate::journal::segment::Lengths;
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
