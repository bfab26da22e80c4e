//! A store: one opened directory of sessions.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::clock::SystemClock;
use crate::engine::Engine;
use crate::engine::open::{self, Site};
use crate::error::{Error, Result};
use crate::handle::Side;
use crate::recovery::RecoveryReport;
use crate::storage::{DiskStorage, LockGuard, Storage};
use crate::supervisor::threads::Threads;
use crate::sync::thread;
use crate::view::DirectoryView;
use crate::{StoreHandle, StoreOptions};

/// Most threads that carry shards; more only hand work to each other.
const MAX_WORKERS: usize = 8;

/// Threads that carry shards: three for four cores. The journal and the callers
/// need the rest.
fn workers() -> usize {
    (thread::available_parallelism() * 3 / 4).clamp(1, MAX_WORKERS)
}

/// An open directory of sessions, owned by this process until closed.
///
/// A gateway opens one, hands clones of its [`handle`](Self::handle) to
/// whoever reads or writes, and closes it at the end. Dropping it closes it too,
/// and blocks as long, but then nobody learns of an error.
///
/// It runs three threads per four cores for its sessions (1 to 8), one for the
/// journal, one that flushes, and three for background work.
#[derive(Debug)]
pub struct Store {
    handle: StoreHandle,
    report: RecoveryReport,
    running: Option<Running>,
}

/// What ends with the store.
#[derive(Debug)]
struct Running {
    engine: Arc<Engine>,
    threads: Threads,
    /// Dropped last: only when nothing writes any more may another writer come.
    lock: Box<dyn LockGuard>,
}

impl Store {
    /// Opens a directory with the default options, creating it if needed.
    ///
    /// A directory written by PicoClaw opens as it is. After a crash this
    /// recovers everything acknowledged; see
    /// [`recovery_report`](Self::recovery_report). Blocks for as long as that
    /// takes: it reads one sidecar per session, and what the journal holds,
    /// which is in memory meanwhile.
    ///
    /// # Errors
    /// [`Error::Locked`] while another process, or another store in this one,
    /// writes to the directory; [`Error::Corrupt`] where committed journal
    /// records are damaged; [`Error::StorageFull`] where there is no space to
    /// recover into, or for a first journal segment of 1 MiB; [`Error::Io`] where
    /// the directory is a file, a symbolic link, another user's, cannot be
    /// written, or its file system has no locks.
    pub fn open(dir: impl AsRef<Path>) -> Result<Self> {
        Self::open_with(dir, StoreOptions::new())
    }

    /// Opens a directory; see [`open`](Self::open).
    ///
    /// ```
    /// use sessionlog::{Durability, Store, StoreOptions};
    ///
    /// # fn main() -> sessionlog::Result<()> {
    /// # let scratch = tempfile::tempdir().unwrap();
    /// # let dir = scratch.path();
    /// let options = StoreOptions::new()
    ///     .durability(Durability::Buffered)
    ///     .max_open_files(512);
    /// let store = Store::open_with(dir, options)?;
    /// # store.close()
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`open`](Self::open).
    #[expect(
        clippy::needless_pass_by_value,
        reason = "a chain of option setters ends in a value"
    )]
    pub fn open_with(dir: impl AsRef<Path>, options: StoreOptions) -> Result<Self> {
        let dir = absolute(dir.as_ref())?;
        Self::open_on(Arc::new(DiskStorage), &dir, &options)
    }

    /// Opens a directory of any file system. `dir` is absolute.
    pub(crate) fn open_on(
        storage: Arc<dyn Storage>,
        dir: &Path,
        options: &StoreOptions,
    ) -> Result<Self> {
        let opened = open::open(&Site {
            storage,
            clock: Arc::new(SystemClock::default()),
            dir,
            options,
            workers: workers(),
            mailbox: open::MAILBOX,
        })?;
        let threads =
            Threads::start(opened.machine).map_err(|e| Error::io("start threads for", dir, e))?;
        Ok(Self {
            handle: StoreHandle::new(Side::Writer(opened.engine.clone()), options),
            report: opened.report,
            running: Some(Running {
                engine: opened.engine,
                threads,
                lock: opened.lock,
            }),
        })
    }

    /// Opens a directory for reading, beside a writer or without one. Nothing
    /// is written, no lock is taken, and no other process's lock keeps it from
    /// opening.
    ///
    /// Beside a running writer it shows what that writer committed, moments
    /// later at most. After a crash it shows the recovered state, though nothing
    /// is recovered yet. Writes fail with [`Error::ReadOnly`].
    ///
    /// It keeps no catalog up to date: a read looks at the journal and the
    /// sidecars anew when the journal changed since the last one or the key is
    /// unknown, a listing and a resolution always. Beside a busy writer that
    /// costs far more than reading through the writer's own handle.
    ///
    /// # Errors
    /// [`Error::Io`] if the directory does not exist or cannot be read,
    /// [`Error::Corrupt`] where committed journal records are damaged.
    pub fn open_read_only(dir: impl AsRef<Path>) -> Result<Self> {
        let dir = absolute(dir.as_ref())?;
        let view = DirectoryView::open(Arc::new(DiskStorage), dir)?;
        let report = view.report();
        Ok(Self {
            handle: StoreHandle::new(Side::Reader(Arc::new(view)), &StoreOptions::new()),
            report,
            running: None,
        })
    }

    /// A handle to the store. Cheap to clone; use from any thread or task.
    #[must_use]
    pub fn handle(&self) -> StoreHandle {
        self.handle.clone()
    }

    /// What opening the directory found and mended, or, opened read-only, what
    /// the first look at it found.
    #[must_use]
    pub fn recovery_report(&self) -> &RecoveryReport {
        &self.report
    }

    /// Closes the store: carries out every command accepted so far, brings all
    /// session files and sidecars to disk, ends the journal, joins the threads,
    /// and gives the lock back. Afterwards the files are exactly what PicoClaw
    /// reads. Blocks for as long as that takes.
    ///
    /// Handles that outlive the store get [`Error::Closed`], for reads too.
    ///
    /// # Errors
    /// [`Error::Poisoned`] if the store had stopped writing, and any error of
    /// the last flush. The store is closed all the same, and nothing
    /// acknowledged is lost: the journal stays, and the next open recovers from
    /// it.
    pub fn close(mut self) -> Result<()> {
        self.shut()
    }

    fn shut(&mut self) -> Result<()> {
        let Some(running) = self.running.take() else {
            self.handle.close_reader();
            return Ok(());
        };
        let result = running.engine.stop();
        running.threads.join();
        running.engine.context.catalog.close_files();
        drop(running.lock);
        result
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        if let Err(error) = self.shut() {
            tracing::error!(%error, "the store did not close in order");
        }
    }
}

/// Paths are made absolute once: the process may change its directory.
fn absolute(dir: &Path) -> Result<PathBuf> {
    std::path::absolute(dir).map_err(|e| Error::io("open", dir, e))
}
