//! The directory in which a copy of a store is put together, beside the earlier copy, and which
//! then takes the earlier copy's place. Files of the earlier copy that have the same bytes get a
//! second name instead of being written again.
//!
//! # What a crash leaves
//!
//! Step by step: the state if the step was not finished, then the state after it.
//!
//! * *Files put together* (in `.<name>.copying` beside the directory; one sync of all). Unfinished:
//!   the earlier copy, and files that the next call reuses if they have the right bytes. After: the
//!   same.
//! * *The earlier copy becomes `.<name>.replaced`*. Before: it is in its place. After: only under
//!   that name; the next call gives it its own name back.
//! * *The new one gets its name, and the names are synced*. Before: as above. After: the new
//!   copy.
//! * *The replaced one removed*. Unfinished: the next call removes the rest.

mod content;
mod sites;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub(crate) use self::content::CopyContent;
use sessionlog_core::error::{Error, Result};
use sessionlog_wal::storage::{FileKind, LockGuard, OpenMode, Storage, StorageDir};
use sessionlog_wal::sync::Mutex;

use self::sites::{DirectoryMark, LOCK, MARKER, SITES, check, is_store, list, mark, remove};
use crate::disk::files;
use crate::engine::home;

/// A copy that is being put together.
#[derive(Debug)]
pub(crate) struct CopyDir {
    storage: Arc<dyn Storage>,
    /// The copy's final place.
    dir: PathBuf,
    /// The directory in which it is put together.
    next: PathBuf,
    /// The name that the replaced copy gets.
    replaced: PathBuf,
    /// True if a copy is replaced.
    replaces: bool,
    /// Open since before the first write: a sync through it is told of every write-back that
    /// failed.
    held: Arc<dyn StorageDir>,
    put: Mutex<Put>,
    /// Two callers at once would take each other's files.
    _lock: Box<dyn LockGuard>,
}

/// The present content.
#[derive(Debug, Default)]
struct Put {
    names: BTreeSet<String>,
    /// The checksums of the files that were written.
    written: BTreeMap<String, u32>,
    bytes: u64,
}

impl CopyDir {
    /// Prepares to put together a copy of the store `of` that will stand at `dir`. A copy of that
    /// store may be there, made when the store had one of the names `before`.
    ///
    /// # Errors
    /// `InStore` if `dir` is a store's or in one; `Io` if something is there that is no copy of
    /// that store; `Locked` if it is being put together.
    pub(crate) fn prepare(
        storage: Arc<dyn Storage>,
        dir: &Path,
        of: &str,
        before: &[String],
    ) -> Result<Self> {
        let dir = std::path::absolute(dir).map_err(|e| Error::io("open", dir, e))?;
        // After a slash, a symbolic link would be followed.
        let dir: PathBuf = dir.components().collect();
        let in_home = dir.components().any(|part| part.as_os_str() == home::NAME);
        // A copy in a store's directory would be copied along, and erased texts stay in it.
        let mut parents = dir.ancestors().skip(1);
        let in_store = parents.any(|parent| is_store(&*storage, parent).unwrap_or(false));
        if in_home || in_store || is_store(&*storage, &dir)? {
            return Err(Error::InStore { path: dir });
        }
        let beside = |what: &str| {
            let name = dir.file_name()?.to_str()?;
            Some(dir.with_file_name(format!(".{name}.{what}")))
        };
        let (Some(next), Some(replaced)) = (beside("copying"), beside("replaced")) else {
            let reason = io::Error::new(io::ErrorKind::InvalidInput, "the directory has no name");
            return Err(Error::io("back up to", &dir, reason));
        };
        let note = format!("sessionlog copy of {of}");
        let formerly = before.iter().map(|of| format!("sessionlog copy of {of}"));
        let formerly = formerly.filter(|old| *old != note);
        let notes: Vec<String> = std::iter::once(note.clone()).chain(formerly).collect();
        check(&*storage, &dir, &notes, DirectoryMark::Always)?;
        check(&*storage, &next, &notes, DirectoryMark::Always)?;
        check(&*storage, &replaced, &notes, DirectoryMark::Perhaps)?;
        // If it were marked anew, a crash could leave files without a mark.
        let marked = files::read_whole(&*storage, &next.join(MARKER)).ok();
        if marked.is_some_and(|marked| notes[1..].iter().any(|old| old.as_bytes() == marked)) {
            remove(&*storage, &next)?;
        }
        // After a failed sync, no file there can be trusted.
        let discard = |error| remove(&*storage, &next).and(Err(error));
        for site in SITES {
            home::create_all(&*storage, &next.join(site)).or_else(discard)?;
        }
        let lock = storage.try_lock(&next.join(LOCK), &std::process::id().to_string());
        let lock = lock.map_err(|e| Error::io("lock", &next, e))?;
        let held = storage.open_dir(&next);
        let mut this = Self {
            held: held.map_err(|e| Error::io("open", &next, e))?,
            _lock: lock.ok_or_else(|| Error::Locked {
                path: next.clone(),
                pid: None,
            })?,
            storage,
            dir,
            next,
            replaced,
            replaces: false,
            put: Mutex::default(),
        };
        if let Err(error) = mark(&*this.storage, &this.next, &note) {
            return remove(&*this.storage, &this.next).and(Err(error));
        }
        let own = [MARKER, LOCK].map(String::from);
        this.put.lock().names.extend(own);
        this.replaces = this.settle()?;
        Ok(this)
    }

