//! Follows the changes that a writer in another process makes.
//!
//! It reports the records of the journal: for each, the session and its change, as far as the
//! sidecars before and after it show. Changes that other programs make to the files are in no
//! journal.

use std::num::NonZeroUsize;
use std::sync::{Arc, Weak};
use std::time::Duration;

use lru::LruCache;
use sessionlog_core::error::{Error, Result, Version};
use sessionlog_core::session_file::{self, Agreement, SessionMeta, SessionScope};
use sessionlog_wal::journal::follow::{FollowStep, JournalTail};
use sessionlog_wal::journal::record::{MetaState, Record};
use sessionlog_wal::sync::Mutex;
use sessionlog_wal::sync::thread;

use super::DirectoryView;
use crate::disk::files::sidecar::read_sidecar;
use crate::engine::feed::{ChangeKind, ChangeNotice, Feed, Follower};
use crate::engine::home::Life;

/// The period at which the journal is looked at.
const PERIOD: Duration = Duration::from_millis(50);

/// The longest wait if the journal does not read.
const LONGEST: Duration = Duration::from_secs(5);

/// Number of sessions with keys that are remembered.
const NAMES: NonZeroUsize = NonZeroUsize::new(16_384).unwrap();

/// The changes of a directory, and true if a thread looks for them.
#[derive(Debug, Default)]
pub(super) struct Following {
    pub(super) feed: Feed,
    runs: Mutex<bool>,
}

impl DirectoryView {
    pub(crate) fn feed(&self) -> &Feed {
        &self.following.feed
    }

    /// Returns a follower of every change that is committed from now on. Reads the end of the
    /// journal, and starts a thread that reads on, if none does.
    ///
    /// # Errors
    /// `Closed`; if the journal cannot be read, or no thread can be started.
    pub(crate) fn follow(self: &Arc<Self>) -> Result<Follower> {
        if self.is_closed() {
            return Err(Error::Closed);
        }
        let follower = self.feed().follow().ok_or(Error::Closed)?;
        if *self.following.runs.lock() {
            return Ok(follower);
        }
        let reader = FollowThread {
            tail: Some(self.tail()?),
            names: LruCache::new(NAMES),
            unknown: LruCache::new(NAMES),
            versions: self.first_version()?,
            life: self.home.life(&*self.storage),
        };
        let mut runs = self.following.runs.lock();
        if !*runs {
            let view = Arc::downgrade(self);
            let started = thread::spawn("sessionlog-follow", move || reader.run(&view));
            started.map_err(|e| Error::io("follow", &self.dir, e))?;
            *runs = true;
        }
        Ok(follower)
    }

    /// Returns the end of the journal; the beginning of the first one if there was no store here
    /// yet.
    fn tail(&self) -> Result<ReadPlace> {
        match self.home.read_identity(&*self.storage)? {
            Some(id) => JournalTail::at_end(&*self.storage, &self.home.journal, id)
                .map(|tail| ReadPlace::At(Box::new(tail))),
            None => Ok(ReadPlace::NoStoreYet),
        }
    }

    fn first_version(&self) -> Result<u64> {
        let random = getrandom::u64();
        let random = random.map_err(|e| std::io::Error::other(e.to_string()));
        Ok(random.map_err(|e| Error::io("follow", &self.dir, e))? >> 8)
    }

    /// Returns true if the following thread ends, because no follower is left.
    fn is_left(&self) -> bool {
        let mut runs = self.following.runs.lock();
        if self.feed().is_unheard() {
            *runs = false;
            // A later follower that goes back to a version must not skip the missed changes.
            self.feed().lose();
        }
        !*runs
    }
}

/// The place up to which the following thread has read.
#[derive(Debug)]
enum ReadPlace {
    NoStoreYet,
    At(Box<JournalTail>),
}

/// The knowledge of the following thread.
#[derive(Debug)]
struct FollowThread {
    /// `None` after the journal could not be read.
    tail: Option<ReadPlace>,
    names: LruCache<String, SessionName>,
    /// Sessions with keys that were found nowhere.
    unknown: LruCache<String, ()>,
    versions: u64,
    /// The writer's life that the names are from. Another life may have given a file name to
    /// another session, unnoticed.
    life: Life,
}

/// The key and the agent of a session.
#[derive(Clone, Debug)]
struct SessionName {
    key: Arc<str>,
    agent: Arc<str>,
}

impl FollowThread {
    fn run(mut self, view: &Weak<DirectoryView>) {
        let mut period = PERIOD;
        loop {
            thread::pause(period);
            let Some(view) = view.upgrade() else { return };
            if view.is_closed() {
                return view.feed().end();
            }
            if view.is_left() {
                return;
            }
            match self.read_on(&view) {
                Ok(()) => period = PERIOD,
                Err(error) => {
                    if period == PERIOD {
                        tracing::warn!(%error, "changes are missed: the journal does not read");
                    }
                    period = (period * 2).min(LONGEST);
                }
            }
        }
    }

