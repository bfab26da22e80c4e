//! A store taken apart, for loom models: the state machines that ship, each run
//! on the thread that a model gives it.
//!
//! Nothing here decides anything: a part [runs](Worker::run) as its thread in
//! production does, or is stepped by the model's own thread while no other is
//! there yet.

use std::num::NonZeroUsize;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as Task, Poll, Waker};
use std::time::Duration;

use time::OffsetDateTime;

use crate::disk::journal::committer::{Outcome, Progress, Ticket};
use crate::disk::journal::group::Taken;
use crate::disk::journal::pool::SegmentPool;
use crate::disk::journal::record::{self, Record};
use crate::engine::Engine;
use crate::engine::catalog::{Catalog, Entry};
use crate::engine::open::{self, Site};
use crate::engine::reader;
use crate::engine::shard::job::Job;
use crate::engine::shard::shared::Shared;
use crate::engine::shard::worker::alarm::Alarm;
use crate::engine::shard::worker::bells::Bells;
use crate::engine::shard::worker::driver::Driver;
use crate::engine::shard::worker::event::Event;
use crate::engine::supervisor::Request;
use crate::engine::supervisor::event_loop::Loop;
use crate::engine::supervisor::guard::Guard;
use crate::engine::supervisor::machine::Machine;
use crate::engine::supervisor::wait::Asleep;
use crate::engine::supervisor::{background, journal};
use crate::error::Result;
use crate::front::handle::Side;
use crate::ground::clock::Clock;
use crate::ground::mailbox::{EventReceiver, Timeout};
use crate::ground::storage::{LockGuard, Storage};
use crate::ground::sync::Mutex;
use crate::ground::sync::slot::Slot;
use crate::{Reply, StoreHandle, StoreOptions, StoreStats};

/// Where the store is.
pub const DIR: &str = "/sessions";

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
}

/// The parts of one store.
#[derive(Debug)]
pub struct Rig {
    /// Every verb.
    pub handle: StoreHandle,
    /// What the model's threads share.
    pub control: Control,
    /// Carries all shards.
    pub worker: Worker,
    /// Commits.
    pub journal: Journal,
    /// Does what takes long.
    pub background: Background,
    /// Flushes and stops.
    pub supervisor: Supervisor,
    _lock: Box<dyn LockGuard>,
}

/// Asks a store what its [`Store`](crate::Store) asks it.
#[derive(Clone, Debug)]
pub struct Control {
    engine: Arc<Engine>,
    progress: Arc<Progress>,
    pool: Arc<SegmentPool>,
    alarm: Alarm,
}

/// One worker, with all shards.
#[derive(Debug)]
pub struct Worker(Driver);

/// The committer's thread.
#[derive(Debug)]
pub struct Journal {
    journal: journal::Journal,
    clock: Arc<dyn Clock>,
}

/// One background thread.
#[derive(Debug)]
pub struct Background {
    jobs: Arc<Mutex<EventReceiver<Job>>>,
    context: Arc<Shared>,
    alarm: Alarm,
}

/// The supervisor's thread.
#[derive(Debug)]
pub struct Supervisor(Loop);

/// One moment of a session, as a reader gets it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Moment {
    /// Live lines, from the file and behind it.
    pub lines: Vec<String>,
    /// Lines that the sidecar counts, skipped ones included.
    pub count: i64,
    /// Lines that the sidecar skips.
    pub skip: i64,
}

