//! What the owner knows of one session.

use crate::disk::files::sidecar::Sidecar;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use super::answer::{Ack, Answer};
use super::change::{Added, Origin};
use super::locate::{Located, Query};
use super::once::Once;
use super::owed::Owed;
use super::request::{Manner, Request, Waiting};
use super::rewrite::Prepared;
use super::turn::Turn;
use crate::disk::journal::record::Prior;
use crate::disk::session_file::{self, Conversation};
use crate::disk::session_file::{Meta, MetaText};
use crate::engine::catalog::Entry;
use crate::engine::position::Numbering;
use crate::engine::snapshot::{Live, Standing, Tail, View};
use crate::error::Version;
use crate::ground::clock::{Stamp, ZERO_TIME};
use crate::ground::storage::StorageFile;
use crate::ground::sync::watch::WatchSender;

/// Where a session stands: after everything settled by the journal, or after
/// everything staged.
#[derive(Debug, Clone)]
pub(crate) struct Position {
    /// Length of the session's log, and the CRC-32 of all its bytes.
    pub(crate) end: u64,
    pub(crate) crc: u32,
    /// Raw non-empty lines in it.
    pub(crate) lines: u64,
    /// Whether its last line lacks the LF. The next append starts with one:
    /// without it two records would weld into one.
    pub(crate) torn: bool,
    pub(crate) meta: Meta,
}

impl Position {
    /// Where it stands with lines after it.
    pub(super) fn add(&mut self, added: &Added) {
        self.end += added.len as u64;
        self.crc = added.crc;
        self.lines += added.lines;
        // They begin with the LF that the line before them lacked.
        self.torn &= added.len == 0;
    }
}

/// What a copy of a sidecar says, as far as appends leave it alone.
#[derive(Debug)]
pub(crate) struct LastCopy {
    /// Kept, so that the text is changed in another place than this.
    pub(crate) text: Arc<MetaText>,
    pub(crate) skip: i64,
    /// Another file has other checksums.
    pub(crate) generation: u64,
}

/// Hidden bytes that a session may have besides twice its live ones before it is
/// compacted.
const DEAD_SLACK: u64 = 4 << 20;

/// A copy of the live lines under way in the background.
#[derive(Debug)]
pub(crate) struct Compaction {
    /// What the copy was taken of; a rewrite meanwhile makes it worthless.
    pub(crate) generation: u64,
    /// Where the lines begin that the copy does not hide.
    pub(crate) start: u64,
    /// Up to where the file was copied.
    pub(crate) copied: u64,
    /// When it began, by the clock that does not go back.
    pub(crate) began: Duration,
    /// How often it was copied from where it had been copied to.
    pub(crate) rounds: u32,
    pub(crate) prepared: Option<Prepared>,
    /// Whether the session was deleted since: its lines are to be written nowhere any more.
    pub(crate) deleted: Arc<AtomicBool>,
    pub(crate) answers: Vec<Answer<()>>,
}

/// What a session waits for while a job runs for it.
#[derive(Debug)]
pub(crate) enum Pending {
    /// Where a line is, for a request that needs to know.
    Search(Query, Box<dyn Request>),
    /// The last lines of a compaction, for which later commands wait.
    CatchUp,
    /// What its control records say, for a request that needs to know.
    Controls(Box<dyn Request>),
    /// Another session, which it goes on as: one in the trash, or one that its key leads to.
    Leaving { to_trash: bool },
    Swap {
        /// The file being written.
        temp: String,
        origin: Origin,
        ack: Ack,
    },
}

impl Pending {
    /// Whether this is what the file of this name was written for.
    pub(super) fn awaits(&self, file: &str) -> bool {
        matches!(self, Self::Swap { temp, .. } if temp == file)
    }

    /// Whether the session is about to go on under another key.
    pub(super) fn leaves(&self) -> bool {
        matches!(self, Self::Leaving { .. })
    }

    /// Whether this waits for the control records to be read.
    pub(super) fn reads_controls(&self) -> bool {
        matches!(self, Self::Controls(_))
    }
}

