//! Telling others of a store that runs: recorders of metrics, and processes that read its
//! file.
//!
//! The file is written when something happened, and at most once a second. Nothing else
//! goes by it, and no failure of it is anybody's: it is written again a second later. It is
//! never synced, so a power loss leaves it or not, and recovery does not look at it.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::engine::published::{self, PublishedStats, StatsFile};
use crate::engine::shard::shared::Shared;
use crate::engine::status::{Health, StoreStatus};

/// How often at most.
const PERIOD: Duration = Duration::from_secs(1);

/// Tells others of the store.
pub(crate) struct Publisher {
    shared: Arc<Shared>,
    look: Look,
    /// Whether there is anybody to tell.
    told: bool,
    /// `None` if no file is written.
    path: Option<PathBuf>,
    file: Option<StatsFile>,
    /// Something happened since the store was looked at last.
    stale: bool,
    looked_at: Option<Duration>,
}

/// How the store is looked at, which may have ended.
pub(crate) struct Look {
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
    /// `told`: whether there is anybody to tell; `path`: where to write, `None` to write
    /// nothing.
    pub(crate) fn new(shared: &Arc<Shared>, look: Look, told: bool, path: Option<PathBuf>) -> Self {
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

    /// How long until the store is to be looked at; `None` if nothing happened.
    pub(super) fn left(&self) -> Option<Duration> {
        let at = self.stale.then_some(self.looked_at?)? + PERIOD;
        Some(at.saturating_sub(self.shared.clock.monotonic()))
    }

    /// Samples what is queued, for a store that is busy.
    pub(super) fn sample(&self) {
        if self.told {
            let queued = (self.look.queued)();
            self.shared.counters.queue_depth.record(queued as u64);
        }
    }

    /// Something happened, or time passed.
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

    /// The store ends: nobody is told any more.
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
