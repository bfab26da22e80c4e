//! One JSON file per session: which file belongs to which session, and replacing one safely.

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sessionlog_core::error::{Error, Result};
use sessionlog_core::session_file;
use sessionlog_wal::storage::{FileKind, LockGuard, OpenMode, Storage};
use sessionlog_wal::sync::Mutex;

use crate::front::backend::desk::Desk;

/// The prefix and suffix of the name of a file that is being written.
const TEMP: (&str, &str) = (".session-", ".tmp");

/// A directory of sessions, one file each.
#[derive(Debug)]
pub(super) struct LegacyFiles {
    pub(super) storage: Arc<dyn Storage>,
    pub(super) dir: PathBuf,
    /// Held while a file is replaced or removed, but not by readers: if two callers save a session,
    /// the older state must not be written last.
    names: Mutex<LegacyNames>,
    lock: Mutex<Option<Box<dyn LockGuard>>>,
    /// Distinguishes the files that this store is writing from those of any other.
    tag: u64,
}

#[derive(Default)]
struct LegacyNames {
    /// Names that are taken, folded: some file systems do not distinguish case, and two sessions
    /// must not share a file.
    taken: HashMap<String, BTreeSet<String>>,
    /// The files of each key. Several only if they were found so: the last is the session's; the
    /// others would bring it back if only the last were removed.
    by_key: HashMap<String, Vec<String>>,
    /// Files written so far.
    written: u64,
}

/// Shows nothing of the sessions: the output ends up in logs, and reading them would take time.
impl std::fmt::Debug for LegacyNames {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Names")
            .field("written", &self.written)
            .finish_non_exhaustive()
    }
}

impl LegacyFiles {
    /// The files of a directory, under its writer's lock.
    ///
    /// # Errors
    /// As the operating system reports them.
    pub(super) fn open(
        storage: Arc<dyn Storage>,
        dir: &Path,
        lock: Box<dyn LockGuard>,
    ) -> Result<Self> {
        let tag = getrandom::u64()
            .map_err(|e| Error::io("open", dir, io::Error::other(e.to_string())))?;
        let files = Self {
            storage,
            dir: dir.into(),
            names: Mutex::default(),
            lock: Mutex::new(Some(lock)),
            tag,
        };
        files.sweep()?;
        Ok(files)
    }

    /// Assigns a file to the session in it; if a session has several, the last one counts.
    pub(super) fn own(&self, name: &str, key: &str) {
        let mut names = self.names.lock();
        names.take(name);
        let own = names.by_key.entry(key.into()).or_default();
        own.push(name.into());
    }

    /// Reserves a name, so that no session gets it.
    pub(super) fn reserve(&self, name: &str) {
        self.names.lock().take(name);
    }

    /// Saves a session if it changed since it was last saved.
    ///
    /// # Errors
    /// As the operating system reports them. The file is then the old one or the new one, whole;
    /// the session counts as unsaved, and the next save writes it again.
    pub(super) fn save(&self, desk: &Desk, key: &str) -> Result<()> {
        self.save_as(&mut self.names.lock(), desk, key)
    }

    fn save_as(&self, names: &mut LegacyNames, desk: &Desk, key: &str) -> Result<()> {
        let page = desk.now(|book| Ok(book.page(key).filter(|page| page.unsaved).cloned()))?;
        let Some(page) = page else {
            return Ok(());
        };
        let bytes = session_file::encode_legacy(&page.to_file(key));
        let name = names.claim(key);
        names.written += 1;
        let (start, end) = TEMP;
        let temp = format!("{start}{:016x}-{}{end}", self.tag, names.written);
        self.replace(&self.dir.join(name), &self.dir.join(temp), &bytes)?;
        desk.now(|book| {
            book.saved(key, &page);
            Ok(())
        })
    }

    /// Removes a session, its files first: a file that could not be removed would bring the session
    /// back at the next start.
    ///
    /// # Errors
    /// As the operating system reports them. The session is then as it was, except that its file
    /// may be gone until the next save, which writes it again.
    pub(super) fn delete(&self, desk: &Desk, key: &str) -> Result<()> {
        let mut names = self.names.lock();
        // After closing, the lock and the files may belong to another writer.
        desk.now(|_| Ok(()))?;
        let removed = self.remove_files(&mut names, key);
        desk.now(|book| {
            match &removed {
                Ok(()) => drop(book.remove(key)),
                Err(_) => book.unsave(key),
            }
            Ok(())
        })?;
        removed
    }

