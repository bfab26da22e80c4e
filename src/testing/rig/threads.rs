//! What a model gives its threads to run.

use std::sync::Arc;

use super::Control;
use crate::disk::journal::committer::Outcome;
use crate::disk::journal::group::Taken;
use crate::engine::shard::job::Job;
use crate::engine::shard::shared::Shared;
use crate::engine::shard::worker::alarm::Alarm;
use crate::engine::shard::worker::driver::Driver;
use crate::engine::shard::worker::event::Event;
use crate::engine::supervisor::Request;
use crate::engine::supervisor::background::LongJobs;
use crate::engine::supervisor::event_loop::Loop;
use crate::engine::supervisor::guard::Guard;
use crate::engine::supervisor::journal_seat::JournalSeat;
use crate::engine::supervisor::wait::Asleep;
use crate::engine::supervisor::{background, journal};
use crate::ground::mailbox::{EventReceiver, Timeout};
use crate::ground::sync::Mutex;
use crate::testing::parts;

/// One worker, with all shards.
#[derive(Debug)]
pub struct Worker(pub(super) Driver);

/// The committer's thread.
#[derive(Debug)]
pub struct Journal {
    pub(super) journal: journal::Journal,
    pub(super) seat: Arc<JournalSeat>,
}

/// One background thread; clones share the queue.
#[derive(Clone, Debug)]
pub struct Background {
    pub(super) jobs: Arc<Mutex<EventReceiver<Job>>>,
    pub(super) long: Arc<LongJobs>,
    pub(super) shared: Arc<Shared>,
    pub(super) alarm: Alarm,
}

/// The supervisor's thread.
#[derive(Debug)]
pub struct Supervisor(pub(super) Loop);

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

    /// One turn; `false` if there was nothing to do.
    pub fn step(&mut self) -> bool {
        self.0.step(false)
    }

    /// One turn, if the worker's thread was told of anything.
    pub fn step_if_told(&mut self) {
        self.0.step_if_told();
    }

    /// Does something while somebody drives the worker, who does not look at the bells
    /// afterwards.
    pub fn while_busy<R>(&self, act: impl FnOnce() -> R) -> R {
        let _busy = self.0.seat().hold();
        act()
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
                Event::Flush(_) => Heard::Flush,
                _ => Heard::Other,
            })
            .collect()
    }
}

impl Journal {
    /// Runs the thread's body.
    pub fn run(self) {
        let guard = Guard::new(&self.journal.alarm, "the committer panicked");
        journal::run_journal(&self.seat, self.journal, guard);
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
        assert_eq!(alarm.group.take(batch), Taken::Batch);
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
        worker.while_busy(|| self.step())
    }

    /// One turn; `false` if nothing was queued or the store is poisoned.
    pub fn step(&mut self) -> bool {
        let taken = parts::take(&mut self.journal);
        taken == Taken::Batch && parts::turn(&mut self.journal)
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
    pub fn begin(&mut self) -> u64 {
        self.0.supervisor.begin().upto
    }

    /// Whether anyone asked for a flush when the store falls idle.
    #[must_use]
    pub fn was_activated(&self) -> bool {
        let asked = std::iter::from_fn(|| self.0.requests.try_recv());
        asked.into_iter().any(|r| matches!(r, Request::Active))
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
