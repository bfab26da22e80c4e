//! The commands of callers for a session, and their outcomes.

use serde_json::value::RawValue;
use sessionlog::backend::kit::{Dates, KeptBackup, TagChange, UpdateOrder};
use sessionlog::{
    Appended, BackupLimits, ChangeKind, Durability, Fork, Keep, Message, Position, Result, Version,
};
use tokio::sync::{OwnedSemaphorePermit, oneshot};

use crate::row::NewLine;

/// A change of one session, with the channel for its caller's answer.
#[derive(Debug)]
pub(crate) struct Command {
    pub(crate) order: Order,
    pub(crate) answer: oneshot::Sender<Result<Outcome>>,
    /// The number of the session that it is about, for the queue.
    pub(crate) session: u64,
    /// Its place in the queue, until it is carried out.
    pub(crate) place: Option<OwnedSemaphorePermit>,
    /// The room that its bytes take, until it is answered.
    pub(crate) _room: OwnedSemaphorePermit,
}

/// A change of one session. It can be carried out again after a transaction was rolled back.
#[derive(Debug)]
pub(crate) struct Order {
    pub(crate) key: String,
    /// True if the key is taken literally.
    pub(crate) exact: bool,
    pub(crate) level: Durability,
    pub(crate) verb: Verb,
}

#[derive(Debug)]
pub(crate) enum Verb {
    Update(Update),
    Checkpoint {
        message: bool,
    },
    SetHistory {
        lines: Vec<NewLine>,
        expect: Option<Version>,
    },
    /// Replaces the message at a position by another one, or removes it.
    Amend {
        position: Position,
        message: Option<Message>,
    },
    Upsert(Identity),
    /// Takes over the content of an alias, if the session shows nothing. With `always` the identity
    /// is replaced in any case.
    Promote {
        identity: Identity,
        always: bool,
    },
    Delete {
        expect: Option<Version>,
    },
    RevertTo(i64),
    Clear,
    Compact,
    RestoreBackup(u64),
    PruneBackups(BackupLimits),
    /// Makes the session from another one, and has to lock that one, too.
    Fork {
        from: String,
        at: Fork,
    },
    /// Replaces all lines by whole lines, hidden ones included.
    Restore(Restore),
    /// Takes in a backup that was made elsewhere.
    TakeBackup(KeptBackup),
    /// Continues the session under another key, and has to lock that key, too. With `merge` its
    /// lines come before those of the other key.
    Move {
        to: String,
        merge: bool,
    },
}

/// Several changes at once; see [`sessionlog::Update`].
#[derive(Debug, Default)]
pub(crate) struct Update {
    pub(crate) lines: Vec<NewLine>,
    pub(crate) summary: Option<String>,
    pub(crate) tags: Option<TagChange>,
    pub(crate) keep: Option<Keep>,
    pub(crate) expect: Option<Version>,
    /// A position of the history that the session must still have.
    pub(crate) after: Option<Position>,
    pub(crate) once: Option<String>,
    /// The parts that a copy brings along.
    pub(crate) carried: Option<Carried>,
    /// The times of a transcript.
    pub(crate) dates: Option<Dates>,
}

/// The content that a session had elsewhere besides its lines.
#[derive(Clone, Debug, Default)]
pub(crate) struct Carried {
    /// The ids of the messages that it took once, the oldest first.
    pub(crate) ids: Vec<String>,
    /// The time of its last change, in RFC 3339.
    pub(crate) updated_at: String,
}

#[derive(Clone, Debug)]
pub(crate) struct Identity {
    pub(crate) scope: Option<Box<RawValue>>,
    pub(crate) aliases: Vec<String>,
}

/// A session as it was elsewhere.
#[derive(Debug)]
pub(crate) struct Restore {
    pub(crate) lines: Vec<NewLine>,
    pub(crate) summary: String,
    pub(crate) tags: TagChange,
    pub(crate) identity: Identity,
    pub(crate) created_at: String,
    pub(crate) carried: Carried,
    /// The version of the session for which this was decided.
    pub(crate) compared: Version,
    /// True if the replaced content becomes a backup. If the session is at another version by now,
    /// the content becomes a backup in any case: the decision did not consider what came meanwhile.
    pub(crate) keeps: bool,
}

impl Update {
    /// Returns the kind of change that followers are told. `hides` is true if the update may hide
    /// lines.
    pub(crate) fn kind(&self, hides: bool) -> ChangeKind {
        if hides {
            ChangeKind::Truncated
        } else if self.summary.is_some() || self.tags.is_some() {
            ChangeKind::Updated
        } else {
            ChangeKind::Appended
        }
    }