    fn read_on(&mut self, view: &DirectoryView) -> Result<()> {
        let life = view.home.life(&*view.storage);
        if life != self.life {
            self.forget_names();
            self.life = life;
        }
        let mut tail = match self.tail.take() {
            Some(ReadPlace::At(tail)) => tail,
            Some(ReadPlace::NoStoreYet) => {
                let Some(id) = view.home.read_identity(&*view.storage)? else {
                    self.tail = Some(ReadPlace::NoStoreYet);
                    return Ok(());
                };
                Box::new(JournalTail::at_begin(&view.home.journal, id))
            }
            None => {
                let found = view.tail()?;
                // After that: changes that were committed until then are not reported.
                view.feed().lose();
                self.tail = Some(found);
                return Ok(());
            }
        };
        loop {
            let found = tail.read_on(&*view.storage, &mut |record| self.tell(view, record))?;
            match found {
                FollowStep::All => break,
                FollowStep::Gap => {
                    self.forget_names();
                    view.feed().lose();
                }
            }
        }
        self.tail = Some(ReadPlace::At(tail));
        Ok(())
    }

    fn forget_names(&mut self) {
        self.names.clear();
        self.unknown.clear();
    }

    fn tell(&mut self, view: &DirectoryView, record: &Record<'_>) {
        let Some(said) = SessionRecord::of(record) else {
            return;
        };
        let name = match &said.meta {
            Some(meta) => self.learn(said.stem, meta),
            None => self.names.get(said.stem).cloned(),
        };
        let name = name.or_else(|| self.look_up(view, said.stem));
        let Some(SessionName { key, agent }) = name else {
            return view.feed().lose();
        };
        self.versions += 1;
        view.feed().tell(ChangeNotice {
            key,
            agent,
            version: Version::new(self.versions),
            kind: said.kind,
        });
    }

    fn learn(&mut self, stem: &str, meta: &SessionMeta) -> Option<SessionName> {
        if meta.key.is_empty() {
            return None;
        }
        let scope = meta.scope.as_ref();
        let scope = scope.and_then(|scope| SessionScope::from_json(scope.get()).ok());
        let name = SessionName {
            key: meta.key.as_str().into(),
            agent: scope.unwrap_or_default().agent_id.into(),
        };
        self.unknown.pop(stem);
        self.names.put(stem.to_owned(), name.clone());
        Some(name)
    }

    /// Returns the key of a session that the journal named before it was followed.
    fn look_up(&mut self, view: &DirectoryView, stem: &str) -> Option<SessionName> {
        if self.unknown.contains(stem) {
            return None;
        }
        let read = read_sidecar(&*view.storage, &view.dir, stem, "").ok();
        let known = read.and_then(|(meta, _)| self.learn(stem, &meta.to_sidecar()));
        if known.is_some() {
            return known;
        }
        // One look serves all sessions that the journal names.
        let moment = view.begin().ok();
        for (stem, plan) in moment.iter().flat_map(|moment| &moment.plans.sessions) {
            self.learn(stem, &plan.meta(|| SessionMeta::empty("")));
        }
        let known = self.names.get(stem).cloned();
        if known.is_none() {
            self.unknown.put(stem.to_owned(), ());
        }
        known
    }
}

/// The content of a record about its session.
struct SessionRecord<'a> {
    stem: &'a str,
    kind: ChangeKind,
    /// The sidecar after it, or the one before if it is gone.
    meta: Option<SessionMeta>,
}

impl<'a> SessionRecord<'a> {
    fn of(record: &Record<'a>) -> Option<Self> {
        let sidecar = |bytes: &[u8]| session_file::decode_sidecar(bytes).ok();
        let (stem, kind, meta) = match *record {
            Record::Append {
                stem, bytes, meta, ..
            } => match meta {
                // This record only carries ids along with a session that has another key now.
                MetaState::Patch { .. } if bytes.is_empty() => return None,
                MetaState::Patch { .. } => (stem, ChangeKind::Appended, None),
                MetaState::First(image) | MetaState::Image { image, .. } => {
                    (stem, ChangeKind::Appended, sidecar(image))
                }
                MetaState::Changed { image, before } => {
                    let (before, after) = (sidecar(before), sidecar(image));
                    let kind = kind_of(before.as_ref(), after.as_ref());
                    (stem, kind.unwrap_or(ChangeKind::Appended), after)
                }
            },
            Record::Meta {
                stem,
                before,
                image,
                ..
            } => {
                let (before, after) = (sidecar(before.sidecar), sidecar(image));
                // A flush has sidecars written again that have nothing new.
                (stem, kind_of(before.as_ref(), after.as_ref())?, after)
            }
            Record::Swap { stem, image, .. } | Record::Rebase { stem, image, .. } => {
                (stem, ChangeKind::Replaced, sidecar(image))
            }
            Record::Delete { stem, before, .. } => {
                (stem, ChangeKind::Deleted, sidecar(before.sidecar))
            }
            Record::Checkpoint { .. } | Record::Commit(_) => return None,
        };
        Some(Self { stem, kind, meta })
    }
}

/// Returns the change between two sidecars of a session; `None` if both say the same.
fn kind_of(before: Option<&SessionMeta>, after: Option<&SessionMeta>) -> Option<ChangeKind> {
    let (Some(before), Some(after)) = (before, after) else {
        return Some(ChangeKind::Updated);
    };
    let Agreement {
        skip,
        summary,
        scope,
        aliases,
        title,
        labels,
        pinned,
        unknown,
        key: _,
        count: _,
        created_at: _,
        updated_at: _,
    } = before.agreement(after);
    if !skip {
        Some(ChangeKind::Truncated)
    } else if !(summary && scope && aliases && title && labels && pinned && unknown) {
        Some(ChangeKind::Updated)
    } else {
        None
    }
}