    /// Continues a replacement that a crash cut short; returns true if there is a copy.
    fn settle(&self) -> Result<bool> {
        let storage = &*self.storage;
        if !files::is_there(storage, &self.replaced)? {
            return files::is_there(storage, &self.dir);
        }
        if files::is_there(storage, &self.dir.join(MARKER))? {
            remove(&*self.storage, &self.replaced)?;
        } else {
            // Another program may have made an empty directory in its place.
            remove(&*self.storage, &self.dir)?;
            self.rename(&self.replaced, &self.dir)?;
            self.sync_above()?;
        }
        Ok(true)
    }

    /// Puts a file there.
    ///
    /// # Errors
    /// `Io` if it cannot be read or written.
    pub(crate) fn put(&self, name: &str, content: &CopyContent) -> Result<()> {
        let checksum = self.put_file(name, content);
        let checksum = checksum.map_err(|e| Error::io("copy", &self.next.join(name), e))?;
        let mut put = self.put.lock();
        put.names.insert(name.into());
        if let Some(checksum) = checksum {
            put.written.insert(name.into(), checksum);
            put.bytes += content.len();
        }
        Ok(())
    }

    /// Puts a file there; returns its checksum, if it was written.
    fn put_file(&self, name: &str, content: &CopyContent) -> io::Result<Option<u32>> {
        let path = self.next.join(name);
        // A file that does not read is not the same.
        let is_same = |there: &CopyContent| content.is_same(there).unwrap_or(false);
        if files::kind_of(&*self.storage, &path).is_some() {
            if self
                .open(&path)
                .ok()
                .flatten()
                .is_some_and(|there| is_same(&there))
            {
                return Ok(None);
            }
            self.storage.remove_file(&path)?;
        }
        if let Some(before) = self.before(name)
            && is_same(&before)
            && self.storage.link(&self.dir.join(name), &path).is_ok()
        {
            return Ok(None);
        }
        let file = self.storage.open(&path, OpenMode::CreateNew)?;
        content.copy_to(&*file).map(Some)
    }

    /// Leaves out files of these names, unless they are put there after this.
    pub(crate) fn forget(&self, names: &[String]) {
        let mut put = self.put.lock();
        for name in names {
            put.names.remove(name);
            put.written.remove(name);
        }
    }

    /// Puts those files of these names there that the earlier copy had, unchanged.
    ///
    /// # Errors
    /// `Io` if they cannot be read or written.
    pub(crate) fn keep(&self, names: &[String]) -> Result<()> {
        self.forget(names);
        for name in names {
            if let Some(before) = self.before(name) {
                self.put(name, &before)?;
            }
        }
        Ok(())
    }

