//! A store: one opened directory of sessions.

use std::mem::ManuallyDrop;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sessionlog_core::error::{Error, Result};
use sessionlog_wal::clock::SystemClock;
use sessionlog_wal::storage::{DiskStorage, LockGuard, Storage};
use sessionlog_wal::sync::thread;

use crate::engine::Engine;
use crate::engine::kept;
use crate::engine::open::{self, Site};
use crate::engine::recovery::RecoveryReport;
use crate::engine::shard::worker::limits::TurnLimits;
use crate::engine::supervisor::threads::Threads;
use crate::engine::view::DirectoryView;
use crate::front::handle::Side;
use crate::maintenance::doctor::{self, RepairOptions, RepairReport, VerifyReport};
use crate::{BackupReport, StoreHandle, StoreOptions};

/// An open directory of sessions, owned by this process until closed.
///
/// A gateway opens one store, hands clones of its [`handle`](Self::handle) to all code that reads
/// or writes, and closes the store at the end. Dropping the store closes it too and blocks for as
/// long, but then nobody learns of an error.
///
/// If the directory is moved meanwhile, the store goes on in it. If the directory is removed,
/// writes fail as soon as a file has to be created, and a store opened in its place is another
/// store.
///
/// The store runs three threads per four cores for its sessions (1 to 8), one for the journal, one
/// that flushes, and three for background work.
pub struct Store {
    handle: StoreHandle,
    report: RecoveryReport,
    running: Option<RunningParts>,
}

/// Shows nothing of the sessions: the output ends up in logs, and reading them would take time.
impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Store")
            .field("handle", &self.handle)
            .finish_non_exhaustive()
    }
}

/// The parts that end with the store.
#[derive(Debug)]
struct RunningParts {
    engine: Arc<Engine>,
    threads: Threads,
    /// Dropped last: another writer may open the directory only when nothing writes any more.
    lock: Box<dyn LockGuard>,
}

