//! The kinds of errors, by what a caller can do about them.

use super::Error;

/// The kind of an [`Error`], for callers that match on few cases.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The call asks for something that the store never does: an invalid or too large key, message
    /// or scope, or a wait inside a waker. The same call fails again.
    InvalidInput,
    /// There is no such session, backup or checkpoint.
    NotFound,
    /// It exists already, belongs to another conversation, or changed meanwhile. Read it again, and
    /// decide anew.
    Conflict,
    /// Others are in the way: too many commands wait for the session already, or another writer has
    /// the directory or the file. Try again later.
    Busy,
    /// The disk or a quota is full. Try again when there is space.
    StorageFull,
    /// The store, or the file, is open for reading only, or belongs to a store.
    ReadOnly,
    /// The store behind a `SessionStore` does not have this verb.
    Unsupported,
    /// The store was closed, or the runtime that a read runs in shuts down.
    Closed,
    /// The store stopped writing. Close it and open it again, which recovers it.
    Poisoned,
    /// Committed data is damaged: `Store::verify` reports details,
    /// `Store::repair` mends it.
    Corrupt,
    /// The operating system refused, for the reason given.
    Io,
}

impl ErrorKind {
    /// True if something failed, rather than was refused for what was asked, or when.
    #[doc(hidden)]
    #[must_use]
    pub fn is_failure(self) -> bool {
        match self {
            Self::Poisoned | Self::Corrupt | Self::Io => true,
            Self::InvalidInput
            | Self::NotFound
            | Self::Conflict
            | Self::Busy
            | Self::StorageFull
            | Self::ReadOnly
            | Self::Unsupported
            | Self::Closed => false,
        }
    }
}

impl Error {
    /// Returns the kind of failure.
    ///
    /// ```
    /// # use sessionlog::{ErrorKind, Store};
    /// # fn main() -> sessionlog::Result<()> {
    /// # let scratch = tempfile::tempdir().unwrap();
    /// # let store = Store::open(scratch.path())?;
    /// let refused = store.handle().add_message("", "user", "hi").wait().unwrap_err();
    /// assert_eq!(refused.kind(), ErrorKind::InvalidInput);
    /// assert!(!refused.is_retryable());
    /// # store.close()
    /// # }
    /// ```
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::InvalidKey { .. }
            | Self::InvalidMessage { .. }
            | Self::InvalidScope { .. }
            | Self::InvalidMessageId { .. }
            | Self::InvalidPattern { .. }
            | Self::MessageTooLarge { .. }
            | Self::WouldDeadlock => ErrorKind::InvalidInput,
            Self::CheckpointNotFound { .. }
            | Self::BackupNotFound { .. }
            | Self::PositionNotFound { .. }
            | Self::SessionNotFound { .. } => ErrorKind::NotFound,
            Self::ScopeConflict { .. }
            | Self::AlreadyRestored
            | Self::SessionExists { .. }
            | Self::IsAlias { .. }
            | Self::HasHistory { .. }
            | Self::ToolCallUnpaired { .. }
            | Self::ChangesMissed { .. }
            | Self::VersionConflict { .. } => ErrorKind::Conflict,
            Self::Locked { .. } | Self::Overloaded { .. } | Self::Unavailable { .. } => {
                ErrorKind::Busy
            }
            Self::StorageFull { .. } => ErrorKind::StorageFull,
            Self::ReadOnly | Self::InStore { .. } => ErrorKind::ReadOnly,
            Self::Unsupported { .. } => ErrorKind::Unsupported,
            Self::Closed => ErrorKind::Closed,
            Self::Poisoned { .. } => ErrorKind::Poisoned,
            Self::Corrupt { .. } => ErrorKind::Corrupt,
            Self::Io { .. } | Self::OutcomeUnknown { .. } => ErrorKind::Io,
        }
    }

    /// Returns true if the same call may succeed later, without anything being reopened or decided
    /// anew: if others are in the way ([`ErrorKind::Busy`]), if there was no space, or if no file
    /// descriptor was left.
    ///
    /// A command of a session that failed with such an error took no effect, and can be repeated.
    /// Work in steps (a flush, pruning, an import, a repair) goes on where it stopped. Do not
    /// repeat a close: data that it could not bring to the files is in the journal, and opening the
    /// store recovers it.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        self.kind() == ErrorKind::Busy || self.may_pass()
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::path::Path;

    use super::*;
    use crate::error::Version;

    #[test]
    fn what_passes_by_itself_may_be_tried_again_and_nothing_else() {
        let os = |code| Error::io("open", Path::new("/s"), io::Error::from_raw_os_error(code));
        let full = os(28);
        assert_eq!(full.kind(), ErrorKind::StorageFull);
        let overloaded = Error::Overloaded {
            key: String::from("cli"),
            waiting: 4_097,
        };
        assert_eq!(overloaded.kind(), ErrorKind::Busy);
        let no_descriptor = os(24);
        assert_eq!(no_descriptor.kind(), ErrorKind::Io);
        for passing in [full, overloaded, no_descriptor] {
            assert!(passing.is_retryable(), "{passing}");
        }
        let poisoned = Error::sync(Path::new("/s"), io::Error::from_raw_os_error(5));
        assert_eq!(poisoned.kind(), ErrorKind::Poisoned);
        let changed = Error::VersionConflict {
            key: String::from("cli"),
            expected: Version::ABSENT,
            found: Version::ABSENT,
        };
        for staying in [poisoned, changed, os(13), Error::Closed, Error::ReadOnly] {
            assert!(!staying.is_retryable(), "{staying}");
        }
    }
}
