//! What a copy did, and what did not go along.

use std::collections::BTreeSet;
use std::time::Duration;

use sessionlog::Error;

/// What a copy did.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct CopyReport {
    /// How many sessions there are, and lines in them.
    pub sessions: usize,
    /// See [`sessions`](Self::sessions).
    pub lines: usize,
    /// How many of the sessions were written: the others were there as they are.
    pub written: usize,
    /// How many ids of messages taken once were written.
    pub message_ids: usize,
    /// How many backups were written.
    pub backups: usize,
    /// The keys of sessions that were there and are not in the source. They are left alone.
    pub others: Vec<String>,
    /// The sessions that could not be copied: their keys, and why.
    pub failed: Vec<(String, Error)>,
    /// What the source has and the copy does not, a sentence each.
    pub left: Vec<String>,
    /// From when the writers had stopped until the copy had everything; of [`copy`](super::copy)
    /// none.
    pub gap: Option<Duration>,
    /// A SHA-256, in hexadecimal, of all sessions in the order of their keys: copies of the
    /// same sessions have the same.
    pub hash: String,
}

/// What stays behind.
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

/// Of whom what stays behind.
#[derive(Debug, Default)]
pub(super) struct Behind(BTreeSet<(Left, String)>);

impl Behind {
    /// What of a session stays behind now.
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
