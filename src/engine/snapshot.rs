//! The data that a reader holds: one moment of one session.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use sessionlog_core::error::Result;
use sessionlog_core::session_file::{Before, ControlMark, Conversation, Meta, MetaStep};
use sessionlog_wal::storage::StorageFile;
use sessionlog_wal::sync::Mutex;

use crate::engine::numbering::Numbering;

/// The part of a session that every append changes: its sidecar, and the lines that the journal has
/// and the session file does not have yet. It only grows. Once its lines are in the file, another
/// tail takes its place, and its holders keep the old one unchanged.
#[derive(Debug)]
pub(crate) struct Tail {
    head: Mutex<TailHead>,
    /// True if its lines are a copy, to which nothing is added.
    is_copy: bool,
}

/// Fields that an append needs first come first: they are fetched with the reference count.
#[derive(Debug)]
#[repr(C)]
struct TailHead {
    /// The lines, by reference into the records of their batches. These stay in memory meanwhile,
    /// about as much as the journal takes on disk. Lines that [wait for longer](Tail::keep_lines)
    /// refer to no batch.
    lines: Vec<Bytes>,
    /// Bytes of all lines.
    len: usize,
    /// True if the lines refer to no batch.
    is_kept: bool,
    meta: Meta,
}

impl TailHead {
    fn new(meta: Meta, lines: Vec<Bytes>, is_kept: bool) -> Self {
        Self {
            len: lines.iter().map(Bytes::len).sum(),
            lines,
            is_kept,
            meta,
        }
    }

    /// The bytes in `range`; the tail must have them.
    fn copy(&self, range: Range<usize>) -> Vec<u8> {
        // Otherwise fewer bytes would be written to a file without an error.
        assert!(range.end <= self.len, "lines are missing");
        let mut bytes = Vec::with_capacity(range.len());
        let mut at = 0;
        for lines in &self.lines {
            let from = range.start.clamp(at, at + lines.len()) - at;
            let to = range.end.clamp(at, at + lines.len()) - at;
            bytes.extend_from_slice(&lines[from..to]);
            at += lines.len();
        }
        bytes
    }

    /// The lines without the first `len` bytes.
    fn behind(&self, mut len: usize) -> Vec<Bytes> {
        let mut rest = Vec::new();
        for lines in &self.lines {
            let skipped = len.min(lines.len());
            len -= skipped;
            if skipped < lines.len() {
                rest.push(lines.slice(skipped..));
            }
        }
        rest
    }
}

impl Tail {
    /// An empty tail.
    pub(crate) fn new(meta: Meta) -> Arc<Self> {
        Arc::new(Self {
            head: Mutex::new(TailHead::new(meta, Vec::new(), true)),
            is_copy: false,
        })
    }

    /// A tail that shows `lines` and never gets others.
    pub(crate) fn with_lines(meta: Meta, lines: Vec<u8>) -> Arc<Self> {
        let lines = Some(lines).filter(|lines| !lines.is_empty());
        let lines = lines.map(Bytes::from).into_iter().collect();
        Arc::new(Self {
            head: Mutex::new(TailHead::new(meta, lines, true)),
            is_copy: true,
        })
    }

    /// Shows lines, and the sidecar's change with them, in one moment.
    pub(crate) fn show(&self, lines: Option<Bytes>, meta: &MetaStep) {
        let mut head = self.head.lock();
        if let Some(lines) = lines {
            head.len += lines.len();
            head.is_kept = false;
            head.lines.push(lines);
        }
        head.meta.take(meta);
    }

    /// Returns a tail without the first `len` bytes, which are in the file now.
    pub(crate) fn behind(&self, len: usize) -> Arc<Self> {
        let head = self.head.lock();
        let rest = TailHead::new(head.meta.clone(), head.behind(len), head.is_kept);
        Arc::new(Self {
            head: Mutex::new(rest),
            is_copy: false,
        })
    }

    /// Copies the lines that refer to a batch: lines that wait for long must not keep batches in
    /// memory.
    pub(crate) fn keep_lines(&self) {
        let mut head = self.head.lock();
        if !std::mem::replace(&mut head.is_kept, true) {
            let lines = head.copy(0..head.len);
            head.lines = vec![lines.into()];
        }
    }

    /// Replaces the sidecar.
    pub(crate) fn set_meta(&self, meta: Meta) {
        self.head.lock().meta = meta;
    }

    /// A copy of the bytes in `range`.
    pub(crate) fn copy(&self, range: Range<usize>) -> Vec<u8> {
        self.head.lock().copy(range)
    }

    /// This moment's sidecar, and the number of bytes in the tail.
    fn moment(&self) -> (Meta, usize) {
        let head = self.head.lock();
        (head.meta.clone(), head.len)
    }
}

