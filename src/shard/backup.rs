//! Backups: what a session was before it was taken back, cleared or restored.
//!
//! They stand in a directory of their own, under names that say everything
//! about them, so that they are never taken for sessions, nor sessions for them.

use crate::sync::atomic::AtomicBool;
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use time::OffsetDateTime;

use crate::clock::rfc3339;
use crate::session_file::LOG;
use crate::storage::{FileKind, Storage};
use crate::sync::Mutex;

/// Why a backup was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum BackupReason {
    /// The conversation was taken back to a checkpoint.
    Revert,
    /// The conversation was cleared.
    Clear,
    /// Another backup was restored.
    Restore,
    /// An older store's file was imported over it.
    Import,
}

/// A session's file as it was before it was replaced.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Backup {
    /// Its number, from 1, newer ones higher; unique within its session while
    /// it is there. Once the newest are pruned their numbers are given again:
    /// `created_at` tells a backup from an earlier one of its number.
    pub number: u64,
    /// When it was made (RFC 3339, in milliseconds).
    pub created_at: String,
    /// Why.
    pub reason: BackupReason,
    /// Its size, bytes.
    pub size: u64,
}

/// What a backup's file name says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Name {
    /// The session's file name without extension.
    pub(crate) stem: String,
    pub(crate) number: u64,
    pub(crate) reason: BackupReason,
    /// Milliseconds since 1970.
    pub(crate) millis: i64,
    /// Lines that were hidden then. Restored without it, truncated lines would
    /// come back.
    pub(crate) skip: u64,
}

impl Name {
    /// The file name.
    pub(crate) fn to_text(&self) -> String {
        let Self {
            stem,
            number,
            reason,
            millis,
            skip,
        } = self;
        format!("{stem}.{number}-{}-{millis}-{skip}{LOG}", reason.word())
    }

    /// What a file name says, if it is a backup's.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (stem, rest) = text.strip_suffix(LOG)?.rsplit_once('.')?;
        let mut parts = rest.split('-');
        let name = Self {
            stem: stem.into(),
            number: parts.next()?.parse().ok()?,
            reason: BackupReason::of(parts.next()?)?,
            millis: parts.next()?.parse().ok()?,
            skip: parts.next()?.parse().ok()?,
        };
        (parts.next().is_none() && name.to_text() == text).then_some(name)
    }

    pub(crate) fn describe(&self, size: u64) -> Backup {
        let nanos = i128::from(self.millis) * 1_000_000;
        Backup {
            number: self.number,
            created_at: OffsetDateTime::from_unix_timestamp_nanos(nanos)
                .map_or_else(|_| crate::clock::ZERO_TIME.into(), rfc3339),
            reason: self.reason,
            size,
        }
    }
}

impl BackupReason {
    fn word(self) -> &'static str {
        match self {
            Self::Revert => "revert",
            Self::Clear => "clear",
            Self::Restore => "restore",
            Self::Import => "import",
        }
    }

    fn of(word: &str) -> Option<Self> {
        [Self::Revert, Self::Clear, Self::Restore, Self::Import]
            .into_iter()
            .find(|reason| reason.word() == word)
    }
}

/// The directory of backups, and what stands in it.
#[derive(Debug)]
pub(crate) struct Backups {
    pub(crate) dir: PathBuf,
    /// Whether `dir` is known to be on disk by its name.
    pub(crate) synced: Arc<AtomicBool>,
    known: Mutex<Known>,
}

/// Backups by session, by number.
#[derive(Debug, Default)]
struct Known {
    here: BTreeMap<String, BTreeMap<u64, Stored>>,
    /// Their files are about to be removed, and may come back should that fail:
    /// their numbers are taken, and who deletes the session removes them too.
    dying: BTreeMap<String, BTreeMap<u64, Stored>>,
}

/// A backup that is in place.
#[derive(Clone, Debug)]
pub(crate) struct Stored {
    pub(crate) name: Name,
    pub(crate) size: u64,
}

impl Backups {
    /// Takes stock of `dir`, which need not be there.
    ///
    /// # Errors
    /// As the operating system reports them.
    pub(crate) fn survey(storage: &dyn Storage, dir: PathBuf) -> io::Result<Self> {
        let found = list(storage, &dir)?;
        let backups = Self {
            dir,
            synced: Arc::default(),
            known: Mutex::default(),
        };
        for stored in found {
            backups.enter(stored);
        }
        Ok(backups)
    }

    /// Where a backup stands.
    pub(crate) fn path(&self, name: &Name) -> PathBuf {
        self.dir.join(name.to_text())
    }

