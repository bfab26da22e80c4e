//! An open directory of the modelled disk.

use std::fmt;
use std::io;
use std::sync::Arc;

use super::MemoryStorage;
use super::faults::Demand;
use super::names::Ino;
use super::trace::DiskCall;
use super::tree::Tree;
use super::write_back::Known;
use crate::storage::StorageDir;

/// An open directory.
pub(super) struct MemoryDir {
    pub(super) storage: MemoryStorage,
    pub(super) ino: Ino,
    pub(super) path: Arc<str>,
    /// Of the failures to write any file back.
    pub(super) known: Known,
}

impl MemoryDir {
    fn call(&self, name: &'static str) -> DiskCall {
        DiskCall {
            name,
            path: Arc::clone(&self.path),
            range: 0..0,
        }
    }
}

impl StorageDir for MemoryDir {
    fn sync_names(&self) -> io::Result<()> {
        let call = self.call("sync_dir");
        self.storage
            .sync(call, |tree, fault| tree.sync_dir(self.ino, fault))
    }

    fn sync_file_system(&self) -> io::Result<()> {
        let call = self.call("sync_all");
        self.storage
            .sync(call, |tree, fault| tree.sync_all(&self.known, fault))
    }

    fn free_space(&self) -> io::Result<u64> {
        let call = self.call("free_space");
        let space = |tree: &mut Tree, _| Ok(tree.free());
        self.storage.call(call, Demand::Nothing, space)
    }
}

impl fmt::Debug for MemoryDir {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryDir")
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}
