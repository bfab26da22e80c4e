//! Following the changes of all sessions.

use std::sync::Arc;

use sessionlog_core::error::{Error, Result, Version};
use sessionlog_core::session_file;
use sessionlog_wal::sync::thread;

use crate::engine::Engine;
use crate::engine::feed::{ChangeKind, ChangeNotice, Feed, Follower, NextItem};
use crate::engine::view::DirectoryView;
use crate::front::handle::Side;

/// Selects changes, for [`StoreHandle::changes`](crate::StoreHandle::changes).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use = "it does nothing until it is given to StoreHandle::changes"]
pub struct ChangeFilter {
    prefix: String,
    agent: Option<String>,
    after: Option<Version>,
}

impl ChangeFilter {
    /// All changes from now on.
    pub fn new() -> Self {
        Self::default()
    }

    /// Only changes of sessions with keys that begin with this.
    pub fn prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = prefix.into();
        self
    }

    /// Only changes of sessions with this agent in their scope.
    pub fn agent(mut self, agent_id: impl Into<String>) -> Self {
        self.agent = Some(agent_id.into());
        self
    }

    /// Also includes kept changes, from right after the change that made this version, of any
    /// session: a follower that stopped resumes there. If that change is not kept any more, the
    /// first answer is [`Error::ChangesMissed`].
    pub fn after(mut self, version: Version) -> Self {
        self.after = Some(version);
        self
    }

    fn admits(&self, told: &ChangeNotice) -> bool {
        let agent = self
            .agent
            .as_deref()
            .is_none_or(|agent| *told.agent == *agent);
        agent && told.key.starts_with(&self.prefix) && !session_file::is_deleted_key(&told.key)
    }
}

/// A change of a session, visible to readers.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Change {
    /// The session's key.
    pub key: String,
    /// The version that the change made. A [`SessionSnapshot`](crate::SessionSnapshot) has it,
    /// unless another change followed. The version of a deletion is one that the session never is
    /// at. On a store opened read-only it only names the change, for [`ChangeFilter::after`], and
    /// no snapshot has it.
    pub version: Version,
    /// The kind of change.
    pub kind: ChangeKind,
}

/// The changes of all sessions, one after the other; see
/// [`StoreHandle::changes`](crate::StoreHandle::changes).
#[derive(Debug)]
pub struct Changes {
    source: ChangeSource,
    filter: ChangeFilter,
    follower: Option<Follower>,
    /// True if the changes after a version are not kept any more, and the caller was not told yet.
    is_lost: bool,
}

/// The source of changes.
#[derive(Debug)]
enum ChangeSource {
    Writer(Arc<Engine>),
    Reader(Arc<DirectoryView>),
    /// A custom store.
    Other(Arc<Feed>),
    /// Nothing will come, for this reason.
    Nowhere(Error),
}

impl ChangeSource {
    fn follow(side: Side) -> (Self, Option<Follower>) {
        match side {
            Side::Writer(engine) => {
                let follower = engine.shared.feed.follow();
                (Self::Writer(engine), follower)
            }
            Side::Reader(view) => match view.follow() {
                Ok(follower) => (Self::Reader(view), Some(follower)),
                Err(error) => (Self::Nowhere(error), None),
            },
        }
    }

    fn feed(&self) -> Result<&Feed> {
        match self {
            Self::Writer(engine) => Ok(&engine.shared.feed),
            Self::Reader(view) => Ok(view.feed()),
            Self::Other(feed) => Ok(feed),
            Self::Nowhere(error) => Err(error.clone()),
        }
    }

    /// The reason why nothing comes any more.
    fn failure(&self) -> Error {
        match self {
            Self::Writer(engine) => engine.failure(),
            Self::Reader(_) | Self::Other(_) => Error::Closed,
            Self::Nowhere(error) => error.clone(),
        }
    }
}

impl Changes {
    pub(crate) fn of(side: Side, filter: ChangeFilter) -> Self {
        Self::from_source(ChangeSource::follow(side), filter)
    }

    /// The changes of a custom store.
    pub(crate) fn of_feed(feed: Arc<Feed>, filter: ChangeFilter) -> Self {
        let follower = feed.follow();
        Self::from_source((ChangeSource::Other(feed), follower), filter)
    }

    fn from_source(
        (source, mut follower): (ChangeSource, Option<Follower>),
        filter: ChangeFilter,
    ) -> Self {
        let mut is_lost = false;
        if let (Ok(feed), Some(follower), Some(version)) =
            (source.feed(), &mut follower, filter.after)
        {
            is_lost = !feed.rewind(follower, version);
        }
        Self {
            source,
            filter,
            follower,
            is_lost,
        }
    }

    /// Waits for the next change. Works under any async runtime; dropping the future loses nothing.
    ///
    /// # Errors
    /// [`Error::ChangesMissed`] if changes came faster than they were asked for and are not kept
    /// any more: the next call goes on with the oldest kept one. [`Error::Closed`] or
    /// [`Error::Poisoned`] once nothing will change any more. On a store opened read-only,
    /// [`Error::Corrupt`] and [`Error::Io`] if the writer's journal cannot be read.
    pub async fn next(&mut self) -> Result<Change> {
        let feed = self.source.feed()?;
        if std::mem::take(&mut self.is_lost) {
            return Err(Error::ChangesMissed { missed: None });
        }
        let Some(follower) = &mut self.follower else {
            return Err(self.source.failure());
        };
        loop {
            match feed.next(follower) {
                NextItem::Change(told) if self.filter.admits(&told) => {
                    return Ok(Change {
                        key: told.key.to_string(),
                        version: told.version,
                        kind: told.kind,
                    });
                }
                NextItem::Change(_) => {}
                NextItem::Missed(missed) => return Err(Error::ChangesMissed { missed }),
                NextItem::Nothing if follower.changed().await => {}
                NextItem::Nothing => return Err(self.source.failure()),
            }
        }
    }

    /// As [`next`](Self::next), blocking this thread.
    ///
    /// # Errors
    /// As [`next`](Self::next); [`Error::WouldDeadlock`] on a thread that works for a
    /// store, as in a waker.
    pub fn wait_next(&mut self) -> Result<Change> {
        if thread::is_serving() {
            return Err(Error::WouldDeadlock);
        }
        pollster::block_on(self.next())
    }
}
