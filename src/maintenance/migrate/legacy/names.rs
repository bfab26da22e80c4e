//! The names of older files, before and after an import.

use std::io;
use std::path::Path;

use sessionlog_core::error::{Error, Result};
use sessionlog_core::session_file::SIDECAR;
use sessionlog_wal::storage::{FileKind, Storage};

use super::Import;

/// The names of the files that may hold a session of the older manager. Names of sidecars come
/// first: until such a file is renamed, the session that would have that sidecar cannot have its
/// usual file names.
///
/// # Errors
/// If the directory cannot be listed.
pub(crate) fn candidates(storage: &dyn Storage, dir: &Path) -> Result<Vec<String>> {
    let entries = match storage.read_dir(dir) {
        Ok(entries) => entries,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => return Err(Error::io("list", dir, e)),
    };
    let mut names: Vec<_> = entries
        .into_iter()
        .filter(|entry| entry.kind != FileKind::Directory)
        .map(|entry| entry.name)
        .filter(|name| name.strip_suffix(".json").is_some())
        .collect();
    names.sort_unstable_by(|a, b| (!a.ends_with(SIDECAR), a).cmp(&(!b.ends_with(SIDECAR), b)));
    Ok(names)
}

impl Import<'_> {
    pub(super) fn candidates(&self) -> Result<Vec<String>> {
        candidates(&*self.storage, self.dir)
    }

    /// Renames the file after its import. This must come after the session is on disk, and must be
    /// on disk before anything is added to the session: otherwise the next run would import the
    /// file over that.
    pub(super) fn retire(&self, name: &str) -> Result<()> {
        self.rename(name, &retired(name))?;
        self.sync_names()?;
        self.release(name);
        Ok(())
    }

    /// Renames all files after their import, or none.
    pub(super) fn retire_all(&self, names: &[String]) -> Result<()> {
        let mut done = 0;
        let mut rename = |name: &String| {
            self.rename(name, &retired(name))?;
            done += 1;
            Ok(())
        };
        let renamed = names.iter().try_for_each(&mut rename);
        let Err(error) = renamed.and_then(|()| self.sync_names()) else {
            // Not before: a sidecar under that name would be in the way of the file if that had to
            // come back.
            for name in names {
                self.release(name);
            }
            return Ok(());
        };
        for name in &names[..done] {
            self.rename(&retired(name), name)?;
        }
        self.sync_names()?;
        Err(error)
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        let (from, to) = (self.dir.join(from), self.dir.join(to));
        self.storage
            .rename(&from, &to)
            .map_err(|e| Error::io("rename", &from, e))
    }

    fn sync_names(&self) -> Result<()> {
        self.storage
            .sync_dir(self.dir)
            .map_err(|e| Error::io("sync", self.dir, e))
    }

    /// Releases the file's name for sidecars, if it was in the store's own directory.
    fn release(&self, name: &str) {
        let Some(stem) = name.strip_suffix(SIDECAR) else {
            return;
        };
        let shared = &self.engine.shared;
        let found = self.storage.info(&shared.dir.join(name));
        if found.is_err_and(|e| e.kind() == io::ErrorKind::NotFound) {
            shared.catalog.release(stem);
        }
    }
}

/// The name of an imported file.
fn retired(name: &str) -> String {
    format!("{name}.migrated")
}
