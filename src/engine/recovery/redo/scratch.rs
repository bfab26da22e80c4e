//! Files that wait for their names, and those that will get none.

use std::path::PathBuf;
use std::sync::Arc;

use sessionlog_core::error::{Error, Result};
use sessionlog_wal::storage::{DirEntry, FileKind, OpenMode, StorageFile};

use super::{Redo, remove};
use crate::disk::files::is_temp_name;
use crate::engine::recovery::bytes::Bytes;
use crate::engine::recovery::plan::{Base, Plans};

/// The prefix of the names of files that recovery has not put in place.
pub(in crate::engine::recovery) const SCRATCH_PREFIX: &str = ".sessionlog-recovery-";

/// True if `name` is one of recovery's scratch files.
pub(crate) fn is_scratch_name(name: &str) -> bool {
    name.starts_with(SCRATCH_PREFIX)
}

impl Redo<'_> {
    pub(super) fn scratch(&mut self) -> Result<(PathBuf, Arc<dyn StorageFile>)> {
        let path = self.scratch_path(self.counter);
        self.counter += 1;
        let file = self
            .storage
            .open(&path, OpenMode::CreateNew)
            .map_err(|e| Error::io("recover", &path, e))?;
        Ok((path, file))
    }

    pub(super) fn scratch_path(&self, number: u64) -> PathBuf {
        self.dir.join(format!("{SCRATCH_PREFIX}{number:016x}"))
    }

    /// Makes a scratch file that holds `lines`.
    pub(super) fn scratch_of(&mut self, lines: &[u8]) -> Result<PathBuf> {
        let (path, file) = self.scratch()?;
        file.write_all_at(lines, 0)
            .map_err(|e| Error::io("recover", &path, e))?;
        Ok(path)
    }

    /// Makes a scratch file with all of `bytes`.
    pub(super) fn scratch_with(&mut self, bytes: &Bytes) -> Result<PathBuf> {
        let (path, file) = self.scratch()?;
        let written = bytes.write_to(&*file);
        written.map_err(|e| Error::io("recover", &path, e))?;
        Ok(path)
    }

    /// Removes prepared files that no record names: their commit never happened.
    pub(super) fn clear_temps(&self, plans: &Plans, spared: &[String]) -> Result<()> {
        let named = |name: &str| {
            plans.sessions.values().any(|plan| match &plan.base {
                Base::Swapped(swap) => swap.temp == name,
                Base::OnDisk | Base::Deleted | Base::Prefix(_) => false,
            })
        };
        let spared = |name: &str| named(name) || spared.iter().any(|spared| spared == name);
        self.clear(|name| is_temp_name(name) && !spared(name))?;
        self.clear_links()
    }

    /// Removes prepared files, from the name `first` on.
    pub(super) fn clear_temps_from(&self, first: &str) -> Result<()> {
        self.clear(|name| is_temp_name(name) && *name >= *first)
            .map(drop)
    }

    /// Removes files of ours, and returns the rest.
    pub(super) fn clear(&self, is_ours: impl Fn(&str) -> bool) -> Result<Vec<DirEntry>> {
        let mut entries = self
            .storage
            .read_dir(self.dir)
            .map_err(|e| Error::io("list", self.dir, e))?;
        let is_ours = |entry: &mut DirEntry| entry.kind == FileKind::File && is_ours(&entry.name);
        for entry in entries.extract_if(.., is_ours) {
            remove(self.storage, &self.dir.join(&entry.name))?;
        }
        Ok(entries)
    }
}
