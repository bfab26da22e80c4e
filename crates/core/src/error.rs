//! Errors, sorted by what a caller can do about them.

mod checkpoint_id;
mod kind;
mod oversized;
mod version;

pub use self::checkpoint_id::CheckpointId;
pub use self::kind::ErrorKind;
pub use self::oversized::Oversized;
pub use self::oversized::check_size;
pub use self::version::Version;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::session_file::Message;

/// The crate's result.
pub type Result<T> = std::result::Result<T, Error>;

/// The reason why a call failed. Sorted by what the caller can do: correct the input, wait, reopen,
/// or look at the disk.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The key is empty, longer than 1,024 bytes, or holds a NUL. Nothing was written.
    #[error("invalid session key: {reason}")]
    InvalidKey {
        /// The problem with the key.
        reason: &'static str,
    },

    /// The session of this key belongs, or may belong, to another conversation. Either its scope
    /// and the one given have different values but are written alike, or it has no scope that names
    /// its conversation and the one given could be a forgery. Nothing was changed; the two must not
    /// share a history.
    #[error("session {key} belongs to another conversation")]
    ScopeConflict {
        /// The key that they would share.
        key: String,
    },

    /// A message is malformed: not a JSON object, nested deeper than 128, or with a control role
    /// where a message was expected. Nothing was written.
    #[error("invalid message: {reason}")]
    InvalidMessage {
        /// The problem with the message.
        reason: String,
    },

    /// A session's scope is not JSON, or nested deeper than 128, or, where a scope is read, does
    /// not have the shape of one. Nothing was written.
    #[error("invalid scope: {reason}")]
    InvalidScope {
        /// The problem with the scope.
        reason: String,
    },

    /// A message, a batch of messages, or the contents of a session's sidecar (a summary, a scope,
    /// aliases) are larger than the store accepts. Nothing was written, and the messages come back.
    #[error("{what} of {size} bytes, over the limit of {limit} (StoreOptions sets it)")]
    MessageTooLarge {
        /// The kind of data that was too large.
        what: Oversized,
        /// Its bytes: encoded for a message, a prompt, a batch or a sidecar, as given otherwise.
        size: usize,
        /// The limit it exceeds.
        limit: usize,
        /// The messages that the caller passed, unchanged; none if it passed something else.
        messages: Vec<Message>,
    },

    /// Another process (or another `Store` in this one) writes to the directory; it can still be
    /// opened read-only. Or another `Context` writes to the context file; it can
    /// still be read, and written to once the last clone of that context is dropped.
    #[error("{path} is locked by another writer{}; opening it read-only needs no lock", .pid.map(|p| format!(" (process {p})")).unwrap_or_default())]
    Locked {
        /// The store's directory, or the context file.
        path: PathBuf,
        /// The process id of the holder, if it left one; a context leaves none.
        pid: Option<u32>,
    },

    /// A file in a store's directory was to be written to, or created, without the store. Data that
    /// the store acknowledged or holds in its journal would be lost. Nothing was written. For a
    /// session's conversation use `StoreHandle::context`.
    #[error("{path} is in the directory of a store; only the store writes there")]
    InStore {
        /// The file.
        path: PathBuf,
    },

    /// Too many commands wait for this session already, more than 4,096 or of more than 64 MiB: it
    /// is being loaded, or a change of it takes long. The command took no effect; try again when
    /// those before it are answered.
    #[error(
        "{waiting} commands wait for session {key:?} already; at most 4,096, or 64 MiB of them, may"
    )]
    Overloaded {
        /// The session.
        key: String,
        /// The number of waiting commands.
        waiting: usize,
    },

    /// The disk, its inodes, a quota or the limit on file sizes is exhausted. The command took no
    /// effect; everything acknowledged before is kept. Try again: the store accepts writes as soon
    /// as there is space.
    #[error("no space left for {path}, or no inodes")]
    StorageFull {
        /// The file that could not be written.
        path: PathBuf,
    },

    /// A sync, a write to the journal or a change of a session file failed, now or earlier, or a
    /// thread of the store panicked. It is unknown whether a command that was under way took
    /// effect, until the store is closed and the directory opened again, which recovers it. Later
    /// commands took no effect. Reads go on.
    #[error("the store stopped writing until it is opened again: {reason}")]
    Poisoned {
        /// The first failure.
        reason: Arc<str>,
    },

    /// The store was closed; a command was not accepted, a read not begun. Reads awaited in a tokio
    /// runtime that shuts down end with this error as well.
    #[error("the store is closed")]
    Closed,

    /// The call would have blocked a thread that works for a store (from inside a waker that the
    /// thread wakes, or a destructor or log subscriber that runs on it), maybe waiting for itself.
    /// Nothing was submitted. A store that was to be closed there refuses every later call, and
    /// closes on a thread of its own.
    #[error("waiting here would keep a store's own thread from answering")]
    WouldDeadlock,

    /// The store was opened read-only.
    #[error("the store is open read-only")]
    ReadOnly,

    /// The store does not have this verb, though others behind the same trait do. Nothing was
    /// changed.
    #[error("this store cannot do this: {verb}")]
    Unsupported {
        /// The unsupported operation.
        verb: &'static str,
    },

    /// There is no such checkpoint to revert to. Nothing was changed.
    #[error("checkpoint {id} {}; {}", if *.lost { "is no longer there, its lines were truncated" } else { "does not exist" }, list_ids(.existing))]
    CheckpointNotFound {
        /// The id asked for.
        id: CheckpointId,
        /// The ids that exist, in the order of their lines.
        existing: Vec<CheckpointId>,
        /// True if it was lost when lines were truncated. Once they are compacted, only the highest
        /// lost id is known, and all ids below it count as lost. `false` for an id that never
        /// existed.
        lost: bool,
    },

    /// A context that holds messages already was to be restored, which would show the file's
    /// contents twice. Nothing was changed.
    #[error("the context holds messages already; clear it first, or open the file again")]
    AlreadyRestored,

    /// The session has no backup of this number. Nothing was changed.
    #[error("backup {number} of {key:?} does not exist")]
    BackupNotFound {
        /// The session.
        key: String,
        /// The number asked for.
        number: u64,
    },

    /// A session of this key exists, and would have been overwritten. Nothing
    /// was changed.
    #[error("session {key:?} exists already")]
    SessionExists {
        /// The session.
        key: String,
    },

    /// The key is an alias of a session, but the verb needs a session of the key itself. Nothing
    /// was changed.
    #[error("{alias:?} is an alias of session {key:?}")]
    IsAlias {
        /// The key that was given.
        alias: String,
        /// The session that it leads to.
        key: String,
    },

    /// The session of this key has messages or a summary, and another session was to be renamed to
    /// it. Nothing was changed; `StoreHandle::merge_session`
    /// puts the other's messages before its own.
    #[error("session {key:?} has a history of its own: merge the sessions instead")]
    HasHistory {
        /// The session.
        key: String,
    },

    /// There is no session of this key. Nothing was changed.
    #[error("session {key:?} does not exist")]
    SessionNotFound {
        /// The key asked for.
        key: String,
    },

    /// The session changed since the version that the caller named, or the store was opened anew
    /// since. Nothing was changed: read the session again, and decide anew.
    #[error("session {key:?} {}, not at version {expected} as expected", if *.found == Version::ABSENT { String::from("does not exist") } else { format!("is at version {found}") })]
    VersionConflict {
        /// The session.
        key: String,
        /// The version that the caller expected.
        expected: Version,
        /// The session's version.
        found: Version,
    },

    /// The position is not in the session's history any more: the history was replaced or reverted
    /// since, or its file rewritten by a compaction that left out blank lines, or the store was
    /// opened anew. Or it never was: it belongs to another session. Nothing was changed; take a
    /// snapshot, and find the position there.
    #[error(
        "the position is none of session {key:?}: its history is another one now, or the position another session's; take a snapshot and look again"
    )]
    PositionNotFound {
        /// The session.
        key: String,
    },

    /// The pattern of a search is not a regular expression, or one that takes too much memory.
    #[error("invalid pattern: {detail}")]
    InvalidPattern {
        /// The problem with the pattern, and its place.
        detail: String,
    },

    /// A window of a conversation would hold a tool's result without its call, or a call without
    /// its result; `Budget::unpaired` offers other treatments.
    #[error("tool call {id:?} of session {key:?} lacks its other half")]
    ToolCallUnpaired {
        /// The session.
        key: String,
        /// The call's id.
        id: String,
    },

    /// Changes came faster than they were asked for, and are not kept any more; or, beside a writer
    /// in another process, they left its journal before they were read. The next call goes on with
    /// the oldest kept one. A caller that keeps a copy up to date with the changes must list the
    /// sessions anew.
    #[error("{} changes were missed: list the sessions to catch up", .missed.map_or_else(|| String::from("an unknown number of"), |n| n.to_string()))]
    ChangesMissed {
        /// The number of missed changes; `None` if it is not known.
        missed: Option<u64>,
    },

    /// The id of a message is empty or longer than 256 bytes. Nothing was written.
    #[error("invalid message id of {size} bytes: {reason}")]
    InvalidMessageId {
        /// The problem with the id.
        reason: &'static str,
        /// Its length in bytes.
        size: usize,
    },

    /// The database behind the store could not be reached, had no connection free, or did not
    /// answer in time. The command took no effect: try again later.
    #[error("the database is not available: {reason}")]
    Unavailable {
        /// The operation that was tried, and its outcome.
        reason: Arc<str>,
    },

    /// The connection to the database was lost while a command was committed, and the database
    /// could not be asked since. The command may have taken effect or not. Check before repeating
    /// it.
    #[error("it is not known whether the command took effect: {reason}")]
    OutcomeUnknown {
        /// The connection that was lost, and the outcome of the check.
        reason: Arc<str>,
    },

    /// Committed data is damaged: the journal, or the store's identity. Nothing was removed, and
    /// opening again finds the same. (A damaged or missing file of one session costs that session
    /// alone, and is listed in the `RecoveryReport`.)
    #[error("{path} is corrupt: {detail} (Store::verify tells more, Store::repair mends)")]
    Corrupt {
        /// The damaged file.
        path: PathBuf,
        /// The damage found.
        detail: String,
    },

    /// The operating system refused.
    #[error("{operation} {path}: {source}")]
    Io {
        /// The operation that failed.
        operation: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The operating system's error.
        source: Arc<io::Error>,
    },
}

