//! The threads: a few lines each around the state machines they drive.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use super::{Request, Supervisor, TICK};
use crate::error::{Error, Result};
use crate::journal::committer::{Committer, Outcome, Signal, Ticket};
use crate::journal::group::{Batch, Taken};
use crate::mailbox::{EventReceiver, EventSender, Timeout};
use crate::shard::context::Context;
use crate::shard::job::Job;
use crate::shard::worker::{Alarm, Event, Worker};
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::slot::slot;
use crate::sync::thread::{self, JoinHandle};

/// Background threads. More than one: a small rewrite must not wait behind the
/// compaction of a big session.
const BACKGROUND: usize = 3;

/// How long buffered records may stay unsynced while nothing else comes.
const BUFFERED_LINGER: Duration = Duration::from_millis(10);

/// Everything that runs a store.
#[derive(Debug)]
pub(crate) struct Machine {
    pub(crate) workers: Vec<Worker>,
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
    pub(crate) pool: Arc<crate::journal::pool::SegmentPool>,
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
    /// If the system has no thread left; those already started end by
    /// themselves, for what they listen to is gone.
    pub(crate) fn start(machine: Machine) -> std::io::Result<Self> {
        let mut handles = Vec::new();
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
        } = machine;
        for (id, worker) in workers.into_iter().enumerate() {
            let guard = Guard::new(&alarm, "a shard panicked");
            handles.push(thread::spawn(
                &format!("sessionlog-shards-{id}"),
                move || {
                    run_worker(worker, guard);
                },
            )?);
        }
        let journal = Journal {
            outcomes,
            supervise,
            background: background.clone(),
            active,
            ended_cleanly: ended_cleanly.clone(),
            alarm: alarm.clone(),
            pool,
        };
        let guard = Guard::new(&alarm, "the committer panicked");
        handles.push(thread::spawn("sessionlog-journal", move || {
            journal.run(committer);
            guard.disarm();
        })?);
        let jobs = Arc::new(Mutex::new(jobs));
        for id in 0..BACKGROUND {
            let (jobs, context, alarm) = (jobs.clone(), context.clone(), alarm.clone());
            handles.push(thread::spawn(
                &format!("sessionlog-background-{id}"),
                move || run_jobs(&jobs, &context, &alarm),
            )?);
        }
        let guard = Guard::new(&alarm, "the supervisor panicked");
        handles.push(thread::spawn("sessionlog-supervisor", move || {
            Loop {
                supervisor,
                requests,
                background,
                alarm,
                ended_cleanly,
            }
            .run();
            guard.disarm();
        })?);
        Ok(Self { handles })
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

/// Poisons the store when its thread unwinds: callers get an error, not a hang.
struct Guard {
    alarm: Alarm,
    reason: &'static str,
    armed: bool,
}

impl Guard {
    fn new(alarm: &Alarm, reason: &'static str) -> Self {
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

/// The guard goes before the worker: whoever finds the worker's mailboxes
/// closed must find the reason as well.
fn run_worker(mut worker: Worker, guard: Guard) {
    let guard = guard;
    worker.run();
    guard.disarm();
}

fn run_jobs(jobs: &Mutex<EventReceiver<Job>>, context: &Context, alarm: &Alarm) {
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
fn run_job(job: Job, context: &Context, alarm: &Alarm) {
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
struct Journal {
    outcomes: EventSender<Outcome>,
    supervise: EventSender<Request>,
    background: EventSender<Job>,
    active: Arc<AtomicBool>,
    ended_cleanly: Arc<AtomicBool>,
    alarm: Alarm,
    pool: Arc<crate::journal::pool::SegmentPool>,
}

impl Journal {
    fn run(&self, mut committer: Committer) {
        let mut batch = Batch::new();
        loop {
            let linger = committer.has_unsynced().then_some(BUFFERED_LINGER);
            let taken = self.alarm.group.take(&mut batch, linger);
            if taken == Taken::Closed {
                break;
            }
            if let Err(error) = self.commit(&mut committer, &mut batch, taken) {
                self.fail(&mut committer, &error);
                return;
            }
        }
        if self.ended_cleanly.load(Ordering::Acquire)
            && let Err(error) = committer.finish()
        {
            tracing::warn!(%error, "journal segments stay until the next open");
        }
    }

    fn commit(
        &self,
        committer: &mut Committer,
        batch: &mut Batch<Ticket>,
        taken: Taken,
    ) -> Result<()> {
        let mut tell = |signal| self.tell(signal);
        if taken == Taken::Idle {
            return committer.sync(&mut tell);
        }
        let workers = self.alarm.workers.len();
        let writes = batch.tickets.iter().any(|t| t.producer < workers);
        let segment = committer.segment_number();
        committer.commit(batch, &mut tell)?;
        if committer.segment_number() != segment {
            self.background.send(Job::PrepareSegment(self.pool.clone()));
            self.supervise.send(Request::SegmentFull);
        }
        if writes && !self.active.swap(true, Ordering::SeqCst) {
            self.supervise.send(Request::Active);
        }
        Ok(())
    }

    fn tell(&self, signal: Signal) {
        match self.alarm.workers.get(signal.producer) {
            Some(worker) => {
                worker.send(Event::Journal(signal));
            }
            None => {
                self.outcomes.send(signal.outcome);
            }
        }
    }

    fn fail(&self, committer: &mut Committer, error: &Error) {
        let reason: Arc<str> = error.to_string().into();
        self.alarm.raise(&reason);
        committer.fail(&reason, &mut |signal| self.tell(signal));
    }
}

/// The supervisor's thread.
struct Loop {
    supervisor: Supervisor,
    requests: EventReceiver<Request>,
    background: EventSender<Job>,
    alarm: Alarm,
    ended_cleanly: Arc<AtomicBool>,
}

impl Loop {
    fn run(mut self) {
        let mut busy = false;
        loop {
            let request = if busy {
                self.requests.recv_timeout(TICK)
            } else {
                match self.requests.recv() {
                    Some(request) => Timeout::Item(request),
                    None => Timeout::Disconnected,
                }
            };
            match request {
                Timeout::Item(Request::Active) => busy = true,
                Timeout::Item(Request::SegmentFull) => {
                    if self.supervisor.journal_is_long() {
                        self.flush_quietly();
                    }
                }
                Timeout::Item(Request::Flush(promise)) => {
                    let result = self.flush();
                    busy |= result.is_err();
                    wake(promise.fulfil(result));
                }
                Timeout::Item(Request::Stop(promise)) => {
                    let result = self.stop();
                    wake(promise.fulfil(result));
                    return;
                }
                Timeout::TimedOut => {
                    if self.supervisor.tick() {
                        busy = !self.flush_quietly();
                    }
                }
                Timeout::Disconnected => return,
            }
        }
    }

    fn flush_quietly(&mut self) -> bool {
        match self.flush() {
            Ok(()) => true,
            Err(error) => {
                tracing::warn!(%error, "flush failed; the journal is kept");
                // A poisoned store has nothing left to flush.
                matches!(error, Error::Poisoned { .. })
            }
        }
    }

    fn flush(&mut self) -> Result<()> {
        let upto = self.flush_files()?;
        self.checkpoint(upto, false)?;
        self.supervisor.retire(upto)
    }

    fn flush_files(&mut self) -> Result<u64> {
        let flush = self.supervisor.begin();
        let mut parts = Vec::new();
        for slot in flush.slots {
            parts.push(slot.wait().ok_or_else(|| self.failure())?);
        }
        self.supervisor.sync(parts)?;
        Ok(flush.upto)
    }

    fn checkpoint(&mut self, upto: u64, clean: bool) -> Result<()> {
        self.supervisor.submit_checkpoint(upto, clean)?;
        self.supervisor.await_checkpoint()
    }

    /// Stops everything in order: no more commands; what was accepted carried
    /// out; files and sidecars synced; the journal's end; then the threads.
    fn stop(&mut self) -> Result<()> {
        let result = self.finish();
        self.ended_cleanly.store(result.is_ok(), Ordering::Release);
        self.alarm.group.close();
        for worker in &self.alarm.workers {
            worker.send(Event::Exit);
        }
        for _ in 0..BACKGROUND {
            self.background.send(Job::Stop);
        }
        result
    }

    fn finish(&mut self) -> Result<()> {
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
            slot.wait().ok_or_else(|| self.failure())?;
        }
        if let Some(reason) = self.alarm.group.poisoned() {
            return Err(Error::Poisoned { reason });
        }
        let upto = self.flush_files()?;
        self.checkpoint(upto, true)
    }

    fn failure(&self) -> Error {
        match self.alarm.group.poisoned() {
            Some(reason) => Error::Poisoned { reason },
            None => Error::Closed,
        }
    }
}

fn wake(waker: Option<std::task::Waker>) {
    if let Some(waker) = waker {
        waker.wake();
    }
}
