//! A shard: the only owner of its sessions and their files.
//!
//! A plain state machine. Commands come in ([`Shard::accept`]) and are staged as journal records
//! ([`stage`]). Once those hold, readers see them ([`settle`]) and the session files get them
//! ([`mod@write`]). Nothing in here waits: long work goes to the background as a [`job`] and its
//! result comes back as an event. A [`worker`] drives several shards.
//!
//! # What a crash leaves
//!
//! "Death" is the death of the process: the page cache survives. "Loss" is a power loss. For each
//! step: the state if the step was not finished, then the state after it.
//!
//! * *Lines written to the session file*. Unfinished: the file is short, or has zeros
//!   where blocks did not arrive. The record is replayed at the same offset, over its own
//!   bytes or zeros. After: the same, until the next checkpoint.
//! * *Sidecar created, or overwritten in place*. Unfinished: it may be torn or missing.
//!   The journal holds an image of this flush epoch, and recovery replaces the file.
//!   After: the image is replayed all the same, until the checkpoint.
//! * *Sidecar replaced* (hidden file, sync, rename). Unfinished: the old one whole; the
//!   hidden file is removed at open. After: the new one whole.
//! * *Damaged sidecar set aside, new one made*. Unfinished: the damaged one is in its
//!   place or in `quarantine/`; the journal's image makes the new one. After: both are
//!   there.
//! * *Rewrite* (hidden file written and synced, its name synced). The old file is whole.
//!   The hidden one is named by no record and is removed at open; so it is until the swap
//!   record.
//! * *Swap record synced*. Before: the old history. After: the new one. Recovery finds
//!   the hidden file, checks length and checksum of its base, writes the tail and
//!   renames.
//! * *Sidecar brought up to date, if it hides more lines than the new file will*. This comes before
//!   the rename, because other programs read both files: the new file beside the old number of
//!   hidden lines would lack lines that were not truncated. After: the old file, all its lines
//!   shown. Recovery keeps this order for the names it changes.
//! * *Rename over the session file*. After: the hidden name is gone. Recovery checks the file in
//!   place against the record and writes the tail again. If another program put a different file
//!   there, that file stays, the lines acknowledged since follow it, and a finding reports it.
//! * *Delete record synced, files removed*. Before the sync: the session. After: recovery
//!   removes whichever file is left, earlier backups included. If the session was written
//!   to again, it starts with an empty file.
//! * *Rebase* (second name made and synced, copy written, not synced). The old file
//!   whole. Second names and hidden files that no record names are removed at open; so it
//!   is until the record.
//! * *Rebase record synced*. Before: the old file. After: recovery brings the file under the second
//!   name, or under the backup's, up to the journal. It copies the session's file from it into
//!   scratch, adds the lines appended since, and renames both. It does so whether or not the copy
//!   was in place: the copy was never synced.
//! * *Second name renamed to the backup's, copy renamed over the session file*. After:
//!   the same, until the next checkpoint. Before that checkpoint the flush syncs both
//!   files and all names.
//! * *Backups pruned* (forgotten, flush, files removed). Unfinished: listed again after
//!   the next open. After: gone one by one. No record that a checkpoint does not cover
//!   needs them.
//!
//! The steps of a flush stand in [`supervisor`](super::supervisor).

pub(crate) mod along;
pub(crate) mod answer;
pub(crate) mod backups;
pub(crate) mod change;
mod controls;
mod errand;
pub(crate) mod flush;
pub(crate) mod flushed;
mod going_back;
pub(crate) mod handles;
pub(crate) mod inbox;
pub(crate) mod inflight;
pub(crate) mod job;
mod load;
pub(crate) mod loaded;
pub(crate) mod locate;
pub(crate) mod moving;
pub(crate) mod number;
mod once;
mod open_files;
pub(crate) mod owed;
pub(crate) mod places;
pub(crate) mod rebase;
pub(crate) mod request;
pub(crate) mod rewrite;
pub(crate) mod search;
pub(crate) mod session;
pub(crate) mod settle;
pub(crate) mod shared;
pub(crate) mod source;
mod stage;
pub(crate) mod steps;
mod swap;
mod taking;
pub(crate) mod turn;
pub(crate) mod verbs;
mod waiting;
pub(crate) mod worker;
pub(crate) mod write;

use std::collections::{HashMap, VecDeque};
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use sessionlog_core::error::Error;
use sessionlog_core::session_file;
use sessionlog_wal::sync::watch::WatchSender;

use self::answer::Ack;
use self::handles::Handles;
use self::job::{JobResult, Owner};
use self::places::Places;
use self::request::{Command, Manner, Request, Waiting};
use self::session::Session;
use self::shared::SharedState;
use self::turn::{Outbox, Turn};
use crate::engine::catalog::Entry;
use crate::engine::snapshot::Standing;

