//! Telling one life of a writer from another: a number that nobody else has, in the lock's file
//! behind the process id.
//!
//! It is written anew when the lock is taken, and again before the last life's journal goes.
//! So two looks at an empty journal with the same number have no writer's life between them:
//! a life that the second look no longer sees has changed the number since the first, which
//! saw it beginning at most. A killed writer leaves its journal, which differs itself.

use std::io;
use std::path::PathBuf;

use crate::disk::files;
use crate::ground::storage::{OpenMode, Storage};

/// The file that lives are told by.
#[derive(Debug)]
pub(crate) struct LifeFile(PathBuf);

/// The last begin or end of a life.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Life {
    note: Vec<u8>,
    /// When the note was written. On a full disk it may be empty.
    changed: i128,
}

impl LifeFile {
    pub(super) fn at(path: PathBuf) -> Self {
        Self(path)
    }

    /// The text of a new life's file.
    ///
    /// # Errors
    /// If the operating system gives no random number.
    pub(super) fn note() -> io::Result<String> {
        let number = getrandom::u64().map_err(|e| io::Error::other(e.to_string()))?;
        Ok(format!("{} {number:016x}", std::process::id()))
    }

    /// The process id in a file's text.
    pub(super) fn holder(note: &[u8]) -> Option<u32> {
        let note = std::str::from_utf8(note).ok()?;
        note.split_whitespace().next()?.parse().ok()
    }

    /// Says that a life begins, or ends. A failure is logged: those who only read may then be
    /// late to notice what the life changed.
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

    /// The life that the file tells of; one that nobody had if there is none.
    pub(super) fn read(&self, storage: &dyn Storage) -> Life {
        Life {
            note: files::read_whole(storage, &self.0).unwrap_or_default(),
            changed: storage.info(&self.0).map_or(0, |info| info.changed),
        }
    }
}
