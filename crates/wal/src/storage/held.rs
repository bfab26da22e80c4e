//! A file system with some directories held open.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{DirEntry, FileInfo, LockGuard, OpenMode, Storage, StorageDir, StorageFile};

/// Syncs directories through descriptors that were opened before anything was written. A descriptor
/// opened for the sync would miss a failed write-back that another program's sync already reported,
/// and the journal of the lost lines would be given up. Also, such a sync never lacks a descriptor.
#[derive(Debug)]
pub struct HeldDirs {
    storage: Arc<dyn Storage>,
    held: Vec<(PathBuf, Arc<dyn StorageDir>)>,
}

impl HeldDirs {
    /// `storage`, with `dirs` open until this is dropped.
    ///
    /// # Errors
    /// If one of them cannot be opened.
    pub fn open(storage: Arc<dyn Storage>, dirs: &[&Path]) -> io::Result<Self> {
        let held = dirs
            .iter()
            .map(|dir| Ok((PathBuf::from(dir), storage.open_dir(dir)?)))
            .collect::<io::Result<_>>()?;
        Ok(Self { storage, held })
    }
}

impl Storage for HeldDirs {
    fn open_dir(&self, path: &Path) -> io::Result<Arc<dyn StorageDir>> {
        match self.held.iter().find(|(held, _)| held == path) {
            Some((_, directory)) => Ok(directory.clone()),
            None => self.storage.open_dir(path),
        }
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        self.storage.create_dir(path)
    }

    fn read_dir(&self, path: &Path) -> io::Result<Vec<DirEntry>> {
        self.storage.read_dir(path)
    }

    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn StorageFile>> {
        self.storage.open(path, mode)
    }

    fn read(&self, path: &Path, max: u64) -> io::Result<Vec<u8>> {
        self.storage.read(path, max)
    }

    fn info(&self, path: &Path) -> io::Result<FileInfo> {
        self.storage.info(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.storage.rename(from, to)
    }

    fn link(&self, file: &Path, name: &Path) -> io::Result<()> {
        self.storage.link(file, name)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.storage.remove_file(path)
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        self.storage.remove_dir(path)
    }

    fn try_lock(&self, path: &Path, note: &str) -> io::Result<Option<Box<dyn LockGuard>>> {
        self.storage.try_lock(path, note)
    }

    fn try_lock_dir(&self, path: &Path) -> io::Result<Option<Box<dyn LockGuard>>> {
        self.storage.try_lock_dir(path)
    }

    fn current_user(&self) -> u32 {
        self.storage.current_user()
    }

    fn is_shared(&self) -> bool {
        self.storage.is_shared()
    }

    fn open_file_limit(&self) -> usize {
        self.storage.open_file_limit()
    }
}
