//! A shard: the only owner of its sessions and their files.
//!
//! A plain state machine. Commands come in ([`Shard::accept`]) and are staged as
//! journal records ([`stage`]); once those hold, readers see them ([`settle`])
//! and the session files get them ([`mod@write`]). Nothing in here waits: what takes long goes
//! to the background as a [`job`] and comes back as an event. A [`worker`]
//! drives several shards.

pub(crate) mod backups;
pub(crate) mod buffers;
pub(crate) mod command;
pub(crate) mod context;
pub(crate) mod converse;
pub(crate) mod flush;
pub(crate) mod handles;
pub(crate) mod inflight;
pub(crate) mod job;
pub(crate) mod load;
pub(crate) mod locate;
pub(crate) mod owed;
pub(crate) mod rebase;
pub(crate) mod rewrite;
pub(crate) mod session;
pub(crate) mod settle;
pub(crate) mod stage;
pub(crate) mod staging;
pub(crate) mod worker;
pub(crate) mod write;

use std::collections::{HashMap, VecDeque};
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use self::command::{Command, Verb};
use self::context::{Context, Outbox, Turn};
use self::converse::Converse;
use self::handles::Handles;
use self::job::{Done, Job, Owner};
use self::load::Loaded;
use self::owed::Keeper;
use self::session::Session;
use self::staging::{Change, Op};
use crate::disk::files;
use crate::disk::files::extent::{self};
use crate::disk::files::sidecar::{self, Sidecar};
use crate::disk::session_file::Meta;
use crate::engine::catalog::Entry;
use crate::engine::snapshot::{Standing, Tail};
use crate::error::{Error, Result};
use crate::ground::storage::{OpenMode, StorageFile};
use crate::ground::sync::watch::WatchSender;

/// How many shards a store has.
pub(crate) const SHARDS: usize = crate::disk::session_file::SHARDS as usize;

/// A session file up to this many bytes is measured by its owner, a larger one
/// in the background.
const MEASURE_INLINE: u64 = 256 << 10;

/// What a caller's thread may encode and copy for itself, bytes: a runtime's
/// thread has other tasks, and others wait for the shard meanwhile.
const QUICK_BYTES: usize = 64 << 10;

/// The owner of the sessions whose keys hash to one number.
#[derive(Debug)]
pub(crate) struct Shard {
    id: usize,
    sessions: Vec<Slot>,
    by_key: HashMap<Arc<str>, usize, foldhash::fast::RandomState>,
    handles: Handles,
    /// Those who want to know of sessions that are not there yet.
    early: HashMap<Arc<str>, WatchSender<Standing>>,
    /// Sessions whose files or sidecars changed since the last flush.
    dirty: Vec<usize>,
    /// Sessions with lines that are in the journal and not in their file,
    /// oldest first.
    unwritten: VecDeque<Unwritten>,
    unwritten_bytes: usize,
    /// The disk was full at the last write to a session file. Until such a
    /// write succeeds, new lines are refused rather than piled up in memory.
    full: bool,
}

/// A session with lines that are not in its file.
#[derive(Debug)]
struct Unwritten {
    session: usize,
    since: Duration,
}

#[derive(Debug)]
enum Slot {
    /// Being measured in the background; commands wait.
    Loading {
        entry: Arc<Entry>,
        waiting: VecDeque<Verb>,
    },
    /// Could not be loaded; the next command tries again.
    Failed {
        entry: Arc<Entry>,
        error: Error,
    },
    Ready(Box<Session>),
}

impl Shard {
    pub(crate) fn new(id: usize, open_files: NonZeroUsize) -> Self {
        Self {
            id,
            sessions: Vec::new(),
            by_key: HashMap::default(),
            handles: Handles::new(open_files),
            early: HashMap::new(),
            dirty: Vec::new(),
            unwritten: VecDeque::new(),
            unwritten_bytes: 0,
            full: false,
        }
    }

    /// Takes a command in: stages it, or lets it wait its turn.
    pub(crate) fn accept(&mut self, command: Command, turn: &mut Turn<'_>) {
        let Command { key, verb } = command;
        let id = match self.by_key.get(&key) {
            Some(&id) => id,
            // Entered for nothing, it would hold a file name that another key
            // may need.
            None if !verb.creates() && !turn.context.catalog.knows(&key) => {
                if matches!(&verb, Verb::Converse(v) if matches!(**v, Converse::Subscribe { .. })) {
                    return self.subscribe_early(&key, verb, turn);
                }
                return stage::answer_without_session(verb, &key, turn.out);
            }
            None => self.admit(&key, turn),
        };
        if let Slot::Failed { entry, .. } = &self.sessions[id] {
            let entry = entry.clone();
            self.load(id, &entry, turn);
        }
        match &mut self.sessions[id] {
            Slot::Ready(_) => self.submit(id, verb, turn),
            Slot::Loading { waiting, .. } => waiting.push_back(verb),
            Slot::Failed { error, .. } => stage::refuse(verb, error, turn.out),
        }
    }

