//! The changes of all sessions, one after the other, for followers.
//!
//! A ring of the last [`KEPT`] changes: a slower follower misses some, and is told how many.
//! Nothing is kept until the first follower comes.

use std::collections::VecDeque;
use std::sync::Arc;

use sessionlog_core::error::Version;
use sessionlog_wal::sync::Mutex;
use sessionlog_wal::sync::atomic::{AtomicBool, Ordering};
use sessionlog_wal::sync::watch::{WatchReceiver, WatchSender};

/// Number of changes that are kept.
const KEPT: usize = 16_384;

/// The kind of a session's change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ChangeKind {
    /// Lines were added: messages, or control records.
    Appended,
    /// Its summary, scope or aliases changed, perhaps with lines added.
    Updated,
    /// Lines were hidden, perhaps with others added and another summary.
    Truncated,
    /// Its history was replaced, or taken back.
    Replaced,
    /// It was deleted.
    Deleted,
}

/// A change of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ChangeNotice {
    pub(crate) key: Arc<str>,
    /// The agent that its scope names; empty if it has none.
    pub(crate) agent: Arc<str>,
    pub(crate) version: Version,
    pub(crate) kind: ChangeKind,
}

/// The changes of a store.
#[derive(Debug)]
pub(crate) struct Feed {
    /// True if there ever was a follower.
    is_followed: AtomicBool,
    ring: Mutex<Ring>,
    /// The number of changes so far; no more come once it is `None`.
    newest: Mutex<Option<Arc<WatchSender<u64>>>>,
}

#[derive(Debug, Default)]
struct Ring {
    /// The number of the first one kept.
    first: u64,
    /// `None` where some were missed; their number is not known.
    kept: VecDeque<Option<ChangeNotice>>,
}

/// A follower's place among the changes.
#[derive(Debug)]
pub(crate) struct Follower {
    next: u64,
    newest: WatchReceiver<u64>,
}

/// The next item for a follower.
#[derive(Debug)]
pub(crate) enum NextItem {
    Change(ChangeNotice),
    /// So many changes are not kept any more; `None` if their number is not known.
    Missed(Option<u64>),
    Nothing,
}

impl Default for Feed {
    fn default() -> Self {
        Self {
            is_followed: AtomicBool::new(false),
            ring: Mutex::default(),
            newest: Mutex::new(Some(Arc::new(WatchSender::new(0)))),
        }
    }
}

impl Feed {
    pub(crate) fn is_followed(&self) -> bool {
        self.is_followed.load(Ordering::Acquire)
    }

    /// Adds a change that readers see.
    pub(crate) fn tell(&self, told: ChangeNotice) {
        self.push(Some(told));
    }

    /// Notes that unknown changes happened here.
    pub(crate) fn lose(&self) {
        self.push(None);
    }

    fn push(&self, told: Option<ChangeNotice>) {
        let mut ring = self.ring.lock();
        if ring.kept.len() == KEPT {
            ring.kept.pop_front();
            ring.first += 1;
        }
        ring.kept.push_back(told);
        let newest = ring.first + ring.kept.len() as u64;
        drop(ring);
        // Not under the lock: this calls wakers, which may follow changes themselves.
        let sender = self.newest.lock().clone();
        if let Some(sender) = sender {
            sender.send(newest);
        }
    }

    /// Ends the feed: no change will come any more.
    pub(crate) fn end(&self) {
        let sender = self.newest.lock().take();
        drop(sender);
    }

    /// Returns true if no follower waits for a change.
    pub(crate) fn is_unheard(&self) -> bool {
        let sender = self.newest.lock().clone();
        sender.is_none_or(|sender| sender.is_unheard())
    }

    /// Returns a follower of every change from now on; `None` once none will come.
    pub(crate) fn follow(&self) -> Option<Follower> {
        // First: changes that are shown after this are reported.
        self.is_followed.store(true, Ordering::Release);
        let newest = self.newest.lock().as_ref()?.subscribe();
        let ring = self.ring.lock();
        let next = ring.first + ring.kept.len() as u64;
        Some(Follower { next, newest })
    }

    /// Goes back to right after the change that made `version`; returns `false` if that is not
    /// kept.
    pub(crate) fn rewind(&self, follower: &mut Follower, version: Version) -> bool {
        let ring = self.ring.lock();
        let is_it =
            |told: &Option<ChangeNotice>| told.as_ref().is_some_and(|t| t.version == version);
        let place = ring.kept.iter().rposition(is_it);
        if let Some(place) = place {
            follower.next = ring.first + place as u64 + 1;
        }
        place.is_some()
    }

    /// Returns the next item. If there is none, [`changed`](Follower::changed) reports later ones.
    pub(crate) fn next(&self, follower: &mut Follower) -> NextItem {
        // First: senders may report the counts in another order than the changes came.
        follower.newest.latest();
        let ring = self.ring.lock();
        if let Some(missed) = ring.first.checked_sub(follower.next).filter(|n| *n > 0) {
            follower.next = ring.first;
            return NextItem::Missed(Some(missed));
        }
        match ring.kept.get((follower.next - ring.first) as usize) {
            Some(told) => {
                follower.next += 1;
                told.clone()
                    .map_or(NextItem::Missed(None), NextItem::Change)
            }
            None => NextItem::Nothing,
        }
    }
}

impl Follower {
    /// Waits until there is another change; returns `false` once none will come.
    pub(crate) async fn changed(&mut self) -> bool {
        self.newest.changed().await.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(number: u64) -> ChangeNotice {
        ChangeNotice {
            key: "cli".into(),
            agent: "".into(),
            version: Version::new(number),
            kind: ChangeKind::Appended,
        }
    }

    #[test]
    fn who_is_too_slow_is_told_how_much_was_missed() {
        let feed = Feed::default();
        let mut slow = feed.follow().unwrap();
        for number in 1..=KEPT as u64 + 7 {
            feed.tell(told(number));
        }
        assert!(matches!(feed.next(&mut slow), NextItem::Missed(Some(7))));
        for number in 8..=KEPT as u64 + 7 {
            assert!(matches!(feed.next(&mut slow), NextItem::Change(t) if t == told(number)));
        }
        assert!(matches!(feed.next(&mut slow), NextItem::Nothing));
        assert!(feed.rewind(&mut slow, Version::new(100)));
        assert!(matches!(feed.next(&mut slow), NextItem::Change(t) if t == told(101)));
        assert!(!feed.rewind(&mut slow, Version::new(3)));
        feed.end();
        assert!(feed.follow().is_none());
        assert!(!pollster::block_on(slow.changed()));
    }
}
