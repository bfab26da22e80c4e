//! What can go wrong, sorted by what a caller can do about it.

mod checkpoint_id;
mod kind;
mod oversized;
mod version;

pub use self::checkpoint_id::CheckpointId;
pub use self::kind::ErrorKind;
pub use self::oversized::Oversized;
pub(crate) use self::oversized::check_size;
pub use self::version::Version;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::Message;

/// The crate's result.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a call failed. Sorted by what the caller can do: mend the input, wait,
/// reopen, or look at the disk.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The key is empty, longer than 1,024 bytes, or holds a NUL. Nothing was
    /// written.
    #[error("invalid session key: {reason}")]
    InvalidKey {
        /// What is wrong with it.
        reason: &'static str,
    },

    /// The session of this key belongs to another conversation, or may: its scope
    /// and the one given differ in their values and are written alike; or it has
    /// none that says whose it is, and the one given could be a forgery. Nothing
    /// was changed; the two must not share a history.
    #[error("session {key} belongs to another conversation")]
    ScopeConflict {
        /// The key they would share.
        key: String,
    },

    /// A message is malformed: not a JSON object, nested deeper than 128, or
    /// with a control role if a message was expected. Nothing was written.
    #[error("invalid message: {reason}")]
    InvalidMessage {
        /// What is wrong with it.
        reason: String,
    },

    /// A session's scope is not JSON, or nested deeper than 128, or, if one
    /// is read, not of the shape of one. Nothing was written.
    #[error("invalid scope: {reason}")]
    InvalidScope {
        /// What is wrong with it.
        reason: String,
    },

    /// A message, a batch of them, or what a session's sidecar is to hold (a
    /// summary, a scope, aliases) is larger than the store accepts. Nothing was
    /// written, and the messages come back.
    #[error("{what} of {size} bytes, over the limit of {limit} (StoreOptions sets it)")]
    MessageTooLarge {
        /// What was too large.
        what: Oversized,
        /// Its bytes: encoded if it is a message, a prompt, a batch or a
        /// sidecar, as given otherwise.
        size: usize,
        /// The limit it exceeds.
        limit: usize,
        /// The messages the caller passed, unchanged; none if it passed
        /// something else.
        messages: Vec<Message>,
    },

    /// Another process (or another `Store` in this one) writes to the
    /// directory: opening it read-only works. Or another
    /// [`Context`](crate::Context) writes to the context file: reading it works,
    /// and writing once the last clone of that one is dropped.
    #[error("{path} is locked by another writer{}; opening it read-only needs no lock", .pid.map(|p| format!(" (process {p})")).unwrap_or_default())]
    Locked {
        /// The store's directory, or the context file.
        path: PathBuf,
        /// The holder, if it left its process id; a context leaves none.
        pid: Option<u32>,
    },

    /// A file in a store's directory was to be written to, or made, past the
    /// store: what the store acknowledged or holds in its journal would be lost.
    /// Nothing was written. A session's conversation is
    /// [`StoreHandle::context`](crate::StoreHandle::context)'s.
    #[error("{path} is in the directory of a store; only the store writes there")]
    InStore {
        /// The file.
        path: PathBuf,
    },

    /// Too many commands wait for this session already, more than 4,096 or of more
    /// than 64 MiB: it is being loaded, or a change of it takes long. The command took
    /// no effect; try again when those before it are answered.
    #[error(
        "{waiting} commands wait for session {key:?} already; at most 4,096, or 64 MiB of them, may"
    )]
    Overloaded {
        /// The session.
        key: String,
        /// How many wait.
        waiting: usize,
    },

    /// The disk, its inodes, a quota or the limit on file sizes is exhausted. The command
    /// took no effect; what was acknowledged before is kept. Try again: the
    /// store accepts writes as soon as there is space.
    #[error("no space left for {path}, or no inodes")]
    StorageFull {
        /// What could not be written.
        path: PathBuf,
    },

    /// A sync, a write to the journal or a change of a session file failed, now
    /// or earlier, or a thread of the store panicked. Whether a command that was
    /// under way took effect is unknown until the store is closed and the
    /// directory opened again, which recovers it; a later command took none.
    /// Reads go on.
    #[error("the store stopped writing until it is opened again: {reason}")]
    Poisoned {
        /// The first failure.
        reason: Arc<str>,
    },

    /// The store was closed; a command was not accepted, a read not begun. Reads
    /// awaited in a tokio runtime that shuts down end with it as well.
    #[error("the store is closed")]
    Closed,

    /// The call would have waited on a thread that works for a store (from inside
    /// a waker it wakes, a destructor or a log subscriber that runs there), maybe for
    /// itself. Nothing was submitted. A store that was to be closed there refuses
    /// every later call, and closes on a thread of its own.
    #[error("waiting here would keep a store's own thread from answering")]
    WouldDeadlock,

    /// The store was opened read-only.
    #[error("the store is open read-only")]
    ReadOnly,

    /// The store has no such verb, though others behind the same trait do. Nothing was
    /// changed.
    #[error("this store cannot do this: {verb}")]
    Unsupported {
        /// What it cannot do.
        verb: &'static str,
    },

    /// No such checkpoint to go back to. Nothing was changed.
    #[error("checkpoint {id} {}; {}", if *.lost { "is no longer there, its lines were truncated" } else { "does not exist" }, list_ids(.existing))]
    CheckpointNotFound {
        /// The id asked for.
        id: CheckpointId,
        /// The ids that exist, in the order of their lines.
        existing: Vec<CheckpointId>,
        /// Whether it went when lines were truncated. Once they are compacted
        /// only the highest id that went is known: those below it count as gone
        /// with it. `false` for an id that never was.
        lost: bool,
    },

    /// A context that holds messages already was to be restored, which would
    /// show what its file holds twice. Nothing was changed.
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

    /// The key is an alias of a session, and the verb means a session of the key itself.
    /// Nothing was changed.
    #[error("{alias:?} is an alias of session {key:?}")]
    IsAlias {
        /// The key that was given.
        alias: String,
        /// The session that it leads to.
        key: String,
    },

    /// The session of this key has messages or a summary, and another was to be renamed to
    /// it. Nothing was changed;
    /// [`StoreHandle::merge_session`](crate::StoreHandle::merge_session) puts the other's
    /// messages before its own.
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

    /// The session changed since the version the caller named, or the store was opened
    /// anew since. Nothing was changed: look again, and decide anew.
    #[error("session {key:?} {}, not at version {expected} as expected", if *.found == Version::ABSENT { String::from("does not exist") } else { format!("is at version {found}") })]
    VersionConflict {
        /// The session.
        key: String,
        /// What the caller expected.
        expected: Version,
        /// What the session is at.
        found: Version,
    },

    /// The position is none of the session's lines any more: its history was replaced or
    /// taken back since, or its file rewritten by a compaction that left out blank lines,
    /// or the store was opened anew. Or it never was: it is another session's. Nothing was
    /// changed; take a snapshot, and look for it there.
    #[error(
        "the position is none of session {key:?}: its history is another one now, or the position another session's; take a snapshot and look again"
    )]
    PositionNotFound {
        /// The session.
        key: String,
    },

    /// The pattern of a search is no regular expression, or one that takes too much memory.
    #[error("invalid pattern: {detail}")]
    InvalidPattern {
        /// What is wrong with it, and where.
        detail: String,
    },

    /// A window of a conversation would hold a tool's result without the call that asked
    /// for it, or a call without its result; [`Budget::unpaired`](crate::Budget::unpaired)
    /// says what else may become of them.
    #[error("tool call {id:?} of session {key:?} lacks its other half")]
    ToolCallUnpaired {
        /// The session.
        key: String,
        /// The call's id.
        id: String,
    },

    /// Changes came faster than they were asked for, and are not kept any more; or, beside a
    /// writer in another process, they left its journal before they were read. The next call
    /// goes on with the oldest that is. Who keeps something up to date with the changes lists
    /// the sessions anew.
    #[error("{} changes were missed: list the sessions to catch up", .missed.map_or_else(|| String::from("an unknown number of"), |n| n.to_string()))]
    ChangesMissed {
        /// How many; `None` if it is not known.
        missed: Option<u64>,
    },

    /// The id of a message is empty or longer than 256 bytes. Nothing was written.
    #[error("invalid message id of {size} bytes: {reason}")]
    InvalidMessageId {
        /// What is wrong with it.
        reason: &'static str,
        /// Its length, bytes.
        size: usize,
    },

    /// The database behind the store could not be reached, had no connection free, or did not
    /// answer in time. The command took no effect: try again later.
    #[error("the database is not available: {reason}")]
    Unavailable {
        /// What was tried, and what came of it.
        reason: Arc<str>,
    },

    /// The connection to the database was lost while a command was committed, and the
    /// database could not be asked since: it took effect, or it did not. Look, before it is
    /// done again.
    #[error("it is not known whether the command took effect: {reason}")]
    OutcomeUnknown {
        /// What was lost, and what came of looking.
        reason: Arc<str>,
    },

    /// Committed data is damaged: the journal, or the store's identity. Nothing was
    /// removed, and opening again finds the same. (A damaged or missing file of one
    /// session costs that session alone, and is told in the
    /// [`RecoveryReport`](crate::RecoveryReport).)
    #[error("{path} is corrupt: {detail} (Store::verify tells more, Store::repair mends)")]
    Corrupt {
        /// The damaged file.
        path: PathBuf,
        /// What was found.
        detail: String,
    },

    /// The operating system refused.
    #[error("{operation} {path}: {source}")]
    Io {
        /// What was attempted.
        operation: &'static str,
        /// On what.
        path: PathBuf,
        /// What the operating system said.
        source: Arc<io::Error>,
    },
}

