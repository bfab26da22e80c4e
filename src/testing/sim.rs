//! A store without threads, for tests: the engine's state machines are stepped
//! one at a time, in an order that a seed decides.
//!
//! Everything that runs here is what runs in production; only who goes next is
//! decided elsewhere. On a [`MemoryStorage`] the same seed gives the same calls
//! in the same order, so a test can cut the power before each of them.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as Task, Poll, Waker};
use std::time::Duration;

use time::OffsetDateTime;

use crate::disk::journal::group::Taken;
use crate::engine::Engine;
use crate::engine::open::{self, Site};
use crate::engine::recovery::RecoveryReport;
use crate::engine::shard::answer::Answer;
use crate::engine::shard::job::Job;
use crate::engine::shard::shared::Shared;
use crate::engine::shard::worker::driver::Driver;
use crate::engine::shard::worker::seat::Held;
use crate::engine::supervisor::Request;
use crate::engine::supervisor::event_loop::Loop;
use crate::engine::supervisor::journal::Journal;
use crate::engine::supervisor::machine::Machine;
use crate::engine::supervisor::wait::Wait;
use crate::engine::view::DirectoryView;
use crate::error::Result;
use crate::front::handle::Side;
use crate::front::reply::Reply;
use crate::ground::clock::Clock;
use crate::ground::mailbox::{EventReceiver, Timeout};
use crate::ground::storage::LockGuard;
use crate::ground::sync::Mutex;
use crate::ground::sync::atomic::{AtomicU64, Ordering};
use crate::ground::sync::slot::Slot;
use crate::testing::disk_model::MemoryStorage;
use crate::{StoreHandle, StoreOptions};

/// Where the store is on its [`MemoryStorage`].
pub const DIR: &str = "/sessions";

/// Threads' worth of shards: two, so that what one journal batch holds comes
/// from several.
const WORKERS: usize = 2;

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

/// What was submitted, and its answer once there is one.
#[derive(Debug)]
pub struct Ticket<T>(Arc<Mutex<Option<Result<T>>>>);

impl<T: Clone> Ticket<T> {
    /// The answer, if it has arrived.
    #[must_use]
    pub fn answer(&self) -> Option<Result<T>> {
        self.0.lock().clone()
    }
}

