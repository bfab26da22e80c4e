//! The state of one session, as its owner keeps it.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use sessionlog_core::error::Version;
use sessionlog_core::session_file::{self, Conversation};
use sessionlog_core::session_file::{Meta, MetaText};
use sessionlog_core::stamp::{Stamp, ZERO_TIME};
use sessionlog_wal::journal::record::Prior;
use sessionlog_wal::storage::StorageFile;
use sessionlog_wal::sync::watch::WatchSender;

use super::answer::{Ack, Answer};
use super::change::{AddedLines, Origin};
use super::locate::{CutPlace, Query};
use super::once::Once;
use super::owed::OwedSyncs;
use super::request::{Manner, Request, Waiting};
use super::rewrite::PreparedFile;
use super::turn::Turn;
use crate::disk::files::sidecar::Sidecar;
use crate::engine::catalog::Entry;
use crate::engine::numbering::Numbering;
use crate::engine::snapshot::{Live, Standing, Tail, View};

/// The extent of a session: after all changes that the journal settled, or after all that are
/// staged.
#[derive(Debug, Clone)]
pub(crate) struct SessionExtent {
    /// Length of the session's log, and the CRC-32 of all its bytes.
    pub(crate) end: u64,
    pub(crate) crc: u32,
    /// Raw non-empty lines in it.
    pub(crate) lines: u64,
    /// True if its last line lacks the LF. The next append starts with one: without it two records
    /// would weld into one.
    pub(crate) torn: bool,
    pub(crate) meta: Meta,
}

impl SessionExtent {
    /// Moves it to the end of the added lines.
    pub(super) fn add(&mut self, added: &AddedLines) {
        self.end += added.len as u64;
        self.crc = added.crc;
        self.lines += added.lines;
        // They begin with the LF that the line before them lacked.
        self.torn &= added.len == 0;
    }
}

/// The content of a sidecar's last copy, without what appends change.
#[derive(Debug)]
pub(crate) struct LastCopy {
    /// Held here, so that a changed text is at another address.
    pub(crate) text: Arc<MetaText>,
    pub(crate) skip: i64,
    /// Another file has other checksums.
    pub(crate) generation: u64,
}

/// A session is compacted once its hidden bytes exceed twice its live ones by this many.
const DEAD_SLACK: u64 = 4 << 20;

/// A copy of the live lines, under way in the background.
#[derive(Debug)]
pub(crate) struct Compaction {
    /// The generation that was copied; a rewrite meanwhile makes the copy worthless.
    pub(crate) generation: u64,
    /// Offset of the first line that the copy does not hide.
    pub(crate) start: u64,
    /// Offset up to which the file was copied.
    pub(crate) copied: u64,
    /// When it began, by the monotonic clock.
    pub(crate) began: Duration,
    /// Number of further rounds of copying.
    pub(crate) rounds: u32,
    pub(crate) prepared: Option<PreparedFile>,
    /// True if the session was deleted since: its lines must not be written anywhere any more.
    pub(crate) deleted: Arc<AtomicBool>,
    pub(crate) answers: Vec<Answer<()>>,
}

/// The result that a session waits for while a job runs for it.
#[derive(Debug)]
pub(crate) enum Pending {
    /// The place of a line, for a request that needs it.
    Search(Query, Box<dyn Request>),
    /// The last lines of a compaction, for which later commands wait.
    CatchUp,
    /// The content of its control records, for a request that needs it.
    Controls(Box<dyn Request>),
    /// The move to another session, as which it goes on: one in the trash, or the one that its key
    /// leads to.
    Leaving { to_trash: bool },
    Swap {
        /// The file being written.
        temp: String,
        origin: Origin,
        ack: Ack,
    },
}

impl Pending {
    /// True if the file of this name was written for this.
    pub(super) fn awaits(&self, file: &str) -> bool {
        matches!(self, Self::Swap { temp, .. } if temp == file)
    }

    /// True if the session is about to go on under another key.
    pub(super) fn leaves(&self) -> bool {
        matches!(self, Self::Leaving { .. })
    }

    /// True if this waits for the control records to be read.
    pub(super) fn reads_controls(&self) -> bool {
        matches!(self, Self::Controls(_))
    }
}

