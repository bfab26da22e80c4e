//! What the owner knows of one session.

use crate::disk::files::sidecar::Sidecar;
use std::collections::VecDeque;
use std::sync::Arc;

use super::command::{Answer, Verb};
use super::owed::Owed;
use super::rewrite::Prepared;
use super::stage::Pending;
use crate::disk::session_file::Conversation;
use crate::disk::session_file::{Meta, MetaText};
use crate::engine::catalog::Entry;
use crate::engine::snapshot::{Live, Standing, Tail, View};
use crate::ground::storage::StorageFile;
use crate::ground::sync::watch::WatchSender;

/// Where a session stands: after everything settled by the journal, or after
/// everything staged.
#[derive(Debug, Clone)]
pub(crate) struct Position {
    /// Length of the session's log.
    pub(crate) end: u64,
    /// Raw non-empty lines in it.
    pub(crate) lines: u64,
    /// Whether its last line lacks the LF. The next append starts with one:
    /// without it two records would weld into one.
    pub(crate) torn: bool,
    pub(crate) meta: Meta,
}

/// What a copy of a sidecar says, as far as appends leave it alone.
#[derive(Debug)]
pub(crate) struct Copied {
    /// Kept, so that the text is changed in another place than this.
    pub(crate) text: Arc<MetaText>,
    pub(crate) skip: i64,
    /// Another file has other checksums.
    pub(crate) generation: u64,
}

/// A copy of the live lines under way in the background.
#[derive(Debug)]
pub(crate) struct Compaction {
    /// What the copy was taken of; a rewrite or truncation meanwhile makes it
    /// worthless.
    pub(crate) generation: u64,
    pub(crate) start: u64,
    /// Up to where the file was copied.
    pub(crate) copied: u64,
    pub(crate) prepared: Option<Prepared>,
    pub(crate) answers: Vec<Answer<()>>,
}

/// One session, as its owner keeps it.
#[derive(Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "independent facts about a session, not states of one machine"
)]
pub(crate) struct Session {
    pub(crate) entry: Arc<Entry>,
    /// Whether anything of it is on disk or in the journal.
    pub(crate) exists: bool,
    /// It was deleted, and has no file name until it is written to again.
    pub(crate) deleted: bool,
    pub(crate) generation: u64,
    /// Offset of the first live line.
    pub(crate) start: u64,
    /// What readers see.
    pub(crate) settled: Position,
    pub(crate) staged: Position,
    pub(crate) file: Option<Arc<dyn StorageFile>>,
    /// Length of the session file. What is settled beyond it stands in `tail`.
    pub(crate) written: u64,
    /// Up to where the log is synced in the journal. Not a byte beyond may
    /// reach the session file: a power loss could otherwise leave lines there
    /// that the journal, and so everyone else, knows nothing of.
    pub(crate) synced: u64,
    /// The sidecar as the journal holds it synced. No later one may reach the
    /// disk, for the same reason.
    pub(crate) synced_meta: Meta,
    pub(crate) tail: Arc<Tail>,
    /// What is staged says when the session was created, for certain: read anew
    /// for every append it would be two cache misses.
    pub(crate) dated: bool,
    /// Operations staged and not synced.
    pub(crate) inflight: usize,
    /// A rewrite, truncation or deletion is under way: later commands wait.
    pub(crate) busy: bool,
    pub(crate) waiting: VecDeque<Verb>,
    /// What the job under way is for.
    pub(crate) pending: Option<Pending>,
    pub(crate) compaction: Option<Compaction>,
    /// What the control records say, staged ones included; unknown until
    /// somebody asks, and again after a rewrite.
    pub(crate) conversation: Option<Arc<Conversation>>,
    /// Those who are told of changes.
    pub(crate) watch: Option<WatchSender<Standing>>,
    pub(crate) sidecar: Sidecar,
    pub(crate) sidecar_dirty: bool,
    /// Blanks stand at its end, for the next exact flush to cut off.
    pub(crate) sidecar_padded: bool,
    /// What its copy says, as far as known.
    pub(crate) copied: Option<Copied>,
    /// Whether it stands in the shard's list of sessions to flush.
    pub(crate) listed_dirty: bool,
    pub(crate) owed: Owed,
    /// Whether it stands in the shard's list of sessions with a tail.
    pub(crate) listed_unwritten: bool,
    /// The flush epoch in which a whole sidecar image was last staged, and the
    /// one in which such an image was last settled.
    pub(crate) imaged_staged: u64,
    pub(crate) imaged: u64,
}

impl Session {
    /// A session with nothing on disk.
    pub(crate) fn vacant(entry: Arc<Entry>) -> Self {
        let position = Position {
            end: 0,
            lines: 0,
            torn: false,
            meta: Meta::empty(&entry.key),
        };
        Self {
            entry,
            exists: false,
            deleted: false,
            generation: 0,
            start: 0,
            tail: Tail::new(position.meta.clone()),
            synced_meta: position.meta.clone(),
            staged: position.clone(),
            settled: position,
            file: None,
            written: 0,
            synced: 0,
            dated: false,
            inflight: 0,
            busy: false,
            waiting: VecDeque::new(),
            pending: None,
            compaction: None,
            conversation: None,
            watch: None,
            sidecar: Sidecar::Missing,
            sidecar_dirty: false,
            sidecar_padded: false,
            copied: None,
            listed_dirty: false,
            owed: Owed::default(),
            listed_unwritten: false,
            imaged_staged: 0,
            imaged: 0,
        }
    }

    /// Whether a background compaction is due: more lines are skipped than live.
    pub(crate) fn mostly_dead(&self) -> bool {
        let skip = u64::try_from(self.settled.meta.skip).unwrap_or(0);
        skip.min(self.settled.lines) > self.settled.lines.saturating_sub(skip)
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
        }
    }
}