impl Sim {
    /// Opens the store on `storage`, recovering it. `seed` decides who goes
    /// next where several could; 0 prefers callers, then workers, then
    /// background jobs, then the journal.
    ///
    /// # Errors
    /// As [`Store::open`](crate::Store::open).
    pub fn open(storage: MemoryStorage, options: &StoreOptions, seed: u64) -> Result<Self> {
        let clock = Arc::new(ManualClock::default());
        let opened = open::open(&Site {
            storage: Arc::new(storage),
            clock: clock.clone(),
            dir: Path::new(DIR),
            options,
            workers: WORKERS,
            mailbox: 16,
        })?;
        let Machine {
            workers,
            journal,
            supervisor,
            jobs,
            context,
            ..
        } = opened.machine;
        Ok(Self {
            handle: StoreHandle::new(Side::Writer(opened.engine.clone()), options),
            engine: opened.engine,
            report: opened.report,
            supervisor: Some(supervisor),
            crew: Crew {
                workers,
                journal: Some(journal),
                jobs,
                context,
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

    /// Hands a reply in; its command is submitted behind those handed in
    /// before, once somebody [steps](Self::step) the store.
    pub fn submit<T: Send + 'static>(&mut self, reply: Reply<T>) -> Ticket<T> {
        self.crew.callers.call(reply)
    }

    /// As [`submit`](Self::submit), for a flush.
    pub fn submit_flush(&mut self) -> Ticket<()> {
        self.ask(Request::Flush)
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
                self.crew.sync_buffered();
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
        let ticket = self.ask(Request::Stop);
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

    fn ask(&mut self, request: impl FnOnce(Answer<()>) -> Request + Send + 'static) -> Ticket<()> {
        let engine = self.engine.clone();
        self.crew.callers.call(async move {
            let slot = engine.request(request)?;
            let answer = poll_fn(|cx| slot.poll(cx)).await;
            answer.unwrap_or_else(|| Err(engine.failure()))
        })
    }
}

/// A handle that reads the store on `storage` as
/// [`Store::open_read_only`](crate::Store::open_read_only) does.
///
/// # Errors
/// As there.
pub fn read_only(storage: MemoryStorage) -> Result<StoreHandle> {
    read_only_on(Arc::new(storage))
}

/// As [`read_only`], on any file system.
///
/// # Errors
/// As there.
pub fn read_only_on(storage: Arc<dyn crate::ground::storage::Storage>) -> Result<StoreHandle> {
    let view = DirectoryView::open(storage, DIR.into())?;
    let side = Side::Reader(Arc::new(view));
    Ok(StoreHandle::new(side, &StoreOptions::new()))
}

/// The answer to a read, which needs no one else to go on.
///
/// # Errors
/// As the verb documents.
///
/// # Panics
/// If it waits for someone.
pub fn read_now<T: Send + 'static>(reply: Reply<T>) -> Result<T> {
    match std::pin::pin!(reply).poll(&mut Task::from_waker(Waker::noop())) {
        Poll::Ready(result) => result,
        Poll::Pending => unreachable!("a read-only view answers at once"),
    }
}

/// Everyone but the supervisor.
#[derive(Debug)]
struct Crew {
    workers: Vec<Driver>,
    /// `None` once it has ended or failed.
    journal: Option<Journal>,
    jobs: EventReceiver<Job>,
    context: Arc<Shared>,
    callers: Callers,
    clock: Arc<ManualClock>,
    schedule: Schedule,
}

impl Crew {
    /// Lets the first who has something to do go on.
    ///
    /// A caller who goes on by submitting another command does not show that it
    /// did; whoever came before it in the order gets a second look.
    fn step(&mut self) -> bool {
        let parties = self.workers.len() + 3;
        let order = self.schedule.order(parties);
        order.iter().any(|party| self.turn_of(*party))
            || (!self.callers.submitted.is_empty()
                && order.iter().any(|party| self.turn_of(*party)))
    }

    fn turn_of(&mut self, party: usize) -> bool {
        match party.checked_sub(1) {
            None => {
                let busy = self.schedule.finds_workers_busy();
                let _held = busy.then(|| hold_all(&self.workers));
                self.callers.turn()
            }
            Some(id) if id < self.workers.len() => self.workers[id].step(false),
            Some(id) if id == self.workers.len() => self.run_job(),
            Some(_) => self.commit(),
        }
    }

    fn run_job(&mut self) -> bool {
        let Some(job) = self.jobs.try_recv() else {
            return false;
        };
        if let (Some(outcome), Some(journal)) = (job.run(&self.context), &self.journal) {
            journal.alarm.tell(outcome);
        }
        true
    }

    fn commit(&mut self) -> bool {
        let Some(mut journal) = self.journal.take() else {
            return false;
        };
        let taken = journal.alarm.group.try_take(&mut journal.batch);
        match taken {
            Taken::Closed => journal.end(),
            Taken::Idle => self.journal = Some(journal),
            Taken::Batch => {
                let busy = self.schedule.finds_workers_busy();
                let held = busy.then(|| hold_all(&self.workers));
                journal.turn(taken);
                drop(held);
                self.journal = Some(journal);
            }
        }
        taken != Taken::Idle
    }

    /// Nothing came while buffered records linger.
    fn sync_buffered(&mut self) -> bool {
        let Some(journal) = &mut self.journal else {
            return false;
        };
        let owes = journal.committer.has_unsynced();
        if owes {
            journal.turn(Taken::Idle);
        }
        owes
    }
}

fn hold_all(workers: &[Driver]) -> Vec<Held<'_>> {
    workers.iter().map(|worker| worker.seat().hold()).collect()
}

impl Wait for Crew {
    fn answer<T>(&mut self, slot: Slot<T>) -> Option<T> {
        self.until(|| match slot.poll(&mut Task::from_waker(Waker::noop())) {
            Poll::Ready(answer) => Some(answer),
            Poll::Pending => None,
        })?
    }

    fn event<T>(&mut self, events: &EventReceiver<T>) -> Option<T> {
        self.until(|| events.try_recv())
    }
}

impl Crew {
    fn until<T>(&mut self, mut ready: impl FnMut() -> Option<T>) -> Option<T> {
        for _ in 0..PATIENCE {
            if let Some(ready) = ready() {
                return Some(ready);
            }
            let aged = self.schedule.lets_buffered_age() && self.sync_buffered();
            if !aged && !self.step() && !self.sync_buffered() {
                break;
            }
        }
        ready()
    }
}

type Call = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Those who submitted something.
#[derive(Default)]
struct Callers {
    /// Not submitted yet, in order.
    waiting: VecDeque<Call>,
    submitted: Vec<Call>,
}

impl Callers {
    fn call<T: Send + 'static>(
        &mut self,
        reply: impl Future<Output = Result<T>> + Send + 'static,
    ) -> Ticket<T> {
        let answer = Arc::new(Mutex::new(None));
        let ticket = Ticket(answer.clone());
        self.waiting.push_back(Box::pin(async move {
            let result = reply.await;
            *answer.lock() = Some(result);
        }));
        ticket
    }

    fn turn(&mut self) -> bool {
        let mut task = Task::from_waker(Waker::noop());
        if let Some(mut call) = self.waiting.pop_front() {
            if call.as_mut().poll(&mut task).is_pending() {
                self.submitted.push(call);
            }
            return true;
        }
        let before = self.submitted.len();
        self.submitted
            .retain_mut(|call| call.as_mut().poll(&mut task).is_pending());
        self.submitted.len() < before
    }
}

impl std::fmt::Debug for Callers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Callers").finish_non_exhaustive()
    }
}

