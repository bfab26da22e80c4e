//! The background threads, which do the long work of the shards.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use sessionlog_core::error::Error;
use sessionlog_wal::mailbox::EventReceiver;
use sessionlog_wal::sync::{Mutex, thread};

use crate::engine::shard::job::Job;
use crate::engine::shard::shared::SharedState;
use crate::engine::shard::worker::alarm::Alarm;

/// Background threads.
pub(super) const BACKGROUND: usize = 3;

/// Number of them that may do long jobs. The rest is there for short ones: a small rewrite must not
/// wait for the compaction of a big session.
const LONG: usize = BACKGROUND - 1;

/// After a compaction beside which messages were written, no other of its kind runs for this many
/// times the time it took: a compaction syncs and deletes files beside the journal's syncs, which
/// callers wait for.
const REST: u32 = 2;

/// The longest such rest, because the thread could do work that a caller waits for.
const LONGEST_REST: Duration = Duration::from_millis(20);

/// If this many jobs wait, compactions must keep up: the lines they have not dropped take space.
const MANY: usize = 4_096;

/// Compactions, of which there may be thousands, and other long jobs. At most `LONG` run at once,
/// one short and one long compaction among them. Jobs that a caller waits for alternate with the
/// others. Two short compactions at once end a third sooner, and leave callers half of their
/// commits; one leaves two thirds.
#[derive(Debug, Default)]
pub(crate) struct LongJobs(Mutex<JobTurns>);

#[derive(Debug, Default)]
struct JobTurns {
    running: usize,
    /// True if a short compaction runs; and true if a long one does.
    compacting: [bool; 2],
    waiting: VecDeque<Job>,
    /// True if the next job is one that a caller waits for, if there is one.
    turn: bool,
}

impl LongJobs {
    /// Returns the job, if it may run now; otherwise it is left for a thread that runs one.
    fn admit(&self, job: Job) -> Option<Job> {
        let mut turns = self.0.lock();
        turns.waiting.push_back(job);
        turns.next()
    }

    fn waiting(&self) -> usize {
        self.0.lock().waiting.len()
    }

    /// Notes that a job is done, and its kind of compaction, if any. Returns the thread's next job.
    fn done(&self, compaction: Option<usize>) -> Option<Job> {
        let mut turns = self.0.lock();
        turns.running -= 1;
        if let Some(kind) = compaction {
            turns.compacting[kind] = false;
        }
        turns.next()
    }
}

impl JobTurns {
    fn next(&mut self) -> Option<Job> {
        if self.running == LONG {
            return None;
        }
        let awaited = self.waiting.iter().position(|job| !job.compacts());
        let may_run = |job: &Job| compaction(job).is_some_and(|kind| !self.compacting[kind]);
        let unawaited = self.waiting.iter().position(may_run);
        // Every other time a job without a waiting caller: it must come to an end, too.
        self.turn = !self.turn;
        let at = if self.turn {
            awaited.or(unawaited)?
        } else {
            unawaited.or(awaited)?
        };
        let job = self.waiting.remove(at)?;
        self.running += 1;
        if let Some(kind) = compaction(&job) {
            self.compacting[kind] = true;
        }
        Some(job)
    }
}

/// Returns the kind of compaction, if it is one: 0 for a short one, 1 for a long one.
fn compaction(job: &Job) -> Option<usize> {
    job.compacts().then(|| usize::from(job.is_long()))
}

pub(crate) fn run_jobs(
    jobs: &Mutex<EventReceiver<Job>>,
    long: &LongJobs,
    shared: &SharedState,
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

fn run_long(job: Job, long: &LongJobs, shared: &SharedState, alarm: &Alarm) {
    let mut next = long.admit(job);
    while let Some(job) = next {
        let compaction = compaction(&job);
        let (began, messages) = (shared.clock.monotonic(), shared.counters.messages.read());
        run_job(job, shared, alarm);
        if compaction.is_some() {
            let took = shared.clock.monotonic().saturating_sub(began);
            let is_busy = shared.counters.messages.read() != messages;
            thread::pause(rest(took, is_busy, long.waiting()));
        }
        next = long.done(compaction);
    }
}

/// Returns the time without a new compaction after one that took `took`.
fn rest(took: Duration, is_busy: bool, waiting: usize) -> Duration {
    if is_busy && waiting < MANY {
        (took * REST).min(LONGEST_REST)
    } else {
        Duration::ZERO
    }
}

/// Runs a job. One that panics poisons the store, and its owner is told all the same: a caller may
/// wait for it, and closing waits for every job.
pub(crate) fn run_job(job: Job, shared: &SharedState, alarm: &Alarm) {
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

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::engine::archive::ArchiveSubject;
    use crate::engine::shard::job::Owner;
    use crate::engine::shard::source::FileSource;
    use sessionlog_wal::storage::{OpenMode, Storage};
    use sessionlog_wal::testing::disk_model::MemoryStorage;

    fn rewrite(temp: &str, source: FileSource) -> Job {
        let owner = Owner {
            shard: 0,
            session: 0,
        };
        let temp = temp.into();
        Job::Rewrite {
            owner,
            temp,
            source,
        }
    }

    fn compacts(temp: &str, end: u64) -> Job {
        let disk = MemoryStorage::new();
        let file = disk.open(Path::new("a"), OpenMode::CreateNew).unwrap();
        let dropped = ArchiveSubject {
            key: "a".into(),
            stem: "a".into(),
            deleted: Arc::default(),
        };
        let live = FileSource::Live {
            file,
            start: 0,
            end,
            dropped,
        };
        rewrite(temp, live)
    }

    fn name(job: Option<Job>) -> String {
        match job {
            Some(Job::Rewrite { temp, .. }) => temp,
            Some(other) => panic!("{other:?}"),
            None => String::new(),
        }
    }

    #[test]
    fn of_short_compactions_and_of_long_ones_one_is_done_at_a_time() {
        const LARGE: u64 = 1 << 30;
        let long = LongJobs::default();
        assert_eq!(name(long.admit(compacts("short 1", 9))), "short 1");
        assert_eq!(name(long.admit(compacts("short 2", 9))), "");
        assert_eq!(name(long.admit(compacts("large 1", LARGE))), "large 1");
        assert_eq!(name(long.admit(compacts("large 2", LARGE))), "");
        let awaited = rewrite("awaited", FileSource::Lines(Vec::new()));
        assert_eq!(name(long.admit(awaited)), "");
        let (short, large) = (
            compaction(&compacts("", 9)),
            compaction(&compacts("", LARGE)),
        );
        // Alternating with jobs that a caller waits for.
        let mut done = vec![name(long.done(short))];
        while let Some(job) = long.done(None) {
            done.push(name(Some(job)));
        }
        done.push(name(long.done(large)));
        done.sort();
        assert_eq!(done, ["awaited", "large 2", "short 2"]);
    }

    #[test]
    fn a_compaction_is_followed_by_a_rest_if_messages_are_written_and_few_jobs_wait() {
        let ms = Duration::from_millis;
        assert_eq!(rest(ms(2), true, 1_000), ms(4));
        assert_eq!(rest(ms(2), false, 1_000), ms(0));
        assert_eq!(rest(ms(2), true, MANY), ms(0));
        assert_eq!(rest(ms(900), true, 0), LONGEST_REST);
    }
}
