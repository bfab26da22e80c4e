//! The background threads: work of the shards that takes long.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use crate::engine::shard::job::Job;
use crate::engine::shard::shared::Shared;
use crate::engine::shard::worker::alarm::Alarm;
use crate::error::Error;
use crate::ground::mailbox::EventReceiver;
use crate::ground::sync::Mutex;

/// Background threads. More than one: a small rewrite must not wait behind the
/// compaction of a big session.
pub(super) const BACKGROUND: usize = 3;

pub(crate) fn run_jobs(jobs: &Mutex<EventReceiver<Job>>, context: &Shared, alarm: &Alarm) {
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
pub(crate) fn run_job(job: Job, context: &Shared, alarm: &Alarm) {
    let reason: Arc<str> = "a background job panicked".into();
    let lost = job.lost(Error::Poisoned {
        reason: reason.clone(),
    });
    let outcome = catch_unwind(AssertUnwindSafe(|| job.run(context))).unwrap_or_else(|_| {
        alarm.raise(&reason);
        lost
    });
    if let Some(outcome) = outcome {
        alarm.tell(outcome);
    }
}