/// One session, as its owner keeps it. What appends look at stands first and together: of a
/// session that is seldom written to all of it comes from memory, line by line.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Session {
    /// A rewrite, truncation or deletion is under way: later commands wait.
    pub(crate) busy: bool,
    /// It was deleted, and has no file name until it is written to again.
    pub(crate) deleted: bool,
    /// It is deleted because it goes on under another key.
    pub(super) moved: bool,
    /// It is a deleted session in the trash.
    pub(super) kept: bool,
    /// What is staged says when the session was created, for certain: read anew
    /// for every append it would be two cache misses.
    pub(crate) dated: bool,
    /// Whether anything of it is on disk or in the journal.
    pub(crate) exists: bool,
    pub(crate) sidecar: Sidecar,
    pub(crate) sidecar_dirty: bool,
    /// How many lines the sidecar in place hides, at most.
    pub(super) hides: i64,
    /// Whether it stands in the shard's list of sessions to flush.
    pub(crate) listed_dirty: bool,
    /// Whether it stands in the shard's list of sessions with a tail.
    pub(crate) listed_unwritten: bool,
    /// Whether its entry was told that it has a sidecar, and the entry's file name: read
    /// there for every append they would be two cache misses.
    pub(super) listed: bool,
    pub(crate) stem: Arc<str>,
    /// Operations staged and not settled.
    pub(crate) inflight: usize,
    /// How many of them hold, and wait to be settled.
    pub(super) deferred: u32,
    pub(crate) generation: u64,
    /// The last number given to a version or a numbering of it. Numbers go on through a
    /// deletion: who expects a version that is gone must not get its successor.
    pub(super) versions: u64,
    /// The flush epoch in which a whole sidecar image was last staged, and the
    /// one in which such an image was last settled.
    pub(crate) imaged_staged: u64,
    pub(crate) imaged: u64,
    pub(crate) tail: Arc<Tail>,
    pub(crate) compaction: Option<Box<Compaction>>,
    pub(crate) waiting: Waiting,
    pub(crate) staged: Position,
    /// The sidecar as the last staged record has it.
    pub(crate) recorded: Meta,
    /// What readers see.
    pub(crate) settled: Position,
    /// Up to where the log is synced in the journal. Not a byte beyond may
    /// reach the session file: a power loss could otherwise leave lines there
    /// that the journal, and so everyone else, knows nothing of.
    pub(crate) synced: u64,
    /// The sidecar as the journal holds it synced. No later one may reach the
    /// disk, for the same reason.
    pub(crate) synced_meta: Meta,
    /// Length of the session file. What is settled beyond it stands in `tail`.
    pub(crate) written: u64,
    pub(crate) owed: Owed,
    /// Those who are told of changes.
    pub(crate) watch: Option<WatchSender<Standing>>,
    pub(crate) entry: Arc<Entry>,
    /// What turns offsets in the file into positions.
    pub(super) numbering: Numbering,
    /// Offset of the first live line.
    pub(crate) start: u64,
    pub(crate) file: Option<Arc<dyn StorageFile>>,
    /// What the job under way is for.
    pub(crate) pending: Option<Pending>,
    /// What the control records say, staged ones included; unknown until
    /// somebody asks, and again after a rewrite.
    pub(crate) conversation: Option<Arc<Conversation>>,
    /// What was last looked for among its lines, and found.
    pub(super) found: Option<(Query, Located)>,
    /// Which messages it took once; unknown until somebody asks.
    pub(super) once: Option<Box<Once>>,
    /// What its copy says, as far as known.
    pub(crate) copied: Option<LastCopy>,
}

