//! Backups: a session's file before it was reverted, cleared or restored.
//!
//! They are in a directory of their own, under names that contain all their metadata, so that they
//! are never taken for sessions, nor sessions for them.
//!
//! A backup is the session's whole file under a second name. Keeping only the lines cut off would
//! be smaller, but then every compaction, clear or further revert would have to complete the
//! earlier backups. File systems without hard links get a synced copy instead.

use std::io;
use std::path::Path;

use sessionlog_core::session_file::{LOG, SIDECAR};
use sessionlog_core::stamp::rfc3339;
use sessionlog_wal::storage::{self, Storage};
use time::OffsetDateTime;

/// The reason why a backup was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum BackupReason {
    /// The conversation was reverted to a checkpoint.
    Revert,
    /// The conversation was cleared.
    Clear,
    /// Another backup was restored.
    Restore,
    /// An older store's file was imported over it.
    Import,
    /// Another program changed the session's files before a crash was recovered from, and records
    /// of the journal are not in them. The backup has the lines since the last checkpoint, and
    /// earlier ones as far as they were still in the file. `created_at` is the time when the
    /// session was last written to.
    Conflict,
}

/// A session's file as it was before it was replaced; for a [conflict](BackupReason::Conflict),
/// what was left of it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Backup {
    /// Its number, from 1, newer ones higher. A number is not given again, even after the backup
    /// was pruned, until the session is deleted.
    pub number: u64,
    /// The time it was made (RFC 3339, in milliseconds).
    pub created_at: String,
    /// The reason.
    pub reason: BackupReason,
    /// Its size, bytes.
    pub size: u64,
}

/// The contents of a backup's file name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BackupName {
    /// The session's file name without extension.
    pub(crate) stem: String,
    pub(crate) number: u64,
    pub(crate) reason: BackupReason,
    /// Milliseconds since 1970.
    pub(crate) millis: i64,
    /// The number of lines that were hidden then. Without it, a restore would show truncated lines.
    pub(crate) skip: u64,
}

impl BackupName {
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

    /// The file name of its sidecar, if one was kept.
    pub(crate) fn sidecar(&self) -> String {
        let text = self.to_text();
        let stem = text.strip_suffix(LOG).unwrap_or(&text);
        format!("{stem}{SIDECAR}")
    }

    /// The names of all its files.
    pub(crate) fn files(&self) -> Vec<String> {
        let mut files = vec![self.to_text()];
        if self.reason == BackupReason::Conflict {
            files.push(self.sidecar());
        }
        files
    }

    /// Parses a file name; `None` if it is not a backup's.
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
                .map_or_else(|_| sessionlog_core::stamp::ZERO_TIME.into(), rfc3339),
            reason: self.reason,
            size,
        }
    }
}

/// The name of the empty file that keeps a number from being given again, once no backup has it or
/// a higher one.
pub(crate) fn number_marker(stem: &str, number: u64) -> String {
    format!("{stem}.{number}{MARKER}")
}

/// The session and the number of such a file.
pub(crate) fn parse_number_marker(text: &str) -> Option<(&str, u64)> {
    let (stem, number) = text.strip_suffix(MARKER)?.rsplit_once('.')?;
    Some((stem, number.parse().ok()?))
}

const MARKER: &str = "-last";

impl BackupReason {
    fn word(self) -> &'static str {
        match self {
            Self::Revert => "revert",
            Self::Clear => "clear",
            Self::Restore => "restore",
            Self::Import => "import",
            Self::Conflict => "conflict",
        }
    }

    fn of(word: &str) -> Option<Self> {
        let all = [
            Self::Revert,
            Self::Clear,
            Self::Restore,
            Self::Import,
            Self::Conflict,
        ];
        all.into_iter().find(|reason| reason.word() == word)
    }
}

/// A backup that is in place.
#[derive(Clone, Debug)]
pub(crate) struct BackupFile {
    pub(crate) name: BackupName,
    pub(crate) size: u64,
}

/// Every backup in `dir`, which may be absent.
///
/// # Errors
/// As the operating system reports them.
pub(crate) fn list(storage: &dyn Storage, dir: &Path) -> io::Result<Vec<BackupFile>> {
    let mut found = Vec::new();
    for name in storage::names(storage, dir)? {
        if let Some(name) = BackupName::parse(&name) {
            let size = storage.info(&dir.join(name.to_text()))?.len;
            found.push(BackupFile { name, size });
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backup_is_told_by_its_name_and_nothing_else_is_a_backup() {
        let name = BackupName {
            stem: String::from("slack_T1.2-x"),
            number: 12,
            reason: BackupReason::Revert,
            millis: 1_700_000_000_123,
            skip: 3,
        };
        assert_eq!(BackupName::parse(&name.to_text()), Some(name.clone()));
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
            assert_eq!(BackupName::parse(other), None, "{other}");
        }
    }

    #[test]
    fn a_number_is_marked_by_what_is_no_backup() {
        let marker = number_marker("slack_T1.2-x", 12);
        assert_eq!(parse_number_marker(&marker), Some(("slack_T1.2-x", 12)));
        assert_eq!(BackupName::parse(&marker), None);
        assert_eq!(parse_number_marker("a.1-revert-5-0.jsonl"), None);
    }
}
