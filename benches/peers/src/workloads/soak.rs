//! W8: everything at once for as long as is asked, a line a minute.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use super::histogram::Histogram;
use super::{Figures, Stage, Task, close, with};
use crate::contender::{Contender, Kind};
use crate::meter::{descriptors, disk_mb, resident_mb};
use crate::options::Options;
use crate::rounds::{Played, Rounds, Turn};
use crate::support::Outcome;
use crate::support::bare::Until;
use crate::support::load::SplitMix64;
use crate::support::sample::float;

const TASKS: usize = 64;
const TAIL: usize = 50;
const TAILS_PERCENT: usize = 50;

const SESSIONS: usize = 1000;
const MESSAGES: usize = 100;

/// Sessions are cut back to [`MESSAGES`] so many at a time, and after each pass
/// over all of them their space is reclaimed.
const TRUNCATED_AT_ONCE: usize = 50;
const PAUSE: Duration = Duration::from_millis(100);

pub(crate) struct Soak {
    kind: Kind,
    minutes: usize,
    minute: Duration,
}

impl Soak {
    /// One contender: the one that is named, else sessionlog.
    pub(crate) fn of(options: &Options) -> Self {
        let kind = match options.contenders.as_slice() {
            [kind] => *kind,
            _ => Kind::Sessionlog,
        };
        Self {
            kind,
            minutes: options.minutes,
            minute: options.minute(),
        }
    }

    /// All its minutes are in the first round.
    pub(crate) fn play(self, rounds: &Rounds<'_>, round: usize) -> Outcome<Played> {
        let title = format!(
            "{TASKS} tasks, half tails of {TAIL}, half durable appends, beside truncations"
        );
        let mut turns = Vec::new();
        if round == 0 {
            let stage = rounds.stage(self.kind, "w8", round, true)?;
            turns = with(self.kind, Run { soak: self, stage })?;
        }
        Ok(Played {
            workload: "w8",
            title,
            turns,
        })
    }
}

struct Run {
    soak: Soak,
    stage: Stage,
}

impl Task for Run {
    type Output = Vec<Turn>;

    fn run<C: Contender>(self) -> Outcome<Vec<Turn>> {
        let Self { soak, stage } = self;
        let contender: Arc<C> = stage.open(Until::Synced, SESSIONS)?;
        contender.fill(0..SESSIONS, MESSAGES)?;
        let shared = Arc::new(Shared::default());
        let tasks: Vec<_> = (0..TASKS as u64)
            .map(|id| {
                let (contender, shared) = (Arc::clone(&contender), Arc::clone(&shared));
                stage
                    .runtime
                    .spawn(produce(contender, shared, id, stage.texts.count()))
            })
            .collect();
        let truncator = {
            let (contender, shared) = (Arc::clone(&contender), Arc::clone(&shared));
            std::thread::spawn(move || truncate(&*contender, &shared))
        };
        let minutes = (1..=soak.minutes)
            .map(|number| minute(&soak, &stage, &shared, number))
            .collect::<Outcome<Vec<_>>>();
        shared.stop.store(true, Ordering::Relaxed);
        for task in tasks {
            stage.runtime.block_on(task)?;
        }
        truncator.join().map_err(|_| "the truncations panicked")??;
        close(contender)?;
        minutes
    }
}

/// What producers tell the one who writes the lines.
#[derive(Default)]
struct Shared {
    stop: AtomicBool,
    appends: Histogram,
    tails: Histogram,
    truncated: AtomicUsize,
}

async fn produce<C: Contender>(contender: Arc<C>, shared: Arc<Shared>, id: u64, texts: usize) {
    let mut random = SplitMix64::new(id);
    while !shared.stop.load(Ordering::Relaxed) {
        let session = random.below(SESSIONS);
        let started = Instant::now();
        if random.below(100) < TAILS_PERCENT {
            let tail = contender.tail_async(session, TAIL).await;
            tail.expect("the tail reads");
            shared.tails.add(started.elapsed());
        } else {
            contender.append(session, random.below(texts)).await;
            shared.appends.add(started.elapsed());
        }
    }
}

fn truncate<C: Contender>(contender: &C, shared: &Shared) -> Outcome<()> {
    loop {
        for first in (0..SESSIONS).step_by(TRUNCATED_AT_ONCE) {
            if shared.stop.load(Ordering::Relaxed) {
                return Ok(());
            }
            contender.truncate(first..first + TRUNCATED_AT_ONCE, MESSAGES)?;
            shared
                .truncated
                .fetch_add(TRUNCATED_AT_ONCE, Ordering::Relaxed);
            std::thread::sleep(PAUSE);
        }
        contender.reclaim(0..SESSIONS)?;
    }
}

fn minute(soak: &Soak, stage: &Stage, shared: &Shared, number: usize) -> Outcome<Turn> {
    std::thread::sleep(soak.minute);
    let (appends, tails) = (shared.appends.take(), shared.tails.take());
    let truncated = shared.truncated.swap(0, Ordering::Relaxed);
    let seconds = soak.minute.as_secs_f64();
    let figures = Figures {
        ops: float(appends.count + tails.count) / seconds,
        latency: appends,
        more: [
            ("tail p99 ms", tails.p99_ms),
            ("truncations", float(truncated)),
            ("resident MB", resident_mb()?),
            ("descriptors", float(descriptors()?)),
            ("disk MB", disk_mb(&stage.dir)?),
        ]
        .into(),
        ..Figures::default()
    };
    eprintln!("minute {number}: {figures}");
    Ok(Turn {
        workload: "w8",
        cell: format!("minute {number}"),
        round: 0,
        contender: soak.kind,
        figures,
    })
}
