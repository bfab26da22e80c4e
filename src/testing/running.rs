//! A store on the threads that production starts, over a disk in memory, for random
//! schedules: who runs next is decided outside, and time passes while somebody waits.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use sessionlog_core::error::Result;
use sessionlog_wal::clock::Clock;
use sessionlog_wal::storage::{LockGuard, Storage};
use sessionlog_wal::sync::{Condvar, Mutex, clock};
use time::OffsetDateTime;

use super::parts::{self, Size, take_apart};
use super::rig::RigControl;
use crate::engine::supervisor::threads::Threads;
use crate::{StoreHandle, StoreOptions};

pub use sessionlog_wal::sync::clock::{passes, reset};

/// How the engine is made up.
#[derive(Debug, Clone, Copy)]
pub struct Make {
    /// Commands that a mailbox holds.
    pub mailbox: usize,
    /// Whether few commands reach what a worker does at a time.
    pub small_limits: bool,
    /// Whether one session file per shard stays open.
    pub few_files: bool,
    /// What the journal may take, in bytes.
    pub budget: Option<u64>,
}

/// A store whose threads run.
#[derive(Debug)]
pub struct Running {
    /// Every verb.
    pub handle: StoreHandle,
    control: RigControl,
    threads: Threads,
    lock: Box<dyn LockGuard>,
}

impl Running {
    /// Opens the store and starts its threads.
    ///
    /// # Errors
    /// As [`Store::open`](crate::Store::open).
    pub fn open(storage: Arc<dyn Storage>, options: &StoreOptions, make: Make) -> Result<Self> {
        let size = Size {
            mailbox: make.mailbox,
            small_limits: make.small_limits,
        };
        let mut options = options.clone();
        if make.few_files {
            options.max_open_files = Some(NonZeroUsize::MIN);
        }
        if let Some(budget) = make.budget {
            options.segments.budget = budget;
        }
        let (handle, opened) = take_apart(storage, Arc::new(Passing), &options, &size)?;
        let control = RigControl::of(&opened);
        let threads = Threads::start(opened.machine).expect("threads are never refused");
        Ok(Self {
            handle,
            control,
            threads,
            lock: opened.lock,
        })
    }

    /// What readers and a closer share.
    #[must_use]
    pub fn control(&self) -> RigControl {
        self.control.clone()
    }

    /// As [`Store::close`](crate::Store::close).
    ///
    /// # Errors
    /// As there.
    pub fn close(self) -> Result<()> {
        let result = self.control.close();
        self.threads.join();
        if let Ok(engine) = self.handle.engine() {
            engine.shared.feed.end();
        }
        drop(self.lock);
        result
    }
}

/// Lets so much time pass; nothing if it stands still.
pub fn rest(time: Duration) {
    if clock::passes() {
        Condvar::new().wait_timeout(&mut Mutex::new(()).lock(), time);
    }
}

/// The sessions of a disk on which nothing runs, as they are after a crash.
///
/// # Errors
/// As [`Store::open_read_only`](crate::Store::open_read_only).
pub fn read_only(storage: Arc<dyn Storage>) -> Result<StoreHandle> {
    parts::read_only(storage)
}

/// The time that passes while threads wait.
#[derive(Debug)]
struct Passing;

impl Clock for Passing {
    fn now(&self) -> OffsetDateTime {
        OffsetDateTime::UNIX_EPOCH + Duration::from_hours(490_000) + self.monotonic()
    }

    fn monotonic(&self) -> Duration {
        clock::now()
    }
}
