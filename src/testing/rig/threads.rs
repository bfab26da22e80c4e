//! What a model gives its threads to run.

use std::sync::Arc;

use sessionlog_wal::mailbox::{EventReceiver, Timeout};
use sessionlog_wal::sync::Mutex;

use crate::engine::shard::job::Job;
use crate::engine::shard::shared::SharedState;
use crate::engine::shard::worker::alarm::Alarm;
use crate::engine::shard::worker::driver::Driver;
use crate::engine::supervisor::SupervisorRequest;
use crate::engine::supervisor::background;
use crate::engine::supervisor::background::LongJobs;
use crate::engine::supervisor::event_loop::Loop;
use crate::engine::supervisor::guard::Guard;
use crate::engine::supervisor::leader::{self, LeaderStep};
use crate::engine::supervisor::wait::Asleep;

/// The worker's thread, which writes files.
#[derive(Debug)]
pub struct SteppedWorker(pub(super) Driver);

/// The leader's thread.
#[derive(Debug)]
pub struct SteppedLeader {
    pub(super) leader: Arc<leader::Leader>,
    pub(super) alarm: Alarm,
}

/// One background thread; clones share the queue.
#[derive(Clone, Debug)]
pub struct Background {
    pub(super) jobs: Arc<Mutex<EventReceiver<Job>>>,
    pub(super) long: Arc<LongJobs>,
    pub(super) shared: Arc<SharedState>,
    pub(super) alarm: Alarm,
}

/// The supervisor's thread.
#[derive(Debug)]
pub struct SteppedSupervisor(pub(super) Loop);

impl SteppedWorker {
    /// Runs the thread's body.
    pub fn run(self) {
        self.0.run();
    }

    /// Takes one turn, and panics.
    pub fn die(self) {
        self.0.step(false);
        self.0.seat().break_down();
    }

    /// One turn; `false` if there was nothing to do.
    pub fn step(&mut self) -> bool {
        self.0.step(false)
    }

    /// Turns until there is nothing to do.
    pub fn settle(&mut self) {
        while self.step() {}
    }
}

impl SteppedLeader {
    /// Runs the thread's body.
    pub fn run(self) {
        let guard = Guard::new(&self.alarm, "the leader's thread panicked");
        self.leader.run();
        guard.disarm();
    }

    /// Gives every segment up, as after a clean checkpoint.
    ///
    /// # Panics
    /// If the disk fails.
    pub fn finish(self) {
        let journal = self.leader.take().expect("is open");
        let committer = journal.committer.expect("has not failed");
        committer.finish().expect("can be removed");
    }

    /// One round; `false` if there was nothing to look at.
    pub fn step(&mut self) -> bool {
        self.leader.step() == LeaderStep::Led
    }
}

impl Background {
    /// Runs the thread's body.
    pub fn run(self) {
        background::run_jobs(&self.jobs, &self.long, &self.shared, &self.alarm);
    }

    /// One job; `false` if there was none.
    #[must_use]
    pub fn step(&mut self) -> bool {
        let job = self.jobs.lock().try_recv();
        let found = job.is_some();
        if let Some(job) = job {
            background::run_job(job, &self.shared, &self.alarm);
        }
        found
    }
}

impl SteppedSupervisor {
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
    pub fn begin(&mut self) -> u64 {
        self.0.supervisor.begin().upto
    }

    /// Whether anyone asked for a flush when the store falls idle.
    #[must_use]
    pub fn was_activated(&self) -> bool {
        let asked = std::iter::from_fn(|| self.0.requests.try_recv());
        asked
            .into_iter()
            .any(|r| matches!(r, SupervisorRequest::Active))
    }

    /// Ends so many background threads, once they have done what is queued.
    pub fn end_background(&self, threads: usize) {
        for _ in 0..threads {
            self.0.background.send(Job::Stop);
        }
    }

    /// Ends the other threads.
    pub fn end(&self) {
        self.0.end();
    }
}
