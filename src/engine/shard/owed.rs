//! The syncs that a session's files owe to the disk, and the descriptors to sync them through.
//!
//! A failed write-back is reported to descriptors that were open before it, and otherwise to the
//! first process that asks, which may be another program. A sync through a descriptor that was
//! opened after the write proves nothing.

use std::sync::{Arc, Weak};

use sessionlog_wal::storage::StorageFile;
use sessionlog_wal::sync::Mutex;

/// A flush of up to this many sessions syncs them one by one, which names the file that fails. A
/// flush of more uses one call for the whole file system. No more sidecars than that are kept open
/// for it.
pub(crate) const SYNC_EACH: usize = 8;

/// The syncs that one session's files owe since the last flush took them along.
#[derive(Debug, Default)]
pub(crate) struct OwedSyncs {
    /// True if the flush has yet to reach it.
    pub(super) dirty: bool,
    /// True if something was written through a descriptor that is closed.
    unheld: bool,
    sidecar: Option<UnsyncedFile>,
}

/// A file kept open until it is synced, unless its descriptor is needed.
#[derive(Debug)]
pub(crate) struct UnsyncedFile {
    place: Arc<FilePlace>,
    inode: u64,
}

type FilePlace = Mutex<Option<Arc<dyn StorageFile>>>;

/// The files that are kept open.
#[derive(Debug, Default)]
pub(crate) struct Keeper(Mutex<Vec<Weak<FilePlace>>>);

impl Keeper {
    fn keep(&self, file: Arc<dyn StorageFile>, inode: u64) -> Option<UnsyncedFile> {
        let mut places = self.0.lock();
        places.retain(|place| place.strong_count() > 0);
        (places.len() < SYNC_EACH).then(|| {
            let place = Arc::new(FilePlace::new(Some(file)));
            places.push(Arc::downgrade(&place));
            UnsyncedFile { place, inode }
        })
    }

    /// Closes them all: the process has no descriptor left. Returns true if there was one.
    pub(super) fn release(&self) -> bool {
        let places: Vec<_> = self.0.lock().drain(..).collect();
        let open = places.iter().filter_map(Weak::upgrade);
        open.filter_map(|place| place.lock().take()).count() > 0
    }
}

impl UnsyncedFile {
    /// The file, unless it was closed.
    pub(crate) fn file(&self) -> Option<Arc<dyn StorageFile>> {
        self.place.lock().clone()
    }
}

impl OwedSyncs {
    /// Notes that a sidecar was written through `file`. Of two descriptors of one file the first is
    /// kept.
    pub(super) fn sidecar(&mut self, file: Arc<dyn StorageFile>, keeper: &Keeper) {
        let inode = file.info().ok().map(|info| info.inode);
        let known = self.sidecar.as_ref().map(|kept| kept.inode);
        if inode.is_some() && inode == known {
            return;
        }
        self.sidecar = inode.and_then(|inode| keeper.keep(file, inode));
        self.unheld |= self.sidecar.is_none();
    }

    /// Notes that a descriptor of the log is closed.
    pub(super) fn closed(&mut self) {
        self.unheld |= self.dirty;
    }

    /// Takes it all along for a flush. Returns the sidecar, and true if something of the session
    /// can be synced with the whole file system only.
    pub(super) fn take(&mut self) -> (Option<UnsyncedFile>, bool) {
        let taken = std::mem::take(self);
        (taken.sidecar, taken.unheld)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use sessionlog_wal::storage::{OpenMode, Storage};
    use sessionlog_wal::testing::disk_model::MemoryStorage;

    fn sidecar(disk: &MemoryStorage, name: &str) -> Arc<dyn StorageFile> {
        disk.write_foreign(name, b"{}").unwrap();
        disk.open(Path::new(name), OpenMode::ReadWrite).unwrap()
    }

    #[test]
    fn a_sidecar_closed_for_want_of_descriptors_is_known_to_be() {
        let (disk, keeper) = (MemoryStorage::new(), Keeper::default());
        let mut owed = OwedSyncs::default();
        owed.sidecar(sidecar(&disk, "a"), &keeper);
        let (kept, unheld) = owed.take();
        let kept = kept.unwrap();
        assert!(kept.file().is_some() && !unheld);
        assert!(keeper.release() && !keeper.release());
        assert!(kept.file().is_none());
        assert_eq!(disk.open_files(), 0);
    }

    #[test]
    fn no_more_sidecars_are_kept_than_a_flush_syncs_one_by_one() {
        let (disk, keeper) = (MemoryStorage::new(), Keeper::default());
        let mut all: Vec<_> = (0..=SYNC_EACH).map(|_| OwedSyncs::default()).collect();
        for (nth, owed) in all.iter_mut().enumerate() {
            owed.sidecar(sidecar(&disk, &nth.to_string()), &keeper);
        }
        assert_eq!(disk.open_files(), SYNC_EACH);
        assert!(all[SYNC_EACH].take().1);
    }
}
