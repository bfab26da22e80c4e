//! The sources of a new session file.

use std::ops::Range;
use std::sync::Arc;

use sessionlog_wal::storage::StorageFile;

use super::along::Move;
use super::rebase::Rebase;
use crate::engine::archive::ArchiveSubject;

/// The source of a new file.
#[derive(Debug)]
pub(crate) enum FileSource {
    /// These lines.
    Lines(Vec<u8>),
    /// The live lines of a file, without those that every rewrite drops, after the control records
    /// among the skipped lines that still count.
    Live {
        file: Arc<dyn StorageFile>,
        start: u64,
        end: u64,
        /// The session of the skipped lines that are dropped.
        dropped: ArchiveSubject,
    },
    /// The lines that a session takes over, after the control records of its own skipped lines and
    /// its own live lines, none of which is a message.
    Promoted {
        file: Option<Arc<dyn StorageFile>>,
        start: u64,
        end: u64,
        lines: Vec<u8>,
    },
    /// Bytes as they are: the first `len` of a file, and those that come after.
    Bytes {
        file: Option<Arc<dyn StorageFile>>,
        len: u64,
        rest: Vec<u8>,
        /// Lines that stay hidden.
        skip: u64,
    },
    /// A session of which one message is replaced or removed.
    Amended(AmendedFile),
    /// A session that is taken back.
    Rebase(Rebase),
    /// Another session, and this one's lines after it.
    Moved(MovedFile),
}

/// The lines of a session that goes on under another key, and of the session that has that key.
#[derive(Debug)]
pub(crate) struct MovedFile {
    pub(crate) older: FileLines,
    /// The lines of the session that has the key; `None` if there are none: the file is the older
    /// one's then.
    pub(crate) own: Option<FileLines>,
    pub(crate) moving: Arc<Move>,
}

/// All lines of a session.
#[derive(Clone, Debug)]
pub(crate) struct FileLines {
    pub(crate) file: Option<Arc<dyn StorageFile>>,
    /// Offsets of the first line that is not hidden, and of the end.
    pub(crate) start: u64,
    pub(crate) end: u64,
    /// Number of hidden lines, and of all lines.
    pub(crate) skip: u64,
    pub(crate) lines: u64,
    /// True if the last line lacks its LF.
    pub(crate) torn: bool,
}

/// A session's file, and a replacement for one line. The line itself becomes hidden, after those
/// that are hidden already.
#[derive(Debug)]
pub(crate) struct AmendedFile {
    pub(crate) file: Arc<dyn StorageFile>,
    /// Offsets of the first line that is not hidden, and of the end.
    pub(crate) start: u64,
    pub(crate) end: u64,
    /// The range of the old line, with its LF.
    pub(crate) old: Range<u64>,
    /// The new line, ended by LF; empty if there is none.
    pub(crate) line: Vec<u8>,
    /// Number of lines in the file; and true if the last lacks its LF.
    pub(crate) lines: u64,
    pub(crate) torn: bool,
}

impl FileSource {
    /// Returns the number of bytes that are copied, roughly.
    pub(super) fn bytes(&self) -> u64 {
        match self {
            Self::Lines(lines) => lines.len() as u64,
            // Hidden lines are read too, for their control records.
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