    /// Removes the session's files. Its own file comes last: as long as it exists, nothing changed.
    fn remove_files(&self, names: &mut LegacyNames, key: &str) -> Result<()> {
        let own = names.by_key.get(key).cloned().unwrap_or_default();
        for name in &own {
            let path = self.dir.join(name);
            match self.storage.remove_file(&path) {
                Err(e) if e.kind() != io::ErrorKind::NotFound => {
                    return Err(Error::io("remove", &path, e));
                }
                _ => names.disown(key, name),
            }
        }
        if own.is_empty() {
            return Ok(());
        }
        self.sync_names()
    }

    /// Saves everything, and releases the lock to other writers. A session that cannot be saved
    /// does not keep others from being saved, but it keeps the store open: data that is only in
    /// memory would be lost.
    ///
    /// # Errors
    /// The first error, if sessions could not be saved.
    pub(super) fn close(&self, desk: &Desk) -> Result<()> {
        let mut names = self.names.lock();
        // A write that comes meanwhile was answered as done, so it must be saved, too.
        while !desk.shut_if_saved() {
            let mut first = Ok(());
            for key in desk.now(|book| Ok(book.unsaved()))? {
                if let Err(error) = self.save_as(&mut names, desk, &key) {
                    tracing::error!(key, %error, "a session was not saved");
                    first = first.and(Err(error));
                }
            }
            first?;
        }
        self.lock.lock().take();
        Ok(())
    }

    fn replace(&self, path: &Path, temp: &Path, bytes: &[u8]) -> Result<()> {
        let file = self
            .storage
            .open(temp, OpenMode::CreateNew)
            .map_err(|e| Error::io("save", path, e))?;
        let written = file
            .write_all_at(bytes, 0)
            .and_then(|()| file.sync_data())
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

    /// Removes files that a crash left half-written, and reserves the names of directories: a file
    /// cannot take their place.
    fn sweep(&self) -> Result<()> {
        let (start, end) = TEMP;
        let entries = self.storage.read_dir(&self.dir);
        for entry in entries.map_err(|e| Error::io("list", &self.dir, e))? {
            let name = entry.name;
            if entry.kind == FileKind::Directory {
                self.reserve(&name);
            } else if name.starts_with(start)
                && name.ends_with(end)
                && let Err(error) = self.storage.remove_file(&self.dir.join(&name))
            {
                tracing::warn!(name, %error, "left behind");
            }
        }
        Ok(())
    }
}

impl LegacyNames {
    /// The name of a session's file: the one that PicoClaw would use, or, if that is unsafe or
    /// taken, one with a hash of the key.
    fn claim(&mut self, key: &str) -> String {
        if let Some(name) = self.by_key.get(key).and_then(|own| own.last()) {
            return name.clone();
        }
        let plain = session_file::plain_stem(key);
        let mut stem = plain;
        if !session_file::is_safe_stem(&stem) || self.is_taken(&file_name(&stem)) {
            stem = session_file::hashed_stem(key);
        }
        while self.is_taken(&file_name(&stem)) {
            stem.push('~');
        }
        let name = file_name(&stem);
        self.take(&name);
        self.by_key.insert(key.into(), vec![name.clone()]);
        name
    }

    fn take(&mut self, name: &str) {
        let folded = session_file::fold_name(name).into_owned();
        self.taken.entry(folded).or_default().insert(name.into());
    }

    fn is_taken(&self, name: &str) -> bool {
        self.taken.contains_key(&*session_file::fold_name(name))
    }

    fn disown(&mut self, key: &str, name: &str) {
        let folded = session_file::fold_name(name);
        if let Some(alike) = self.taken.get_mut(&*folded) {
            alike.remove(name);
            if alike.is_empty() {
                self.taken.remove(&*folded);
            }
        }
        if let Some(own) = self.by_key.get_mut(key) {
            own.retain(|other| other != name);
            if own.is_empty() {
                self.by_key.remove(key);
            }
        }
    }
}

fn file_name(stem: &str) -> String {
    format!("{stem}.json")
}