    /// Returns what decides whether it applies.
    pub(crate) fn order(&self) -> UpdateOrder {
        UpdateOrder {
            expect: self.expect,
            after: self.after,
            hides: self.keep.is_some(),
            adds_nothing: self.lines.is_empty()
                && self.summary.is_none()
                && self.tags.is_none()
                && self.once.is_none()
                && self.carried.is_none(),
        }
    }
}

impl Order {
    /// Returns the keys of all sessions that it is about.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &str> {
        let other = match &self.verb {
            Verb::Fork { from, .. } => Some(from.as_str()),
            Verb::Move { to, .. } => Some(to.as_str()),
            _ => None,
        };
        std::iter::once(self.key.as_str()).chain(other)
    }

    /// True if the aliases of other sessions decide what its keys mean.
    pub(crate) fn asks_for_aliases(&self) -> bool {
        !self.exact || self.verb.goes_along() || matches!(self.verb, Verb::Move { .. })
    }
}

/// The outcome of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Done,
    /// The version after it, and true if the message was new.
    Updated(Version, bool),
    Whether(bool),
    Number(i64),
}

impl Outcome {
    pub(crate) fn version(self) -> Version {
        match self {
            Self::Updated(version, _) => version,
            _ => Version::ABSENT,
        }
    }

    pub(crate) fn appended(self) -> Appended {
        match self {
            Self::Updated(version, false) => Appended::Duplicate(version),
            other => Appended::New(other.version()),
        }
    }
}

impl Verb {
    /// Returns the ids of the messages that it brings and that are taken once.
    pub(crate) fn message_ids(&self) -> Vec<&str> {
        let (once, carried) = match self {
            Self::Update(update) => (&update.once, update.carried.as_ref()),
            Self::Restore(restore) => (&None, Some(&restore.carried)),
            _ => (&None, None),
        };
        let carried = carried.into_iter().flat_map(|carried| &carried.ids);
        once.iter().chain(carried).map(String::as_str).collect()
    }

    /// True if it follows a session to its new key, even if it takes keys literally. The other
    /// verbs mean the key itself.
    pub(crate) fn goes_along(&self) -> bool {
        match self {
            Self::Update(update) => update.carried.is_none(),
            Self::Upsert(_)
            | Self::Promote { .. }
            | Self::Restore(_)
            | Self::TakeBackup(_)
            | Self::Move { .. } => false,
            _ => true,
        }
    }

    /// True if it can share a transaction with others. Then it needs the session's row and no
    /// other.
    pub(crate) fn is_simple(&self) -> bool {
        let plain = |update: &Update| update.keep.is_none() && update.tags.is_none();
        matches!(self, Self::Update(update) if plain(update))
    }

    /// True if it reads or writes about as many lines as the session has.
    pub(crate) fn is_bulky(&self) -> bool {
        !self.is_simple()
            && !matches!(
                self,
                Self::Checkpoint { .. } | Self::Upsert(_) | Self::Update(_)
            )
    }

    /// True if it removes content, which must not come back.
    pub(crate) fn is_always_durable(&self) -> bool {
        match self {
            Self::Update(update) => update.keep.is_some(),
            Self::Checkpoint { .. } | Self::Upsert(_) => false,
            _ => true,
        }
    }

    /// Returns the number of bytes that it holds.
    pub(crate) fn bytes(&self) -> usize {
        let of_lines = |lines: &[NewLine]| {
            let sizes = lines
                .iter()
                .map(|line| line.line.len() + line.said.as_ref().map_or(0, String::len) + 64);
            sizes.sum::<usize>()
        };
        let of = |identity: &Identity| {
            let aliases = identity.aliases.iter().map(String::len).sum::<usize>();
            aliases + identity.scope.as_ref().map_or(0, |scope| scope.get().len())
        };
        match self {
            Self::Update(update) => {
                of_lines(&update.lines)
                    + update.summary.as_ref().map_or(0, String::len)
                    + update.tags.as_ref().map_or(0, TagChange::size)
            }
            Self::SetHistory { lines, .. } => of_lines(lines),
            Self::Amend { message, .. } => message.as_ref().map_or(0, |one| one.text().len()),
            Self::Restore(restore) => {
                of_lines(&restore.lines) + of(&restore.identity) + restore.tags.size()
            }
            Self::Upsert(identity) | Self::Promote { identity, .. } => of(identity),
            Self::TakeBackup(backup) => backup.lines.len(),
            _ => 0,
        }
    }
}
