//! What a worker staged in one turn: records for the journal, and what to do
//! with the session files once those records hold.

use std::collections::VecDeque;

use super::command::{Answer, EnsureAnswer};
use super::rewrite::Prepared;
use super::stage::Rebasing;
use crate::Durability;
use crate::disk::journal::record::{self, Record};
use crate::disk::session_file::Meta;

/// One staged change, to be applied when its record holds.
#[derive(Debug)]
pub(crate) struct Op {
    pub(crate) shard: usize,
    pub(crate) session: usize,
    /// The flush epoch its record carries a sidecar image for, 0 for none.
    pub(crate) imaged: u64,
    pub(crate) change: Change,
}

/// What to do to a session once the record holds.
#[derive(Debug)]
pub(crate) enum Change {
    Append {
        /// Length of its lines. They stand in the session's tail.
        len: usize,
        lines: u64,
        meta: Meta,
        /// Gone once answered: buffered changes are shown before they are
        /// synced.
        answer: Option<Answer<()>>,
    },
    Meta {
        meta: Meta,
        answer: Option<MetaAnswer>,
        shown: bool,
    },
    Truncate {
        meta: Meta,
        start: u64,
        answer: Answer<()>,
    },
    Swap {
        /// Boxed: every operation is as large as the largest.
        prepared: Box<Prepared>,
        tail: Vec<u8>,
        tail_lines: u64,
        meta: Meta,
        answer: SwapAnswer,
    },
    Delete {
        answer: Answer<()>,
    },
}

impl Change {
    /// The sidecar that goes with it, if it leaves one.
    pub(crate) fn meta(&self) -> Option<&Meta> {
        match self {
            Self::Append { meta, .. }
            | Self::Meta { meta, .. }
            | Self::Truncate { meta, .. }
            | Self::Swap { meta, .. } => Some(meta),
            Self::Delete { .. } => None,
        }
    }
}

/// Who waits for a sidecar to change.
#[derive(Debug)]
pub(crate) enum MetaAnswer {
    Plain(Answer<()>),
    Ensure(EnsureAnswer),
}

/// Who waits for a swap.
#[derive(Debug)]
pub(crate) enum SwapAnswer {
    SetHistory(Answer<()>),
    Promote(Answer<bool>),
    Ensure(EnsureAnswer),
    Compaction(Vec<Answer<()>>),
    Fork(Answer<()>),
    Rebase(Box<Rebasing>),
}

/// What one turn staged.
#[derive(Debug, Default)]
pub(crate) struct Staging {
    pub(crate) records: Vec<u8>,
    pub(crate) ops: VecDeque<Op>,
    pub(crate) durable: bool,
}

impl Staging {
    /// Stages one change and its record.
    pub(crate) fn push(&mut self, op: Op, record: &Record<'_>, level: Durability) {
        record::encode(&mut self.records, record);
        self.ops.push_back(op);
        self.durable |= level == Durability::Durable;
    }
}

impl Op {
    /// Lines of it that readers do not see yet.
    pub(crate) fn unseen_lines(&self) -> u64 {
        match self.change {
            Change::Append {
                lines,
                answer: Some(_),
                ..
            } => lines,
            _ => 0,
        }
    }
}