impl Error {
    /// A position that the session's history does not have.
    pub(crate) fn no_position(key: &str) -> Self {
        Self::PositionNotFound { key: key.into() }
    }

    /// A key that was to be that of a session, and is an alias of this one.
    pub(crate) fn is_alias(alias: &str, key: &str) -> Self {
        Self::IsAlias {
            alias: alias.into(),
            key: key.into(),
        }
    }

    /// A deleted session was to be written to.
    pub(crate) fn deleted_key() -> Self {
        Self::InvalidKey {
            reason: "it is that of a deleted session",
        }
    }

    /// A session was to be renamed to the key that it has.
    pub(crate) fn own_key() -> Self {
        Self::InvalidKey {
            reason: "the session has this key already",
        }
    }

    /// Wraps an operating system error, telling a full disk apart.
    pub(crate) fn io(operation: &'static str, path: &Path, source: io::Error) -> Self {
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
    /// A sync of `path` failed: nothing is known any more of what it covered,
    /// unless no descriptor was left to sync it through.
    pub(crate) fn sync(path: &Path, source: io::Error) -> Self {
        let error = Self::io("sync", path, source);
        if error.out_of_descriptors() {
            return error;
        }
        Self::Poisoned {
            reason: error.reason(),
        }
    }

    /// Why a store stops because of this.
    pub(crate) fn reason(&self) -> Arc<str> {
        match self {
            Self::Poisoned { reason } => reason.clone(),
            other => other.to_string().into(),
        }
    }

    /// Whether the process, or the system, has no descriptor left.
    pub(crate) fn out_of_descriptors(&self) -> bool {
        // EMFILE and ENFILE.
        matches!(self, Self::Io { source, .. } if matches!(source.raw_os_error(), Some(23 | 24)))
    }

    /// Whether the same call may succeed later without anything being reopened.
    pub(crate) fn may_pass(&self) -> bool {
        matches!(self, Self::StorageFull { .. }) || self.out_of_descriptors()
    }
}

/// Whether an error means that space or quota ran out.
pub(crate) fn is_full(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge
    )
}

/// Checkpoint ids for a person: neighbours are drawn together.
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
