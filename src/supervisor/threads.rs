//! The threads: a few lines each around the state machines they drive.

use std::sync::Arc;

use super::background::{BACKGROUND, run_jobs};
use super::event_loop::{Loop, end};
use super::guard::Guard;
use super::journal::{Journal, run_journal};
use super::{Request, Supervisor};
use crate::journal::committer::{Committer, Outcome};
use crate::journal::group::Batch;
use crate::journal::pool::SegmentPool;
use crate::mailbox::{EventReceiver, EventSender};
use crate::shard::context::Context;
use crate::shard::job::Job;
use crate::shard::worker::Alarm;
use crate::shard::worker::driver::Driver;
use crate::sync::Mutex;
use crate::sync::atomic::AtomicBool;
use crate::sync::thread::{self, JoinHandle};
use crate::sync::wake;

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
