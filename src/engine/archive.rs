//! Keeps the lines that compactions drop.
//!
//! # What a crash leaves
//!
//! * *A part written under a hidden name, renamed, its name synced*; before the compaction's swap.
//!   Unfinished: the earlier parts; the next open removes hidden files. After: the lines are in the
//!   archive, and hidden in the session file, too. The next compaction recognizes them by the
//!   part's name, and syncs them again: the process that wrote them may have been killed before
//!   they were synced.
//! * *Swap; the part gets a name that records it*. In between: if the lines that the next
//!   compaction drops begin with the very same bytes, they are taken for those that are archived.
//! * *The part that it replaces removed*. Unfinished: both are there; the one with fewer
//!   members does not count.
//! * *Session deleted, its parts removed, that synced*. Unfinished: recovery removes them. The
//!   session cannot be written to before this is done, so parts found beside a session of that name
//!   are its own.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use sessionlog_core::error::{Error, Result};
use sessionlog_wal::storage::{self, OpenMode, Storage, StorageDir, StorageFile};
use sessionlog_wal::sync::Mutex;

use super::shard::shared::SharedState;
use crate::disk::archive::{self, ArchivePart, UnderWay};
use crate::disk::files;

/// The bytes of lines that are compressed at a time, and so the approximate size of a member.
const MEMBER: usize = 16 << 20;

/// A part of at least this many bytes does not grow any more: a part is written anew each time it
/// grows.
const FULL: u64 = 1 << 20;

/// The archive's directory, and its parts.
#[derive(Debug)]
pub(crate) struct Archive {
    pub(crate) dir: PathBuf,
    /// True if compactions keep the lines they drop.
    pub(crate) keeps: bool,
    /// True if there may be parts: a store without an archive takes no lock for it.
    is_used: bool,
    /// The directory, once its name is known to be on disk. It is open for as long as the store: a
    /// deletion without a descriptor to sync it would stop the store.
    held: Mutex<Option<Arc<dyn StorageDir>>>,
    known: Mutex<BTreeMap<String, Vec<ArchivePart>>>,
}

/// The session that a compaction drops lines of; `deleted` is true if it was deleted since the
/// compaction began.
#[derive(Clone, Debug)]
pub(crate) struct ArchiveSubject {
    pub(crate) key: Arc<str>,
    pub(crate) stem: Arc<str>,
    pub(crate) deleted: Arc<AtomicBool>,
}

impl Archive {
    /// Takes stock of `dir`, which need not exist, and removes unfinished files.
    ///
    /// # Errors
    /// As the operating system reports them.
    pub(crate) fn survey(storage: &dyn Storage, dir: PathBuf, keeps: bool) -> Result<Self> {
        let list = |e| Error::io("list", &dir, e);
        let mut known: BTreeMap<String, Vec<ArchivePart>> = BTreeMap::new();
        let mut removed = false;
        for name in storage::names(storage, &dir).map_err(list)? {
            if let Some(part) = ArchivePart::parse(&name) {
                known.entry(part.stem.clone()).or_default().push(part);
            } else if files::is_temp_name(&name) {
                storage.remove_file(&dir.join(name)).map_err(list)?;
                removed = true;
            }
        }
        if removed {
            storage.sync_dir(&dir).map_err(list)?;
        }
        let archive = Self {
            dir,
            keeps,
            is_used: keeps || !known.is_empty(),
            held: Mutex::new(None),
            known: Mutex::new(known),
        };
        if !archive.known.lock().is_empty() {
            archive.hold(storage)?;
        }
        Ok(archive)
    }

    /// Makes the directory, durably, also if it exists: its maker may have been killed.
    fn make(&self, storage: &dyn Storage) -> Result<()> {
        if self.held.lock().is_some() {
            return Ok(());
        }
        match storage.create_dir(&self.dir) {
            Err(e) if e.kind() != io::ErrorKind::AlreadyExists => {
                return Err(Error::io("create", &self.dir, e));
            }
            _ => {}
        }
        self.hold(storage)
    }

    fn hold(&self, storage: &dyn Storage) -> Result<()> {
        let open = storage.open_dir(&self.dir);
        let open = open.map_err(|e| Error::io("open", &self.dir, e))?;
        let home = self.dir.parent().unwrap_or(&self.dir);
        storage.sync_dir(home).map_err(|e| Error::sync(home, e))?;
        *self.held.lock() = Some(open);
        Ok(())
    }

    /// Makes changes of names in the directory survive power loss.
    pub(crate) fn sync(&self, storage: &dyn Storage) -> io::Result<()> {
        let held = self.held.lock().clone();
        held.map_or_else(|| storage.sync_dir(&self.dir), |held| held.sync_names())
    }