impl Session {
    /// A session with nothing on disk.
    pub(crate) fn vacant(entry: Arc<Entry>) -> Self {
        let position = Position {
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
            owed: Owed::default(),
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

    /// Where its live lines are, those that wait to be written included.
    pub(crate) fn range(&self) -> Range<u64> {
        self.start..self.settled.end
    }

    /// Whether nothing is staged for it or under way that a later command must
    /// come after.
    pub(crate) fn is_still(&self) -> bool {
        !self.busy && self.inflight == 0
    }

    /// One change in flight that nothing may be staged on top of.
    pub(super) fn hold(&mut self) {
        self.inflight += 1;
        self.busy = true;
    }

    /// Has its changes in flight synced, which a later command waits for: a buffered
    /// one would be in flight for some milliseconds more.
    pub(super) fn hurry(&self, turn: &mut Turn<'_>) {
        turn.staging.durable |= self.inflight > 0;
    }

    /// Whether `request` must wait, given what is under way and what waits.
    pub(super) fn must_wait(&self, request: &dyn Request) -> bool {
        let waits = request.waits(self);
        let in_turn = matches!(request.manner(), Manner::Writes | Manner::Names);
        let queued = !self.waiting.is_empty() || self.compaction_ready();
        waits || queued && in_turn
    }

    /// Whether a compaction has its copy. It comes before what waits: the copy
    /// only gets older.
    pub(super) fn compaction_ready(&self) -> bool {
        let compaction = self.compaction.as_ref();
        compaction.is_some_and(|compaction| compaction.prepared.is_some())
    }

    /// Whether it waits for something that nobody will tell it of: a swap or
    /// deletion that the journal holds and the directory refused.
    pub(super) fn is_stuck(&self) -> bool {
        self.busy && self.inflight == 0 && self.pending.is_none()
    }

    /// Whether a background compaction is due: more lines are skipped than live, or
    /// so many bytes that the file is no small multiple of what lives in it. A
    /// compaction that would write more than three times what it drops waits: a long
    /// line would be copied for every few short ones that go.
    pub(crate) fn mostly_dead(&self) -> bool {
        let skip = u64::try_from(self.settled.meta.skip).unwrap_or(0);
        let (dead, live) = (self.start, self.settled.end - self.start);
        let outnumbered = skip.min(self.settled.lines) > self.settled.lines.saturating_sub(skip);
        outnumbered && dead >= live / 3 || dead > 2 * live + DEAD_SLACK
    }

    /// Bytes that are synced in the journal and not in the session file.
    pub(crate) fn unwritten(&self) -> usize {
        (self.synced - self.written) as usize
    }

    /// Publishes where the session's lines are. Range, file and tail go out
    /// in one value: read apart, a reader could apply a new range to an old file.
    pub(crate) fn publish(&self) {
        self.entry.view.store(Arc::new(View::Live(self.live())));
    }

    /// Where the session's lines are.
    pub(crate) fn live(&self) -> Live {
        Live {
            file: self.file.clone(),
            start: self.start,
            end: self.written,
            tail: self.tail.clone(),
            numbering: self.numbering,
        }
    }

    /// A session that is written to for the first time was created now. Then its record
    /// carries the whole sidecar: a patch would not say when.
    pub(super) fn created(&mut self, now: &Stamp) {
        if !self.dated && self.staged.meta.text.created_at == ZERO_TIME {
            self.staged.meta.text_mut().created_at = now.to_string();
            self.imaged_staged = 0;
        }
        self.dated = true;
    }

    /// What is staged now is a change that a verb made: the session has another version,
    /// and another time. A number that is refused is not given again.
    pub(super) fn touch(&mut self, now: &Stamp) {
        self.versions += 1;
        self.staged.meta.version = Version::new(self.versions);
        self.staged.meta.updated_at = now.clone();
    }

    /// The version that the session is at after the next [`touch`](Self::touch).
    pub(super) fn next_version(&self) -> Version {
        Version::new(self.versions + 1)
    }

    /// The whole sidecar, if this epoch's records do not hold it yet.
    pub(super) fn image_due(&mut self, epoch: u64) -> Option<Vec<u8>> {
        (self.imaged_staged != epoch).then(|| self.image(epoch))
    }

    /// The whole sidecar.
    pub(super) fn image(&mut self, epoch: u64) -> Vec<u8> {
        self.imaged_staged = epoch;
        session_file::encode_sidecar(&self.staged.meta.to_sidecar())
    }

    /// Whether the sidecar on disk can be set right from the journal if writing
    /// over it tears it.
    pub(super) fn image_in_journal(&self, epoch: u64) -> bool {
        self.imaged >= epoch && self.sidecar == Sidecar::Present
    }

    /// What its two files are to be before the record that is staged next; `sidecar`
    /// is its [sidecar](Self::recorded_sidecar) then.
    pub(super) fn before<'a>(&self, sidecar: &'a [u8]) -> Prior<'a> {
        Prior {
            len: self.staged.end,
            crc: self.staged.crc,
            sidecar,
        }
    }

    /// The sidecar as the last staged record has it; empty if there is none.
    pub(super) fn recorded_sidecar(&self) -> Vec<u8> {
        if self.has_no_sidecar() {
            return Vec::new();
        }
        session_file::encode_sidecar(&self.recorded.to_sidecar())
    }

    /// Whether neither the disk has a sidecar that decodes, nor the journal.
    pub(super) fn has_no_sidecar(&self) -> bool {
        !self.sidecar.is_read() && !self.sidecar_dirty && self.inflight == 0
    }

    /// Nothing is staged any more but what is settled.
    pub(super) fn unstage(&mut self) {
        self.staged = self.settled.clone();
        self.recorded.clone_from(&self.settled.meta);
        self.dated = false;
    }
}
