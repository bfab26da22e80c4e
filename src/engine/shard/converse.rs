//! What a shard is asked about a session's conversation.

use std::sync::Arc;
use std::sync::atomic::AtomicI64;

use super::command::Answer;
use super::context::Outbox;
use crate::Durability;
use crate::disk::files::backup::{BackupReason, Name};
use crate::engine::snapshot::{Looked, Standing};
use crate::error::Error;
use crate::ground::storage::StorageFile;
use crate::ground::sync::watch::WatchReceiver;

/// A verb on a session's conversation, its backups, or whoever watches it.
#[derive(Debug)]
pub(crate) enum Converse {
    /// Say where the conversation stands.
    Look { answer: Answer<Arc<Looked>> },
    /// Append a control record.
    Note {
        note: Note,
        level: Durability,
        answer: Answer<()>,
    },
    /// Go back to before a checkpoint.
    Revert { id: i64, answer: Answer<()> },
    /// Start anew, for that reason.
    Clear {
        reason: BackupReason,
        answer: Answer<()>,
    },
    /// Go back to a backup.
    Restore { number: u64, answer: Answer<()> },
    /// Become a copy, if there is no such session.
    Fork { copy: Copied, answer: Answer<()> },
    /// Know nothing any more of backups that are about to be removed: until
    /// then no session is taken back to one. Which of them were there still.
    Forget {
        names: Vec<Name>,
        answer: Answer<Vec<Name>>,
    },
    /// Tell of every change.
    Subscribe {
        answer: Answer<WatchReceiver<Standing>>,
    },
}

/// A control record to append.
#[derive(Debug)]
pub(crate) enum Note {
    Usage(i64),
    SystemPrompt(String),
    Checkpoint {
        /// Whether the model is told, in a message.
        message: bool,
        /// Where its id goes before the answer.
        id: Arc<AtomicI64>,
    },
}

/// The lines that a fork begins with.
#[derive(Debug)]
pub(crate) struct Copied {
    /// The first `len` bytes of `file`, and what comes behind them.
    pub(crate) file: Option<Arc<dyn StorageFile>>,
    pub(crate) len: u64,
    pub(crate) behind: Vec<u8>,
    /// Lines to hide, from the start.
    pub(crate) skip: u64,
    pub(crate) summary: String,
}

impl Converse {
    /// See [`Verb::creates`](super::command::Verb::creates).
    pub(crate) fn creates(&self) -> bool {
        matches!(self, Self::Note { .. } | Self::Fork { .. })
    }

    /// Whether it cannot be carried out without knowing what the control
    /// records of the session say.
    pub(super) fn needs_conversation(&self) -> bool {
        matches!(
            self,
            Self::Look { .. } | Self::Note { .. } | Self::Revert { .. }
        )
    }

    /// See [`Verb::looks`](super::command::Verb::looks).
    pub(super) fn looks(&self) -> bool {
        matches!(self, Self::Look { .. })
    }

    /// Whether it changes nothing, and so need not wait its turn.
    pub(super) fn reads(&self) -> bool {
        matches!(self, Self::Look { .. } | Self::Subscribe { .. })
    }

    /// Answers where there is no session; a subscription finds one to come.
    pub(super) fn answer_without_session(self, key: &str, out: &mut Outbox) {
        match self {
            Self::Look { answer } => out.answer(answer, Ok(Arc::new(Looked::empty(key)))),
            Self::Revert { id, answer } => out.answer(
                answer,
                Err(Error::CheckpointNotFound {
                    id,
                    existing: Vec::new(),
                    lost: false,
                }),
            ),
            Self::Clear { answer, .. } => out.answer(answer, Ok(())),
            Self::Forget { answer, .. } => out.answer(answer, Ok(Vec::new())),
            Self::Restore { number, answer } => {
                let key = key.into();
                out.answer(answer, Err(Error::BackupNotFound { key, number }));
            }
            Self::Note { .. } | Self::Fork { .. } | Self::Subscribe { .. } => {}
        }
    }

    /// Answers a verb that will not be carried out.
    pub(super) fn refuse(self, error: &Error, out: &mut Outbox) {
        let error = error.clone();
        match self {
            Self::Look { answer } => out.answer(answer, Err(error)),
            Self::Subscribe { answer } => out.answer(answer, Err(error)),
            Self::Forget { answer, .. } => out.answer(answer, Err(error)),
            Self::Note { answer, .. }
            | Self::Revert { answer, .. }
            | Self::Clear { answer, .. }
            | Self::Restore { answer, .. }
            | Self::Fork { answer, .. } => out.answer(answer, Err(error)),
        }
    }
}