/// A session file up to this many bytes is measured by its owner, a larger one in the background.
const MEASURE_INLINE: u64 = 256 << 10;

/// The owner of the sessions whose keys hash to one number.
#[derive(Debug)]
pub(crate) struct Shard {
    id: usize,
    sessions: Vec<Resident>,
    places: Arc<Places>,
    handles: Handles,
    /// Watchers of sessions that do not exist yet.
    early: HashMap<Arc<str>, WatchSender<Standing>>,
    /// Sessions whose files or sidecars changed since the last flush.
    dirty: Vec<usize>,
    /// Sessions with lines that are in the journal and not in their file,
    /// oldest first.
    unwritten: VecDeque<Unwritten>,
    unwritten_bytes: usize,
    /// True if the disk was full at the last write to a session file. Until such a write succeeds,
    /// new lines are refused rather than piled up in memory.
    full: bool,
    /// The first version of the session that was loaded last.
    versions: u64,
}

/// A session with lines that are not in its file.
#[derive(Debug)]
struct Unwritten {
    session: usize,
    since: Duration,
}

/// The state of a session. As large as a pointer and a tag, so that all of them stay in a
/// processor's cache.
#[derive(Debug)]
enum Resident {
    Loading(Box<Loading>),
    Failed(Box<Failed>),
    Ready(Box<Session>),
}

/// Being measured in the background; commands wait.
#[derive(Debug)]
struct Loading {
    entry: Arc<Entry>,
    waiting: Waiting,
}

/// Could not be loaded; the next command tries again.
#[derive(Debug)]
struct Failed {
    entry: Arc<Entry>,
    error: Error,
}

impl Shard {
    pub(crate) fn new(
        id: usize,
        open_files: NonZeroUsize,
        shared: &SharedState,
        places: Arc<Places>,
    ) -> Self {
        Self {
            id,
            sessions: Vec::new(),
            places,
            handles: Handles::new(open_files, shared.counters.clone()),
            early: HashMap::new(),
            dirty: Vec::new(),
            unwritten: VecDeque::new(),
            unwritten_bytes: 0,
            full: false,
            // 64 shards share what is below 2⁶³.
            versions: (id as u64) << 57 | shared.versions >> 7,
        }
    }

    /// Takes a command in: stages it, or lets it wait its turn.
    pub(crate) fn accept(&mut self, command: Command, turn: &mut Turn<'_>) {
        let Command { key, request } = command;
        let in_turn = matches!(request.manner(), Manner::Writes | Manner::Names);
        if in_turn && !request.lets_go() && session_file::is_deleted_key(&key) {
            return request.refuse(&Error::deleted_key(), turn.out);
        }
        let (id, request) = match self.find(&key) {
            Some(id) => (id, request),
            None => match self.present(&key, request, turn) {
                Some(request) => (self.admit(&key, turn), request),
                None => return,
            },
        };
        if let Some(to) = self.goes_on_as(id, &*request, turn) {
            return self.send_on(to, request, turn);
        }
        if let Resident::Failed(failed) = &self.sessions[id] {
            let entry = failed.entry.clone();
            self.load(id, &entry, turn);
        }
        match &mut self.sessions[id] {
            Resident::Ready(_) => self.submit(id, request, turn),
            Resident::Loading(loading) => {
                if let Some(request) = loading.waiting.push(request) {
                    refuse_overload(request, &key, &loading.waiting, turn.out);
                }
            }
            Resident::Failed(failed) => request.refuse(&failed.error, turn.out),
        }
    }

    /// Returns the request if the session is on disk or the request creates it; else answers it.
    fn present(
        &mut self,
        key: &Arc<str>,
        request: Box<dyn Request>,
        turn: &mut Turn<'_>,
    ) -> Option<Box<dyn Request>> {
        if turn.shared.catalog.knows(key) {
            return Some(request);
        }
        request.meet_absence(key, self, turn)
    }

    /// Takes in the result of a background job. The caller then [pumps](Self::pump) the requests
    /// that waited for it.
    pub(crate) fn done(&mut self, id: usize, done: JobResult, turn: &mut Turn<'_>) {
        match done {
            JobResult::Measured(Ok(loaded)) => self.install(id, loaded, turn),
            JobResult::Measured(Err(error)) => self.load_failed(id, &error, turn),
            JobResult::Located(located) => self.located(id, located, turn),
            JobResult::Controls(read) => self.controls_read(id, read, turn),
            JobResult::Rewritten { temp, prepared } => self.rewritten(id, &temp, prepared, turn),
        }
    }

    pub(crate) fn id(&self) -> usize {
        self.id
    }

    /// Returns the session of `key`, if a command for it came since the open.
    pub(crate) fn find(&self, key: &str) -> Option<usize> {
        self.places.find(key)
    }

