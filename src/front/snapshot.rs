//! One moment of a session, for readers.

use std::sync::Arc;

use sessionlog_core::error::{Error, Result, Version};
use sessionlog_core::position::Position;

use crate::engine::numbering::Place;
use crate::engine::outline::{self, Outline};
use crate::engine::pages::{self, Page, RawLine};
use crate::engine::reader;
use crate::engine::snapshot::Snapshot;
use crate::engine::stats::Counters;
use crate::front::handle::reads::{MemoryPart, find_in, find_newest};
use crate::front::reply::Reply;
use crate::{Message, SessionMeta};

/// One moment of a session: everything read through it, now or later, belongs to the state that the
/// session had when [`StoreHandle::snapshot`](crate::StoreHandle::snapshot) answered.
///
/// Cheap to clone. It reads nothing before it is asked, and blocks as the reading verbs of a
/// [`StoreHandle`](crate::StoreHandle) do. It keeps the session's file open: a file that a
/// compaction or a deletion replaced takes up space on disk until the last snapshot of it is
/// dropped. Do not keep snapshots for long.
#[derive(Clone)]
pub struct SessionSnapshot {
    key: Arc<str>,
    snapshot: Arc<Snapshot>,
    counters: Arc<Counters>,
}

/// Shows the key and the version, but no messages.
impl std::fmt::Debug for SessionSnapshot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SessionSnapshot")
            .field("key", &self.key)
            .field("version", &self.version())
            .finish_non_exhaustive()
    }
}

impl SessionSnapshot {
    pub(crate) fn new(key: &str, mut snapshot: Arc<Snapshot>, counters: Arc<Counters>) -> Self {
        Arc::make_mut(&mut snapshot).keep_lines();
        Self {
            key: key.into(),
            snapshot,
            counters,
        }
    }

    /// The session's version. On a store opened read-only it is not the writer's version: it only
    /// tells whether two snapshots of that store are of one state, and a compaction changes it.
    #[must_use]
    pub fn version(&self) -> Version {
        self.snapshot.meta.version
    }

    /// The session's summary; empty if it has none.
    #[must_use]
    pub fn summary(&self) -> &str {
        &self.snapshot.meta.text.summary
    }

    /// The session's sidecar; empty if the session does not exist.
    #[must_use]
    pub fn meta(&self) -> SessionMeta {
        self.snapshot.meta.to_sidecar()
    }

