//! Telling followers what changed.

use std::sync::Arc;

use sessionlog_core::error::{Error, Version};
use sessionlog_wal::sync::watch::WatchSender;

use crate::engine::feed::{ChangeKind, ChangeNotice, Feed};
use crate::engine::snapshot::Standing;
use crate::front::changes::{ChangeFilter, Changes};
use crate::front::watch::{SessionState, Watch};

/// The changes of a custom store, for its followers. The newest 16,384 are kept for followers that
/// fall behind.
#[derive(Clone, Debug, Default)]
pub struct ChangeFeed(Arc<Feed>);

impl ChangeFeed {
    /// A feed without changes.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Reports a change that readers now see. `agent` is the agent named by the session's scope, or
    /// empty.
    pub fn tell(&self, key: &str, agent: &str, version: Version, kind: ChangeKind) {
        self.0.tell(ChangeNotice {
            key: key.into(),
            agent: agent.into(),
            version,
            kind,
        });
    }

    /// Makes every follower miss an unknown number of changes.
    pub fn lose(&self) {
        self.0.lose();
    }

    /// Ends the feed: no change will come any more.
    pub fn end(&self) {
        self.0.end();
    }

    /// The changes from now on that `filter` admits.
    #[must_use]
    pub fn follow(&self, filter: ChangeFilter) -> Changes {
        Changes::of_feed(self.0.clone(), filter)
    }
}

/// The state of a session in a custom store, for its watchers. When this is dropped, the watchers
/// are told that the store is closed.
#[derive(Debug)]
pub struct WatchFeed(WatchSender<Standing>);

impl WatchFeed {
    /// A feed for a session in this state.
    #[must_use]
    pub fn new(now: SessionState) -> Self {
        Self(WatchSender::new(standing(now)))
    }

    /// Reports the session's state.
    pub fn send(&self, now: SessionState) {
        self.0.send(standing(now));
    }

    /// Reports the session's state, unless the watchers know it already.
    pub fn send_if_new(&self, now: SessionState) {
        let now = standing(now);
        if self.0.subscribe().latest() != now {
            self.0.send(now);
        }
    }

    /// True if nothing watches any more.
    #[must_use]
    pub fn is_unheard(&self) -> bool {
        self.0.is_unheard()
    }

    /// A watch from now on.
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
