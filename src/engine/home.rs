//! The engine's own directory inside a store's: identity, lock, journal, and files set aside.
//!
//! # What a crash leaves
//!
//! *Directories and `identity` made*. Unfinished: the next open goes on. Each directory
//! is synced into its parent, and `identity` is renamed into place whole. After: a
//! journal without an identity is refused as corrupt, not replayed.

mod life;
mod sites;

pub(crate) use self::life::{Life, LifeFile};
use self::sites::{check_dir, parent, sync_names};
pub(crate) use self::sites::{create_all, name_rule};

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sessionlog_core::error::{Error, Result};
use sessionlog_wal::journal::segment::StoreId;
use sessionlog_wal::storage::{FileKind, HeldDirs, LockGuard, OpenMode, Storage};

use crate::disk::copies::copy_file::CopyFile;
use crate::disk::files;
use crate::engine::recovery::redo::StorePlaces;

/// The engine's own directory.
#[derive(Debug)]
pub(crate) struct Home {
    pub(crate) journal: PathBuf,
    pub(crate) quarantine: PathBuf,
    /// Made with the first backup. Repairs put copies of the files that they change there.
    pub(crate) backups: PathBuf,
    /// The ids of messages taken once. Made with the first.
    pub(crate) once: PathBuf,
    /// The lines that compactions dropped. Made with the first compaction that keeps them.
    pub(crate) archive: PathBuf,
    /// Copies of sidecars, for lost ones.
    pub(crate) copies: PathBuf,
    /// The catalog that the store's last clean end kept.
    pub(crate) catalog: PathBuf,
    /// The statistics that a running store publishes.
    pub(crate) stats: PathBuf,
    pub(crate) identity: PathBuf,
    lock: PathBuf,
    /// True if directories may be another user's.
    any_owner: bool,
    /// Set if the file system may keep no locks.
    missing_lock: bool,
}

/// The name of the engine's directory.
pub(crate) const NAME: &str = ".sessionlog";

impl Home {
    /// Returns the engine's directory inside `dir`.
    pub(crate) fn of(dir: &Path) -> Self {
        let home = dir.join(NAME);
        Self {
            journal: home.join("journal"),
            quarantine: home.join(files::QUARANTINE),
            backups: home.join("backups"),
            once: home.join("once"),
            archive: home.join("archive"),
            copies: home.join("sidecars.jsonl"),
            catalog: home.join("catalog"),
            stats: home.join("stats"),
            identity: home.join("identity"),
            lock: home.join("lock"),
            any_owner: false,
            missing_lock: false,
        }
    }

    /// Allows directories that are another user's.
    pub(crate) fn of_any_owner(self, any_owner: bool) -> Self {
        Self { any_owner, ..self }
    }

    /// Allows a file system that keeps no locks.
    pub(crate) fn allow_missing_lock(self, missing_lock: bool) -> Self {
        Self {
            missing_lock,
            ..self
        }
    }

    /// Sets aside things that have the name of a directory or file of ours and are none: each costs
    /// the content of its place, and not the store. Returns the findings.
    ///
    /// # Errors
    /// As the operating system reports them.
    pub(crate) fn clear_ways(&self, storage: &dyn Storage) -> Result<Vec<String>> {
        let own = [
            (&self.once, FileKind::Directory),
            (&self.archive, FileKind::Directory),
            (&self.copies, FileKind::File),
            (&self.catalog, FileKind::File),
            (&self.stats, FileKind::File),
        ];
        let mut findings = Vec::new();
        for (path, kind) in own {
            if files::is_impostor(storage, path, kind) {
                let aside = files::set_aside(storage, path, &self.quarantine);
                let aside = aside.map_err(|e| Error::io("set aside", path, e))?;
                let (path, aside) = (path.display(), aside.display());
                let what = match kind {
                    FileKind::Directory => "no directory",
                    _ => "no file",
                };
                findings.push(format!("{path} was {what}; it is now {aside}"));
            }
        }
        if !findings.is_empty() {
            self.sync(storage)?;
        }
        Ok(findings)
    }

    /// Returns the places of the files of the store in `dir`.
    pub(crate) fn places<'a>(&'a self, dir: &'a Path) -> StorePlaces<'a> {
        StorePlaces {
            dir,
            quarantine: &self.quarantine,
            backups: &self.backups,
            once: &self.once,
            archive: &self.archive,
        }
    }