/// What a worker was told, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Heard {
    /// Its records up to this number are synced.
    Synced(u64),
    /// Bring the files up to date.
    Flush,
    /// Anything else.
    Other,
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
        if setup.few_files {
            options.max_open_files = Some(NonZeroUsize::MIN);
        }
        let clock: Arc<dyn Clock> = Arc::new(Standstill);
        let opened = open::open(&Site {
            storage,
            clock: clock.clone(),
            dir: Path::new(DIR),
            options: &options,
            workers: 1,
            mailbox: MAILBOX,
        })
        .expect("opens");
        let Machine {
            mut workers,
            journal,
            supervisor,
            jobs,
            context,
            alarm,
        } = opened.machine;
        Self {
            handle: StoreHandle::new(Side::Writer(opened.engine.clone()), &options),
            control: Control {
                engine: opened.engine,
                progress: supervisor.supervisor.progress.clone(),
                pool: journal.pool.clone(),
                alarm: alarm.clone(),
            },
            journal: Journal { journal, clock },
            worker: Worker(workers.remove(0)),
            background: Background {
                jobs: Arc::new(Mutex::new(jobs)),
                context,
                alarm,
            },
            supervisor: Supervisor(supervisor),
            _lock: opened.lock,
        }
    }

    /// Carries a command out, stepping the parts in turn.
    ///
    /// # Panics
    /// If it is refused, or nobody answers.
    pub fn carry_out<T: Send + 'static>(&mut self, mut reply: Reply<T>) -> T {
        for _ in 0..PATIENCE {
            let mut task = Task::from_waker(Waker::noop());
            if let Poll::Ready(result) = Pin::new(&mut reply).poll(&mut task) {
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
        let committed = self.journal.step();
        worked || done || committed
    }
}

impl Control {
    /// What [`Store::close`](crate::Store::close) asks for, short of joining the
    /// threads.
    ///
    /// # Errors
    /// As there.
    pub fn close(&self) -> Result<()> {
        self.engine.stop()
    }

    /// Refuses every later call and asks for the end; the answer arrives in the
    /// slot.
    ///
    /// # Panics
    /// If the supervisor has ended.
    #[must_use]
    pub fn start_close(&self) -> Slot<Result<()>> {
        self.engine.refuse_calls();
        self.engine.request(Request::Stop).expect("supervised")
    }

    /// Asks for a flush; the answer arrives in the slot.
    ///
    /// # Panics
    /// If the supervisor has ended.
    #[must_use]
    pub fn start_flush(&self) -> Slot<Result<()>> {
        self.engine.request(Request::Flush).expect("supervised")
    }

    /// The last batch synced, as a flush reads it.
    #[must_use]
    pub fn synced(&self) -> u64 {
        self.progress.synced()
    }

    /// Whether a flush has to have the journal synced first.
    #[must_use]
    pub fn owes_sync(&self) -> bool {
        self.progress.owes_sync()
    }

    /// Queues a record as a worker does: that `producer` has set a checkpoint
    /// at 0, which says nothing.
    ///
    /// # Errors
    /// As a worker is refused.
    pub fn submit(&self, producer: usize, number: u64, durable: bool) -> Result<()> {
        let mut records = Vec::new();
        let nothing = Record::Checkpoint {
            sequence: 0,
            clean: false,
        };
        record::encode(&mut records, &nothing);
        let ticket = Ticket {
            producer,
            number,
            epoch: 0,
            len: records.len(),
        };
        let submitted = self.alarm.group.submit(&records, ticket, durable);
        submitted.map_err(|refused| refused.reason.into())
    }

    /// Ends the committer once it has committed what is queued.
    pub fn end_journal(&self) {
        self.alarm.group.close();
    }

    /// Ends the worker.
    pub fn end_worker(&self) {
        self.alarm.workers[0].send(Event::Exit);
    }

    /// Why the store takes no more records, if it does not.
    #[must_use]
    pub fn poisoned(&self) -> Option<Arc<str>> {
        self.alarm.group.poisoned()
    }

    /// Makes a journal segment ahead of need, as a background job does.
    ///
    /// # Errors
    /// As the job.
    pub fn prepare_segment(&self) -> Result<()> {
        self.pool.prepare()
    }

