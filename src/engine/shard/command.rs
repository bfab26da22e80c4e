//! What a shard is asked to do.

use std::sync::Arc;

use serde_json::value::RawValue;

use super::converse::Converse;
use crate::Durability;
use crate::engine::snapshot::Snapshot;
use crate::error::Result;
use crate::ground::sync::slot::Promise;

/// A promise of a verb's result.
pub(crate) type Answer<T> = Promise<Result<T>>;

/// A command for the session `key`.
#[derive(Debug)]
pub(crate) struct Command {
    pub(crate) key: Arc<str>,
    pub(crate) verb: Verb,
}

/// Everything a session's owner can be asked. What is rare is boxed: every command
/// is as large as the largest.
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
        identity: Box<Identity>,
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
    /// Take over `candidate`, unless the session has something to lose. Without
    /// an identity the session keeps its own, and any live line is something to
    /// lose.
    Promote {
        identity: Option<Box<Identity>>,
        candidate: Box<Candidate>,
        answer: Answer<bool>,
    },
    Ensure(Box<Ensure>),
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
    /// Whether it only looks at what is settled: a store that stopped writing
    /// answers it.
    pub(crate) fn looks(&self) -> bool {
        match self {
            Self::Load { .. } => true,
            Self::Converse(verb) => verb.looks(),
            _ => false,
        }
    }

    /// Whether it makes the session it is for, if there is none.
    pub(crate) fn creates(&self) -> bool {
        match self {
            Self::Append { .. }
            | Self::SetSummary { .. }
            | Self::UpsertMeta { .. }
            | Self::SetHistory { .. }
            | Self::Promote { .. }
            | Self::Ensure(_) => true,
            Self::Converse(verb) => verb.creates(),
            Self::Truncate { .. }
            | Self::Compact { .. }
            | Self::Delete { .. }
            | Self::Load { .. }
            | Self::FinishCompaction => false,
        }
    }
}

/// Where a session belongs, and what else it is called.
#[derive(Debug)]
pub(crate) struct Identity {
    pub(crate) scope: Option<Box<RawValue>>,
    pub(crate) aliases: Vec<String>,
    /// What a scope means is no business of the engine's.
    pub(crate) judge: Judge,
}

/// Whether the session of a key, which has the first scope, or none, may get the
/// second.
pub(crate) type Judge = fn(&str, Option<&RawValue>, &RawValue) -> bool;

/// Give a session its identity and, if it has nothing to lose, take over what an
/// alias has, in one record.
#[derive(Debug)]
pub(crate) struct Ensure {
    pub(crate) identity: Box<Identity>,
    pub(crate) search: Search,
    pub(crate) level: Durability,
    pub(crate) answer: EnsureAnswer,
}

/// Whether it took something over; `None` where the caller must search first.
pub(crate) type EnsureAnswer = Answer<Option<bool>>;

/// What became of the search for something to take over.
#[derive(Debug)]
pub(crate) enum Search {
    /// The session had something to lose.
    Needless,
    /// No alias has anything.
    Vain,
    /// What the alias of that name has.
    Found(String, Candidate),
}

/// What an alias session offers for promotion.
#[derive(Debug)]
pub(crate) struct Candidate {
    pub(crate) lines: Vec<u8>,
    pub(crate) summary: String,
}