    /// Returns the time at which the lock was taken, by the clock of the file system: its file is
    /// written then.
    pub(crate) fn locked_at(&self, storage: &dyn Storage) -> Option<i128> {
        Some(storage.info(&self.lock).ok()?.changed)
    }

    /// Returns the file that tells one life of a writer from another.
    pub(crate) fn life_file(&self) -> LifeFile {
        LifeFile::at(self.lock.clone())
    }

    /// Returns the last begin or end of a writer's life.
    pub(crate) fn life(&self, storage: &dyn Storage) -> Life {
        self.life_file().read(storage)
    }

    /// Returns the path of the file that makes `dir` a store's.
    pub(crate) fn identity_in(dir: &Path) -> PathBuf {
        Self::of(dir).identity
    }

    /// Returns the writer of copies of sidecars.
    pub(crate) fn copy_file(&self, storage: &Arc<dyn Storage>, dir: &Path) -> CopyFile {
        CopyFile::new(storage.clone(), dir.into(), self.copies.clone())
    }

    /// Creates the missing parts of `dir` and of the engine's directory in it.
    ///
    /// # Errors
    /// If a name stands for something else, or a directory is another user's.
    pub(crate) fn create(&self, storage: &dyn Storage, dir: &Path) -> Result<()> {
        // The identity comes last. Without one, the process that made the directories may have died
        // before their names were synced.
        let doubtful = storage.info(&self.identity).is_err();
        if doubtful {
            sync_names(storage, dir)?;
        }
        self.create_site(storage, dir)?;
        let own = dir.join(NAME);
        for path in [&own, &self.journal, &self.quarantine] {
            self.create_site(storage, path)?;
        }
        if doubtful {
            // A name that existed already is as doubtful: with it, a power loss would take the
            // journal.
            for path in [dir, &own] {
                let synced = storage.sync_dir(path);
                synced.map_err(|e| Error::io("sync", path, e))?;
            }
        }
        // Behind a link, the files that are removed and renamed would be another's.
        match storage.info(&self.backups) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
            _ => check_dir(storage, &self.backups, self.any_owner),
        }
    }

    /// Takes the writer's lock: that of the directory, if the file system has one, and that of the
    /// file in the engine's directory. Other versions and programs know only the file; the
    /// directory's lock holds even if something takes the place of the engine's directory.
    ///
    /// # Errors
    /// `Locked` if another process has either.
    pub(crate) fn lock(&self, storage: &dyn Storage, dir: &Path) -> Result<Box<dyn LockGuard>> {
        let outer = self.lock_outer(storage, dir)?;
        if let Err(error) = &outer {
            let dir = dir.display();
            tracing::debug!(%dir, %error, "the directory itself is not locked");
        }
        let inner = self.lock_inner(storage, dir)?;
        Ok(both(outer.ok(), inner))
    }

    /// Takes the lock of the directory; the inner error is the reason that it cannot be locked.
    fn lock_outer(
        &self,
        storage: &dyn Storage,
        dir: &Path,
    ) -> Result<io::Result<Box<dyn LockGuard>>> {
        match storage.try_lock_dir(dir) {
            Ok(Some(lock)) => Ok(Ok(lock)),
            Ok(None) => Err(self.locked(storage, dir)),
            Err(error) => Ok(Err(error)),
        }
    }

    fn lock_inner(&self, storage: &dyn Storage, dir: &Path) -> Result<Box<dyn LockGuard>> {
        let note = LifeFile::note().map_err(|e| Error::io("lock", &self.lock, e))?;
        match storage.try_lock(&self.lock, &note) {
            Ok(Some(lock)) => Ok(lock),
            Ok(None) => Err(self.locked(storage, dir)),
            Err(error) if error.kind() == io::ErrorKind::Unsupported => {
                let unlocked = self.missing_lock(dir, &error)?;
                self.life_file().mark(storage);
                Ok(unlocked)
            }
            Err(error) => Err(Error::io("lock", &self.lock, error)),
        }
    }

    /// Returns a stand-in for the lock where the file system keeps none.
    ///
    /// # Errors
    /// Unless the caller guarantees that nothing else writes.
    fn missing_lock(&self, dir: &Path, error: &io::Error) -> Result<Box<dyn LockGuard>> {
        if self.missing_lock {
            let dir = dir.display();
            tracing::warn!(%dir, %error, "no lock keeps other processes from writing");
            return Ok(Box::new(NoLock));
        }
        let words = format!(
            "{error}; some network mounts and container volumes keep no locks, so that two \
             processes could write at once. Move the store to a local disk, or, if you see to it \
             that one process writes, open it with `allow_missing_lock`"
        );
        let error = io::Error::new(io::ErrorKind::Unsupported, words);
        Err(Error::io("lock", &self.lock, error))
    }

    /// Returns the storage, with those directories of the store open that syncs go through. Needed
    /// before the first write: see [`HeldDirs`].
    ///
    /// # Errors
    /// If one cannot be opened.
    pub(crate) fn hold(&self, storage: &Arc<dyn Storage>, dir: &Path) -> Result<Arc<dyn Storage>> {
        let own = dir.join(NAME);
        let dirs = [dir, &own, &self.journal];
        let held = HeldDirs::open(storage.clone(), &dirs);
        Ok(Arc::new(held.map_err(|e| Error::io("open", dir, e))?))
    }

    fn locked(&self, storage: &dyn Storage, dir: &Path) -> Error {
        Error::Locked {
            path: dir.into(),
            pid: self.holder(storage),
        }
    }

    /// Takes the writer's lock of a directory that has no journal, creating both directories if
    /// needed. If the engine's directory cannot be made, the lock of the directory itself must do:
    /// every writer takes it first.
    ///
    /// # Errors
    /// `Locked` if another process has it; if neither can be had, the error of the second.
    pub(crate) fn lock_only(
        &self,
        storage: &dyn Storage,
        dir: &Path,
    ) -> Result<Box<dyn LockGuard>> {
        self.create_site(storage, dir)?;
        let outer = self.lock_outer(storage, dir)?.ok();
        let inner = self
            .create_site(storage, &dir.join(NAME))
            .and_then(|()| self.lock_inner(storage, dir));
        match (outer, inner) {
            (outer, Ok(inner)) => Ok(both(outer, inner)),
            (Some(outer), Err(error)) if !matches!(error, Error::Locked { .. }) => {
                let dir = dir.display();
                tracing::warn!(%dir, %error, "only the directory itself is locked");
                Ok(outer)
            }
            (_, Err(error)) => Err(error),
        }
    }

    /// Returns true if there is a journal, or something that hides one.
    pub(crate) fn may_have_journal(&self, storage: &dyn Storage) -> bool {
        match self.has_segments(storage) {
            Ok(found) => found,
            Err(Error::Io { source, .. }) => !matches!(
                source.kind(),
                io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
            ),
            Err(_) => true,
        }
    }

    /// Creates a directory, its parents included.
    ///
    /// # Errors
    /// If a name stands for something else, or the directory is another user's.
    pub(crate) fn create_site(&self, storage: &dyn Storage, dir: &Path) -> Result<()> {
        create_all(storage, dir)?;
        check_dir(storage, dir, self.any_owner)
    }

    fn holder(&self, storage: &dyn Storage) -> Option<u32> {
        LifeFile::holder(&files::read_whole(storage, &self.lock).ok()?)
    }

    /// Returns the store's identity, made on the first open.
    ///
    /// # Errors
    /// `Corrupt` if it is damaged, or missing while there is a journal: the journal's owner could
    /// not be known.
    pub(crate) fn identity(&self, storage: &dyn Storage) -> Result<StoreId> {
        match self.read_identity(storage)? {
            Some(id) => {
                // The process that made it may have died before its name was synced. A journal is
                // refused if a power loss took its identity.
                self.sync(storage)?;
                Ok(id)
            }
            None if self.has_segments(storage)? => Err(self.missing_identity()),
            None => self.create_identity(storage),
        }
    }

    /// Returns the store's identity, if there is one.
    ///
    /// # Errors
    /// `Corrupt` if it is damaged.
    pub(crate) fn read_identity(&self, storage: &dyn Storage) -> Result<Option<StoreId>> {
        let bytes = match files::read_whole(storage, &self.identity) {
            Ok(bytes) => bytes,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(Error::io("read", &self.identity, e)),
        };
        match decode(&bytes) {
            Some(id) => Ok(Some(id)),
            None => Err(Error::Corrupt {
                path: self.identity.clone(),
                detail: String::from("the store's identity does not read"),
            }),
        }
    }

    /// Returns the error for a journal without an identity.
    pub(crate) fn missing_identity(&self) -> Error {
        Error::Corrupt {
            path: self.identity.clone(),
            detail: String::from("the store's identity is missing, and its journal holds records"),
        }
    }

    /// Returns the error for a look that may have been at two lives of a writer.
    pub(crate) fn changed_life(&self) -> Error {
        let error = io::Error::other("a writer began or ended while it was read");
        Error::io("read", &self.journal, error)
    }

    /// Returns true if there is a journal.
    ///
    /// # Errors
    /// If it cannot be listed.
    pub(crate) fn has_segments(&self, storage: &dyn Storage) -> Result<bool> {
        let entries = match storage.read_dir(&self.journal) {
            Ok(entries) => entries,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(e) => return Err(Error::io("list", &self.journal, e)),
        };
        let segment = |name: &str| sessionlog_wal::journal::segment::number_of(name).is_some();
        Ok(entries.iter().any(|entry| segment(&entry.name)))
    }

    fn create_identity(&self, storage: &dyn Storage) -> Result<StoreId> {
        let wrap = |e| Error::io("create", &self.identity, e);
        let mut id = [0; 16];
        getrandom::fill(&mut id).map_err(|e| wrap(io::Error::other(e.to_string())))?;
        self.write_identity(storage, &id)?;
        Ok(id)
    }

    /// Makes `id` the store's identity, durably.
    ///
    /// # Errors
    /// As the operating system reports them.
    pub(crate) fn write_identity(&self, storage: &dyn Storage, id: &StoreId) -> Result<()> {
        let wrap = |e| Error::io("create", &self.identity, e);
        let temp = self.identity.with_extension("tmp");
        match storage.remove_file(&temp) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(wrap(e)),
            _ => {}
        }
        let file = storage.open(&temp, OpenMode::CreateNew).map_err(wrap)?;
        file.write_all_at(encode(id).as_bytes(), 0)
            .and_then(|()| file.sync_data())
            .and_then(|()| storage.rename(&temp, &self.identity))
            .map_err(wrap)?;
        self.sync(storage)
    }

    fn sync(&self, storage: &dyn Storage) -> Result<()> {
        let home = parent(&self.identity);
        storage
            .sync_dir(home)
            .map_err(|e| Error::io("sync", home, e))
    }
}

