//! Producers that record each of their operations, for workloads whose windows
//! are cut out afterwards.

use std::future::Future;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tokio::runtime::Runtime;
use tokio::task::JoinHandle;

use super::Figures;
use crate::contender::Contender;
use crate::support::Outcome;
use crate::support::load::SplitMix64;
use crate::support::machine::cpu_seconds;
use crate::support::sample::{Latency, float};

/// One kind of operation out of those a workload mixes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Verb {
    Append,
    Tail,
}

/// An operation, from its call to its reply.
pub(super) struct Done {
    verb: Verb,
    time: Range<Instant>,
}

/// What a producer repeats.
pub(super) trait Operation: Send + Sync + 'static {
    fn run(&self, random: &mut SplitMix64) -> impl Future<Output = Verb> + Send;
}

/// A share of tails, the rest appends, over some sessions.
pub(super) struct Mix<C> {
    pub(super) contender: Arc<C>,
    pub(super) sessions: Range<usize>,
    pub(super) tails_percent: usize,
    pub(super) tail: usize,
    pub(super) texts: usize,
}

impl<C: Contender> Operation for Mix<C> {
    async fn run(&self, random: &mut SplitMix64) -> Verb {
        let session = self.sessions.start + random.below(self.sessions.len());
        if random.below(100) < self.tails_percent {
            let tail = self.contender.tail_async(session, self.tail).await;
            let tail = tail.expect("the tail reads");
            assert!(!tail.is_empty(), "every session has messages");
            Verb::Tail
        } else {
            let text = random.below(self.texts);
            self.contender.append(session, text).await;
            Verb::Append
        }
    }
}

pub(super) struct Producers {
    stop: Arc<AtomicBool>,
    tasks: Vec<JoinHandle<Vec<Done>>>,
}

impl Producers {
    pub(super) fn start(
        runtime: &Runtime,
        count: usize,
        seed: usize,
        operation: impl Operation,
    ) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let operation = Arc::new(operation);
        let tasks = (0..count)
            .map(|id| {
                let random = SplitMix64::new((seed as u64) << 32 | id as u64);
                let task = produce(Arc::clone(&operation), random, Arc::clone(&stop));
                runtime.spawn(task)
            })
            .collect();
        Self { stop, tasks }
    }

    pub(super) fn stop(self, runtime: &Runtime) -> Outcome<Record> {
        self.stop.store(true, Ordering::Relaxed);
        let mut record = Vec::new();
        for task in self.tasks {
            record.append(&mut runtime.block_on(task)?);
        }
        Ok(Record(record))
    }
}

async fn produce(
    operation: Arc<impl Operation>,
    mut random: SplitMix64,
    stop: Arc<AtomicBool>,
) -> Vec<Done> {
    let mut record = Vec::new();
    let mut started = Instant::now();
    while !stop.load(Ordering::Relaxed) {
        let verb = operation.run(&mut random).await;
        let ended = Instant::now();
        record.push(Done {
            verb,
            time: started..ended,
        });
        started = ended;
    }
    record
}

/// Everything that producers did.
pub(super) struct Record(Vec<Done>);

impl Record {
    pub(super) fn appends(&self) -> usize {
        let appends = self.0.iter().filter(|done| done.verb == Verb::Append);
        appends.count()
    }

    /// Operations that ended within the window: of one kind, or of all.
    pub(super) fn within(&self, window: &Window, verb: Option<Verb>) -> Figures {
        let nanos: Vec<u64> = self
            .0
            .iter()
            .filter(|done| verb.is_none_or(|verb| verb == done.verb))
            .filter(|done| window.time.contains(&done.time.end))
            .map(|done| (done.time.end - done.time.start).as_nanos() as u64)
            .collect();
        window.figures(nanos)
    }
}

/// A stretch of time, and the processor time that the process took in it.
pub(super) struct Window {
    pub(super) time: Range<Instant>,
    cpu_seconds: f64,
}

impl Window {
    pub(super) fn over<T>(work: impl FnOnce() -> Outcome<T>) -> Outcome<(T, Self)> {
        let cpu_before = cpu_seconds()?;
        let started = Instant::now();
        let result = work()?;
        let window = Self {
            time: started..Instant::now(),
            cpu_seconds: cpu_seconds()? - cpu_before,
        };
        Ok((result, window))
    }

    pub(super) fn asleep(length: Duration) -> Outcome<Self> {
        let ((), window) = Self::over(|| {
            std::thread::sleep(length);
            Ok(())
        })?;
        Ok(window)
    }

    /// Of operations that took so many nanoseconds, all within the window.
    pub(super) fn figures(&self, nanos: Vec<u64>) -> Figures {
        let count = float(nanos.len());
        Figures {
            ops: count / self.length().as_secs_f64(),
            latency: Latency::of(nanos),
            cpu_micros_per_op: Some(self.cpu_seconds * 1e6 / count.max(1.0)),
            ..Figures::default()
        }
    }

    pub(super) fn length(&self) -> Duration {
        self.time.end - self.time.start
    }
}
