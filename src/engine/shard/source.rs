//! What a new session file is made of.

use std::sync::Arc;

use super::rebase::Rebase;
use crate::engine::archive::Dropped;
use crate::ground::storage::StorageFile;

/// What a new file is made of.
#[derive(Debug)]
pub(crate) enum Source {
    /// Whole lines.
    Lines(Vec<u8>),
    /// The live lines of a file, without those that every rewrite drops, after
    /// the control records among the skipped lines that still count.
    Live {
        file: Arc<dyn StorageFile>,
        start: u64,
        end: u64,
        /// Whose skipped lines are dropped.
        dropped: Dropped,
    },
    /// What a session takes over, after what its own skipped lines still say and
    /// its own live lines, none of which is a message.
    Promoted {
        file: Option<Arc<dyn StorageFile>>,
        start: u64,
        end: u64,
        lines: Vec<u8>,
    },
    /// Bytes as they are: the first `len` of a file, and what comes after.
    Bytes {
        file: Option<Arc<dyn StorageFile>>,
        len: u64,
        rest: Vec<u8>,
        /// Lines that stay hidden.
        skip: u64,
    },
    /// What a session is taken back to.
    Rebase(Rebase),
}

impl Source {
    /// How much is copied, about.
    pub(super) fn bytes(&self) -> u64 {
        match self {
            Self::Lines(lines) => lines.len() as u64,
            // What is hidden is read, for what its control records say.
            Self::Live { end, .. } => *end,
            Self::Promoted { end, lines, .. } => end + lines.len() as u64,
            Self::Bytes { len, rest, .. } => len + rest.len() as u64,
            Self::Rebase(rebase) => rebase.bytes(),
        }
    }
}