/// Returns the storage in the directory that is `dir` now, whatever has its name later. Needed
/// before the lock, which is taken through it: a writer with a directory that was removed or moved
/// must not write to the next store of that name.
///
/// # Errors
/// If it cannot be opened.
pub(crate) fn root(storage: &Arc<dyn Storage>, dir: &Path) -> Result<Arc<dyn Storage>> {
    let rooted = storage.rooted(dir);
    let rooted = rooted.map_err(|e| Error::io("open", dir, e))?;
    Ok(rooted.unwrap_or_else(|| storage.clone()))
}

/// Stands in for a lock that the file system does not keep.
#[derive(Debug)]
struct NoLock;

impl LockGuard for NoLock {}

/// Two locks held as one.
#[derive(Debug)]
struct Both {
    _inner: Box<dyn LockGuard>,
    /// Given up last: every writer asks for it first.
    _outer: Option<Box<dyn LockGuard>>,
}

impl LockGuard for Both {}

fn both(outer: Option<Box<dyn LockGuard>>, inner: Box<dyn LockGuard>) -> Box<dyn LockGuard> {
    Box::new(Both {
        _inner: inner,
        _outer: outer,
    })
}

/// Returns the identity's text: a version, so that a later format can be recognized, and the id in
/// hexadecimal.
fn encode(id: &StoreId) -> String {
    use std::fmt::Write;
    let mut text = String::from("sessionlog 1 ");
    for byte in id {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    text.push('\n');
    text
}

fn decode(bytes: &[u8]) -> Option<StoreId> {
    let text = std::str::from_utf8(bytes).ok()?;
    let hex = text.trim_end().strip_prefix("sessionlog 1 ")?;
    let number = u128::from_str_radix(hex, 16).ok()?;
    (hex.len() == 32).then(|| number.to_be_bytes())
}
