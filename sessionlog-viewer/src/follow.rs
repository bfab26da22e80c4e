//! Learns of changes: no other module depends on how.
//!
//! A store reports its changes through [`StoreHandle::changes`]. One that does not, because another
//! process writes it, is looked at now and then.

use std::time::Duration;

use sessionlog::{
    Change, ChangeFilter, Changes, Error, SessionOrder, SessionQuery, StoreHandle, Version,
};
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep_until, timeout_at};

/// The time for which changes are gathered before a page is told: it is told at most four times a
/// second, however many there are.
const GATHER: Duration = Duration::from_millis(250);

/// Looking may take one part in `REST` of the time.
const REST: u32 = 10;

/// The changes since the last notice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Notice {
    /// True if the watched session changed.
    pub(crate) session: bool,
    /// True if any session changed, came or went.
    pub(crate) sessions: bool,
}

impl Notice {
    const ALL: Self = Self {
        session: true,
        sessions: true,
    };

    fn is_any(self) -> bool {
        self.session || self.sessions
    }
}

/// Looks at a store that reports no changes, for all pages that watch it.
pub(crate) struct Watcher {
    store: StoreHandle,
    every: Duration,
    /// The list as last seen. The task that holds this looks, and the others wait for its result.
    list: Mutex<Option<Seen>>,
    /// Allows one look at a session at a time.
    look: Mutex<()>,
}

struct Seen {
    list: List,
    next_look: Instant,
}

/// Tells two states of the list apart, except for deletions and creations that cancel out.
#[derive(Clone, Debug, PartialEq, Eq)]
struct List {
    sessions: usize,
    newest: Option<(String, String, u64, u64)>,
}

/// Follows a store for one page.
pub(crate) enum Follower {
    Told(Box<Told>),
    Looking(Looking),
}

pub(crate) struct Told {
    changes: Changes,
    key: Option<String>,
}

pub(crate) struct Looking {
    key: Option<String>,
    version: Option<Version>,
    list: Option<List>,
    next_look: Instant,
}

impl Watcher {
    pub(crate) fn new(store: StoreHandle, every: Duration) -> Self {
        Self {
            store,
            every,
            list: Mutex::new(None),
            look: Mutex::new(()),
        }
    }

    /// Follows all sessions, and one of them more closely, from now on.
    pub(crate) async fn follow(&self, key: Option<String>) -> Result<Follower, Error> {
        let mut changes = self.store.changes(ChangeFilter::new());
        // A store that reports no changes fails at once; one that reports them misses none here.
        let first = timeout_at(Instant::now(), changes.next()).await;
        match first {
            Ok(Err(Error::ReadOnly)) => {
                let version = self.version(key.as_deref()).await?;
                let list = self.list().await?;
                Ok(Follower::Looking(Looking {
                    key,
                    version,
                    list: Some(list),
                    next_look: Instant::now() + self.every,
                }))
            }
            Ok(Err(error)) if !matches!(error, Error::ChangesMissed { .. }) => Err(error),
            _ => Ok(Follower::Told(Box::new(Told { changes, key }))),
        }
    }

    /// Waits until something changes. Dropping the future loses nothing.
    pub(crate) async fn next(&self, follower: &mut Follower) -> Result<Notice, Error> {
        match follower {
            Follower::Told(told) => told.next().await,
            Follower::Looking(looking) => self.look(looking).await,
        }
    }

    async fn look(&self, seen: &mut Looking) -> Result<Notice, Error> {
        loop {
            sleep_until(seen.next_look).await;
            let began = Instant::now();
            let version = self.version(seen.key.as_deref()).await?;
            let rest = began.elapsed() * REST;
            let list = self.list().await?;
            seen.next_look = Instant::now() + rest.max(self.every);
            let notice = Notice {
                session: version != seen.version,
                sessions: seen.list.as_ref() != Some(&list),
            };
            seen.version = version;
            seen.list = Some(list);
            if notice.is_any() {
                return Ok(notice);
            }
        }
    }

    async fn version(&self, key: Option<&str>) -> Result<Option<Version>, Error> {
        let Some(key) = key else {
            return Ok(None);
        };
        let _one_at_a_time = self.look.lock().await;
        let snapshot = self.store.snapshot(key).await?;
        Ok(Some(snapshot.version()))
    }

    async fn list(&self) -> Result<List, Error> {
        let mut seen = self.list.lock().await;
        let began = Instant::now();
        if let Some(seen) = &*seen
            && began < seen.next_look
        {
            return Ok(seen.list.clone());
        }
        let newest = SessionQuery::new().order(SessionOrder::Updated).limit(1);
        let newest = self.store.sessions(newest).await?.sessions.pop();
        let list = List {
            sessions: self.store.list_sessions().await?.len(),
            newest: newest.map(|info| (info.key, info.updated_at, info.lines, info.bytes)),
        };
        let rest = began.elapsed() * REST;
        // A little less than the interval, because pages that look together would otherwise see
        // only every second state.
        let next_look = began + rest.max(self.every / 2);
        *seen = Some(Seen {
            list: list.clone(),
            next_look,
        });
        Ok(list)
    }
}

impl Told {
    /// Returns the next change, together with those that follow closely.
    async fn next(&mut self) -> Result<Notice, Error> {
        let mut notice = Notice::default();
        let first = self.changes.next().await;
        notice = self.with(notice, first)?;
        let until = Instant::now() + GATHER;
        while let Ok(next) = timeout_at(until, self.changes.next()).await {
            notice = self.with(notice, next)?;
        }
        Ok(notice)
    }

    fn with(&self, notice: Notice, next: Result<Change, Error>) -> Result<Notice, Error> {
        match next {
            Ok(change) => Ok(Notice {
                session: notice.session || self.key.as_deref() == Some(&*change.key),
                sessions: true,
            }),
            Err(Error::ChangesMissed { .. }) => Ok(Notice::ALL),
            Err(error) => Err(error),
        }
    }
}
