//! The options and the result of a repair.

use std::collections::BTreeSet;
use std::fmt;
use std::path::PathBuf;

/// Options for [`Store::repair`](crate::Store::repair).
#[derive(Clone, Copy, Debug, Default)]
pub struct RepairOptions {
    pub(super) allow_data_loss: bool,
    pub(super) allow_other_owner: bool,
    pub(super) allow_missing_lock: bool,
}

impl RepairOptions {
    /// Returns options that allow no loss.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets whether the repair goes on without the data that cannot be saved. `false` by default:
    /// then only lossless steps are done, and [`RepairReport::needs_data_loss`] lists what this
    /// option would be needed for.
    #[must_use]
    pub fn allow_data_loss(mut self, allow: bool) -> Self {
        self.allow_data_loss = allow;
        self
    }

    /// Sets whether the directory may be another user's; see
    /// [`StoreOptions::allow_other_owner`](crate::StoreOptions::allow_other_owner).
    #[must_use]
    pub fn allow_other_owner(mut self, allow: bool) -> Self {
        self.allow_other_owner = allow;
        self
    }

    /// Repairs also where the file system keeps no locks; see
    /// [`StoreOptions::allow_missing_lock`](crate::StoreOptions::allow_missing_lock).
    #[must_use]
    pub fn allow_missing_lock(mut self, allow: bool) -> Self {
        self.allow_missing_lock = allow;
        self
    }
}

/// The result of a repair. Its `Display` is a report for a person.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RepairReport {
    /// The directory with copies of everything that was changed; `None` if nothing had to be
    /// changed.
    pub backup: Option<PathBuf>,
    /// The mended faults, one line each.
    pub done: Vec<String>,
    /// The losses, one line each. All readable parts of them are in the backup.
    pub losses: Vec<String>,
    /// Files in which bytes that are no records were set aside.
    pub quarantined: Vec<PathBuf>,
    /// The faults that were left, because mending them gives data up: repeat with
    /// [`allow_data_loss`](RepairOptions::allow_data_loss). The store does not open until then.
    pub needs_data_loss: Vec<String>,
    /// Sessions that were left as they are, because their files cannot be read
    /// (a directory or link in a file's place, a failing disk), one line each.
    pub unreadable: Vec<String>,
    /// The sessions with files that were written anew: their keys, or the names of their files
    /// without extension where no key is known.
    pub sessions: BTreeSet<String>,
}

impl fmt::Display for RepairReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Self::default() {
            return writeln!(f, "nothing to repair");
        }
        let mut list = |what: &str, lines: &[String]| {
            lines
                .iter()
                .try_for_each(|line| writeln!(f, "{what}: {line}"))
        };
        list("mended", &self.done)?;
        list("lost", &self.losses)?;
        list("left, for it would lose data", &self.needs_data_loss)?;
        list("left, for it cannot be read", &self.unreadable)?;
        if !self.sessions.is_empty() {
            let sessions: Vec<_> = self.sessions.iter().map(String::as_str).collect();
            writeln!(f, "sessions concerned: {}", sessions.join(", "))?;
        }
        for path in &self.quarantined {
            writeln!(f, "set aside in {}", path.display())?;
        }
        match &self.backup {
            Some(path) => writeln!(f, "what was there before is in {}", path.display()),
            None => Ok(()),
        }
    }
}