    /// Every visible message, oldest first.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn history(&self) -> Reply<Vec<Message>> {
        self.find(|snapshot, counters| find_newest(snapshot, usize::MAX, counters, reader::history))
    }

    /// The newest `n` messages, oldest first. Costs what it returns.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn tail(&self, n: usize) -> Reply<Vec<Message>> {
        self.find(move |snapshot, counters| {
            let all =
                move |snapshot: &Snapshot, counters: &Counters| reader::tail(snapshot, n, counters);
            find_newest(snapshot, n, counters, all)
        })
    }

    /// The number of messages that [`history`](Self::history) returns. Reads all of them.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn count(&self) -> Reply<usize> {
        self.find(|_, _| MemoryPart::rest(reader::count))
    }

    /// The position where the messages end: [`before`](Self::before) it is the newest page.
    #[must_use]
    pub fn end(&self) -> Position {
        let Snapshot { live, tail_len, .. } = &*self.snapshot;
        live.numbering.position(live.end + *tail_len as u64)
    }

    /// The newest `n` messages before `position`, which may be from an earlier or later snapshot of
    /// the session. Costs what it returns.
    ///
    /// ```
    /// # use sessionlog::{Message, Store};
    /// # fn main() -> sessionlog::Result<()> {
    /// # let scratch = tempfile::tempdir().unwrap();
    /// # let store = Store::open(scratch.path())?;
    /// # let chats = store.handle();
    /// let said = (0..5).map(|n| Message::user(n.to_string()));
    /// chats.append_all("cli", said.collect()).wait()?;
    /// let snapshot = chats.snapshot("cli").wait()?;
    /// let newest = snapshot.before(snapshot.end(), 2).wait()?;
    /// assert_eq!(newest.messages[0].text(), "3");
    /// let older = snapshot.before(newest.start, 2).wait()?;
    /// assert_eq!(older.messages[0].text(), "1");
    /// assert!(!older.is_first);
    /// # store.close()
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::PositionNotFound`], also for a position that was truncated since, and
    /// [`Error::Io`].
    pub fn before(&self, position: Position, n: usize) -> Reply<Page> {
        self.at_line(position, move |snapshot, end, counters| {
            pages::before(snapshot, end, n, counters)
        })
    }

    /// The position of the first line that is not hidden.
    #[must_use]
    pub fn start(&self) -> Position {
        let live = &self.snapshot.live;
        live.numbering.position(live.start)
    }

    /// An outline of the session from `from` on, which may be an earlier snapshot's
    /// [`end`](Self::end): the number of messages, the position of every `stride`th of them, and
    /// the checkpoints and token counts between them. With it a reader finds the `n`th message of a
    /// long session through [`before`](Self::before). Reads all lines from there on; one at a time
    /// is in memory.
    ///
    /// ```
    /// # use sessionlog::{MarkKind, Message, Store};
    /// # fn main() -> sessionlog::Result<()> {
    /// # let scratch = tempfile::tempdir().unwrap();
    /// # let store = Store::open(scratch.path())?;
    /// # let chats = store.handle();
    /// chats.add_message("cli", "user", "hi").wait()?;
    /// chats.context("cli").checkpoint(false).wait()?;
    /// chats.add_message("cli", "assistant", "hello").wait()?;
    /// let snapshot = chats.snapshot("cli").wait()?;
    /// let outline = snapshot.outline(snapshot.start(), 100).wait()?;
    /// assert_eq!((outline.messages, outline.anchors.len()), (2, 1));
    /// assert_eq!(outline.marks[0].kind, MarkKind::Checkpoint(0));
    /// assert_eq!(outline.marks[0].after, 1);
    /// # store.close()
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::PositionNotFound`], also for a position that was truncated since, and
    /// [`Error::Io`].
    pub fn outline(&self, from: Position, stride: usize) -> Reply<Outline> {
        self.at_line(from, move |snapshot, start, _| {
            outline::outline(snapshot, start, stride)
        })
    }

    /// The first `most` bytes of the line at `position`, whether it decodes or not, so that a
    /// person can look at a damaged line. Reads the line, and keeps `most` of it in memory.
    ///
    /// ```
    /// # use sessionlog::Store;
    /// # fn main() -> sessionlog::Result<()> {
    /// # let scratch = tempfile::tempdir().unwrap();
    /// # let store = Store::open(scratch.path())?;
    /// # let chats = store.handle();
    /// chats.add_message("cli", "user", "hi").wait()?;
    /// let snapshot = chats.snapshot("cli").wait()?;
    /// let line = snapshot.line(snapshot.start(), 7).wait()?;
    /// assert_eq!(line.bytes, br#"{"role""#);
    /// assert!(line.len > 7);
    /// # store.close()
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::PositionNotFound`] if no line begins there, also if it was truncated since, and
    /// [`Error::Io`].
    pub fn line(&self, position: Position, most: usize) -> Reply<RawLine> {
        let key = self.key.clone();
        let line = self.at_line(position, move |snapshot, at, _| {
            pages::raw_line(snapshot, at, most)
        });
        line.and_then(move |line| line.ok_or_else(|| Error::no_position(&key)))
    }

    /// Reads from a position of the session, if a line begins there.
    fn at_line<T: Send + 'static>(
        &self,
        position: Position,
        read: impl FnOnce(&Snapshot, u64, &Counters) -> std::io::Result<T> + Send + 'static,
    ) -> Reply<T> {
        let at = match self.offset(position) {
            Ok(at) => at,
            Err(error) => return Reply::known(Err(error)),
        };
        let key = self.key.clone();
        let found = self.find(move |_, _| {
            MemoryPart::rest(move |snapshot, counters| {
                if !pages::is_line(snapshot, at)? {
                    return Ok(None);
                }
                read(snapshot, at, counters).map(Some)
            })
        });
        found.and_then(move |found| found.ok_or_else(|| Error::no_position(&key)))
    }

    fn offset(&self, position: Position) -> Result<u64> {
        let Snapshot { live, tail_len, .. } = &*self.snapshot;
        let lines = live.start..=live.end + *tail_len as u64;
        match live.numbering.find(position) {
            Place::Here(offset) if lines.contains(&offset) => Ok(offset),
            Place::Here(_) | Place::Gone | Place::Elsewhere => Err(Error::no_position(&self.key)),
        }
    }

    fn find<T: Send + 'static>(
        &self,
        find: impl FnOnce(&Snapshot, &Counters) -> MemoryPart<T> + Send + 'static,
    ) -> Reply<T> {
        let this = self.clone();
        Reply::lookup(move |place| {
            Box::pin(
                async move { find_in(this.snapshot, this.counters, &this.key, place, find).await },
            )
        })
    }
}