/// The most bytes that are decoded on the thread that polls a reply, of the lines in memory and of
/// the end of the file each. This takes some 25 µs, for which the thread's other tasks wait.
/// Handing it to another thread takes 10 µs more, and far more if many callers do.
pub(crate) const LITTLE: usize = 16 << 10;

/// The published state of a loaded session. With one look at its tail it makes a [`Snapshot`].
#[derive(Debug, Clone)]
pub(crate) struct Live {
    /// `None` if there is nothing to read, or if the owner closed it.
    pub(crate) file: Option<Arc<dyn StorageFile>>,
    /// The live range of the file.
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) tail: Arc<Tail>,
    pub(crate) numbering: Numbering,
}

impl Live {
    /// Takes a snapshot of this moment.
    pub(crate) fn snapshot(&self) -> Snapshot {
        let (meta, tail_len) = self.tail.moment();
        Snapshot {
            meta,
            live: self.clone(),
            tail_len,
        }
    }
}

/// One moment of a session: a file, its live range, the lines after it that only the journal has so
/// far, and the matching sidecar. A snapshot keeps the file open, so a later compaction or deletion
/// changes nothing for its holder.
#[derive(Debug, Clone)]
pub(crate) struct Snapshot {
    pub(crate) meta: Meta,
    pub(crate) live: Live,
    pub(crate) tail_len: usize,
}

impl Snapshot {
    /// A session without lines.
    pub(crate) fn empty(key: &str) -> Self {
        Self::without_lines(Meta::empty(key))
    }

    /// A session that consists of a sidecar only.
    pub(crate) fn without_lines(meta: Meta) -> Self {
        Self {
            live: Live {
                file: None,
                start: 0,
                end: 0,
                tail: Tail::new(meta.clone()),
                numbering: Numbering::default(),
            },
            meta,
            tail_len: 0,
        }
    }

    /// Hides the lines before `start`.
    pub(crate) fn hide_before(&mut self, start: u64) {
        let Live { end, tail, .. } = &mut self.live;
        if let Some(hidden) = start.checked_sub(*end) {
            let lines = tail.copy((hidden as usize).min(self.tail_len)..self.tail_len);
            self.tail_len = lines.len();
            *tail = Tail::with_lines(self.meta.clone(), lines);
            *end = start;
        }
        self.live.start = start;
    }

    /// Copies the lines that only the journal has: a snapshot that is kept for long must not keep
    /// batches in memory.
    pub(crate) fn keep_lines(&mut self) {
        if !self.live.tail.is_copy {
            self.live.tail = Tail::with_lines(self.meta.clone(), self.tail());
        }
    }

    /// True if it has lines, hidden ones included, in a file that it does not hold.
    pub(crate) fn lacks_file(&self) -> bool {
        self.live.end > 0 && self.live.file.is_none()
    }

    /// True if at most [`LITTLE`] bytes of lines are in memory.
    pub(crate) fn is_little(&self) -> bool {
        self.tail_len <= LITTLE
    }

    /// The lines that only the journal has.
    pub(crate) fn tail(&self) -> Vec<u8> {
        self.live.tail.copy(0..self.tail_len)
    }
}

/// The state of a session, for watchers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Standing {
    pub(crate) generation: u64,
    pub(crate) lines: u64,
    pub(crate) skip: u64,
}

/// One moment of a session's conversation.
#[derive(Debug)]
pub(crate) struct ConversationMoment {
    /// The control records; those after `end` do not count yet.
    pub(crate) conversation: Arc<Conversation>,
    /// The offset where the live lines begin; `end` is where the lines end.
    pub(crate) start: u64,
    pub(crate) end: u64,
    /// Raw lines, skipped ones included.
    pub(crate) lines: u64,
    /// All lines, skipped ones included.
    pub(crate) snapshot: Snapshot,
}

impl ConversationMoment {
    /// The moment of a session without lines.
    pub(crate) fn empty(key: &str) -> Self {
        Self {
            conversation: Arc::default(),
            start: 0,
            end: 0,
            lines: 0,
            snapshot: Snapshot::empty(key),
        }
    }

    /// The conversation at this moment.
    pub(crate) fn now(&self) -> Before<'_> {
        self.conversation.before(self.end)
    }

    /// The checkpoint `id`.
    ///
    /// # Errors
    /// `CheckpointNotFound` if there is none to revert to.
    pub(crate) fn checkpoint(&self, id: i64) -> Result<&ControlMark> {
        self.now().existing(id, self.start)
    }
}

/// The published state of a session.
#[derive(Debug)]
pub(crate) enum View {
    /// Not loaded: the owner must be asked.
    Cold,
    /// Loaded.
    Live(Live),
    /// Deleted.
    Gone,
}