    /// Returns the key of a session that a command was for.
    pub(crate) fn key_of(&self, id: usize) -> Arc<str> {
        let entry = match &self.sessions[id] {
            Resident::Loading(loading) => &loading.entry,
            Resident::Failed(failed) => &failed.entry,
            Resident::Ready(session) => &session.entry,
        };
        entry.key.clone()
    }

    /// Returns a session, if it is loaded.
    pub(crate) fn loaded(&self, id: usize) -> Option<&Session> {
        match self.sessions.get(id) {
            Some(Resident::Ready(session)) => Some(session),
            _ => None,
        }
    }

    /// True if a store that stopped writing carries out the command: it only looks, and would not
    /// wait for a change that will never settle.
    pub(crate) fn may_look(&self, command: &Command) -> bool {
        let resident = self.find(&command.key).map(|id| &self.sessions[id]);
        command.request.manner() == Manner::Looks
            && match resident {
                Some(Resident::Ready(session)) => {
                    !session.is_stuck() || !session.must_wait(&*command.request)
                }
                _ => true,
            }
    }

    /// Takes in a command that certainly touches no file; hands any other back.
    pub(crate) fn accept_quickly(
        &mut self,
        command: Command,
        turn: &mut Turn<'_>,
    ) -> std::result::Result<(), Command> {
        if !command.request.is_quick() || self.full || turn.no_room.is_some() {
            return Err(command);
        }
        match self.find(&command.key) {
            Some(id) if matches!(&self.sessions[id], Resident::Ready(s) if !s.moved && !s.kept) => {
                self.submit(id, command.request, turn);
                Ok(())
            }
            _ => Err(command),
        }
    }

    /// True if settling the change certainly touches no file.
    pub(crate) fn settles_quickly(&self, op: &change::Op) -> bool {
        op.change.is_plain()
            && matches!(&self.sessions[op.session], Resident::Ready(s) if s.deferred == 0)
    }

    /// Notes that a change of the session holds but is settled later: later changes must stay
    /// behind it.
    pub(crate) fn defer(&mut self, id: usize) {
        self.session(id).deferred += 1;
    }

    /// Settles a change that was [deferred](Self::defer), as [`settle`](Self::settle).
    pub(crate) fn settle_deferred(
        &mut self,
        op: change::Op,
        batch: &Bytes,
        turn: &mut Turn<'_>,
    ) -> bool {
        self.session(op.session).deferred -= 1;
        self.settle(op, batch, turn)
    }

    /// Refuses every waiting command, including commands that wait for a compaction. Looks that can
    /// still be carried out stay. Watchers hear of no more changes, for there will be none. The
    /// next open removes a compaction's copy.
    pub(crate) fn refuse_waiting(&mut self, error: &Error, out: &mut Outbox) {
        self.early.clear();
        for resident in &mut self.sessions {
            let (waiting, stuck) = match resident {
                Resident::Loading(loading) => (&mut loading.waiting, false),
                Resident::Ready(session) => {
                    session.watch = None;
                    let compaction = session.compaction.take();
                    let answers = compaction.map(|c| c.answers).unwrap_or_default();
                    out.settle(Ack::all(answers), &Err(error.clone()));
                    let stuck = session.is_stuck();
                    (&mut session.waiting, stuck)
                }
                Resident::Failed(_) => continue,
            };
            for request in waiting.drain_but(|request| request.manner() == Manner::Looks && !stuck)
            {
                request.refuse(error, out);
            }
        }
    }

    /// True if no session has work under way.
    pub(crate) fn is_quiet(&self) -> bool {
        self.sessions.iter().all(|slot| match slot {
            Resident::Loading(_) => false,
            Resident::Failed(_) => true,
            Resident::Ready(session) => {
                session.is_still() && session.waiting.is_empty() && session.compaction.is_none()
            }
        })
    }

    fn session(&mut self, id: usize) -> &mut Session {
        match &mut self.sessions[id] {
            Resident::Ready(session) => session,
            Resident::Loading(_) | Resident::Failed(_) => {
                unreachable!("only a loaded session has staged changes or jobs of its own")
            }
        }
    }

    fn owner(&self, session: usize) -> Owner {
        Owner {
            shard: self.id,
            session,
        }
    }

    fn mark_dirty(&mut self, id: usize) {
        let session = self.session(id);
        session.owed.dirty = true;
        if !session.listed_dirty {
            session.listed_dirty = true;
            self.dirty.push(id);
        }
    }
}

/// Refuses a request that finds no room among the waiting ones.
fn refuse_overload(request: Box<dyn Request>, key: &str, waiting: &Waiting, out: &mut Outbox) {
    let error = Error::Overloaded {
        key: key.into(),
        waiting: waiting.len(),
    };
    request.refuse(&error, out);
}