/// One session, as its owner keeps it. The fields that appends read stand first and together: for a
/// session that is seldom written to, all of it comes from memory, one cache line at a time.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Session {
    /// True while a rewrite, truncation or deletion is under way: later commands wait.
    pub(crate) busy: bool,
    /// True if it was deleted and has no file name until it is written to again.
    pub(crate) deleted: bool,
    /// True if it is deleted because it goes on under another key.
    pub(super) moved: bool,
    /// True if it is a deleted session in the trash.
    pub(super) kept: bool,
    /// True if the staged sidecar certainly has the session's creation time: reading it anew for
    /// every append would be two cache misses.
    pub(crate) dated: bool,
    /// True if anything of it is on disk or in the journal.
    pub(crate) exists: bool,
    pub(crate) sidecar: Sidecar,
    pub(crate) sidecar_dirty: bool,
    /// Upper bound of the lines that the sidecar in place hides.
    pub(super) hides: i64,
    /// True if it is in the shard's list of sessions to flush.
    pub(crate) listed_dirty: bool,
    /// True if it is in the shard's list of sessions with a tail.
    pub(crate) listed_unwritten: bool,
    /// True if its entry was told that it has a sidecar; and then the entry's file name. Read from
    /// the entry for every append, they would be two cache misses.
    pub(super) listed: bool,
    pub(crate) stem: Arc<str>,
    /// Operations staged and not settled.
    pub(crate) inflight: usize,
    /// Number of them that hold and wait to be settled.
    pub(super) deferred: u32,
    pub(crate) generation: u64,
    /// The last number given to a version or a numbering of it. Numbers go on through a deletion: a
    /// caller that expects a version that is gone must not get its successor.
    pub(super) versions: u64,
    /// The flush epoch in which a whole sidecar image was last staged, and the
    /// one in which such an image was last settled.
    pub(crate) imaged_staged: u64,
    pub(crate) imaged: u64,
    pub(crate) tail: Arc<Tail>,
    pub(crate) compaction: Option<Box<Compaction>>,
    pub(crate) waiting: Waiting,
    pub(crate) staged: SessionExtent,
    /// The sidecar as of the last staged record.
    pub(crate) recorded: Meta,
    /// The state that readers see.
    pub(crate) settled: SessionExtent,
    /// Offset up to which the log is synced in the journal. Not a byte beyond may reach the session
    /// file: a power loss could otherwise leave lines there that neither the journal nor any reader
    /// knows.
    pub(crate) synced: u64,
    /// The sidecar as the journal holds it synced. No later one may reach the disk, for the same
    /// reason.
    pub(crate) synced_meta: Meta,
    /// Length of the session file. Settled lines beyond it are in `tail`.
    pub(crate) written: u64,
    pub(crate) owed: OwedSyncs,
    /// The watchers of its changes.
    pub(crate) watch: Option<WatchSender<Standing>>,
    pub(crate) entry: Arc<Entry>,
    /// Turns offsets in the file into positions.
    pub(super) numbering: Numbering,
    /// Offset of the first live line.
    pub(crate) start: u64,
    pub(crate) file: Option<Arc<dyn StorageFile>>,
    /// The purpose of the job under way.
    pub(crate) pending: Option<Pending>,
    /// The content of the control records, staged ones included; unknown until a command needs it,
    /// and again after a rewrite.
    pub(crate) conversation: Option<Arc<Conversation>>,
    /// The last search among its lines, and its result.
    pub(super) found: Option<(Query, CutPlace)>,
    /// The messages it took once; unknown until a command asks.
    pub(super) once: Option<Box<Once>>,
    /// The content of its copy, as far as known.
    pub(crate) copied: Option<LastCopy>,
}

impl Session {
    /// Returns a session with nothing on disk.
    pub(crate) fn vacant(entry: Arc<Entry>) -> Self {
        let position = SessionExtent {
            end: 0,
            crc: 0,
            lines: 0,
            torn: false,
            meta: Meta::empty(&entry.key),
        };
        Self {
            stem: entry.stem.clone(),
            kept: session_file::is_deleted_key(&entry.key),
            entry,
            listed: false,
            exists: false,
            deleted: false,
            moved: false,
            generation: 0,
            versions: 0,
            numbering: Numbering::default(),
            start: 0,
            tail: Tail::new(position.meta.clone()),
            synced_meta: position.meta.clone(),
            recorded: position.meta.clone(),
            staged: position.clone(),
            settled: position,
            file: None,
            written: 0,
            synced: 0,
            dated: false,
            inflight: 0,
            deferred: 0,
            busy: false,
            waiting: Waiting::default(),
            pending: None,
            compaction: None,
            conversation: None,
            found: None,
            once: None,
            watch: None,
            sidecar: Sidecar::Missing,
            sidecar_dirty: false,
            hides: i64::MAX,
            copied: None,
            listed_dirty: false,
            owed: OwedSyncs::default(),
            listed_unwritten: false,
            imaged_staged: 0,
            imaged: 0,
        }
    }

    /// Gives it a file name again, after a deletion.
    pub(super) fn take_name(&mut self, entry: Arc<Entry>) {
        self.stem = entry.stem.clone();
        self.entry = entry;
        self.listed = false;
        self.moved = false;
    }

    /// Returns the range of its live lines, including those that wait to be written.
    pub(crate) fn range(&self) -> Range<u64> {
        self.start..self.settled.end
    }

    /// True if nothing is staged or under way for it that a later command must come after.
    pub(crate) fn is_still(&self) -> bool {
        !self.busy && self.inflight == 0
    }

    /// Counts one change in flight that nothing may be staged on top of.
    pub(super) fn hold(&mut self) {
        self.inflight += 1;
        self.busy = true;
    }

    /// Asks for a sync of its changes in flight, because a later command waits for them: a buffered
    /// change would be in flight for some milliseconds more.
    pub(super) fn hurry(&self, turn: &mut Turn<'_>) {
        turn.staging.durable |= self.inflight > 0;
    }

