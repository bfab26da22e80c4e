//! A store taken apart, for loom models: the state machines that ship, each run
//! on the thread that a model gives it.
//!
//! Nothing here decides anything: a part [runs](SteppedWorker::run) as its thread in
//! production does, or is stepped by the model's own thread while no other is
//! there yet.

mod control;
mod names;
mod threads;

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use sessionlog_wal::clock::Clock;
use sessionlog_wal::storage::{LockGuard, Storage};
use sessionlog_wal::sync::Mutex;
use time::OffsetDateTime;

use super::parts::{Size, now, take_apart};
use crate::engine::supervisor::machine::Machine;
use crate::{Durability, Reply, StoreHandle, StoreOptions};

pub use super::parts::DIR;
pub use control::{RigControl, SeenMoment};
pub use names::{CatalogName, Names, Rope};
pub use threads::{Background, SteppedLeader, SteppedSupervisor, SteppedWorker};

/// Commands a mailbox holds: two callers find room, a third waits.
const MAILBOX: usize = 2;

/// Steps after which a store that is set up is taken to hang.
const PATIENCE: usize = 1_000;

/// What differs from model to model.
#[derive(Debug, Default)]
pub struct Setup {
    /// Segments as small as they get: every batch or two fills one.
    pub small_segments: bool,
    /// One session file per shard stays open.
    pub few_files: bool,
    /// Compactions start only when asked for.
    pub manual_compaction: bool,
    /// What a worker does at a time, and how much may be in flight, is reached by few
    /// commands.
    pub small_limits: bool,
    /// Nothing is synced before somebody asks for it, or some time has passed.
    pub buffered: bool,
}

/// The parts of one store.
#[derive(Debug)]
pub struct Rig {
    /// Every verb.
    pub handle: StoreHandle,
    /// What the model's threads share.
    pub control: RigControl,
    /// Writes files.
    pub worker: SteppedWorker,
    /// Commits.
    pub leader: SteppedLeader,
    /// Does what takes long.
    pub background: Background,
    /// Flushes and stops.
    pub supervisor: SteppedSupervisor,
    _lock: Box<dyn LockGuard>,
}

impl Rig {
    /// Opens a store without threads.
    ///
    /// # Panics
    /// If it does not open.
    #[must_use]
    pub fn open(storage: Arc<dyn Storage>, setup: &Setup) -> Self {
        let mut options = StoreOptions::new().auto_compact(!setup.manual_compaction);
        let largest = if setup.small_segments { 4352 } else { 1 << 14 };
        options = options.journal_segments(largest, largest);
        if setup.buffered {
            options = options.durability(Durability::Buffered);
        }
        if setup.few_files {
            options.max_open_files = Some(NonZeroUsize::MIN);
        }
        let clock: Arc<dyn Clock> = Arc::new(Standstill);
        let size = Size {
            mailbox: MAILBOX,
            small_limits: setup.small_limits,
        };
        let apart = take_apart(storage, clock.clone(), &options, &size);
        let (handle, opened) = apart.expect("opens");
        let control = RigControl::of(&opened);
        let Machine {
            worker,
            leader,
            supervisor,
            jobs,
            shared,
            alarm,
        } = opened.machine;
        Self {
            handle,
            control,
            leader: SteppedLeader {
                leader,
                alarm: alarm.clone(),
            },
            worker: SteppedWorker(worker),
            background: Background {
                jobs: Arc::new(Mutex::new(jobs)),
                long: Arc::default(),
                shared,
                alarm,
            },
            supervisor: SteppedSupervisor(supervisor),
            _lock: opened.lock,
        }
    }

    /// Carries a command out, stepping the parts in turn.
    ///
    /// # Panics
    /// If it is refused, or nobody answers.
    pub fn carry_out<T: Send + 'static>(&mut self, mut reply: Reply<T>) -> T {
        for _ in 0..PATIENCE {
            if let Some(result) = now(&mut reply) {
                self.settle();
                return result.expect("is carried out");
            }
            self.step();
        }
        panic!("nobody answers");
    }

    /// Lets everything under way end.
    pub fn settle(&mut self) {
        while self.step() {}
    }

    fn step(&mut self) -> bool {
        let worked = self.worker.step();
        let done = self.background.step();
        let committed = self.leader.step();
        worked || done || committed
    }
}

/// Time that stands still: a model proves that progress does not depend on it.
#[derive(Debug)]
struct Standstill;

impl Clock for Standstill {
    fn now(&self) -> OffsetDateTime {
        OffsetDateTime::UNIX_EPOCH
    }

    fn monotonic(&self) -> Duration {
        Duration::ZERO
    }
}
