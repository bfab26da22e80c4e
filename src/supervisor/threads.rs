//! The threads: a few lines each around the state machines they drive.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use super::{Due, Request, Supervisor, TICK};
use crate::clock::Clock;
use crate::error::{Error, Result};
use crate::journal::committer::{Committer, Outcome, Signal, Ticket};
use crate::journal::group::{Batch, Taken};
use crate::journal::pace::Pace;
use crate::journal::pool::SegmentPool;
use crate::mailbox::{EventReceiver, EventSender, Timeout};
use crate::shard::context::Context;
use crate::shard::job::Job;
use crate::shard::worker::driver::Driver;
use crate::shard::worker::seat::Seat;
use crate::shard::worker::{Alarm, Event};
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::slot::{Slot, slot};
use crate::sync::thread::{self, JoinHandle};
use crate::sync::wake;

/// Background threads. More than one: a small rewrite must not wait behind the
/// compaction of a big session.
const BACKGROUND: usize = 3;

/// How long buffered records may stay unsynced.
const BUFFERED_LINGER: Duration = Duration::from_millis(10);

/// Everything that runs a store.
#[derive(Debug)]
pub(crate) struct Machine {
    pub(crate) workers: Vec<Driver>,
    pub(crate) committer: Committer,
    pub(crate) supervisor: Supervisor,
    pub(crate) requests: EventReceiver<Request>,
    pub(crate) supervise: EventSender<Request>,
    pub(crate) outcomes: EventSender<Outcome>,
    pub(crate) jobs: EventReceiver<Job>,
    pub(crate) background: EventSender<Job>,
    pub(crate) context: Arc<Context>,
    pub(crate) alarm: Alarm,
    pub(crate) active: Arc<AtomicBool>,
    pub(crate) ended_cleanly: Arc<AtomicBool>,
    pub(crate) pool: Arc<SegmentPool>,
    pub(crate) runtime: wake::Runtime,
}

/// The threads of a running store.
#[derive(Debug)]
pub(crate) struct Threads {
    handles: Vec<JoinHandle>,
}

impl Threads {
    /// Starts them all.
    ///
    /// # Errors
    /// If the system has no thread left; those already started are ended.
    pub(crate) fn start(machine: Machine) -> std::io::Result<Self> {
        let (alarm, background) = (machine.alarm.clone(), machine.background.clone());
        let mut handles = Vec::new();
        let started = Self::start_into(machine, &mut handles);
        let threads = Self { handles };
        if let Err(error) = started {
            end(&alarm, &background);
            threads.join();
            return Err(error);
        }
        Ok(threads)
    }

    fn start_into(machine: Machine, handles: &mut Vec<JoinHandle>) -> std::io::Result<()> {
        let Machine {
            workers,
            committer,
            supervisor,
            requests,
            supervise,
            outcomes,
            jobs,
            background,
            context,
            alarm,
            active,
            ended_cleanly,
            pool,
            runtime,
        } = machine;
        let seats = workers.iter().map(|w| w.seat().clone()).collect();
        for (id, driver) in workers.into_iter().enumerate() {
            handles.push(thread::spawn(
                &format!("sessionlog-shards-{id}"),
                move || driver.run(),
            )?);
        }
        let journal = Journal {
            committer,
            batch: Batch::new(),
            outcomes,
            supervise,
            background: background.clone(),
            active,
            ended_cleanly: ended_cleanly.clone(),
            alarm: alarm.clone(),
            seats,
            runtime,
            pool,
        };
        let clock = context.clock.clone();
        let guard = Guard::new(&alarm, "the committer panicked");
        handles.push(thread::spawn("sessionlog-journal", move || {
            run_journal(journal, &*clock, guard);
        })?);
        let jobs = Arc::new(Mutex::new(jobs));
        for id in 0..BACKGROUND {
            let (jobs, context, alarm) = (jobs.clone(), context.clone(), alarm.clone());
            handles.push(thread::spawn(
                &format!("sessionlog-background-{id}"),
                move || run_jobs(&jobs, &context, &alarm),
            )?);
        }
        handles.push(thread::spawn("sessionlog-supervisor", move || {
            Loop {
                supervisor,
                requests,
                background,
                alarm,
                ended_cleanly,
                busy: false,
            }
            .run();
        })?);
        Ok(())
    }

