//! The background threads: work of the shards that takes long.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use crate::engine::shard::job::Job;
use crate::engine::shard::shared::Shared;
use crate::engine::shard::worker::alarm::Alarm;
use crate::error::Error;
use crate::ground::mailbox::EventReceiver;
use crate::ground::sync::Mutex;

/// Background threads.
pub(super) const BACKGROUND: usize = 3;

/// How many of them may do what takes long. The rest is there for what does not: a
/// small rewrite must not wait for the compaction of a big session.
const LONG: usize = BACKGROUND - 1;

/// Compactions, of which there may be thousands, and other jobs that take long. Only
/// so many are done at once, one long compaction among them, and those that somebody
/// waits for by turns with those that nobody does.
#[derive(Debug, Default)]
pub(crate) struct LongJobs(Mutex<Turns>);

#[derive(Debug, Default)]
struct Turns {
    running: usize,
    /// Whether a long compaction is.
    compacting: bool,
    waiting: VecDeque<Job>,
    /// Whether the next is one that somebody waits for, if there is one.
    turn: bool,
}

impl LongJobs {
    /// The job, if it may be done now; else it is left for a thread that does one.
    fn admit(&self, job: Job) -> Option<Job> {
        let mut turns = self.0.lock();
        turns.waiting.push_back(job);
        turns.next()
    }

    /// A job is done, a long compaction or not; what the thread does next.
    fn done(&self, compaction: bool) -> Option<Job> {
        let mut turns = self.0.lock();
        turns.running -= 1;
        turns.compacting &= !compaction;
        turns.next()
    }
}

impl Turns {
    fn next(&mut self) -> Option<Job> {
        if self.running == LONG {
            return None;
        }
        let awaited = self.waiting.iter().position(|job| !job.compacts());
        let may_run = |job: &Job| !(self.compacting && compacts_long(job));
        let unawaited = self
            .waiting
            .iter()
            .position(|job| job.compacts() && may_run(job));
        // Every other time what nobody waits for: it must come to an end, too.
        self.turn = !self.turn;
        let at = if self.turn {
            awaited.or(unawaited)?
        } else {
            unawaited.or(awaited)?
        };
        let job = self.waiting.remove(at)?;
        self.running += 1;
        self.compacting |= compacts_long(&job);
        Some(job)
    }
}

fn compacts_long(job: &Job) -> bool {
    job.compacts() && job.is_long()
}

pub(crate) fn run_jobs(
    jobs: &Mutex<EventReceiver<Job>>,
    long: &LongJobs,
    shared: &Shared,
    alarm: &Alarm,
) {
    loop {
        let next = jobs.lock().recv();
        match next {
            None | Some(Job::Stop) => break,
            Some(job) if job.is_long() || job.compacts() => run_long(job, long, shared, alarm),
            Some(job) => run_job(job, shared, alarm),
        }
    }
}

fn run_long(job: Job, long: &LongJobs, shared: &Shared, alarm: &Alarm) {
    let mut next = long.admit(job);
    while let Some(job) = next {
        let compaction = compacts_long(&job);
        run_job(job, shared, alarm);
        next = long.done(compaction);
    }
}

/// A job that panics poisons the store, and its owner is told all the same: a
/// caller may wait for it, and closing waits for every job.
pub(crate) fn run_job(job: Job, shared: &Shared, alarm: &Alarm) {
    let reason: Arc<str> = "a background job panicked".into();
    let lost = job.lost(Error::Poisoned {
        reason: reason.clone(),
    });
    let outcome = catch_unwind(AssertUnwindSafe(|| job.run(shared))).unwrap_or_else(|_| {
        alarm.raise(&reason);
        lost
    });
    if let Some(outcome) = outcome {
        alarm.tell(outcome);
    }
}
