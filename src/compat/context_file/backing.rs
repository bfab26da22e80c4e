//! The file behind a standalone context, and the files set aside beside it.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sessionlog_core::error::{Error, Result};
use sessionlog_wal::storage::{OpenMode, Storage, StorageFile};

use super::rotation;
use crate::engine::home::Home;

/// A context file that this process may write to.
#[derive(Debug)]
pub(super) struct Backing {
    storage: Arc<dyn Storage>,
    path: PathBuf,
    /// The file under its lock, from the first write on. Without the lock two writers would
    /// overwrite each other.
    held: Option<Arc<dyn StorageFile>>,
    /// The inode and the length of the file when it was last read.
    seen: Option<(u64, u64)>,
    /// The reason why nothing is written any more.
    failed: Option<Arc<str>>,
}

impl Backing {
    pub(super) fn new(storage: Arc<dyn Storage>, path: PathBuf) -> Self {
        Self {
            storage,
            path,
            held: None,
            seen: None,
            failed: None,
        }
    }

    /// All bytes of the file; `None` if it does not exist.
    pub(super) fn read(&mut self) -> Result<Option<Vec<u8>>> {
        self.seen = None;
        let read = self
            .storage
            .open(&self.path, OpenMode::Read)
            .and_then(|file| Ok((file.info()?.inode, read_all(&*file)?)));
        match read {
            Ok((inode, bytes)) => {
                self.seen = Some((inode, bytes.len() as u64));
                Ok(Some(bytes))
            }
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(Error::io("read", &self.path, e)),
        }
    }

    /// Takes the lock, unless the file of this name is held already. Returns all bytes of the file
    /// if it is not, by inode and length, the one that was read last: another writer may have used
    /// the next ids.
    ///
    /// # Errors
    /// As [`append`](Self::append).
    pub(super) fn catch_up(&mut self) -> Result<Option<Vec<u8>>> {
        let Some(inode) = self.inode_or_error()? else {
            return Ok(None);
        };
        let held = self.held.as_ref().map(|held| held.info());
        let held = held
            .transpose()
            .map_err(|e| Error::io("open", &self.path, e))?;
        if held.is_some_and(|held| held.inode == inode) {
            return Ok(None);
        }
        let info = self.writable()?.info();
        let info = info.map_err(|e| Error::io("open", &self.path, e))?;
        if self.seen == Some((info.inode, info.len)) {
            return Ok(None);
        }
        self.read()
    }

    /// [`read`](Self::read) of a file that no other process writes from now on.
    ///
    /// # Errors
    /// As [`append`](Self::append).
    pub(super) fn read_locked(&mut self) -> Result<Option<Vec<u8>>> {
        if self.inode_or_error()?.is_some() {
            self.writable()?;
        }
        self.read()
    }

    /// Appends whole lines, each ended by LF, and syncs them. They begin on a new line, whatever
    /// the file ends in: glued to a torn line, both would be lost.
    ///
    /// # Errors
    /// `Locked`, and errors of the file. Unless the error is `Poisoned`, nothing was written.
    pub(super) fn append(&mut self, lines: &[u8]) -> Result<()> {
        let file = self.writable()?;
        let io = |e| Error::io("write", &self.path, e);
        let len = file.info().map_err(io)?.len;
        let mut last = [b'\n'];
        if len > 0 {
            file.read_exact_at(&mut last, len - 1).map_err(io)?;
        }
        let fresh = matches!(last, [b'\n' | b'\r']);
        let bytes = if fresh {
            lines.to_vec()
        } else {
            [b"\n", lines].concat()
        };
        if let Err(error) = file.write_all_at(&bytes, len) {
            let undone = file.set_len(len);
            let error = Error::io("write", &self.path, error);
            return Err(match undone {
                Ok(()) => error,
                Err(_) => self.fail(&error),
            });
        }
        file.sync_data().map_err(|e| {
            let error = Error::sync(&self.path, e);
            self.fail(&error)
        })
    }

    /// Replaces the file with `bytes` in one step, and with `set_aside` keeps the old file under
    /// the next number. A crash leaves the file as it was or as it will be.
    ///
    /// # Errors
    /// As [`append`](Self::append).
    pub(super) fn replace(&mut self, bytes: &[u8], set_aside: Option<&[u8]>) -> Result<()> {
        self.writable()?;
        let mut backup = None;
        if let Some(old) = set_aside {
            backup = Some(self.write_backup(old)?);
        }
        let prepared = self.prepare(bytes).and_then(|(temp, file)| {
            let renamed = self.storage.rename(&temp, &self.path);
            renamed.map_err(|e| {
                let _ = self.storage.remove_file(&temp);
                Error::io("rename", &self.path, e)
            })?;
            Ok(file)
        });
        match prepared {
            Ok(file) => {
                self.held = Some(file);
                self.sync_dir()
            }
            Err(error) => {
                if let Some(backup) = backup {
                    let _ = self.storage.remove_file(&backup);
                }
                Err(error)
            }
        }
    }

    /// Writes a copy of the file under a name that was not in use.
    fn write_backup(&mut self, old: &[u8]) -> Result<PathBuf> {
        let path = self.path.clone();
        let dir = parent(&path);
        loop {
            let entries = self.storage.read_dir(listed(dir));
            let entries = entries.map_err(|e| Error::io("list", dir, e))?;
            let names = entries.iter().map(|entry| entry.name.as_str());
            let path = dir.join(rotation::next(file_name(&self.path)?, names));
            match create(&*self.storage, &path, old) {
                Ok(_) => {
                    // The new file may get its name before this name is on disk: a power loss would
                    // then leave no copy of the old file.
                    self.sync_dir()?;
                    return Ok(path);
                }
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
                Err(e) => return Err(Error::io("write", &path, e)),
            }
        }
    }

