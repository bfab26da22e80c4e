//! Publishes the state of a running store: to recorders of metrics, and to processes that read its
//! file.
//!
//! The file is written when something happened, and at most once a second. Nothing else depends on
//! it, and a failure to write it affects no caller: it is written again a second later. It is never
//! synced, so a power loss may leave it or not, and recovery does not look at it.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::engine::published::{self, PublishedStats, StatsFile};
use crate::engine::shard::shared::SharedState;
use crate::engine::status::{Health, StoreStatus};

/// The shortest time between two publications.
const PERIOD: Duration = Duration::from_secs(1);

/// Publishes the state of the store.
pub(crate) struct Publisher {
    shared: Arc<SharedState>,
    look: StoreLook,
    /// True if there are readers.
    told: bool,
    /// `None` if no file is written.
    path: Option<PathBuf>,
    file: Option<StatsFile>,
    /// True if something happened since the store was last looked at.
    stale: bool,
    looked_at: Option<Duration>,
}

/// The functions that look at the store, which may have ended.
pub(crate) struct StoreLook {
    pub(crate) queued: Box<dyn Fn() -> usize + Send>,
    pub(crate) all: Box<dyn Fn() -> Option<PublishedStats> + Send>,
}

impl fmt::Debug for Publisher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Publisher")
            .field("path", &self.path)
            .field("stale", &self.stale)
            .finish_non_exhaustive()
    }
}

impl Publisher {
    /// Returns a publisher. `told`: true if there are readers; `path`: the file to write, `None` to
    /// write none.
    pub(crate) fn new(
        shared: &Arc<SharedState>,
        look: StoreLook,
        told: bool,
        path: Option<PathBuf>,
    ) -> Self {
        Self {
            shared: shared.clone(),
            look,
            told,
            stale: told,
            path,
            file: None,
            looked_at: None,
        }
    }

    /// Returns the time until the store is to be looked at; `None` if nothing happened.
    pub(super) fn left(&self) -> Option<Duration> {
        let at = self.stale.then_some(self.looked_at?)? + PERIOD;
        Some(at.saturating_sub(self.shared.clock.monotonic()))
    }

    /// Samples the number of queued items, for a store that is busy.
    pub(super) fn sample(&self) {
        if self.told {
            let queued = (self.look.queued)();
            self.shared.counters.queue_depth.record(queued as u64);
        }
    }

    /// Notes that something happened, or that time passed.
    pub(super) fn turn(&mut self, happened: bool) {
        self.stale |= happened && self.told;
        let now = self.shared.clock.monotonic();
        let due = self.looked_at.is_none_or(|at| now >= at + PERIOD);
        if self.stale && due {
            self.stale = false;
            self.looked_at = Some(now);
            self.publish();
        }
    }

    fn publish(&mut self) {
        let Some(published) = (self.look.all)() else {
            return;
        };
        self.set_levels(&published.status, published.stats.sessions_known);
        if let Err(error) = self.write(&published) {
            tracing::debug!(%error, "statistics are not published");
        }
    }

    fn write(&mut self, published: &PublishedStats) -> std::io::Result<()> {
        let Some(path) = &self.path else {
            return Ok(());
        };
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(StatsFile::create(&*self.shared.storage, path)?),
        };
        file.write(published)
    }

    fn set_levels(&self, status: &StoreStatus, sessions: u64) {
        let levels = &self.shared.counters.sampled;
        levels.sessions.set(sessions);
        levels.queued.set(status.queued as u64);
        levels.journal_bytes.set(status.journal_bytes);
        levels.journal_limit.set(status.journal_limit);
        levels.free_space.set(status.free_space.unwrap_or(0));
        levels.full.set(u64::from(status.health == Health::Full));
        let poisoned = matches!(status.health, Health::Poisoned { .. });
        levels.poisoned.set(u64::from(poisoned));
    }

    /// Ends publishing, with the store.
    pub(super) fn end(&mut self) {
        (self.told, self.stale) = (false, false);
        let (Some(path), true) = (self.path.take(), self.file.take().is_some()) else {
            return;
        };
        if let Err(error) = published::remove(&*self.shared.storage, &path) {
            tracing::debug!(%error, "what was published is left behind");
        }
    }
}