impl Store {
    /// Opens a directory with the default options, creating it if needed.
    ///
    /// A directory written by PicoClaw opens as it is. After a crash, opening recovers everything
    /// acknowledged; see [`recovery_report`](Self::recovery_report). Blocks for as long as that
    /// takes: it reads one sidecar per session and the journal, which is in memory meanwhile.
    ///
    /// # Errors
    /// [`Error::Locked`] while another process, or another store in this one,
    /// writes to the directory (for longer than
    /// [`open_timeout`](StoreOptions::open_timeout)); [`Error::Corrupt`] if committed journal
    /// records are damaged; [`Error::StorageFull`] if there is no space to
    /// recover into, or for a first journal segment of 64 KiB; [`Error::Io`] if
    /// the directory is a file, a symbolic link, another user's (unless
    /// [allowed](StoreOptions::allow_other_owner)), cannot be
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
        Self::open_on(Arc::new(DiskStorage::default()), &dir, &options)
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
            mailbox: open::MAILBOX,
            limits: TurnLimits::USUAL,
            keep_from: kept::FROM,
        })?;
        let threads =
            Threads::start(opened.machine).map_err(|e| Error::io("start threads for", dir, e))?;
        Ok(Self {
            handle: StoreHandle::new(Side::Writer(opened.engine.clone()), options),
            report: opened.report,
            running: Some(RunningParts {
                engine: opened.engine,
                threads,
                lock: opened.lock,
            }),
        })
    }

    /// Opens a directory for reading, with or without a writer beside it. Writes nothing and takes
    /// no lock; no other process's lock keeps it from opening.
    ///
    /// Beside a running writer it shows what that writer committed, moments later at most. After a
    /// crash it shows the recovered state, though nothing is recovered yet. Writes fail with
    /// [`Error::ReadOnly`].
    ///
    /// Opening reads the whole journal. A read then reads what was added to the journal since the
    /// last read, and the files of its session. A listing, a resolution, and a read of an unknown
    /// key also look at the sidecars. What the journal says of sessions since the last checkpoint
    /// is in memory.
    ///
    /// # Errors
    /// [`Error::Io`] if the directory does not exist or cannot be read,
    /// [`Error::Corrupt`] if committed journal records are damaged.
    pub fn open_read_only(dir: impl AsRef<Path>) -> Result<Self> {
        let dir = absolute(dir.as_ref())?;
        let view = DirectoryView::open(Arc::new(DiskStorage::default()), dir)?;
        let report = view.report();
        Ok(Self {
            handle: StoreHandle::new(Side::Reader(Arc::new(view)), &StoreOptions::new()),
            report,
            running: None,
        })
    }

    /// Reads everything in a directory and reports what is wrong with it, per session and per
    /// journal segment, and what opening it would do. Writes nothing and takes no lock. Works
    /// beside a running writer, and on a directory that no store ever opened.
    ///
    /// Blocks for as long as reading every file takes. Holds one line of a session at a time in
    /// memory, and what the journal holds.
    ///
    /// ```
    /// use sessionlog::Store;
    ///
    /// # fn main() -> sessionlog::Result<()> {
    /// # let scratch = tempfile::tempdir().unwrap();
    /// # let dir = scratch.path();
    /// let store = Store::open(dir)?;
    /// store.handle().add_message("cli", "user", "hi").wait()?;
    /// store.close()?;
    /// let report = Store::verify(dir)?;
    /// assert!(report.is_sound(), "{report}");
    /// assert_eq!(report.sessions[0].messages, 1);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::Io`] if the directory does not exist or cannot be listed.
    /// Everything else that is wrong is in the report.
    pub fn verify(dir: impl AsRef<Path>) -> Result<VerifyReport> {
        let dir = absolute(dir.as_ref())?;
        let storage: Arc<dyn Storage> = Arc::new(DiskStorage::default());
        doctor::verify(&storage, &dir)
    }

    /// Makes `dir` a copy of the store, beside its writers; see
    /// [`StoreHandle::backup_to`]. Blocks until everything is on disk.
    ///
    /// # Errors
    /// As [`StoreHandle::backup_to`].
    pub fn backup_to(&self, dir: impl AsRef<Path>) -> Result<BackupReport> {
        self.handle.backup_to(dir).wait()
    }

    /// Makes a directory sound, as its only writer, and closes it again.
    ///
    /// Everything to be changed is first copied to `.sessionlog/backups/repair-N/`. Then, in this
    /// order:
    ///
    /// * a missing or damaged identity is taken from the journal;
    /// * the journal is replayed, as opening does. If opening refuses it, all of it that can be
    ///   read is replayed, also after damage. The unreadable part is lost, and that needs
    ///   [`allow_data_loss`](RepairOptions::allow_data_loss); without it, nothing after this point
    ///   is done either;
    /// * lines that are no records move to `.sessionlog/quarantine/`; records that ran together are
    ///   split;
    /// * damaged sidecars are rebuilt, and missing ones made if the file name tells the key; counts
    ///   are set right.
    ///
    /// A crash at any point leaves a directory that can be repaired again. Repairing a sound
    /// directory changes nothing, except that a journal left by an unclean end is replayed. Blocks
    /// meanwhile, and holds one session in memory at a time.
    ///
    /// ```
    /// use sessionlog::{RepairOptions, Store};
    ///
    /// # fn main() -> sessionlog::Result<()> {
    /// # let scratch = tempfile::tempdir().unwrap();
    /// # let dir = scratch.path();
    /// # let store = Store::open(dir)?;
    /// # store.handle().add_message("cli", "user", "hi").wait()?;
    /// # store.close()?;
    /// # let torn = r#"{"role":"user","content":"hi"}{"role":"us"#;
    /// # std::fs::write(dir.join("cli.jsonl"), torn).unwrap();
    /// let report = Store::repair(dir, RepairOptions::new())?;
    /// println!("{report}");
    /// assert!(report.needs_data_loss.is_empty());
    /// assert!(Store::verify(dir)?.is_sound());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::Locked`] while another process or store writes to the directory;
    /// [`Error::StorageFull`] if there is no space for copies; [`Error::Io`] as the operating
    /// system reports it. Remove the cause, then repair again.
    pub fn repair(dir: impl AsRef<Path>, options: RepairOptions) -> Result<RepairReport> {
        let dir = absolute(dir.as_ref())?;
        let storage: Arc<dyn Storage> = Arc::new(DiskStorage::default());
        doctor::repair(&storage, &dir, options)
    }

    /// A handle to the store. Cheap to clone; use from any thread or task.
    #[must_use]
    pub fn handle(&self) -> StoreHandle {
        self.handle.clone()
    }

    /// The report of what opening the directory found and mended. For a store opened read-only:
    /// what the first look at the directory found.
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
    /// [`Error::WouldDeadlock`] on a thread that works for a store, as in a waker: the store then
    /// closes on a thread of its own. [`Error::Poisoned`] if the store had stopped writing, and any
    /// error of the last flush. The store is closed all the same, and nothing acknowledged is lost:
    /// the journal stays, and the next open recovers from it.
    pub fn close(mut self) -> Result<()> {
        self.shut().map(drop)
    }

    /// As [`close`](Self::close), but the lock passes to the caller. A store opened read-only has
    /// none.
    pub(crate) fn close_but_keep_lock(mut self) -> Result<Option<Box<dyn LockGuard>>> {
        self.shut()
    }

    /// Closes the store and returns its lock. If that fails, the lock is released.
    fn shut(&mut self) -> Result<Option<Box<dyn LockGuard>>> {
        let Some(running) = self.running.take() else {
            self.handle.close_reader();
            return Ok(None);
        };
        if thread::is_serving() {
            running.end_elsewhere();
            return Err(Error::WouldDeadlock);
        }
        running.end().map(Some)
    }
}

impl RunningParts {
    fn end(self) -> Result<Box<dyn LockGuard>> {
        let shared = &self.engine.shared;
        let _closing = tracing::info_span!("close", dir = %shared.dir.display()).entered();
        let began = shared.clock.monotonic();
        let result = self.engine.stop();
        self.threads.join();
        shared.catalog.close_files();
        shared.feed.end();
        shared.counters.closed();
        let took = shared.clock.monotonic().saturating_sub(began);
        let clean = result.is_ok();
        tracing::info!(clean, ?took, "closed");
        result.map(|()| self.lock)
    }

    /// Ends on a thread of its own: a thread of the store cannot wait for itself.
    fn end_elsewhere(self) {
        self.engine.refuse_calls();
        // Without a thread to end on, nothing ends and nothing may be dropped: the lock must
        // outlive all threads that write.
        let running = ManuallyDrop::new(self);
        let ending = thread::spawn("sessionlog-close", move || {
            if let Err(error) = ManuallyDrop::into_inner(running).end() {
                tracing::error!(%error, "the store did not close in order");
            }
        });
        if let Err(error) = ending {
            tracing::error!(%error, "the store stays open until the process ends");
        }
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