    /// The number of a session's next backup.
    pub(crate) fn next_number(&self, stem: &str) -> u64 {
        let known = self.known.lock();
        let last = |all: &BTreeMap<String, BTreeMap<u64, Stored>>| {
            let (number, _) = all.get(stem)?.last_key_value()?;
            Some(*number)
        };
        let last = last(&known.here).max(last(&known.dying));
        last.map_or(1, |number| number.saturating_add(1))
    }

    /// A session's backups, oldest first.
    pub(crate) fn of(&self, stem: &str) -> Vec<Stored> {
        let known = self.known.lock();
        let own = known.here.get(stem).into_iter();
        own.flat_map(BTreeMap::values).cloned().collect()
    }

    pub(crate) fn get(&self, stem: &str, number: u64) -> Option<Stored> {
        self.known.lock().here.get(stem)?.get(&number).cloned()
    }

    pub(crate) fn enter(&self, stored: Stored) {
        insert(&mut self.known.lock().here, stored);
    }

    /// Forgets a backup that is about to be removed; whether it was there.
    pub(crate) fn forget(&self, name: &Name) -> bool {
        let mut known = self.known.lock();
        let stored = remove(&mut known.here, name);
        let found = stored.is_some();
        if let Some(stored) = stored {
            insert(&mut known.dying, stored);
        }
        found
    }

    /// A [forgotten](Self::forget) backup stays after all, unless its session
    /// was deleted meanwhile.
    pub(crate) fn recall(&self, name: &Name) {
        let mut known = self.known.lock();
        if let Some(stored) = remove(&mut known.dying, name) {
            insert(&mut known.here, stored);
        }
    }

    /// The file of a [forgotten](Self::forget) backup is gone.
    pub(crate) fn gone(&self, name: &Name) {
        remove(&mut self.known.lock().dying, name);
    }

    /// Forgets a deleted session's backups; the names of all that may have a
    /// file still.
    pub(crate) fn take(&self, stem: &str) -> Vec<Name> {
        let mut known = self.known.lock();
        let own = [known.here.remove(stem), known.dying.remove(stem)];
        let stored = own.into_iter().flatten().flat_map(BTreeMap::into_values);
        stored.map(|stored| stored.name).collect()
    }
}

fn insert(all: &mut BTreeMap<String, BTreeMap<u64, Stored>>, stored: Stored) {
    let own = all.entry(stored.name.stem.clone()).or_default();
    own.insert(stored.name.number, stored);
}

/// Takes out the backup of this very name: a session that was deleted numbers
/// its backups anew.
fn remove(all: &mut BTreeMap<String, BTreeMap<u64, Stored>>, name: &Name) -> Option<Stored> {
    let own = all.get_mut(&name.stem)?;
    if own.get(&name.number)?.name != *name {
        return None;
    }
    let stored = own.remove(&name.number);
    if own.is_empty() {
        all.remove(&name.stem);
    }
    stored
}

/// Every backup in `dir`, which need not be there.
///
/// # Errors
/// As the operating system reports them.
pub(crate) fn list(storage: &dyn Storage, dir: &Path) -> io::Result<Vec<Stored>> {
    let mut found = Vec::new();
    for name in files(storage, dir)? {
        if let Some(name) = Name::parse(&name) {
            let size = storage.info(&dir.join(name.to_text()))?.len;
            found.push(Stored { name, size });
        }
    }
    Ok(found)
}

/// The names of all files in `dir`, which need not be there.
///
/// # Errors
/// As the operating system reports them.
pub(crate) fn files(storage: &dyn Storage, dir: &Path) -> io::Result<Vec<String>> {
    let entries = match storage.read_dir(dir) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        other => other?,
    };
    let files = entries.into_iter().filter(|e| e.kind == FileKind::File);
    Ok(files.map(|entry| entry.name).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backup_is_told_by_its_name_and_nothing_else_is_a_backup() {
        let name = Name {
            stem: String::from("slack_T1.2-x"),
            number: 12,
            reason: BackupReason::Revert,
            millis: 1_700_000_000_123,
            skip: 3,
        };
        assert_eq!(Name::parse(&name.to_text()), Some(name.clone()));
        let backup = name.describe(9);
        assert_eq!(backup.created_at, "2023-11-14T22:13:20.123Z");
        for other in [
            "cli.jsonl",
            "a.1-revert-5.jsonl",
            "a.1-revert-5-0",
            "a.01-revert-5-0.jsonl",
            "a.1-note-5-0.jsonl",
            "a.1-revert-5-0-0.jsonl",
            "a.1-revert-5-0.jsonl.tmp",
        ] {
            assert_eq!(Name::parse(other), None, "{other}");
        }
    }
}
