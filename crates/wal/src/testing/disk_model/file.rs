//! An open file of the modelled disk.

use std::fmt;
use std::io;
use std::sync::Arc;

use rustix::io::Errno;

use super::MemoryStorage;
use super::faults::Demand;
use super::inode::SECTOR;
use super::names::Ino;
use super::trace::DiskCall;
use super::write_back::Known;
use crate::storage::{FileInfo, StorageFile};

/// An open file. It stays usable when its name is gone or another's.
pub(super) struct MemoryFile {
    pub(super) storage: MemoryStorage,
    pub(super) ino: Ino,
    pub(super) path: Arc<str>,
    pub(super) writable: bool,
    /// Whether it is one [past the cache](StorageFile::past_cache).
    pub(super) at_sectors: bool,
    pub(super) known: Known,
    /// Keeps the file's bytes while this is open.
    pub(super) open: Arc<()>,
}

impl MemoryFile {
    fn call(&self, name: &'static str, offset: u64, len: usize) -> DiskCall {
        DiskCall {
            name,
            path: Arc::clone(&self.path),
            range: offset..offset.saturating_add(len as u64),
        }
    }
}

impl StorageFile for MemoryFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let call = self.call("read_at", offset, buf.len());
        self.storage.call(call, Demand::Read, |tree, half| {
            let len = if half {
                buf.len().div_ceil(2)
            } else {
                buf.len()
            };
            tree.read(self.ino, offset, &mut buf[..len])
        })
    }

    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<usize> {
        let call = self.call("write_at", offset, buf.len());
        self.storage.call(call, Demand::Write, |tree, half| {
            if !self.writable {
                return Err(Errno::BADF.into());
            }
            let is_at_sectors = (offset | buf.len() as u64).is_multiple_of(SECTOR)
                && buf.as_ptr().align_offset(SECTOR as usize) == 0;
            if self.at_sectors && !is_at_sectors {
                return Err(Errno::INVAL.into());
            }
            let len = if half {
                buf.len().div_ceil(2)
            } else {
                buf.len()
            };
            tree.write(self.ino, offset, &buf[..len])
        })
    }

    /// Another descriptor of the file. What it takes must lie at sectors.
    fn past_cache(&self) -> Option<Arc<dyn StorageFile>> {
        Some(Arc::new(Self {
            storage: self.storage.clone(),
            ino: self.ino,
            path: Arc::clone(&self.path),
            writable: self.writable,
            at_sectors: true,
            known: self.known.of_another(),
            open: Arc::clone(&self.open),
        }))
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let call = self.call("set_len", len, 0);
        self.storage.call(call, Demand::Space, |tree, _| {
            if !self.writable {
                return Err(Errno::INVAL.into());
            }
            tree.set_len(self.ino, len)
        })
    }

    fn info(&self) -> io::Result<FileInfo> {
        let call = self.call("info", 0, 0);
        self.storage
            .call(call, Demand::Nothing, |tree, _| tree.info(self.ino))
    }

    fn sync_data(&self) -> io::Result<()> {
        let call = self.call("sync_data", 0, 0);
        self.storage.sync(call, |tree, fault| {
            tree.sync_data(self.ino, &self.known, fault)
        })
    }
}

impl fmt::Debug for MemoryFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryFile")
            .field("path", &self.path)
            .field("inode", &self.ino)
            .finish_non_exhaustive()
    }
}
