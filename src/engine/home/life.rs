//! Tells one life of a writer from another: by a number that no other life has, in the lock's file
//! after the process id.
//!
//! It is written anew when the lock is taken, and again before the last life's journal goes. So two
//! looks at an empty journal with the same number have no writer's life between them: a life that
//! the second look no longer sees has changed the number since the first, which saw at most its
//! beginning. A killed writer leaves its journal, which differs itself.

use std::io;
use std::path::PathBuf;

use sessionlog_wal::storage::{OpenMode, Storage};

use crate::disk::files;

/// The file that tells lives apart.
#[derive(Debug)]
pub(crate) struct LifeFile(PathBuf);

/// The last begin or end of a life.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Life {
    note: Vec<u8>,
    /// The time at which the note was written. On a full disk the note may be empty.
    changed: i128,
}

impl LifeFile {
    pub(super) fn at(path: PathBuf) -> Self {
        Self(path)
    }

    /// Returns the text of a new life's file.
    ///
    /// # Errors
    /// If the operating system gives no random number.
    pub(super) fn note() -> io::Result<String> {
        let number = getrandom::u64().map_err(|e| io::Error::other(e.to_string()))?;
        Ok(format!("{} {number:016x}", std::process::id()))
    }

    /// Returns the process id in a file's text.
    pub(super) fn holder(note: &[u8]) -> Option<u32> {
        let note = std::str::from_utf8(note).ok()?;
        note.split_whitespace().next()?.parse().ok()
    }

    /// Records that a life begins, or ends. A failure is logged: readers may then be late to notice
    /// the life's changes.
    pub(crate) fn mark(&self, storage: &dyn Storage) {
        if let Err(error) = self.write(storage) {
            tracing::warn!(%error, "readers in other processes may notice changes late");
        }
    }

    fn write(&self, storage: &dyn Storage) -> io::Result<()> {
        let note = Self::note()?;
        let file = match storage.open(&self.0, OpenMode::ReadWrite) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                storage.open(&self.0, OpenMode::CreateNew)?
            }
            opened => opened?,
        };
        file.write_all_at(note.as_bytes(), 0)
    }

    /// Returns the life that the file records; if there is no file, one that no writer had.
    pub(super) fn read(&self, storage: &dyn Storage) -> Life {
        Life {
            note: files::read_whole(storage, &self.0).unwrap_or_default(),
            changed: storage.info(&self.0).map_or(0, |info| info.changed),
        }
    }
}
