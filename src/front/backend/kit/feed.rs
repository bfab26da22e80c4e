//! Telling those who follow what changed.

use std::sync::Arc;

use crate::engine::feed::{ChangeKind, Feed, Told};
use crate::engine::snapshot::Standing;
use crate::error::{Error, Version};
use crate::front::changes::{ChangeFilter, Changes};
use crate::front::watch::{SessionState, Watch};
use crate::ground::sync::watch::WatchSender;

/// The changes of a store of one's own, for those who follow them. The newest 16,384 are
/// kept for those who fall behind.
#[derive(Clone, Debug, Default)]
pub struct ChangeFeed(Arc<Feed>);

impl ChangeFeed {
    /// One without changes.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Readers see a change. `agent` is the one that the session's scope names, or empty.
    pub fn tell(&self, key: &str, agent: &str, version: Version, kind: ChangeKind) {
        self.0.tell(Told {
            key: key.into(),
            agent: agent.into(),
            version,
            kind,
        });
    }

    /// Everyone who follows misses an unknown number of changes.
    pub fn lose(&self) {
        self.0.lose();
    }

    /// No change will come any more.
    pub fn end(&self) {
        self.0.end();
    }

    /// The changes from now on that `filter` admits.
    #[must_use]
    pub fn follow(&self, filter: ChangeFilter) -> Changes {
        Changes::of_feed(self.0.clone(), filter)
    }
}

/// Where a session of a store of one's own stands, for those who watch it. Dropped, those are
/// told that the store is closed.
#[derive(Debug)]
pub struct WatchFeed(WatchSender<Standing>);

impl WatchFeed {
    /// That of a session which stands there.
    #[must_use]
    pub fn new(now: SessionState) -> Self {
        Self(WatchSender::new(standing(now)))
    }

    /// The session stands there now.
    pub fn send(&self, now: SessionState) {
        self.0.send(standing(now));
    }

    /// The session stands there now; nobody is told what they know.
    pub fn send_if_new(&self, now: SessionState) {
        let now = standing(now);
        if self.0.subscribe().latest() != now {
            self.0.send(now);
        }
    }

    /// Whether nobody watches any more.
    #[must_use]
    pub fn is_unheard(&self) -> bool {
        self.0.is_unheard()
    }

    /// One who watches from now on.
    #[must_use]
    pub fn watch(&self) -> Watch {
        Watch::until(self.0.subscribe(), || Error::Closed)
    }
}

fn standing(state: SessionState) -> Standing {
    Standing {
        generation: state.generation,
        lines: state.lines,
        skip: state.skip,
    }
}