impl Error {
    /// The error for a position that the session's history does not have.
    #[doc(hidden)]
    #[must_use]
    pub fn no_position(key: &str) -> Self {
        Self::PositionNotFound { key: key.into() }
    }

    /// The error for a text that had to be a session's key but is an alias of this session.
    #[doc(hidden)]
    #[must_use]
    pub fn is_alias(alias: &str, key: &str) -> Self {
        Self::IsAlias {
            alias: alias.into(),
            key: key.into(),
        }
    }

    /// The error for a write to a deleted session.
    #[doc(hidden)]
    #[must_use]
    pub fn deleted_key() -> Self {
        Self::InvalidKey {
            reason: "it is that of a deleted session",
        }
    }

    /// The error for a session that was to be renamed to the key that it has.
    #[doc(hidden)]
    #[must_use]
    pub fn own_key() -> Self {
        Self::InvalidKey {
            reason: "the session has this key already",
        }
    }

    /// Wraps an operating system error, telling a full disk apart.
    #[doc(hidden)]
    #[must_use]
    pub fn io(operation: &'static str, path: &Path, source: io::Error) -> Self {
        if is_full(&source) {
            Self::StorageFull { path: path.into() }
        } else {
            Self::Io {
                operation,
                path: path.into(),
                source: Arc::new(source),
            }
        }
    }
}

