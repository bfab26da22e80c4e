//! What a session's files owe to the disk, and the descriptors to sync it through.
//!
//! A failed write-back is told to descriptors that were open before it, and
//! otherwise to whoever asks first, which may be another program. A sync through a
//! descriptor that was opened after the write proves nothing.

use std::sync::Arc;

use crate::ground::storage::StorageFile;

/// Up to so many sessions a flush syncs one by one, which names the file that
/// fails; more with one call for the whole file system. No more sidecars than that
/// are kept open for it.
pub(crate) const SYNC_EACH: usize = 8;

/// What one session's files owe since the last flush took it along.
#[derive(Debug, Default)]
pub(crate) struct Owed {
    /// The flush has yet to come to it.
    pub(super) dirty: bool,
    /// What was written went through a descriptor that is closed.
    pub(super) unheld: bool,
    sidecar: Option<Kept>,
}

/// A file kept open until it is synced.
#[derive(Debug)]
pub(crate) struct Kept {
    pub(crate) file: Arc<dyn StorageFile>,
    inode: u64,
    _place: Arc<()>,
}

/// Places for files that are kept open.
#[derive(Debug, Default)]
pub(crate) struct Keeper(Arc<()>);

impl Keeper {
    fn keep(&self, file: Arc<dyn StorageFile>, inode: u64) -> Option<Kept> {
        let full = Arc::strong_count(&self.0) > SYNC_EACH;
        (!full).then(|| Kept {
            file,
            inode,
            _place: self.0.clone(),
        })
    }
}

impl Owed {
    /// A sidecar was written through `file`. Of two descriptors of one file the
    /// first is kept.
    pub(super) fn sidecar(&mut self, file: Arc<dyn StorageFile>, keeper: &Keeper) {
        let inode = file.info().ok().map(|info| info.inode);
        let known = self.sidecar.as_ref().map(|kept| kept.inode);
        if inode.is_some() && inode == known {
            return;
        }
        self.sidecar = inode.and_then(|inode| keeper.keep(file, inode));
        self.unheld |= self.sidecar.is_none();
    }

    /// Closes the sidecar; whether it was kept.
    pub(super) fn release(&mut self) -> bool {
        let kept = self.sidecar.take().is_some();
        self.unheld |= kept;
        kept
    }

    /// A descriptor of the log is closed.
    pub(super) fn closed(&mut self) {
        self.unheld |= self.dirty;
    }

    /// A flush takes it all along: the sidecar, and whether something of the
    /// session can be synced with the whole file system only.
    pub(super) fn take(&mut self) -> (Option<Kept>, bool) {
        let taken = std::mem::take(self);
        (taken.sidecar, taken.unheld)
    }
}