    /// Writes the file's replacement beside it, under its lock.
    fn prepare(&self, bytes: &[u8]) -> Result<(PathBuf, Arc<dyn StorageFile>)> {
        let name = format!(".{}.new", file_name(&self.path)?);
        let temp = parent(&self.path).join(name);
        let io = |e| Error::io("write", &temp, e);
        // Left behind by a crash: only the holder of the lock writes it.
        match self.storage.remove_file(&temp) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(io(e)),
            _ => {}
        }
        let file = create(&*self.storage, &temp, bytes).map_err(io)?;
        match file.try_lock() {
            Ok(true) => Ok((temp, file)),
            Ok(false) => Err(self.locked()),
            Err(e) => Err(io(e)),
        }
    }

    /// The file that the path names now, under its lock, created if it is missing.
    fn writable(&mut self) -> Result<Arc<dyn StorageFile>> {
        if let Some(reason) = &self.failed {
            return Err(Error::Poisoned {
                reason: reason.clone(),
            });
        }
        let path = self.path.clone();
        let io = |e| Error::io("open", &path, e);
        loop {
            if let Some(held) = self.held.clone() {
                let inode = held.info().map_err(io)?.inode;
                if self.inode().map_err(io)? == Some(inode) {
                    return Ok(held);
                }
                // Another program renamed or removed it.
                self.held = None;
            }
            outside_stores(&*self.storage, &self.path)?;
            let (file, made) = match self.storage.open(&self.path, OpenMode::ReadWrite) {
                Ok(file) => (file, false),
                Err(e) if e.kind() == io::ErrorKind::NotFound => {
                    match self.storage.open(&self.path, OpenMode::CreateNew) {
                        Ok(file) => (file, true),
                        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => continue,
                        Err(e) => return Err(io(e)),
                    }
                }
                Err(e) => return Err(io(e)),
            };
            if !file.try_lock().map_err(io)? {
                return Err(self.locked());
            }
            if made {
                self.sync_dir()?;
            }
            self.held = Some(file);
        }
    }

    fn sync_dir(&mut self) -> Result<()> {
        let dir = parent(&self.path);
        let error = match self.storage.sync_dir(dir) {
            Ok(()) => return Ok(()),
            Err(e) => Error::sync(dir, e),
        };
        Err(self.fail(&error))
    }

    fn inode(&self) -> io::Result<Option<u64>> {
        match self.storage.info(&self.path) {
            Ok(info) => Ok(Some(info.inode)),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(e),
        }
    }

    fn inode_or_error(&self) -> Result<Option<u64>> {
        self.inode().map_err(|e| Error::io("open", &self.path, e))
    }

    fn locked(&self) -> Error {
        Error::Locked {
            path: self.path.clone(),
            pid: None,
        }
    }

    /// Records that the file's content is unknown; later writes are refused.
    fn fail(&mut self, error: &Error) -> Error {
        let reason = error.reason();
        self.failed = Some(reason.clone());
        Error::Poisoned { reason }
    }
}

/// Refuses a file in the directory of a store, open or not. A store knows where each of its files
/// ends, and writes acknowledged data there; it would be lost.
///
/// # Errors
/// `InStore`, or `Io` if this cannot be determined.
pub(crate) fn outside_stores(storage: &dyn Storage, path: &Path) -> Result<()> {
    if is_store(storage, parent(path))? {
        return Err(Error::InStore { path: path.into() });
    }
    Ok(())
}

/// Returns true if a directory is a store's, open or not.
///
/// # Errors
/// `Io` if this cannot be determined.
pub(crate) fn is_store(storage: &dyn Storage, dir: &Path) -> Result<bool> {
    use io::ErrorKind::{NotADirectory, NotFound};
    let identity = Home::identity_in(dir);
    match storage.info(&identity) {
        Ok(_) => Ok(true),
        Err(e) if matches!(e.kind(), NotFound | NotADirectory) => Ok(false),
        Err(e) => Err(Error::io("open", &identity, e)),
    }
}

/// Creates a new file and syncs it; leaves no file if that fails.
pub(crate) fn create(
    storage: &dyn Storage,
    path: &Path,
    bytes: &[u8],
) -> io::Result<Arc<dyn StorageFile>> {
    let file = storage.open(path, OpenMode::CreateNew)?;
    let written = file.write_all_at(bytes, 0).and_then(|()| file.sync_data());
    match written {
        Ok(()) => Ok(file),
        Err(e) => {
            let _ = storage.remove_file(path);
            Err(e)
        }
    }
}

/// Everything in a file.
pub(crate) fn read_all(file: &dyn StorageFile) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; file.info()?.len as usize];
    file.read_exact_at(&mut bytes, 0)?;
    Ok(bytes)
}

/// The directory a file is in.
pub(crate) fn parent(path: &Path) -> &Path {
    path.parent().unwrap_or(Path::new(""))
}

/// The empty path is the working directory.
fn listed(dir: &Path) -> &Path {
    if dir.as_os_str().is_empty() {
        Path::new(".")
    } else {
        dir
    }
}

/// A file's name as text.
///
/// # Errors
/// `Io` for a path without a name, or one that is not UTF-8.
pub(crate) fn file_name(path: &Path) -> Result<&str> {
    let name = path.file_name().and_then(|name| name.to_str());
    name.ok_or_else(|| Error::io("open", path, io::ErrorKind::InvalidInput.into()))
}