    /// The result of a background job.
    pub(crate) fn done(&mut self, id: usize, done: Done, turn: &mut Turn<'_>) {
        match done {
            Done::Measured(Ok(loaded)) => self.install(id, loaded, turn),
            Done::Measured(Err(error)) => self.load_failed(id, &error, turn),
            Done::Located(located) => self.located(id, located, turn),
            Done::Folded(folded) => self.folded(id, folded, turn),
            Done::Rewritten { temp, prepared } => self.rewritten(id, &temp, prepared, turn),
        }
        self.pump(id, turn);
    }

    pub(crate) fn id(&self) -> usize {
        self.id
    }

    /// Whether a store that stopped writing carries out a command: one that looks,
    /// unless it would wait for a change that will never settle.
    pub(crate) fn may_look(&self, command: &Command) -> bool {
        let slot = self.by_key.get(&command.key).map(|&id| &self.sessions[id]);
        command.verb.looks()
            && match slot {
                Some(Slot::Ready(session)) => {
                    !session.is_stuck() || session.may_stage(&command.verb)
                }
                _ => true,
            }
    }

    /// Takes a command in, if that touches no file for certain; else hands it
    /// back.
    pub(crate) fn accept_quickly(
        &mut self,
        command: Command,
        turn: &mut Turn<'_>,
    ) -> std::result::Result<(), Command> {
        let plain = match &command.verb {
            Verb::Append { lines, .. } => lines.len() <= QUICK_BYTES,
            Verb::SetSummary { summary, .. } => summary.len() <= QUICK_BYTES,
            Verb::UpsertMeta { .. } => true,
            _ => false,
        };
        if !plain || self.full {
            return Err(command);
        }
        match self.by_key.get(&command.key) {
            Some(&id) if matches!(self.sessions[id], Slot::Ready(_)) => {
                self.submit(id, command.verb, turn);
                Ok(())
            }
            _ => Err(command),
        }
    }

    /// Whether settling a change touches no file, for certain.
    pub(crate) fn settles_quickly(&self, op: &Op) -> bool {
        let plain = matches!(op.change, Change::Append { .. } | Change::Meta { .. });
        plain && matches!(&self.sessions[op.session], Slot::Ready(s) if s.waiting.is_empty())
    }

    /// Refuses every command that waits, those that wait for a compaction
    /// included, but for looks whose turn will come; and tells nobody of changes
    /// any more, for there will be none. The copy a compaction made is removed by
    /// the next open.
    pub(crate) fn refuse_waiting(&mut self, error: &Error, out: &mut Outbox) {
        self.early.clear();
        for slot in &mut self.sessions {
            let (waiting, stuck) = match slot {
                Slot::Loading { waiting, .. } => (waiting, false),
                Slot::Ready(session) => {
                    session.watch = None;
                    let compaction = session.compaction.take();
                    let answers = compaction.map(|c| c.answers).unwrap_or_default();
                    stage::answer_all(answers, &Err(error.clone()), out);
                    let stuck = session.is_stuck();
                    (&mut session.waiting, stuck)
                }
                Slot::Failed { .. } => continue,
            };
            for verb in std::mem::take(waiting) {
                if verb.looks() && !stuck {
                    waiting.push_back(verb);
                } else {
                    stage::refuse(verb, error, out);
                }
            }
        }
    }

    /// Whether nothing is under way for any session.
    pub(crate) fn is_quiet(&self) -> bool {
        self.sessions.iter().all(|slot| match slot {
            Slot::Loading { .. } => false,
            Slot::Failed { .. } => true,
            Slot::Ready(session) => {
                session.inflight == 0
                    && !session.busy
                    && session.waiting.is_empty()
                    && session.compaction.is_none()
            }
        })
    }

    fn admit(&mut self, key: &Arc<str>, turn: &mut Turn<'_>) -> usize {
        let entry = turn.context.catalog.claim(key);
        let id = self.sessions.len();
        self.sessions.push(Slot::Loading {
            entry: entry.clone(),
            waiting: VecDeque::new(),
        });
        self.by_key.insert(key.clone(), id);
        self.load(id, &entry, turn);
        id
    }

    /// Brings a session in, here if it is small, else in the background.
    fn load(&mut self, id: usize, entry: &Arc<Entry>, turn: &mut Turn<'_>) {
        self.sessions[id] = Slot::Loading {
            entry: entry.clone(),
            waiting: VecDeque::new(),
        };
        match self.open_files(entry, turn) {
            Ok((loaded, true)) => {
                let owner = self.owner(id, turn);
                turn.out.start(Job::Measure { owner, loaded });
            }
            Ok((loaded, false)) => self.install(id, loaded, turn),
            Err(error) => self.load_failed(id, &error, turn),
        }
    }

