//! The directory that an export fills.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sessionlog_core::error::{Error, Result};
use sessionlog_wal::storage::{OpenMode, Storage, StorageDir, StorageFile};

use crate::compat::context_file;
use crate::disk::files;
use crate::engine::home;

/// The number of bytes written at a time.
const PIECE: usize = 1 << 20;

/// A directory that was empty.
pub(super) struct Destination {
    storage: Arc<dyn Storage>,
    dir: PathBuf,
    /// Open since before the first write: a sync through it reports every failed write-back.
    held: Arc<dyn StorageDir>,
    /// Every name that was created here, including names that are gone.
    made: Vec<PathBuf>,
    files: usize,
}

impl Destination {
    /// Makes the directory, unless it is there.
    ///
    /// # Errors
    /// `InStore`, or `Io` if it is not empty.
    pub(super) fn prepare(storage: Arc<dyn Storage>, dir: &Path) -> Result<Self> {
        let dir = std::path::absolute(dir).map_err(|e| Error::io("open", dir, e))?;
        let in_home = dir.components().any(|part| part.as_os_str() == home::NAME);
        if in_home || context_file::is_store(&*storage, &dir)? {
            return Err(Error::InStore { path: dir });
        }
        match storage.read_dir(&dir) {
            Ok(names) if names.is_empty() => {}
            Ok(_) => return Err(Error::io("export to", &dir, occupied())),
            Err(e) if e.kind() == io::ErrorKind::NotFound => home::create_all(&*storage, &dir)?,
            Err(e) => return Err(Error::io("list", &dir, e)),
        }
        let held = storage.open_dir(&dir);
        Ok(Self {
            held: held.map_err(|e| Error::io("open", &dir, e))?,
            storage,
            dir,
            made: Vec::new(),
            files: 0,
        })
    }

    /// A new file, under a hidden name.
    pub(super) fn new_file(&mut self) -> Result<NewFile> {
        let path = self.dir.join(format!(".export-{}.new", self.files));
        let file = self.storage.open(&path, OpenMode::CreateNew);
        let file = file.map_err(|e| Error::io("create", &path, e))?;
        self.files += 1;
        self.made.push(path.clone());
        Ok(NewFile {
            file,
            path,
            written: 0,
            buffer: Vec::new(),
            failed: None,
        })
    }

    /// Gives a file its name. `false` if that name exists: on a file system that does not
    /// distinguish two names, one session would replace another.
    pub(super) fn place(&mut self, file: &Path, name: &str) -> Result<bool> {
        let path = self.dir.join(name);
        if files::is_there(&*self.storage, &path)? {
            return Ok(false);
        }
        let renamed = self.storage.rename(file, &path);
        renamed.map_err(|e| Error::io("rename", file, e))?;
        self.made.push(path);
        Ok(true)
    }

    /// Removes a file. A file that cannot be removed has a hidden name.
    pub(super) fn remove(&self, file: &Path) {
        let _ = self.storage.remove_file(file);
    }

    /// Removes everything that was created here.
    pub(super) fn discard(&self) {
        self.made.iter().for_each(|path| self.remove(path));
    }

    /// Makes every file survive a power loss.
    pub(super) fn sync_files(&self) -> Result<()> {
        let synced = self.held.sync_file_system();
        synced.map_err(|e| Error::io("sync", &self.dir, e))
    }

    /// Makes the names survive a power loss.
    pub(super) fn sync_names(&self) -> Result<()> {
        let synced = self.held.sync_names();
        synced.map_err(|e| Error::io("sync", &self.dir, e))
    }
}

fn occupied() -> io::Error {
    let reason = "the directory is not empty; give a new one";
    io::Error::new(io::ErrorKind::DirectoryNotEmpty, reason)
}

/// A file that is written from its beginning to its end.
pub(super) struct NewFile {
    file: Arc<dyn StorageFile>,
    path: PathBuf,
    written: u64,
    buffer: Vec<u8>,
    /// The first write that failed. Nothing is written after it.
    failed: Option<io::Error>,
}

impl NewFile {
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
        if self.buffer.len() >= PIECE {
            self.write();
        }
    }

    /// Its path.
    ///
    /// # Errors
    /// If a write failed.
    pub(super) fn finish(mut self) -> Result<PathBuf> {
        self.write();
        match self.failed {
            Some(error) => Err(Error::io("write", &self.path, error)),
            None => Ok(self.path),
        }
    }

    fn write(&mut self) {
        if self.failed.is_none() {
            let written = self.file.write_all_at(&self.buffer, self.written);
            self.failed = written.err();
        }
        self.written += self.buffer.len() as u64;
        self.buffer.clear();
    }
}