impl Error {
    /// The error for a failed sync of `path`. The state of the data it covered is unknown, unless
    /// the sync failed for want of a descriptor.
    #[doc(hidden)]
    #[must_use]
    pub fn sync(path: &Path, source: io::Error) -> Self {
        let error = Self::io("sync", path, source);
        if error.out_of_descriptors() {
            return error;
        }
        Self::Poisoned {
            reason: error.reason(),
        }
    }

    /// The reason for a store to stop because of this.
    #[doc(hidden)]
    #[must_use]
    pub fn reason(&self) -> Arc<str> {
        match self {
            Self::Poisoned { reason } => reason.clone(),
            other => other.to_string().into(),
        }
    }

    /// True if the process, or the system, has no descriptor left.
    #[doc(hidden)]
    #[must_use]
    pub fn out_of_descriptors(&self) -> bool {
        // EMFILE and ENFILE.
        matches!(self, Self::Io { source, .. } if matches!(source.raw_os_error(), Some(23 | 24)))
    }

    /// True if the same call may succeed later without anything being reopened.
    #[doc(hidden)]
    #[must_use]
    pub fn may_pass(&self) -> bool {
        matches!(self, Self::StorageFull { .. }) || self.out_of_descriptors()
    }
}

/// True if an error means that space or quota ran out.
#[must_use]
pub fn is_full(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge
    )
}

/// Checkpoint ids for a person to read: consecutive ids are joined to ranges.
fn list_ids(ids: &[CheckpointId]) -> String {
    let mut ranges: Vec<(i64, i64)> = Vec::new();
    for id in ids.iter().map(|id| id.number()) {
        match ranges.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(id) => *last = id,
            _ => ranges.push((id, id)),
        }
    }
    let texts = ranges
        .iter()
        .map(|&(first, last)| match last.saturating_sub(first) {
            0 => first.to_string(),
            _ => format!("{first} to {last}"),
        });
    match &*texts.collect::<Vec<_>>() {
        [] => String::from("existing ids: none"),
        texts => format!("existing ids: {}", texts.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::{CheckpointId, Error};

    #[test]
    fn a_missing_checkpoint_names_those_that_exist() {
        let error = |id, existing: &[i64], lost| {
            let existing = existing.iter().copied().map(CheckpointId::new).collect();
            let id = CheckpointId::new(id);
            Error::CheckpointNotFound { id, existing, lost }.to_string()
        };
        assert_eq!(
            error(9, &[3, 4, 5, 8], false),
            "checkpoint 9 does not exist; existing ids: 3 to 5, 8"
        );
        assert_eq!(
            error(0, &[], true),
            "checkpoint 0 is no longer there, its lines were truncated; existing ids: none"
        );
    }
}