    /// Opens both files; `true` where the log is too big to measure here.
    fn open_files(&mut self, entry: &Entry, turn: &mut Turn<'_>) -> Result<(Loaded, bool)> {
        let context = turn.context;
        let (meta, sidecar) = self.read_sidecar(entry, turn)?;
        let file = self.open_log(&entry.stem, turn)?;
        let mut loaded = Loaded {
            meta,
            sidecar,
            file,
            extent: extent::Extent::default(),
        };
        let Some(file) = &loaded.file else {
            return Ok((loaded, false));
        };
        let path = files::log_path(&context.dir, &entry.stem);
        let wrap = |e| Error::io("read", &path, e);
        let len = file.info().map_err(wrap)?.len;
        if len > MEASURE_INLINE {
            return Ok((loaded, true));
        }
        loaded.extent = extent::measure(Some(&**file), len, &[], loaded.meta.skip).map_err(wrap)?;
        Ok((loaded, false))
    }

    /// Reads a sidecar.
    fn read_sidecar(&mut self, entry: &Entry, turn: &Turn<'_>) -> Result<(Meta, Sidecar)> {
        let Context { storage, dir, .. } = turn.context;
        let keeper = &turn.context.keeper;
        self.with_descriptor(keeper, || {
            sidecar::read_sidecar(&**storage, dir, &entry.stem, &entry.key)
        })
    }

    /// Opens a session file.
    fn open_log(&mut self, stem: &str, turn: &Turn<'_>) -> Result<Option<Arc<dyn StorageFile>>> {
        let Context { storage, dir, .. } = turn.context;
        let keeper = &turn.context.keeper;
        self.with_descriptor(keeper, || {
            files::open_log(&**storage, dir, stem, OpenMode::ReadWrite)
        })
    }

    /// Tries again, first without the sidecars that are kept open, then with one
    /// session file less open each time, for as long as the process has no descriptor
    /// left.
    fn with_descriptor<T>(
        &mut self,
        keeper: &Keeper,
        mut attempt: impl FnMut() -> Result<T>,
    ) -> Result<T> {
        loop {
            match attempt() {
                Err(error) if error.out_of_descriptors() => {
                    if keeper.release() {
                        continue;
                    }
                    match self.handles.evict() {
                        Some(evicted) => self.close(evicted),
                        None => return Err(error),
                    }
                }
                other => return other,
            }
        }
    }

    fn install(&mut self, id: usize, loaded: Loaded, turn: &mut Turn<'_>) {
        let Slot::Loading { entry, waiting } = &mut self.sessions[id] else {
            return;
        };
        let mut session = Session::vacant(entry.clone());
        session.waiting = std::mem::take(waiting);
        session.watch = self.early.remove(&entry.key);
        session.exists = loaded.file.is_some() || loaded.sidecar != Sidecar::Missing;
        session.sidecar = loaded.sidecar;
        session.start = loaded.extent.start;
        session.settled = session::Position {
            end: loaded.extent.end,
            lines: loaded.extent.lines,
            torn: loaded.extent.torn,
            meta: loaded.meta,
        };
        session.staged = session.settled.clone();
        session.synced_meta.clone_from(&session.settled.meta);
        session.written = loaded.extent.end;
        session.synced = loaded.extent.end;
        session.file = loaded.file;
        session.tail = Tail::new(session.settled.meta.clone());
        session.publish();
        let (overdue, open) = (session.mostly_dead(), session.file.is_some());
        self.sessions[id] = Slot::Ready(Box::new(session));
        if open {
            self.used(id);
        }
        if overdue && turn.context.auto_compact {
            self.submit(id, Verb::Compact { answer: None }, turn);
        }
        self.pump(id, turn);
    }

    fn load_failed(&mut self, id: usize, error: &Error, turn: &mut Turn<'_>) {
        let Slot::Loading { entry, waiting } = &mut self.sessions[id] else {
            return;
        };
        let entry = entry.clone();
        for verb in std::mem::take(waiting) {
            stage::refuse(verb, error, turn.out);
        }
        self.sessions[id] = Slot::Failed {
            entry,
            error: error.clone(),
        };
    }

    fn session(&mut self, id: usize) -> &mut Session {
        match &mut self.sessions[id] {
            Slot::Ready(session) => session,
            Slot::Loading { .. } | Slot::Failed { .. } => {
                unreachable!("only a loaded session has staged changes or jobs of its own")
            }
        }
    }

    fn owner(&self, session: usize, turn: &Turn<'_>) -> Owner {
        Owner {
            worker: turn.out.worker,
            shard: self.id,
            session,
        }
    }

    /// The session's open file, opened if need be; `None` if it has none.
    fn file(&mut self, id: usize, turn: &mut Turn<'_>) -> Result<Option<Arc<dyn StorageFile>>> {
        let session = self.session(id);
        if session.file.is_none() && session.exists {
            let stem = session.entry.stem.clone();
            let file = self.open_log(&stem, turn)?;
            let session = self.session(id);
            session.file = file;
            session.publish();
        }
        let file = self.session(id).file.clone();
        if file.is_some() {
            self.used(id);
        }
        Ok(file)
    }

    fn used(&mut self, id: usize) {
        if let Some(evicted) = self.handles.used(id) {
            self.close(evicted);
        }
    }

    /// Closes a session's file, also in what is published: a snapshot that kept
    /// it would keep the descriptor open without bound.
    fn close(&mut self, id: usize) {
        if let Slot::Ready(session) = &mut self.sessions[id] {
            session.file = None;
            session.owed.closed();
            session.publish();
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