    /// Takes the next segment and gives it back full, as the committer does;
    /// its number.
    ///
    /// # Errors
    /// As the committer's.
    pub fn use_segment(&self, last_sequence: u64) -> Result<u64> {
        let segment = self.pool.next(0)?;
        let number = segment.number;
        self.pool.filled(segment, last_sequence);
        Ok(number)
    }

    /// Gives up the segments that a checkpoint covers.
    ///
    /// # Errors
    /// As the supervisor's.
    pub fn retire_segments(&self, upto: u64) -> Result<()> {
        self.pool.retire(upto)
    }

    /// The last batches of the segments that wait for a checkpoint.
    #[must_use]
    pub fn full_segments(&self) -> Vec<u64> {
        self.pool.full_sequences()
    }

    /// This moment of a session, without asking its owner; `None` where a reader
    /// has to ask.
    ///
    /// # Panics
    /// If what a reader holds cannot be read.
    #[must_use]
    pub fn moment(&self, key: &str) -> Option<Moment> {
        let context = &self.engine.context;
        let entry = context.catalog.get(key)?;
        let view = entry.view.load();
        let crate::engine::snapshot::View::Live(live) = &*view else {
            return None;
        };
        let snapshot = live.snapshot();
        if snapshot.lacks_file() {
            return None;
        }
        let live = reader::live_lines(&snapshot).expect("is readable");
        let text = String::from_utf8(live.bytes).expect("is text");
        Some(Moment {
            lines: text.lines().map(String::from).collect(),
            count: snapshot.meta.count,
            skip: snapshot.meta.skip,
        })
    }

    /// What the store counted.
    #[must_use]
    pub fn stats(&self) -> StoreStats {
        self.engine.context.counters.read()
    }
}

impl Worker {
    /// Runs the thread's body.
    pub fn run(self) {
        self.0.run();
    }

    /// Takes one turn, and panics.
    pub fn die(self) {
        self.0.step(false);
        self.0.seat().break_down();
    }

    /// One turn; `false` where there was nothing to do.
    pub fn step(&mut self) -> bool {
        self.0.step(false)
    }

    /// Turns until there is nothing to do.
    pub fn settle(&mut self) {
        while self.step() {}
    }

    /// A bystander in the worker's place: it hears what the worker is told, and
    /// does nothing. The worker itself is gone.
    #[must_use]
    pub fn eavesdrop(self) -> Eavesdropper {
        Eavesdropper(self.0.into_inbox())
    }
}

/// Hears what a worker is told.
#[derive(Debug)]
pub struct Eavesdropper(EventReceiver<Event>);

impl Eavesdropper {
    /// What was told so far.
    #[must_use]
    pub fn heard(&self) -> Vec<Heard> {
        std::iter::from_fn(|| self.0.try_recv())
            .map(|event| match event {
                Event::Journal(signal) if matches!(signal.outcome, Outcome::Synced) => {
                    Heard::Synced(signal.number)
                }
                Event::Flush { .. } => Heard::Flush,
                _ => Heard::Other,
            })
            .collect()
    }
}

impl Journal {
    /// Runs the thread's body.
    pub fn run(self) {
        let guard = Guard::new(&self.journal.alarm, "the committer panicked");
        journal::run_journal(self.journal, &*self.clock, guard);
    }

    /// Commits one record of the worker's, with `told` in the place of its inbox.
    ///
    /// # Panics
    /// If the disk fails.
    pub fn commit(&mut self, control: &Control, told: impl Fn(u64)) {
        control.submit(0, 1, true).expect("is open");
        let journal::Journal {
            batch,
            alarm,
            committer,
            ..
        } = &mut self.journal;
        assert_eq!(alarm.group.try_take(batch), Taken::Batch);
        let committed = committer.commit(batch, &mut |signal| told(signal.number));
        committed.expect("can be written");
    }

    /// Gives every segment up, as after a clean checkpoint.
    ///
    /// # Panics
    /// If the disk fails.
    pub fn finish(self) {
        self.journal.committer.finish().expect("can be removed");
    }