    /// Returns the parts of a session, those with its oldest lines first.
    pub(crate) fn of(&self, stem: &str) -> Vec<ArchivePart> {
        archive::in_order(self.known(stem))
    }

    /// Returns all parts of a session.
    fn known(&self, stem: &str) -> Vec<ArchivePart> {
        if !self.is_used {
            return Vec::new();
        }
        self.known.lock().get(stem).cloned().unwrap_or_default()
    }

    /// Notes that the session has another file now: the archived lines of the old file are not in
    /// it.
    pub(crate) fn settle(&self, storage: &dyn Storage, stem: &str) -> io::Result<()> {
        let begun = self.known(stem).into_iter();
        for begun in begun.filter(|part| part.under_way.is_some()) {
            let settled = ArchivePart {
                under_way: None,
                ..begun.clone()
            };
            let [from, to] = [&begun, &settled].map(|part| self.dir.join(part.to_text()));
            storage.rename(&from, &to)?;
            if let Some(parts) = self.known.lock().get_mut(stem) {
                parts.retain(|part| *part != begun);
                parts.push(settled);
            }
        }
        Ok(())
    }

    /// Enters a part that has its name.
    pub(crate) fn enter(&self, part: ArchivePart) {
        let mut known = self.known.lock();
        known.entry(part.stem.clone()).or_default().push(part);
    }

    /// True if there are parts of a session.
    pub(crate) fn has(&self, stem: &str) -> bool {
        !self.known(stem).is_empty()
    }

    /// Removes the parts of a deleted session, durably.
    ///
    /// # Errors
    /// If a part cannot be removed. `Poisoned` if that cannot be synced: the parts are not known
    /// any more, so they would never be removed again.
    pub(crate) fn remove(&self, storage: &dyn Storage, stem: &str) -> Result<()> {
        if !self.has(stem) {
            return Ok(());
        }
        let parts = self.known.lock().remove(stem).unwrap_or_default();
        let removed = parts.iter().try_for_each(|part| self.unlink(storage, part));
        removed.map_err(|e| Error::io("remove from", &self.dir, e))?;
        self.sync(storage).map_err(|e| Error::sync(&self.dir, e))
    }

    fn unlink(&self, storage: &dyn Storage, part: &ArchivePart) -> io::Result<()> {
        match storage.remove_file(&self.dir.join(part.to_text())) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
            _ => Ok(()),
        }
    }
}

/// Keeps the first `end` bytes of a session file, which a compaction is about to drop.
///
/// # Errors
/// `StorageFull` and other refusals of the operating system; the compaction must not go on.
/// `Poisoned` if names could not be synced, or an earlier part could not.
pub(crate) fn keep(
    shared: &SharedState,
    dropped: &ArchiveSubject,
    file: &dyn StorageFile,
    end: u64,
) -> Result<()> {
    let archive = &shared.archive;
    if end == 0 {
        return Ok(());
    }
    archive.make(&*shared.storage)?;
    let wrap = |e| Error::io("archive", &archive.dir, e);
    let mut keeping = Keeping {
        shared,
        dropped,
        month: month(shared),
        newest: archive.of(&dropped.stem).pop(),
        upto: 0,
        check: crc32fast::Hasher::new(),
    };
    keeping.go_on(file, end)?;
    let mut lines = Vec::new();
    while keeping.upto < end {
        read_lines(file, keeping.upto, end, &mut lines).map_err(wrap)?;
        keeping.add(&lines)?;
    }
    Ok(())
}

fn month(shared: &SharedState) -> String {
    let now = shared.clock.now();
    format!("{:04}-{:02}", now.year(), u8::from(now.month()))
}

/// Reads whole lines from `at` on, or all up to `end`.
fn read_lines(file: &dyn StorageFile, at: u64, end: u64, lines: &mut Vec<u8>) -> io::Result<()> {
    lines.clear();
    loop {
        let before = lines.len();
        let from = at + before as u64;
        let more = (end - from).min(MEMBER as u64) as usize;
        lines.resize(before + more, 0);
        file.read_exact_at(&mut lines[before..], from)?;
        if from + more as u64 == end {
            return Ok(());
        }
        if let Some(last) = memchr::memrchr(b'\n', &lines[before..]) {
            lines.truncate(before + last + 1);
            return Ok(());
        }
    }
}

/// The lines of a session file on their way to the archive.
struct Keeping<'a> {
    shared: &'a SharedState,
    dropped: &'a ArchiveSubject,
    month: String,
    newest: Option<ArchivePart>,
    upto: u64,
    check: crc32fast::Hasher,
}