    /// Waits for all of them to end.
    pub(crate) fn join(self) {
        for handle in self.handles {
            if let Err(panic) = handle.join() {
                tracing::error!(panic, "a thread of the store panicked");
            }
        }
    }
}

/// Ends every thread but the supervisor's.
fn end(alarm: &Alarm, background: &EventSender<Job>) {
    alarm.group.close();
    for worker in &alarm.workers {
        worker.send(Event::Exit);
    }
    for _ in 0..BACKGROUND {
        background.send(Job::Stop);
    }
}

/// Poisons the store when its thread unwinds: callers get an error, not a hang.
#[derive(Debug)]
pub(crate) struct Guard {
    alarm: Alarm,
    reason: &'static str,
    armed: bool,
}

impl Guard {
    pub(crate) fn new(alarm: &Alarm, reason: &'static str) -> Self {
        Self {
            alarm: alarm.clone(),
            reason,
            armed: true,
        }
    }

    fn disarm(mut self) {
        self.armed = false;
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if self.armed {
            self.alarm.raise(&self.reason.into());
        }
    }
}

pub(crate) fn run_journal(journal: Journal, clock: &dyn Clock, guard: Guard) {
    journal.run(clock);
    guard.disarm();
}

pub(crate) fn run_jobs(jobs: &Mutex<EventReceiver<Job>>, context: &Context, alarm: &Alarm) {
    loop {
        let next = jobs.lock().recv();
        match next {
            None | Some(Job::Stop) => break,
            Some(job) => run_job(job, context, alarm),
        }
    }
}

/// A job that panics poisons the store, and its owner is told all the same: a
/// caller may wait for it, and closing waits for every job.
pub(crate) fn run_job(job: Job, context: &Context, alarm: &Alarm) {
    let reason: Arc<str> = "a background job panicked".into();
    let lost = job.lost(Error::Poisoned {
        reason: reason.clone(),
    });
    let event = catch_unwind(AssertUnwindSafe(|| job.run(context))).unwrap_or_else(|_| {
        alarm.raise(&reason);
        lost
    });
    if let Some((worker, event)) = event {
        alarm.workers[worker].send(event);
    }
}

/// The committer's thread.
#[derive(Debug)]
pub(crate) struct Journal {
    pub(crate) committer: Committer,
    pub(crate) batch: Batch<Ticket>,
    pub(crate) outcomes: EventSender<Outcome>,
    pub(crate) supervise: EventSender<Request>,
    pub(crate) background: EventSender<Job>,
    pub(crate) active: Arc<AtomicBool>,
    pub(crate) ended_cleanly: Arc<AtomicBool>,
    pub(crate) alarm: Alarm,
    pub(crate) seats: Vec<Arc<Seat>>,
    pub(crate) runtime: wake::Runtime,
    pub(crate) pool: Arc<SegmentPool>,
}

impl Journal {
    fn run(mut self, clock: &dyn Clock) {
        let mut written_since: Option<Duration> = None;
        let mut pace = Pace::default();
        let mut linger = None;
        loop {
            // Counted from the oldest record that waits: were it counted from
            // the newest, a trickle of buffered records would never be synced.
            let left = written_since
                .map(|since| (since + BUFFERED_LINGER).saturating_sub(clock.monotonic()));
            let taken = match left {
                Some(Duration::ZERO) => Taken::Idle,
                _ => self
                    .alarm
                    .group
                    .take(&mut self.batch, left, linger.as_mut()),
            };
            if let Some(linger) = linger.take() {
                pace.learn(&linger);
            }
            if taken == Taken::Closed {
                return self.end();
            }
            let started = clock.monotonic();
            // Of nothing taken nobody comes back.
            let bytes = match taken {
                Taken::Batch => self.batch.bytes.len(),
                Taken::Idle | Taken::Closed => 0,
            };
            if !self.turn(taken) {
                return;
            }
            linger = pace.linger(bytes, clock.monotonic().saturating_sub(started));
            written_since = match written_since {
                _ if !self.committer.has_unsynced() => None,
                None => Some(clock.monotonic()),
                since => since,
            };
        }
    }

