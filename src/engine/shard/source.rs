//! What a new session file is made of.

use std::ops::Range;
use std::sync::Arc;

use super::along::Move;
use super::rebase::Rebase;
use crate::engine::archive::Dropped;
use crate::ground::storage::StorageFile;

/// What a new file is made of.
#[derive(Debug)]
pub(crate) enum Source {
    /// These lines.
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
    /// A session of which one message is replaced or removed.
    Amended(Amended),
    /// What a session is taken back to.
    Rebase(Rebase),
    /// Another session, and this one's lines after it.
    Moved(Moved),
}

/// The lines of a session that goes on under another key, and of the one that has that key.
#[derive(Debug)]
pub(crate) struct Moved {
    pub(crate) older: FileLines,
    /// Its lines; `None` if there are none: the file is the older one's then.
    pub(crate) own: Option<FileLines>,
    pub(crate) moving: Arc<Move>,
}

/// All lines of a session.
#[derive(Clone, Debug)]
pub(crate) struct FileLines {
    pub(crate) file: Option<Arc<dyn StorageFile>>,
    /// Where the lines begin that are not hidden, and where they end.
    pub(crate) start: u64,
    pub(crate) end: u64,
    /// Lines that are hidden, and all of them.
    pub(crate) skip: u64,
    pub(crate) lines: u64,
    /// Whether the last lacks its LF.
    pub(crate) torn: bool,
}

/// A session's file, and what is to stand in the place of one line. The line itself is hidden
/// then, after those that are hidden already.
#[derive(Debug)]
pub(crate) struct Amended {
    pub(crate) file: Arc<dyn StorageFile>,
    /// Where the lines begin that are not hidden, and where they end.
    pub(crate) start: u64,
    pub(crate) end: u64,
    /// Where the old line stands, with its LF.
    pub(crate) old: Range<u64>,
    /// The new line, ended by LF; empty if there is none.
    pub(crate) line: Vec<u8>,
    /// How many lines the file has, and whether the last lacks its LF.
    pub(crate) lines: u64,
    pub(crate) torn: bool,
}

impl Source {
    /// How much is copied, about.
    pub(super) fn bytes(&self) -> u64 {
        match self {
            Self::Lines(lines) => lines.len() as u64,
            // What is hidden is read, for what its control records say.
            Self::Live { end, .. } => *end,
            Self::Promoted { end, lines, .. } => end + lines.len() as u64,
            Self::Amended(amended) => amended.end + amended.line.len() as u64,
            Self::Bytes { len, rest, .. } => len + rest.len() as u64,
            Self::Rebase(rebase) => rebase.bytes(),
            Self::Moved(moved) => {
                let own = moved.own.as_ref();
                moved.older.end + own.map_or(0, |own| own.end)
            }
        }
    }
}