impl Keeping<'_> {
    /// Continues where an earlier compaction of the same file was cut short.
    fn go_on(&mut self, file: &dyn StorageFile, end: u64) -> Result<()> {
        let SharedState {
            storage, archive, ..
        } = self.shared;
        let wrap = |e| Error::io("archive", &archive.dir, e);
        let newest = self.newest.as_ref();
        let begun = newest.and_then(|newest| Some((newest, newest.under_way?)));
        let Some((newest, begun)) = begun.filter(|(_, begun)| begun.upto <= end) else {
            return Ok(());
        };
        let mut check = self.check.clone();
        let mut lines = Vec::new();
        let mut at = 0;
        while at < begun.upto {
            read_lines(file, at, begun.upto, &mut lines).map_err(wrap)?;
            check.update(&lines);
            at += lines.len() as u64;
        }
        let path = archive.dir.join(newest.to_text());
        if check.clone().finalize() != begun.check || !self.is_own(&path)? {
            return Ok(());
        }
        let file = storage.open(&path, OpenMode::Read).map_err(wrap)?;
        // If this were skipped, the next sync would be told that all is written.
        file.sync_data().map_err(|e| Error::sync(&path, e))?;
        archive
            .sync(&**storage)
            .map_err(|e| Error::sync(&archive.dir, e))?;
        (self.upto, self.check) = (begun.upto, check);
        Ok(())
    }

    /// Returns true if there is a part with lines of this session: another program may have removed
    /// it.
    fn is_own(&self, path: &Path) -> Result<bool> {
        match files::read_whole(&*self.shared.storage, path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(e) => Err(Error::io("archive", path, e)),
            Ok(part) => Ok(archive::is_of(&self.dropped.key, &part)),
        }
    }

    /// Adds lines, to the newest part or in a part of their own.
    fn add(&mut self, lines: &[u8]) -> Result<()> {
        let ArchiveSubject { key, stem, deleted } = self.dropped;
        let Archive { dir, known, .. } = &self.shared.archive;
        let wrap = |e| Error::io("archive", dir, e);
        let member = archive::encode(key, lines).map_err(wrap)?;
        let (grows, before) = self.growing()?;
        self.upto += lines.len() as u64;
        self.check.update(lines);
        let last = self.newest.as_ref().map_or(1, |newest| newest.last + 1);
        let part = ArchivePart {
            stem: stem.to_string(),
            month: self.month.clone(),
            first: grows.as_ref().map_or(last, |part| part.first),
            last,
            under_way: Some(UnderWay {
                upto: self.upto,
                check: self.check.clone().finalize(),
            }),
        };
        self.place(&part, &[before, member].concat())?;
        let storage = &*self.shared.storage;
        {
            let mut known = known.lock();
            let parts = known.entry(part.stem.clone()).or_default();
            parts.retain(|old| Some(old) != grows.as_ref());
            parts.push(part.clone());
        }
        if let Some(old) = grows {
            self.shared.archive.unlink(storage, &old).map_err(wrap)?;
        }
        // A deletion sets the flag before it removes the known parts. Either it found this part, or
        // the flag is seen here.
        if deleted.load(Ordering::Acquire) {
            let removed = self.shared.archive.remove(storage, stem);
            // The caller of the deletion was answered, and does not come back for the part.
            removed.map_err(|e| Error::Poisoned { reason: e.reason() })?;
        }
        self.newest = Some(part);
        Ok(())
    }

    /// Returns the part that lines are added to, and its bytes.
    fn growing(&self) -> Result<(Option<ArchivePart>, Vec<u8>)> {
        let newest = self.newest.as_ref();
        let Some(newest) = newest.filter(|newest| newest.month == self.month) else {
            return Ok((None, Vec::new()));
        };
        let path = self.shared.archive.dir.join(newest.to_text());
        let storage = &*self.shared.storage;
        let bytes = match storage.info(&path) {
            Ok(info) if info.len < FULL => files::read_whole(storage, &path),
            Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
            _ => Ok(Vec::new()),
        };
        let bytes = bytes.map_err(|e| Error::io("archive", &path, e))?;
        if archive::is_of(&self.dropped.key, &bytes) {
            return Ok((Some(newest.clone()), bytes));
        }
        Ok((None, Vec::new()))
    }

    fn place(&self, part: &ArchivePart, bytes: &[u8]) -> Result<()> {
        let (storage, dir) = (&*self.shared.storage, &self.shared.archive.dir);
        let temp = dir.join(self.shared.next_temp());
        let file = storage.open(&temp, OpenMode::CreateNew);
        let placed = file.and_then(|file| {
            file.write_all_at(bytes, 0)?;
            file.sync_data()?;
            storage.rename(&temp, &dir.join(part.to_text()))
        });
        placed.map_err(|e| {
            let _ = storage.remove_file(&temp);
            Error::io("archive", &temp, e)
        })?;
        // Otherwise a power loss could take the part of lines that were dropped.
        let synced = self.shared.archive.sync(storage);
        synced.map_err(|e| Error::sync(dir, e))
    }
}