    /// Commits what was taken, or syncs what was written where nothing came.
    /// `false` once the store is poisoned.
    pub(crate) fn turn(&mut self, taken: Taken) -> bool {
        let committed = self.commit(taken);
        if let Err(error) = &committed {
            self.fail(error);
        }
        committed.is_ok()
    }

    /// Gives the segments up, if the supervisor ended the journal in order.
    pub(crate) fn end(self) {
        if self.ended_cleanly.load(Ordering::Relaxed)
            && let Err(error) = self.committer.finish()
        {
            tracing::warn!(%error, "journal segments stay until the next open");
        }
    }

    fn commit(&mut self, taken: Taken) -> Result<()> {
        let Self {
            committer,
            batch,
            alarm,
            outcomes,
            seats,
            ..
        } = self;
        let mut answered = Vec::new();
        let mut tell = |signal: Signal| {
            let left = match seats.get(signal.producer) {
                Some(seat) => seat.settle(signal, &mut answered),
                None => Err(signal),
            };
            if let Err(signal) = left {
                tell(alarm, outcomes, signal);
            }
        };
        if taken == Taken::Idle {
            let synced = committer.sync(&mut tell);
            self.runtime.wake_all(answered);
            return synced;
        }
        let workers = alarm.workers.len();
        let writes = batch.tickets.iter().any(|t| t.producer < workers);
        let segment = committer.segment_number();
        let committed = committer.commit(batch, &mut tell);
        self.runtime.wake_all(answered);
        committed?;
        if committer.segment_number() != segment {
            self.background.send(Job::PrepareSegment(self.pool.clone()));
            self.supervise.send(Request::SegmentFull);
        }
        if writes && !self.active.swap(true, Ordering::AcqRel) {
            self.supervise.send(Request::Active);
        }
        Ok(())
    }

    fn fail(&mut self, error: &Error) {
        let reason = error.reason();
        self.alarm.raise(&reason);
        let (alarm, outcomes) = (&self.alarm, &self.outcomes);
        self.committer
            .fail(&reason, &mut |signal| tell(alarm, outcomes, signal));
    }
}

fn tell(alarm: &Alarm, outcomes: &EventSender<Outcome>, signal: Signal) {
    match alarm.workers.get(signal.producer) {
        Some(worker) => {
            worker.send(Event::Journal(signal));
        }
        None => {
            outcomes.send(signal.outcome);
        }
    }
}

/// How the supervisor waits for the other threads: its own sleeps, a
/// simulation lets the others run.
pub(crate) trait Wait {
    /// The answer that `slot` is for; `None` if nobody owes it any more.
    fn answer<T>(&mut self, slot: Slot<T>) -> Option<T>;

    /// The next event; `None` once nobody can send one.
    fn event<T>(&mut self, events: &EventReceiver<T>) -> Option<T>;
}

#[derive(Debug)]
pub(crate) struct Asleep;

impl Wait for Asleep {
    fn answer<T>(&mut self, slot: Slot<T>) -> Option<T> {
        slot.wait()
    }

    fn event<T>(&mut self, events: &EventReceiver<T>) -> Option<T> {
        events.recv()
    }
}

/// The supervisor's thread.
#[derive(Debug)]
pub(crate) struct Loop {
    pub(crate) supervisor: Supervisor,
    pub(crate) requests: EventReceiver<Request>,
    pub(crate) background: EventSender<Job>,
    pub(crate) alarm: Alarm,
    pub(crate) ended_cleanly: Arc<AtomicBool>,
    /// Something was written that no flush covers yet.
    pub(crate) busy: bool,
}

impl Loop {
    pub(crate) fn run(mut self) {
        loop {
            let request = if self.busy {
                self.requests.recv_timeout(TICK)
            } else {
                match self.requests.recv() {
                    Some(request) => Timeout::Item(request),
                    None => Timeout::Disconnected,
                }
            };
            let last = matches!(request, Timeout::Item(Request::Stop(_)));
            let turn = AssertUnwindSafe(|| self.turn(request, &mut Asleep));
            match catch_unwind(turn) {
                Ok(true) => {}
                Ok(false) => return,
                Err(_) => {
                    self.alarm.raise(&"the supervisor panicked".into());
                    self.busy = false;
                    if last {
                        return self.end();
                    }
                }
            }
        }
    }