    /// Returns a file of the earlier copy.
    fn before(&self, name: &str) -> Option<CopyContent> {
        let before = self.replaces.then(|| self.open(&self.dir.join(name)));
        before?.ok().flatten()
    }

    /// Gives a file that is not written to any more a second name in the copy, or copies it if that
    /// is not possible. Does nothing if it is not there. Returns false if the file does not read.
    ///
    /// # Errors
    /// `Io` if it cannot be written.
    pub(crate) fn link(&self, file: &Path, name: &str) -> Result<bool> {
        let path = self.next.join(name);
        if files::kind_of(&*self.storage, &path).is_none() && self.storage.link(file, &path).is_ok()
        {
            self.put.lock().names.insert(name.into());
            return Ok(true);
        }
        match self.open(file) {
            Ok(None) => Ok(true),
            Ok(Some(content)) => match self.put(name, &content) {
                Err(_) if content.is_unreadable() => Ok(false),
                put => put.map(|()| true),
            },
            Err(_) => Ok(false),
        }
    }

    fn open(&self, path: &Path) -> io::Result<Option<CopyContent>> {
        match self.storage.open(path, OpenMode::Read) {
            Ok(file) => CopyContent::of_file(file).map(Some),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// Moves the copy to its place, after all written files were synced and read again; returns the
    /// number of bytes written.
    ///
    /// # Errors
    /// `Corrupt` if a file does not read as it was written, and `Io`. The earlier copy is still
    /// there, and the next call reuses the files put together.
    pub(crate) fn finish(self) -> Result<u64> {
        let put = std::mem::take(&mut *self.put.lock());
        for site in SITES {
            self.remove_others(site, &put.names)?;
        }
        if let Err(e) = self.held.sync_file_system() {
            let error = Error::io("sync", &self.next, e);
            return remove(&*self.storage, &self.next).and(Err(error));
        }
        self.verify(&put)?;
        if self.replaces {
            self.rename(&self.dir, &self.replaced)?;
        }
        if let Err(error) = self.rename(&self.next, &self.dir) {
            let _ = self.rename(&self.replaced, &self.dir);
            return Err(error);
        }
        self.sync_above()?;
        if self.replaces {
            remove(&*self.storage, &self.replaced)?;
        }
        Ok(put.bytes)
    }

    /// Removes files that an earlier call put there, and this one did not.
    fn remove_others(&self, site: &str, names: &BTreeSet<String>) -> Result<()> {
        let dir = self.next.join(site);
        for entry in list(&*self.storage, &dir)? {
            let name = Path::new(site).join(&entry.name);
            let is_put = name.to_str().is_some_and(|name| names.contains(name));
            if entry.kind == FileKind::File && !is_put {
                let path = dir.join(&entry.name);
                let removed = self.storage.remove_file(&path);
                removed.map_err(|e| Error::io("remove", &path, e))?;
            }
        }
        Ok(())
    }

    fn verify(&self, put: &Put) -> Result<()> {
        for (name, checksum) in &put.written {
            let path = self.next.join(name);
            let read = match self.open(&path) {
                Ok(Some(content)) => content.checksum(),
                Ok(None) => Err(io::ErrorKind::NotFound.into()),
                Err(e) => Err(e),
            };
            if read.map_err(|e| Error::io("read", &path, e))? != *checksum {
                return Err(Error::Corrupt {
                    path,
                    detail: String::from("the copy does not read as it was written"),
                });
            }
        }
        Ok(())
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        let renamed = self.storage.rename(from, to);
        renamed.map_err(|e| Error::io("rename", from, e))
    }

    fn sync_above(&self) -> Result<()> {
        let above = self.dir.parent().unwrap_or(&self.dir);
        let synced = self.storage.sync_dir(above);
        synced.map_err(|e| Error::io("sync", above, e))
    }
}