    /// One turn while somebody drives the worker, to whom it is left to settle.
    pub fn step_beside(&mut self, worker: &Worker) -> bool {
        let _busy = worker.0.seat().hold();
        self.step()
    }

    /// One turn; `false` where nothing was queued or the store is poisoned.
    pub fn step(&mut self) -> bool {
        let taken = self.journal.alarm.group.try_take(&mut self.journal.batch);
        taken == Taken::Batch && self.journal.turn(taken)
    }
}

impl Background {
    /// Runs the thread's body.
    pub fn run(self) {
        let long = background::LongJobs::default();
        background::run_jobs(&self.jobs, &long, &self.context, &self.alarm);
    }

    /// One job; `false` where there was none.
    #[must_use]
    pub fn step(&mut self) -> bool {
        let job = self.jobs.lock().try_recv();
        let found = job.is_some();
        if let Some(job) = job {
            background::run_job(job, &self.context, &self.alarm);
        }
        found
    }
}

impl Supervisor {
    /// Runs the thread's body.
    pub fn run(self) {
        self.0.run();
    }

    /// Does what was asked so far, waiting for the other threads.
    pub fn serve(&mut self) {
        while let Some(request) = self.0.requests.try_recv() {
            self.0.turn(Timeout::Item(request), &mut Asleep);
        }
    }

    /// Begins a flush: the watermark it will cover.
    #[must_use]
    pub fn begin(&self) -> u64 {
        self.0.supervisor.begin(false).upto
    }

    /// Whether anyone asked for a flush when the store falls idle.
    #[must_use]
    pub fn was_activated(&self) -> bool {
        let asked = std::iter::from_fn(|| self.0.requests.try_recv());
        asked.into_iter().any(|r| matches!(r, Request::Active))
    }

    /// Ends the other threads.
    pub fn end(&self) {
        self.0.end();
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

/// The catalog.
#[derive(Debug, Default)]
pub struct Names(Catalog);

/// A session of the catalog, in the hands of its shard.
#[derive(Clone, Debug)]
pub struct Named(Arc<Entry>);

impl Names {
    /// As a shard enters a session.
    #[must_use]
    pub fn claim(&self, key: &str) -> Named {
        Named(self.0.claim(&key.into()))
    }

    /// As a shard that carried a deletion out.
    pub fn remove(&self, named: &Named, aliases: &[String]) {
        self.0.remove(&named.0, aliases);
    }

    /// As a shard that carried a change of aliases out.
    pub fn set_aliases(&self, named: &Named, old: &[String], new: &[String]) {
        self.0.set_aliases(&named.0, old, new);
    }

    /// The session that a key or alias means.
    #[must_use]
    pub fn resolve(&self, key: &str) -> Option<String> {
        self.0.resolve(key)
    }

    /// As [`resolve`](Self::resolve), on the way of every verb: `None` also
    /// where the key means itself.
    #[must_use]
    pub fn resolve_other(&self, key: &str) -> Option<Arc<str>> {
        self.0.resolve_other(key)
    }

    /// Every session with a sidecar.
    #[must_use]
    pub fn list(&self) -> Vec<String> {
        self.0.list()
    }
}

impl Named {
    /// Its file name.
    #[must_use]
    pub fn stem(&self) -> &str {
        &self.0.stem
    }

    /// As a shard that carried its first change out.
    pub fn list(&self) {
        self.0.list();
    }
}

/// The bells of a worker's mailboxes.
#[derive(Debug, Default)]
pub struct Rope(Bells);

impl Rope {
    /// As a mailbox rings.
    #[must_use]
    pub fn ring(&self, shard: usize) -> bool {
        self.0.ring(shard)
    }

    /// As the worker answers.
    #[must_use]
    pub fn answer(&self) -> Vec<usize> {
        self.0.answer().collect()
    }
}
