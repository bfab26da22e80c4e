//! Copies of the files that a repair is about to change.

use std::io;
use std::path::{Path, PathBuf};

use sessionlog_core::error::{Error, Result};
use sessionlog_wal::storage::{OpenMode, Storage};

use crate::engine::home::create_all;

/// The bytes that are copied at a time.
const CHUNK: usize = 1 << 20;

/// A new directory for the copies of one repair.
#[derive(Debug)]
pub(super) struct Originals {
    pub(super) path: PathBuf,
}

impl Originals {
    /// Makes the first `repair-N` in `backups` that does not exist.
    ///
    /// # Errors
    /// As the operating system reports them.
    pub(super) fn create(storage: &dyn Storage, backups: &Path) -> Result<Self> {
        let mut number = 1;
        let path = loop {
            let path = backups.join(format!("repair-{number}"));
            match storage.info(&path) {
                Err(e) if e.kind() == io::ErrorKind::NotFound => break path,
                Err(e) => return Err(Error::io("back up to", &path, e)),
                Ok(_) => number += 1,
            }
        };
        create_all(storage, &path)?;
        Ok(Self { path })
    }

    /// Copies a file under its own name. Does nothing if there is none, or it was copied before.
    ///
    /// # Errors
    /// As the operating system reports them.
    pub(super) fn copy(&self, storage: &dyn Storage, from: &Path) -> Result<()> {
        let Some(name) = from.file_name() else {
            return Ok(());
        };
        let to = self.path.join(name);
        if storage.info(&to).is_ok() {
            return Ok(());
        }
        match copy(storage, from, &to) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
            other => other.map_err(|e| Error::io("back up", from, e)),
        }
    }

    /// Makes the copies' names survive power loss. Only then may the originals be changed.
    ///
    /// # Errors
    /// As the operating system reports them.
    pub(super) fn finish(&self, storage: &dyn Storage) -> Result<()> {
        let wrap = |e| Error::io("sync", &self.path, e);
        storage.sync_dir(&self.path).map_err(wrap)
    }
}

fn copy(storage: &dyn Storage, from: &Path, to: &Path) -> io::Result<()> {
    let source = storage.open(from, OpenMode::Read)?;
    let target = storage.open(to, OpenMode::CreateNew)?;
    let len = source.info()?.len;
    let mut chunk = vec![0; CHUNK.min(len as usize)];
    let mut at = 0;
    while at < len {
        let want = (len - at).min(chunk.len() as u64) as usize;
        source.read_exact_at(&mut chunk[..want], at)?;
        target.write_all_at(&chunk[..want], at)?;
        at += want as u64;
    }
    target.sync_data()
}
