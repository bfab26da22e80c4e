//! What a reader holds: one moment of one session.

use std::ops::Range;
use std::sync::Arc;

use crate::disk::session_file::{Before, Conversation, Mark, Meta, MetaStep};
use crate::engine::position::Numbering;
use crate::error::Result;
use crate::ground::storage::StorageFile;
use crate::ground::sync::Mutex;

/// The part of a session that every append changes: its sidecar, and the lines
/// the journal holds and the session file does not yet. What is shown of it only
/// grows; once its lines are in the file another takes its place, and what it
/// shows stays as it is for those who hold it.
#[derive(Debug)]
pub(crate) struct Tail {
    head: Mutex<Head>,
}

#[derive(Debug)]
struct Head {
    meta: Meta,
    bytes: Vec<u8>,
    /// What stands after so many bytes is staged: no reader may see it, for it
    /// may yet be refused.
    shown: usize,
}

/// Lines kept in memory without a further allocation, bytes.
const ROOM: usize = 1024;

impl Tail {
    pub(crate) fn new(meta: Meta) -> Arc<Self> {
        Self::with_lines(meta, Vec::new())
    }

    /// A tail that shows `lines`.
    pub(crate) fn with_lines(meta: Meta, lines: Vec<u8>) -> Arc<Self> {
        let head = Mutex::new(Head {
            meta,
            shown: lines.len(),
            bytes: lines,
        });
        Arc::new(Self { head })
    }

    /// Adds lines that nobody sees yet. Where they are the first, `room` is where
    /// they are put.
    pub(crate) fn stage(&self, lines: &[u8], room: impl FnOnce() -> Vec<u8>) {
        let mut head = self.head.lock();
        if head.bytes.capacity() == 0 {
            head.bytes = room();
            head.bytes.reserve(lines.len().max(ROOM));
        }
        head.bytes.extend_from_slice(lines);
    }

    /// Shows the next `len` bytes of what was staged, and what the sidecar says
    /// with them, in one moment.
    pub(crate) fn show(&self, len: usize, meta: &MetaStep) {
        let mut head = self.head.lock();
        head.shown += len;
        head.meta.take(meta);
    }

    /// Forgets the staged lines after the first `len` bytes.
    pub(crate) fn unstage(&self, len: usize) {
        let mut head = self.head.lock();
        let len = len.max(head.shown);
        head.bytes.truncate(len);
    }

    /// Another tail without the first `len` bytes, which are in the file now. Where
    /// there are others, `room` is where they are put.
    pub(crate) fn behind(&self, len: usize, room: impl FnOnce() -> Vec<u8>) -> Arc<Self> {
        let head = self.head.lock();
        let mut bytes = Vec::new();
        if head.bytes.len() > len {
            bytes = room();
            bytes.extend_from_slice(&head.bytes[len..]);
        }
        let rest = Head {
            meta: head.meta.clone(),
            bytes,
            shown: head.shown - len,
        };
        Arc::new(Self {
            head: Mutex::new(rest),
        })
    }

    /// The room its lines took, if nobody holds it any more.
    pub(crate) fn into_room(tail: Arc<Self>) -> Option<Vec<u8>> {
        Arc::into_inner(tail).map(|tail| tail.head.into_inner().bytes)
    }

    /// Changes what the sidecar says.
    pub(crate) fn set_meta(&self, meta: Meta) {
        self.head.lock().meta = meta;
    }

    /// A copy of the bytes in `range`.
    pub(crate) fn copy(&self, range: Range<usize>) -> Vec<u8> {
        self.head.lock().bytes[range].to_vec()
    }

    /// This moment's sidecar, and how many bytes stand here.
    fn moment(&self) -> (Meta, usize) {
        let head = self.head.lock();
        (head.meta.clone(), head.shown)
    }
}

/// How much is decoded where a reply is polled, of the lines in memory and of the end of the
/// file each, bytes. It takes some 25 µs, for which the other tasks of the thread wait; to
/// have another thread do it takes 10 more, and far more where many do.
pub(crate) const LITTLE: usize = 16 << 10;

/// What is published of a loaded session. Together with one look at its tail it
/// makes a [`Snapshot`].
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
    /// This moment.
    pub(crate) fn snapshot(&self) -> Snapshot {
        let (meta, tail_len) = self.tail.moment();
        Snapshot {
            meta,
            live: self.clone(),
            tail_len,
        }
    }
}

/// One moment of a session: a file, the range of it that is live, the lines
/// after it that only the journal holds so far, and the sidecar that goes with
/// them. Holding it keeps the file open, so a compaction or deletion meanwhile
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

    /// A session that is only a sidecar.
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

    /// Whether it has lines, hidden ones included, in a file it does not hold.
    pub(crate) fn lacks_file(&self) -> bool {
        self.live.end > 0 && self.live.file.is_none()
    }

    /// Whether the lines in memory are few.
    pub(crate) fn is_little(&self) -> bool {
        self.tail_len <= LITTLE
    }

    /// The lines that only the journal holds.
    pub(crate) fn tail(&self) -> Vec<u8> {
        self.live.tail.copy(0..self.tail_len)
    }
}

/// Where a session stands, for those who watch it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Standing {
    pub(crate) generation: u64,
    pub(crate) lines: u64,
    pub(crate) skip: u64,
}

/// One moment of a session's conversation.
#[derive(Debug)]
pub(crate) struct Looked {
    /// What the control records say; those after `end` are not there yet.
    pub(crate) conversation: Arc<Conversation>,
    /// Where the live lines begin, and where the lines end.
    pub(crate) start: u64,
    pub(crate) end: u64,
    /// Raw lines, skipped ones included.
    pub(crate) lines: u64,
    /// All lines, skipped ones included.
    pub(crate) snapshot: Snapshot,
}

impl Looked {
    /// That of a session without lines.
    pub(crate) fn empty(key: &str) -> Self {
        Self {
            conversation: Arc::default(),
            start: 0,
            end: 0,
            lines: 0,
            snapshot: Snapshot::empty(key),
        }
    }

    /// The conversation as it stands.
    pub(crate) fn now(&self) -> Before<'_> {
        self.conversation.before(self.end)
    }

    /// The checkpoint `id`.
    ///
    /// # Errors
    /// `CheckpointNotFound` if there is none to go back to.
    pub(crate) fn checkpoint(&self, id: i64) -> Result<&Mark> {
        self.now().existing(id, self.start)
    }
}

/// What is published of a session.
#[derive(Debug)]
pub(crate) enum View {
    /// Not loaded: the owner must be asked.
    Cold,
    /// Loaded.
    Live(Live),
    /// Deleted.
    Gone,
}