/// Decides who goes next. Seed 0 always takes the first of the list.
#[derive(Debug)]
struct Schedule(u64);

impl Schedule {
    fn order(&mut self, parties: usize) -> Vec<usize> {
        let mut order: Vec<usize> = (0..parties).collect();
        if self.0 != 0 {
            for place in (1..parties).rev() {
                order.swap(place, self.below(place + 1));
            }
        }
        order
    }

    fn prefers_supervisor(&mut self) -> bool {
        self.0 != 0 && self.below(4) == 0
    }

    /// Whether callers and the committer find every worker driven by its thread.
    fn finds_workers_busy(&mut self) -> bool {
        self.0 != 0 && self.below(2) == 0
    }

    /// Buffered records age even while somebody else is always busy, as a
    /// worker is that finds no space for its lines.
    fn lets_buffered_age(&mut self) -> bool {
        self.0 != 0 && self.below(32) == 0
    }

    /// Xorshift: never 0 from a state that is not.
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) as usize % bound
    }
}

/// A clock that is set by hand, and moves a little whenever the wall time is
/// asked for: no two time stamps are the same, nor of the same length.
#[derive(Debug, Default)]
struct ManualClock {
    micros: AtomicU64,
}

impl ManualClock {
    fn advance(&self, by: Duration) {
        self.micros
            .fetch_add(by.as_micros() as u64, Ordering::Relaxed);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> OffsetDateTime {
        self.advance(Duration::from_micros(10_010));
        OffsetDateTime::UNIX_EPOCH + Duration::from_hours(490_000) + self.monotonic()
    }

    fn monotonic(&self) -> Duration {
        Duration::from_micros(self.micros.load(Ordering::Relaxed))
    }
}
