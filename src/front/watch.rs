//! Learning that a session changed.

use std::sync::Arc;

use sessionlog_core::error::{Error, Result};
use sessionlog_wal::sync::thread;
use sessionlog_wal::sync::watch::WatchReceiver;

use crate::engine::snapshot::Standing;

/// The state of a session: equal values mean that its lines are the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SessionState {
    /// Goes up whenever lines may have gone or moved: with a revert, a clear, a restored backup, a
    /// replaced history, a compaction, a deletion. While it stays the same, lines are only added,
    /// or hidden from the start. Counted from 0 anew each time the store is opened.
    pub generation: u64,
    /// Lines of the session's file, hidden ones and control records included.
    pub lines: u64,
    /// The number of hidden lines, which are at the start.
    pub skip: u64,
}

/// Learns of the changes to one session; see
/// [`StoreHandle::subscribe`](crate::StoreHandle::subscribe).
///
/// The latest state wins: if changes come faster than they are looked at, only the last is seen. A
/// clone has seen what this one has.
#[derive(Clone, Debug)]
pub struct Watch {
    states: WatchReceiver<Standing>,
    end: WatchEnd,
}

/// The reason why nothing changes any more.
#[derive(Clone)]
struct WatchEnd(Arc<dyn Fn() -> Error + Send + Sync>);

impl std::fmt::Debug for WatchEnd {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("End").finish_non_exhaustive()
    }
}

impl Watch {
    /// A watch that ends with the error that `why` returns.
    pub(crate) fn until(
        states: WatchReceiver<Standing>,
        why: impl Fn() -> Error + Send + Sync + 'static,
    ) -> Self {
        let end = WatchEnd(Arc::new(why));
        Self { states, end }
    }

    /// Returns the session's state, which counts as seen from now on.
    pub fn latest(&mut self) -> SessionState {
        self.states.latest().into()
    }

    /// Waits for a state not seen yet. Works under any async runtime; dropping the future loses
    /// nothing.
    ///
    /// # Errors
    /// [`Error::Closed`](crate::Error::Closed) once the store is closed,
    /// [`Error::Poisoned`](crate::Error::Poisoned) once it stopped writing:
    /// nothing changes any more.
    pub async fn changed(&mut self) -> Result<SessionState> {
        let state = self.states.changed().await;
        state.map(Into::into).ok_or_else(|| (self.end.0)())
    }

    /// As [`changed`](Self::changed), blocking this thread.
    ///
    /// # Errors
    /// As [`changed`](Self::changed); [`Error::WouldDeadlock`] on a thread that works
    /// for a store, as in a waker.
    pub fn wait_changed(&mut self) -> Result<SessionState> {
        if thread::is_serving() {
            return Err(Error::WouldDeadlock);
        }
        pollster::block_on(self.changed())
    }
}

impl From<Standing> for SessionState {
    fn from(standing: Standing) -> Self {
        Self {
            generation: standing.generation,
            lines: standing.lines,
            skip: standing.skip,
        }
    }
}