    /// True if `request` must wait, given the work under way and the waiting commands.
    pub(super) fn must_wait(&self, request: &dyn Request) -> bool {
        let waits = request.waits(self);
        let in_turn = matches!(request.manner(), Manner::Writes | Manner::Names);
        let queued = !self.waiting.is_empty() || self.compaction_ready();
        waits || queued && in_turn
    }

    /// True if a compaction has its copy. It comes before the waiting commands: the copy only gets
    /// older.
    pub(super) fn compaction_ready(&self) -> bool {
        let compaction = self.compaction.as_ref();
        compaction.is_some_and(|compaction| compaction.prepared.is_some())
    }

    /// True if it waits for something that will never be reported: a swap or deletion that the
    /// journal holds and the directory refused.
    pub(super) fn is_stuck(&self) -> bool {
        self.busy && self.inflight == 0 && self.pending.is_none()
    }

    /// True if a background compaction is due: more lines are skipped than live, or so many bytes
    /// are skipped that the file is no small multiple of its live bytes. A compaction that would
    /// write more than three times what it drops waits: otherwise a long line would be copied for
    /// every few short ones that go.
    pub(crate) fn mostly_dead(&self) -> bool {
        let skip = u64::try_from(self.settled.meta.skip).unwrap_or(0);
        let (dead, live) = (self.start, self.settled.end - self.start);
        let outnumbered = skip.min(self.settled.lines) > self.settled.lines.saturating_sub(skip);
        outnumbered && dead >= live / 3 || dead > 2 * live + DEAD_SLACK
    }

    /// Returns the number of bytes that are synced in the journal and not in the session file.
    pub(crate) fn unwritten(&self) -> usize {
        (self.synced - self.written) as usize
    }

    /// Publishes the place of the session's lines. Range, file and tail go out in one value: if
    /// they were read apart, a reader could apply a new range to an old file.
    pub(crate) fn publish(&self) {
        self.entry.view.store(Arc::new(View::Live(self.live())));
    }

    /// Returns the place of the session's lines.
    pub(crate) fn live(&self) -> Live {
        Live {
            file: self.file.clone(),
            start: self.start,
            end: self.written,
            tail: self.tail.clone(),
            numbering: self.numbering,
        }
    }

    /// Dates a session that is written to for the first time. Its record then carries the whole
    /// sidecar: a patch would lack the creation time.
    pub(super) fn created(&mut self, now: &Stamp) {
        if !self.dated && self.staged.meta.text.created_at == ZERO_TIME {
            self.staged.meta.text_mut().created_at = now.to_string();
            self.imaged_staged = 0;
        }
        self.dated = true;
    }

    /// Notes that a verb's change is staged now: the session gets another version and another time.
    /// A number that is refused is not given again.
    pub(super) fn touch(&mut self, now: &Stamp) {
        self.versions += 1;
        self.staged.meta.version = Version::new(self.versions);
        self.staged.meta.updated_at = now.clone();
    }

    /// Returns the version that the session is at after the next [`touch`](Self::touch).
    pub(super) fn next_version(&self) -> Version {
        Version::new(self.versions + 1)
    }

    /// Returns the whole sidecar, if this epoch's records do not hold it yet.
    pub(super) fn image_due(&mut self, epoch: u64) -> Option<Vec<u8>> {
        (self.imaged_staged != epoch).then(|| self.image(epoch))
    }

    /// Returns the whole sidecar.
    pub(super) fn image(&mut self, epoch: u64) -> Vec<u8> {
        self.imaged_staged = epoch;
        session_file::encode_sidecar(&self.staged.meta.to_sidecar())
    }

    /// True if the journal can mend the sidecar on disk, should overwriting tear it.
    pub(super) fn image_in_journal(&self, epoch: u64) -> bool {
        self.imaged >= epoch && self.sidecar == Sidecar::Present
    }

    /// Returns the state of its two files before the record that is staged next; `sidecar` is its
    /// [sidecar](Self::recorded_sidecar) then.
    pub(super) fn before<'a>(&self, sidecar: &'a [u8]) -> Prior<'a> {
        Prior {
            len: self.staged.end,
            crc: self.staged.crc,
            sidecar,
        }
    }

    /// Returns the sidecar as of the last staged record; empty if there is none.
    pub(super) fn recorded_sidecar(&self) -> Vec<u8> {
        if self.has_no_sidecar() {
            return Vec::new();
        }
        session_file::encode_sidecar(&self.recorded.to_sidecar())
    }

    /// True if neither the disk nor the journal has a sidecar that decodes.
    pub(super) fn has_no_sidecar(&self) -> bool {
        !self.sidecar.is_read() && !self.sidecar_dirty && self.inflight == 0
    }

    /// Drops all staged state that is not settled.
    pub(super) fn unstage(&mut self) {
        self.staged = self.settled.clone();
        self.recorded.clone_from(&self.settled.meta);
        self.dated = false;
    }
}
