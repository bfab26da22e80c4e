//! A store without threads, for tests: the engine's state machines are stepped
//! one at a time, in an order that a seed decides.
//!
//! Everything that runs here is what runs in production; only who goes next is
//! decided elsewhere. On a [`MemoryStorage`] the same seed gives the same calls
//! in the same order, so a test can cut the power before each of them.

mod callers;
mod clock;
mod crew;
mod read_only;
mod schedule;

use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use callers::Callers;
use clock::ManualClock;
use crew::Crew;
use schedule::Schedule;
use sessionlog_core::error::Result;
use sessionlog_wal::clock::Clock;
use sessionlog_wal::mailbox::Timeout;
use sessionlog_wal::storage::LockGuard;
use sessionlog_wal::testing::disk_model::MemoryStorage;

use super::parts::{Size, take_apart};
use crate::engine::Engine;
use crate::engine::recovery::RecoveryReport;
use crate::engine::shard::answer::Answer;
use crate::engine::supervisor::SupervisorRequest;
use crate::engine::supervisor::event_loop::Loop;
use crate::engine::supervisor::machine::Machine;
use crate::front::reply::Reply;
use crate::{StoreHandle, StoreOptions};

pub use super::parts::DIR;
pub use callers::Ticket;
pub use read_only::{read_now, read_only, read_only_on};

/// Steps after which whoever still waits is taken to wait for ever. What a
/// test asks for takes some hundred.
const PATIENCE: usize = 20_000;

/// An open store, of which nothing moves by itself.
///
/// Dropping it is the death of its process: nothing is carried out, written or
/// synced any more.
#[derive(Debug)]
pub struct Sim {
    engine: Arc<Engine>,
    handle: StoreHandle,
    report: RecoveryReport,
    supervisor: Option<Loop>,
    crew: Crew,
    _lock: Box<dyn LockGuard>,
}

impl Sim {
    /// Opens the store on `storage`, recovering it. `seed` decides who goes
    /// next if several could; 0 prefers callers, then the worker, then
    /// background jobs, then the journal.
    ///
    /// # Errors
    /// As [`Store::open`](crate::Store::open).
    pub fn open(storage: MemoryStorage, options: &StoreOptions, seed: u64) -> Result<Self> {
        let clock = Arc::new(ManualClock::default());
        let size = Size {
            mailbox: 16,
            small_limits: seed % 4 == 3,
        };
        let (handle, opened) = take_apart(Arc::new(storage), clock.clone(), options, &size)?;
        let Machine {
            worker,
            leader,
            supervisor,
            jobs,
            shared,
            alarm,
        } = opened.machine;

        Ok(Self {
            handle,
            engine: opened.engine,
            report: opened.report,
            supervisor: Some(supervisor),
            crew: Crew {
                worker,
                leader,
                syncing: None,
                ended: false,
                jobs,
                alarm,
                shared,
                callers: Callers::default(),
                clock,
                schedule: Schedule(seed),
            },
            _lock: opened.lock,
        })
    }

    /// A handle to the store. Waiting on its replies would wait for ever:
    /// [`run`](Self::run) or [`submit`](Self::submit) them.
    #[must_use]
    pub fn handle(&self) -> StoreHandle {
        self.handle.clone()
    }

    /// What opening found and mended.
    #[must_use]
    pub fn report(&self) -> &RecoveryReport {
        &self.report
    }