    /// Does what is asked or due. `false` once the store has ended.
    pub(crate) fn turn(&mut self, request: Timeout<Request>, wait: &mut impl Wait) -> bool {
        match request {
            Timeout::Item(Request::Active) => self.busy = true,
            Timeout::Item(Request::SegmentFull) => {
                if self.supervisor.journal_is_long() {
                    self.flush_quietly(false, wait);
                }
            }
            Timeout::Item(Request::Flush(promise)) => {
                let result = self.flush(true, wait);
                self.busy |= result.is_err();
                wake_one(promise.fulfil(result));
            }
            Timeout::Item(Request::Stop(promise)) => {
                let result = self.stop(wait);
                wake_one(promise.fulfil(result));
                return false;
            }
            Timeout::TimedOut => match self.supervisor.tick() {
                Due::Idle => self.busy = !self.flush_quietly(true, wait),
                Due::Long => {
                    self.flush_quietly(false, wait);
                }
                Due::Nothing => {}
            },
            Timeout::Disconnected => return false,
        }
        true
    }

    fn flush_quietly(&mut self, exact: bool, wait: &mut impl Wait) -> bool {
        match self.flush(exact, wait) {
            Ok(()) => true,
            Err(error) => {
                tracing::warn!(%error, "flush failed; the journal is kept");
                // A poisoned store has nothing left to flush.
                matches!(error, Error::Poisoned { .. })
            }
        }
    }

    fn flush(&mut self, exact: bool, wait: &mut impl Wait) -> Result<()> {
        let upto = self.flush_files(exact, wait)?;
        self.checkpoint(upto, false, wait)?;
        self.supervisor.retire(upto)
    }

    fn flush_files(&mut self, exact: bool, wait: &mut impl Wait) -> Result<u64> {
        self.supervisor.sync_journal(wait)?;
        let flush = self.supervisor.begin(exact);
        let mut parts = Vec::new();
        for slot in flush.slots {
            parts.push(wait.answer(slot).ok_or_else(|| self.failure())?);
        }
        self.supervisor.sync(parts)?;
        Ok(flush.upto)
    }

    fn checkpoint(&mut self, upto: u64, clean: bool, wait: &mut impl Wait) -> Result<()> {
        self.supervisor.submit_checkpoint(upto, clean)?;
        self.supervisor.await_synced(wait)
    }

    /// Stops everything in order: no more commands; what was accepted carried
    /// out; files and sidecars synced; the journal's end; then the threads.
    fn stop(&mut self, wait: &mut impl Wait) -> Result<()> {
        let result = self.finish(wait);
        // Before the group is closed, whose lock carries it to the committer.
        self.ended_cleanly.store(result.is_ok(), Ordering::Relaxed);
        self.end();
        result
    }

    /// Ends the other threads. They end only when they are told to, and closing
    /// waits for them: it must not be left out, whatever went wrong.
    pub(crate) fn end(&self) {
        end(&self.alarm, &self.background);
    }

    fn finish(&mut self, wait: &mut impl Wait) -> Result<()> {
        let slots: Vec<_> = self
            .alarm
            .workers
            .iter()
            .map(|worker| {
                let (promise, slot) = slot();
                worker.send(Event::Drain(promise));
                slot
            })
            .collect();
        for slot in slots {
            wait.answer(slot).ok_or_else(|| self.failure())?;
        }
        if let Some(reason) = self.alarm.group.poisoned() {
            return Err(Error::Poisoned { reason });
        }
        let upto = self.flush_files(true, wait)?;
        self.supervisor.clear_gone()?;
        self.checkpoint(upto, true, wait)
    }

    fn failure(&self) -> Error {
        match self.alarm.group.poisoned() {
            Some(reason) => Error::Poisoned { reason },
            None => Error::Closed,
        }
    }
}

fn wake_one(waker: Option<std::task::Waker>) {
    if let Some(waker) = waker {
        waker.wake();
    }
}
