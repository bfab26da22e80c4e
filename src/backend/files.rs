//! One JSON file per session: whose file is whose, and replacing one safely.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::desk::Desk;
use crate::engine::home::Home;
use crate::error::{Error, Result};
use crate::session_file::{self, LegacySession};
use crate::storage::{LockGuard, OpenMode, Storage};
use crate::sync::Mutex;

/// Owns names of files that hold no session we read: no session has this key.
const NOBODY: &str = "";

/// What the name of a file starts and ends with that is being written.
const TEMP: (&str, &str) = (".session-", ".tmp");

/// A directory of sessions, one file each.
#[derive(Debug)]
pub(super) struct Files {
    pub(super) storage: Arc<dyn Storage>,
    pub(super) dir: PathBuf,
    /// Held while a file is replaced or removed, and by nobody who reads: of two
    /// callers that save a session, the one with the older state must not come
    /// last.
    names: Mutex<Names>,
    lock: Mutex<Option<Box<dyn LockGuard>>>,
}

#[derive(Debug, Default)]
struct Names {
    owners: HashMap<String, String>,
    by_key: HashMap<String, String>,
    /// Files written so far.
    written: u64,
}

impl Files {
    /// # Errors
    /// `Locked`, or what the operating system reports.
    pub(super) fn open(storage: Arc<dyn Storage>, dir: &Path) -> Result<Self> {
        Home::create_site(&*storage, dir)?;
        let lock = match Home::lock_only(&*storage, dir) {
            Ok(lock) => Some(lock),
            Err(error @ Error::Locked { .. }) => return Err(error),
            Err(error) => {
                let dir = dir.display();
                tracing::warn!(%dir, %error, "nothing keeps a second writer out");
                None
            }
        };
        let files = Self {
            storage,
            dir: dir.into(),
            names: Mutex::default(),
            lock: Mutex::new(lock),
        };
        files.sweep();
        Ok(files)
    }

    /// Gives a file to the session in it; of several, the last.
    pub(super) fn own(&self, name: &str, key: &str) {
        let mut names = self.names.lock();
        names.owners.insert(name.into(), key.into());
        names.by_key.insert(key.into(), name.into());
    }

    /// Keeps a file from every session.
    pub(super) fn reserve(&self, name: &str) {
        self.names.lock().owners.insert(name.into(), NOBODY.into());
    }

    /// Writes a session down, if it changed since it last was.
    ///
    /// # Errors
    /// What the operating system reports; the old file is whole then.
    pub(super) fn save(&self, desk: &Desk, key: &str) -> Result<()> {
        let mut names = self.names.lock();
        let page = desk.now(|book| Ok(book.page(key).filter(|page| page.unsaved).cloned()))?;
        let Some(page) = page else {
            return Ok(());
        };
        let bytes = session_file::encode_legacy(&LegacySession {
            key: key.into(),
            messages: page.messages.clone(),
            summary: page.summary.clone(),
            created: page.created.clone(),
            updated: page.updated.clone(),
        });
        let name = names.claim(key);
        names.written += 1;
        let (start, end) = TEMP;
        let temp = format!("{start}{}-{}{end}", std::process::id(), names.written);
        self.replace(&self.dir.join(name), &self.dir.join(temp), &bytes)?;
        desk.now(|book| {
            book.saved(key, &page);
            Ok(())
        })
    }

    /// Removes a session, its file first: what could not be removed would be
    /// back after the next start.
    ///
    /// # Errors
    /// What the operating system reports; the session is as it was then.
    pub(super) fn delete(&self, desk: &Desk, key: &str) -> Result<()> {
        let mut names = self.names.lock();
        if let Some(name) = names.by_key.get(key).cloned() {
            let path = self.dir.join(&name);
            match self.storage.remove_file(&path) {
                Err(e) if e.kind() != io::ErrorKind::NotFound => {
                    return Err(Error::io("remove", &path, e));
                }
                _ => self.sync_names()?,
            }
            names.by_key.remove(key);
            names.owners.remove(&name);
        }
        desk.now(|book| {
            book.remove(key);
            Ok(())
        })
    }

    /// Lets another writer in.
    pub(super) fn unlock(&self) {
        self.lock.lock().take();
    }

    fn replace(&self, path: &Path, temp: &Path, bytes: &[u8]) -> Result<()> {
        let written = self
            .storage
            .open(temp, OpenMode::CreateNew)
            .and_then(|file| file.write_all_at(bytes, 0).and_then(|()| file.sync_data()))
            .and_then(|()| self.storage.rename(temp, path));
        if let Err(e) = written {
            if let Err(error) = self.storage.remove_file(temp) {
                let path = temp.display();
                tracing::debug!(%path, %error, "left behind until the next open");
            }
            return Err(Error::io("save", path, e));
        }
        self.sync_names()
    }

    fn sync_names(&self) -> Result<()> {
        self.storage
            .sync_dir(&self.dir)
            .map_err(|e| Error::io("sync", &self.dir, e))
    }

    /// Removes what a crash left half-written. Without the lock it may be
    /// another's.
    fn sweep(&self) {
        if self.lock.lock().is_none() {
            return;
        }
        let (start, end) = TEMP;
        let entries = self.storage.read_dir(&self.dir).unwrap_or_default();
        for name in entries.into_iter().map(|entry| entry.name) {
            if name.starts_with(start)
                && name.ends_with(end)
                && let Err(error) = self.storage.remove_file(&self.dir.join(&name))
            {
                tracing::warn!(name, %error, "left behind");
            }
        }
    }
}

impl Names {
    /// The name of a session's file: the one PicoClaw would use, or where that
    /// is unsafe or another's, one with a hash of the key.
    fn claim(&mut self, key: &str) -> String {
        if let Some(name) = self.by_key.get(key) {
            return name.clone();
        }
        let plain = session_file::plain_stem(key);
        let mut stem = plain;
        if !session_file::is_safe_stem(&stem) || self.owners.contains_key(&file_name(&stem)) {
            stem = session_file::hashed_stem(key);
        }
        while self.owners.contains_key(&file_name(&stem)) {
            stem.push('~');
        }
        let name = file_name(&stem);
        self.owners.insert(name.clone(), key.into());
        self.by_key.insert(key.into(), name.clone());
        name
    }
}

fn file_name(stem: &str) -> String {
    format!("{stem}.json")
}
