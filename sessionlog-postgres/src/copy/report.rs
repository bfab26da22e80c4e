//! The result of a copy, and the content that it did not take along.

use std::collections::BTreeSet;
use std::time::Duration;

use sessionlog::Error;

/// The result of a copy.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct CopyReport {
    /// Number of sessions in the copy.
    pub sessions: usize,
    /// Number of lines in these sessions.
    pub lines: usize,
    /// Number of sessions that were written. The others were in the copy unchanged.
    pub written: usize,
    /// Number of written ids of messages taken once.
    pub message_ids: usize,
    /// Number of written backups.
    pub backups: usize,
    /// The keys of the copy's sessions that are not in the source. They are left alone.
    pub others: Vec<String>,
    /// The sessions that could not be copied: their keys, and the errors.
    pub failed: Vec<(String, Error)>,
    /// The content that the source has and the copy does not, a sentence each.
    pub left: Vec<String>,
    /// The time from the end of the writers until the copy had everything. [`copy`](super::copy)
    /// gives none.
    pub gap: Option<Duration>,
    /// A SHA-256, in hexadecimal, of all sessions in the order of their keys. Copies of the same
    /// sessions have the same hash.
    pub hash: String,
}

/// Content that stays behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Left {
    Unread,
    Archive,
    Hidden,
    Ids,
    Backups,
    Sidecars,
    Trash,
}

impl Left {
    const ALL: [Self; 7] = [
        Self::Unread,
        Self::Archive,
        Self::Hidden,
        Self::Ids,
        Self::Backups,
        Self::Sidecars,
        Self::Trash,
    ];

    const fn sentence(self) -> &'static str {
        match self {
            Self::Unread => {
                "the ids of messages taken once, and backups, if there are any: the directory is \
                 open for reading only, so copy it with its writer stopped, open for writing"
            }
            Self::Archive => {
                "the archive: what compactions dropped stays in the directory, which is to be kept"
            }
            Self::Hidden => "hidden lines, which the next compaction would remove",
            Self::Ids => {
                "the oldest ids of messages taken once: the copy is to remember fewer (once_ids)"
            }
            Self::Backups => "the oldest backups: the copy is to keep fewer (limits of backups)",
            Self::Sidecars => {
                "scopes and summaries that backups of conflicts have beside their lines"
            }
            Self::Trash => "all: they are in the trash, which stays in the directory",
        }
    }
}

/// The content that stays behind, by session.
#[derive(Debug, Default)]
pub(super) struct Behind(BTreeSet<(Left, String)>);

impl Behind {
    /// Notes the content of a session that stays behind now.
    pub(super) fn note(&mut self, key: &str, left: &[Left]) {
        for what in Left::ALL {
            let entry = (what, key.to_owned());
            if left.contains(&what) {
                self.0.insert(entry);
            } else {
                self.0.remove(&entry);
            }
        }
    }

    pub(super) fn told(&self) -> Vec<String> {
        let told = Left::ALL.into_iter().filter_map(|what| {
            let many = self.0.iter().filter(|(left, _)| *left == what).count();
            let whose = if many == 1 { "session" } else { "sessions" };
            (many > 0).then(|| format!("of {many} {whose}: {}", what.sentence()))
        });
        told.collect()
    }
}
