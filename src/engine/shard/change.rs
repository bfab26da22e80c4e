//! The changes that a worker stages in one turn: records for the journal, and the changes to
//! sessions once those records hold.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use sessionlog_core::session_file::{Meta, MetaStep};
use sessionlog_wal::journal::record::{self, Record};

use super::along::Move;
use super::answer::Ack;
use super::rebase::Rebasing;
use super::rewrite::PreparedFile;
use crate::Durability;

/// One staged change, to be applied when its record holds.
#[derive(Debug)]
pub(crate) struct Op {
    pub(crate) shard: usize,
    pub(crate) session: usize,
    /// The flush epoch of the sidecar image in its record, 0 if the record has none.
    pub(crate) imaged: u64,
    /// True if readers see it and its caller has the answer: a buffered change is shown before it
    /// is synced.
    pub(crate) shown: bool,
    pub(crate) ack: Ack,
    pub(crate) change: SessionChange,
}

/// The change to a session once the record holds.
#[derive(Debug)]
pub(crate) enum SessionChange {
    Append {
        added: AddedLines,
        meta: MetaStep,
    },
    Meta {
        meta: Meta,
    },
    /// Changes nothing: the record has the whole sidecar, as the earlier changes make it.
    Image {
        meta: Meta,
    },
    /// Hides the lines before `start`, and adds some.
    Truncate {
        added: AddedLines,
        meta: Meta,
        start: u64,
    },
    /// Boxed: every change is as large as the largest.
    Swap {
        swap: Box<Swap>,
        meta: Meta,
    },
    Delete,
}

/// Lines that a record adds.
#[derive(Debug)]
pub(crate) struct AddedLines {
    /// Where they begin in the record's batch, and their length, bytes.
    pub(crate) at: usize,
    pub(crate) len: usize,
    pub(crate) lines: u64,
    /// CRC-32 of the whole log after them.
    pub(crate) crc: u32,
    /// For a message that is to be there only once: the line that names it.
    pub(crate) once: Option<Box<str>>,
}

/// A new session file that takes the old one's name.
#[derive(Debug)]
pub(crate) struct Swap {
    pub(crate) prepared: PreparedFile,
    /// Length of the lines that were added to the prepared file since, bytes.
    pub(crate) tail: u64,
    pub(crate) tail_lines: u64,
    /// CRC-32 of the whole file.
    pub(crate) crc: u32,
    pub(crate) origin: Origin,
}

/// The origin of a new session file's lines.
#[derive(Debug)]
pub(crate) enum Origin {
    /// The live lines of the old one.
    Compaction {
        /// When it began, by the monotonic clock.
        began: Duration,
    },
    /// Lines that were not there before; they are counted as written.
    Lines,
    /// The lines of the old one, of which one is hidden now and another may take its place. It
    /// begins as the old one does.
    Amended,
    /// A backup, or the first bytes of the old one.
    Rebase(Box<Rebasing>),
    /// The lines of another session, which goes on as this one.
    Moved(Arc<Move>),
}

impl SessionChange {
    /// Updates `sidecar` to its state after this change, if the change leaves one.
    pub(crate) fn change(&self, sidecar: &mut Meta) {
        match self {
            Self::Append { meta, .. } => sidecar.take(meta),
            Self::Meta { meta }
            | Self::Image { meta }
            | Self::Truncate { meta, .. }
            | Self::Swap { meta, .. } => sidecar.clone_from(meta),
            Self::Delete => {}
        }
    }

    /// Returns the lines that it adds.
    pub(crate) fn added(&self) -> Option<&AddedLines> {
        match self {
            Self::Append { added, .. } | Self::Truncate { added, .. } => Some(added),
            Self::Meta { .. } | Self::Image { .. } | Self::Swap { .. } | Self::Delete => None,
        }
    }

    /// True if settling it certainly touches no file.
    pub(crate) fn is_plain(&self) -> bool {
        matches!(
            self,
            Self::Append { .. } | Self::Meta { .. } | Self::Image { .. }
        )
    }
}

/// Room for the records of several batches, bytes. Without it, each batch would be allocated on one
/// thread and freed on another.
const BLOCK: usize = 1 << 20;

/// Usual upper bound of a record's bytes besides its lines.
const AROUND: usize = 1 << 10;

/// The changes and records of one turn.
#[derive(Debug, Default)]
pub(crate) struct Staging {
    pub(crate) records: BytesMut,
    pub(crate) ops: VecDeque<Op>,
    pub(crate) durable: bool,
    /// True if a record frees space.
    pub(crate) frees: bool,
}

impl Staging {
    /// Stages one change and its record.
    pub(crate) fn push(&mut self, op: Op, record: &Record<'_>, level: Durability) {
        self.encode(record, level);
        self.ops.push_back(op);
    }

    /// Takes the records, with room for the record that ends their batch. Later records are staged
    /// behind them.
    pub(crate) fn take_records(&mut self) -> BytesMut {
        let len = self.records.len();
        self.records.reserve(record::COMMIT_LEN);
        let mut rest = self.records.split_off(len + record::COMMIT_LEN);
        // The remainder of a larger block would keep all of that block in memory.
        if len > BLOCK || !(BLOCK / 16..=BLOCK).contains(&rest.capacity()) {
            rest = BytesMut::with_capacity(BLOCK);
        }
        std::mem::replace(&mut self.records, rest)
    }

    /// Stages the record of a change that is pushed next, and returns the offset of its end in the
    /// batch.
    pub(crate) fn encode(&mut self, record: &Record<'_>, level: Durability) -> usize {
        if let Record::Append { bytes, .. } = record {
            // A large one in one step: a buffer that grows twice is copied.
            self.records.reserve(bytes.len() + AROUND);
        }
        record::encode(&mut self.records, record);
        self.durable |= level == Durability::Durable;
        self.frees |= record.frees_space();
        self.records.len()
    }
}

impl AddedLines {
    /// The lines, within their batch.
    pub(crate) fn lines(&self, batch: &Bytes) -> Option<Bytes> {
        (self.len > 0).then(|| batch.slice(self.at..self.at + self.len))
    }
}

impl Op {
    /// True if a caller asked for it.
    pub(crate) fn is_command(&self) -> bool {
        !matches!(self.ack, Ack::Nobody)
    }

    /// Returns the lines of it that readers do not see yet: their number, and their bytes.
    pub(crate) fn unseen(&self) -> (u64, u64) {
        match self.change.added() {
            Some(added) if !self.shown => (added.lines, added.len as u64),
            _ => (0, 0),
        }
    }
}
