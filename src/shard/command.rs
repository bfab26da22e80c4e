//! What a shard is asked to do.

use std::sync::Arc;

use serde_json::value::RawValue;

use super::converse::Converse;
use crate::Durability;
use crate::error::Result;
use crate::snapshot::Snapshot;
use crate::sync::slot::Promise;

/// A promise of a verb's result.
pub(crate) type Answer<T> = Promise<Result<T>>;

/// A command for the session `key`.
#[derive(Debug)]
pub(crate) struct Command {
    pub(crate) key: Arc<str>,
    pub(crate) verb: Verb,
}

/// Everything a session's owner can be asked.
#[derive(Debug)]
pub(crate) enum Verb {
    /// Append whole lines, each ended by LF.
    Append {
        lines: Vec<u8>,
        count: u32,
        level: Durability,
        answer: Answer<()>,
    },
    SetSummary {
        summary: String,
        level: Durability,
        answer: Answer<()>,
    },
    UpsertMeta {
        scope: Option<Box<RawValue>>,
        aliases: Vec<String>,
        level: Durability,
        answer: Answer<()>,
    },
    Truncate {
        keep_last: usize,
        answer: Answer<()>,
    },
    SetHistory {
        lines: Vec<u8>,
        count: u32,
        answer: Answer<()>,
    },
    /// `None` where the supervisor asks.
    Compact {
        answer: Option<Answer<()>>,
    },
    Delete {
        answer: Answer<()>,
    },
    /// Take over `candidate`, unless the session has something to lose.
    Promote {
        scope: Option<Box<RawValue>>,
        aliases: Vec<String>,
        candidate: Candidate,
        answer: Answer<bool>,
    },
    /// Publish a snapshot that can be read.
    Load {
        answer: Answer<Arc<Snapshot>>,
    },
    /// A background compaction has its copy ready; swap it in.
    FinishCompaction,
    /// About the session's conversation.
    Converse(Box<Converse>),
}

impl Verb {
    /// Whether it makes the session it is for, if there is none.
    pub(crate) fn creates(&self) -> bool {
        match self {
            Self::Append { .. }
            | Self::SetSummary { .. }
            | Self::UpsertMeta { .. }
            | Self::SetHistory { .. }
            | Self::Promote { .. } => true,
            Self::Converse(verb) => verb.creates(),
            Self::Truncate { .. }
            | Self::Compact { .. }
            | Self::Delete { .. }
            | Self::Load { .. }
            | Self::FinishCompaction => false,
        }
    }
}

/// What an alias session offers for promotion.
#[derive(Debug)]
pub(crate) struct Candidate {
    pub(crate) lines: Vec<u8>,
    pub(crate) count: u32,
    pub(crate) summary: String,
}