    /// Hands a reply in; its command is submitted after those handed in
    /// before, once somebody [steps](Self::step) the store.
    pub fn submit<T: Send + 'static>(&mut self, reply: Reply<T>) -> Ticket<T> {
        self.crew.callers.call(reply)
    }

    /// As [`submit`](Self::submit), for a flush.
    pub fn submit_flush(&mut self) -> Ticket<()> {
        self.ask(SupervisorRequest::Flush)
    }

    /// As [`submit`](Self::submit), for what an erasure does after its sessions are deleted.
    pub fn submit_purge(&mut self) -> Ticket<()> {
        self.ask(SupervisorRequest::Purge)
    }

    /// Submits a command and lets the store run until it is answered.
    ///
    /// # Errors
    /// As the verb documents.
    ///
    /// # Panics
    /// If nobody answers.
    pub fn run<T: Clone + Send + 'static>(&mut self, reply: Reply<T>) -> Result<T> {
        let ticket = self.submit(reply);
        self.until_answered(&ticket)
            .expect("the store answers every command")
    }

    /// Lets the store run until `ticket` is answered; `None` if it never is.
    pub fn until_answered<T: Clone>(&mut self, ticket: &Ticket<T>) -> Option<Result<T>> {
        for _ in 0..PATIENCE {
            if let Some(answer) = ticket.answer() {
                return Some(answer);
            }
            // A verb that is several commands in turn hands the next one in
            // without anybody being seen to move.
            if !self.step() && !self.step() {
                break;
            }
        }
        ticket.answer()
    }

    /// Flushes.
    ///
    /// # Errors
    /// As [`StoreHandle::flush`].
    ///
    /// # Panics
    /// If nobody answers.
    pub fn flush(&mut self) -> Result<()> {
        let ticket = self.submit_flush();
        self.until_answered(&ticket).expect("a flush ends")
    }

    /// Lets `time` pass and everything that falls due in it happen: buffered
    /// records are synced, sidecars written, an idle store flushes.
    pub fn pause(&mut self, time: Duration) {
        let end = self.crew.clock.monotonic() + time;
        loop {
            self.until_quiet();
            let left = end.saturating_sub(self.crew.clock.monotonic());
            if left.is_zero() {
                // The clock may have run past the end meanwhile.
                while self.crew.sync_buffered() {}
                return;
            }
            self.crew
                .clock
                .advance(left.min(crate::engine::supervisor::TICK));
            // The tick may come while buffered records linger.
            if !self.crew.schedule.prefers_supervisor() {
                self.crew.sync_buffered();
            }
            if let Some(supervisor) = &mut self.supervisor
                && supervisor.busy
                && !supervisor.turn(Timeout::TimedOut, &mut self.crew)
            {
                self.supervisor = None;
            }
            self.crew.sync_buffered();
        }
    }

    /// Closes the store in order.
    ///
    /// # Errors
    /// As [`Store::close`](crate::Store::close).
    ///
    /// # Panics
    /// If it never ends.
    pub fn close(mut self) -> Result<()> {
        self.engine.refuse_calls();
        let ticket = self.ask(SupervisorRequest::Stop);
        let result = self.until_answered(&ticket).expect("closing ends");
        self.until_quiet();
        result
    }

    /// Lets one part of the store go on; `false` if there was nothing to do for
    /// any of them, time passing included.
    pub fn step(&mut self) -> bool {
        let first = self.crew.schedule.prefers_supervisor();
        let aged = self.crew.schedule.lets_buffered_age();
        (first && self.supervise())
            || (aged && self.crew.sync_buffered())
            || self.crew.step()
            || self.supervise()
            || self.crew.sync_buffered()
    }

    /// Lets everything under way end, without time passing.
    pub fn until_quiet(&mut self) {
        for _ in 0..PATIENCE {
            if !self.crew.step() && !self.supervise() {
                return;
            }
        }
    }

    fn supervise(&mut self) -> bool {
        let Some(supervisor) = &mut self.supervisor else {
            return false;
        };
        let Some(request) = supervisor.requests.try_recv() else {
            return false;
        };
        if !supervisor.turn(Timeout::Item(request), &mut self.crew) {
            self.supervisor = None;
        }
        true
    }

    fn ask(
        &mut self,
        request: impl FnOnce(Answer<()>) -> SupervisorRequest + Send + 'static,
    ) -> Ticket<()> {
        let engine = self.engine.clone();
        self.crew.callers.call(async move {
            let slot = engine.request(request)?;
            let answer = poll_fn(|cx| slot.poll(cx)).await;
            answer.unwrap_or_else(|| Err(engine.failure()))
        })
    }
}
