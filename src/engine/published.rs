//! The statistics that a running store publishes, and their reader.

use std::io;
use std::path::Path;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use sessionlog_core::error::{Error, Result};
use sessionlog_wal::storage::{OpenMode, Storage, StorageFile};
use time::OffsetDateTime;

use super::Engine;
use super::home::Home;
use super::stats::StoreStats;
use super::status::{Health, StoreStatus};
use crate::disk::stats_file;

/// The last published statistics of a running store; see
/// [`published_stats`](crate::published_stats).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct PublishedStats {
    /// The process that writes to the store, by its own number: in a container it may have another
    /// number outside.
    pub pid: u32,
    /// The time at which this was written. An idle store writes nothing: its numbers are still
    /// true.
    #[serde(with = "time::serde::rfc3339")]
    pub written_at: OffsetDateTime,
    /// The state of the store. The reason of a store that stopped writing names no session file
    /// here.
    pub status: StoreStatus,
    /// Its counters and levels.
    pub stats: StoreStats,
}

/// Does the same as [`published_stats`](crate::published_stats), on any file system.
pub(crate) fn read(storage: &dyn Storage, dir: &Path) -> Result<Option<PublishedStats>> {
    let path = Home::of(dir).stats;
    let wrap = |e| Error::io("read", &path, e);
    let file = match storage.open(&path, OpenMode::Read) {
        Err(e) if is_none(&e) => return Ok(None),
        other => other.map_err(wrap)?,
    };
    // Its writer holds its lock: without a lock, a process that died left the file.
    if !file.is_locked().map_err(wrap)? {
        return Ok(None);
    }
    let Some(text) = stats_file::read(&*file).map_err(wrap)? else {
        return Ok(None);
    };
    let read = serde_json::from_slice(&text);
    read.map(Some).map_err(|e| Error::Corrupt {
        path: path.clone(),
        detail: format!("what the store published does not read: {e}"),
    })
}

fn is_none(error: &io::Error) -> bool {
    let kind = error.kind();
    kind == io::ErrorKind::NotFound || kind == io::ErrorKind::NotADirectory
}

/// Number of times that a new file is made. A reader that tests the lock of a file that was just
/// made holds it for microseconds.
const TRIES: usize = 3;

/// The file in which a store publishes its statistics.
#[derive(Debug)]
pub(crate) struct StatsFile {
    file: Arc<dyn StorageFile>,
    written: u64,
}

impl StatsFile {
    /// Makes a new one, in place of a file that a dead process left.
    ///
    /// # Errors
    /// As the operating system reports them; then there is no file.
    pub(crate) fn create(storage: &dyn Storage, path: &Path) -> io::Result<Self> {
        let made = Self::try_create(storage, path);
        if made.is_err() {
            // The file there belongs to no process.
            let _ = remove(storage, path);
        }
        made
    }

    fn try_create(storage: &dyn Storage, path: &Path) -> io::Result<Self> {
        for _ in 0..TRIES {
            remove(storage, path)?;
            let file = storage.open(path, OpenMode::CreateNew)?;
            // Without its lock it would be taken for a dead process's, for as long as this one
            // lives.
            if file.try_lock()? {
                stats_file::prepare(&*file)?;
                return Ok(Self { file, written: 0 });
            }
        }
        Err(io::ErrorKind::ResourceBusy.into())
    }

    /// # Errors
    /// As the operating system reports them; readers find the earlier content.
    pub(crate) fn write(&mut self, published: &PublishedStats) -> io::Result<()> {
        let text = serde_json::to_vec(published)?;
        self.written += 1;
        stats_file::write(&*self.file, self.written, &text)
    }
}

/// # Errors
/// As the operating system reports them.
pub(crate) fn remove(storage: &dyn Storage, path: &Path) -> io::Result<()> {
    match storage.remove_file(path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
        _ => Ok(()),
    }
}

impl Engine {
    /// Returns the store's present statistics, for all readers.
    pub(crate) fn publishable(&self) -> PublishedStats {
        let Self { shared, .. } = self;
        let mut status = self.status();
        if let Health::Poisoned { reason } = &mut status.health {
            *reason = without_names(reason, &shared.dir).into();
        }
        PublishedStats {
            pid: std::process::id(),
            written_at: shared.clock.now(),
            status,
            stats: self.stats(),
        }
    }
}

/// Returns a reason without the names of files in `dir`, which would tell their owners: erasing a
/// person does not search statistics.
fn without_names(reason: &str, dir: &Path) -> String {
    let dir = dir.to_string_lossy();
    let mut parts = reason.split(&*dir);
    let mut text = String::from(parts.next().unwrap_or_default());
    for part in parts {
        // No session file's name has a colon.
        let rest = part.find(": ").map_or("", |end| &part[end..]);
        text.push_str(&dir);
        text.push_str(rest);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_told_without_the_names_of_sessions() {
        let told = |reason| without_names(reason, Path::new("/srv/chats"));
        assert_eq!(
            told("append to /srv/chats/telegram_77 b.jsonl: input/output error (os error 5)"),
            "append to /srv/chats: input/output error (os error 5)"
        );
        assert_eq!(
            told("replace /srv/chats/telegram_77.jsonl"),
            "replace /srv/chats"
        );
        assert_eq!(told("the committer panicked"), "the committer panicked");
        assert_eq!(
            told("/srv/chats/a.jsonl is corrupt: /srv/chats/b.jsonl: it was"),
            "/srv/chats: /srv/chats: it was"
        );
    }
}
