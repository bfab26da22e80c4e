//! Files that recovery writes to or replaces, and other things with their names.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sessionlog_core::error::{Error, Result};
use sessionlog_wal::storage::{FileKind, OpenMode, Storage, StorageFile};

use super::Redo;
use crate::disk::files;

/// Returns true if two names stand for one file.
///
/// # Errors
/// If that cannot be found out.
pub(super) fn is_one_file(storage: &dyn Storage, one: &Path, other: &Path) -> Result<bool> {
    let inode = |path: &Path| match storage.info(path) {
        Ok(info) => Ok(Some(info.inode)),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(Error::io("look at", path, e)),
    };
    let one = inode(one)?;
    Ok(one.is_some() && one == inode(other)?)
}

impl Redo<'_> {
    /// Opens the file at `path` to write to it; `None` if there is none. Another thing of that name
    /// is set aside before names change.
    pub(super) fn open_place(&mut self, path: &Path) -> Result<Option<Arc<dyn StorageFile>>> {
        match self.storage.open(path, OpenMode::ReadWrite) {
            Ok(file) => Ok(Some(file)),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) if files::is_taken(&e) => {
                self.set_aside(path, &e.to_string())?;
                Ok(None)
            }
            Err(e) => Err(Error::io("recover", path, e)),
        }
    }

    /// Moves the file at `path` to the quarantine when names change.
    pub(super) fn set_aside(&mut self, path: &Path, why: &str) -> Result<()> {
        let aside = self.free_aside(path)?;
        self.report.findings.push(format!(
            "{} is set aside as {}: {why}",
            path.display(),
            aside.display()
        ));
        self.renames.push((path.to_owned(), aside));
        Ok(())
    }

    /// Returns a name in the quarantine that is free, and will stay free.
    pub(super) fn free_aside(&mut self, path: &Path) -> Result<PathBuf> {
        let own = path.file_name().unwrap_or_default().to_string_lossy();
        let free = |name: &str| files::free_path(self.storage, self.quarantine, name);
        let (mut aside, mut taken) = (free(&own)?, 0);
        while !self.asides.insert(aside.clone()) {
            taken += 1;
            aside = free(&format!("{own}.{taken}"))?;
        }
        Ok(aside)
    }

    /// Gives a file its name. A directory that another program made there does not keep a session
    /// from its file.
    pub(super) fn rename(&mut self, from: &Path, to: &Path) -> Result<()> {
        let wrap = |e| Error::io("recover", to, e);
        let Err(error) = self.storage.rename(from, to) else {
            return Ok(());
        };
        let is_directory = |path| {
            self.storage
                .info(path)
                .map(|i| i.kind == FileKind::Directory)
        };
        if !is_directory(to).unwrap_or(false) || is_directory(from).unwrap_or(true) {
            return Err(wrap(error));
        }
        self.set_aside(to, "it is a directory")?;
        if let Some((to, aside)) = self.renames.pop() {
            self.storage.rename(&to, &aside).map_err(wrap)?;
        }
        self.storage.rename(from, to).map_err(wrap)
    }
}
