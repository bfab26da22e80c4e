//! Whether compacting a big session disturbs its neighbours.
//!
//! Sixteen producers append to sessions that live on the same shard as a 200 MB
//! session. Every round measures their latency over an idle window, while the
//! big session is truncated to its newest third, and while it is compacted, so
//! that a third of its bytes is really copied. An append that was in flight at
//! any moment of the compaction counts as during it, wherever it began.
//! Filling the session up again between the rounds is not measured.
//!
//! `cargo bench --bench compact_stall -- --mb 200 --rounds 5`
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a bench is a program, not the engine"
)]

mod support;

use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use clap::Parser;
use serde::Serialize;
use sessionlog::{Message, Store, StoreHandle, StoreOptions};
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;

use support::Outcome;
use support::load::SplitMix64;
use support::machine::{Machine, raise_open_files};
use support::sample::{Latency, float, median};
use support::scratch::Scratch;

/// Measures append latency on a shard while it compacts a big session.
#[derive(Parser)]
#[expect(clippy::struct_excessive_bools, reason = "command-line switches")]
struct Settings {
    /// Size of the big session before it is truncated, in megabytes.
    #[arg(long, default_value_t = 200)]
    mb: usize,
    /// Interleaved rounds.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Length of the idle window.
    #[arg(long, default_value_t = 1.2)]
    seconds: f64,
    /// Producers, each with a session of its own on the big session's shard.
    #[arg(long, default_value_t = 16)]
    producers: usize,
    /// Where the files go. Default: Cargo's temporary directory.
    #[arg(long)]
    dir: Option<PathBuf>,
    /// Prints JSON instead of a table.
    #[arg(long)]
    json: bool,
    /// Leaves the files behind.
    #[arg(long)]
    keep: bool,
    /// Fails where the bar is missed.
    #[arg(long)]
    check: bool,
    /// One short round over 4 MB: shows that it runs, measures nothing.
    #[arg(long)]
    quick: bool,
    /// What Cargo passes to every benchmark.
    #[arg(long, hide = true)]
    bench: bool,
}

const BIG: &str = "stall:big";
const MESSAGE_BYTES: usize = 1000;
const BATCH_BYTES: usize = 256 << 10;

/// The most that compaction may multiply the idle 99th percentile by.
const BAR: f64 = 2.0;

fn main() -> Outcome<()> {
    let settings = Settings::parse().shortened();
    raise_open_files()?;
    let scratch = Scratch::new(settings.dir.as_deref(), "compact-stall", settings.keep)?;
    let machine = Machine::describe(scratch.root());
    let runtime = tokio::runtime::Builder::new_multi_thread().build()?;
    let options = StoreOptions::new().auto_compact(false);
    let store = Store::open_with(scratch.fresh("store")?, options)?;

    let mut big = Big::new(store.handle());
    let mut rounds = Vec::new();
    for round in 0..settings.rounds {
        eprintln!("round {} of {}", round + 1, settings.rounds);
        big.fill(settings.mb << 20)?;
        rounds.push(measure(&settings, &store, &runtime, &mut big)?);
    }
    store.close()?;

    let report = Report::of(machine, settings.describe(), rounds);
    if settings.json {
        println!("{}", serde_json::to_string_pretty(&report)?);
    } else {
        report.print();
    }
    if settings.check && !report.met {
        return Err("the bar was missed".into());
    }
    Ok(())
}

impl Settings {
    fn shortened(mut self) -> Self {
        if self.quick {
            self.mb = 4;
            self.rounds = 1;
            self.seconds = 0.2;
        }
        self
    }

    fn describe(&self) -> String {
        format!(
            "rounds {}, {} MB session, {} producers on its shard, idle window {} s",
            self.rounds, self.mb, self.producers, self.seconds
        )
    }
}

/// The session that is compacted.
struct Big {
    handle: StoreHandle,
    message: Message,
    messages: usize,
}

impl Big {
    fn new(handle: StoreHandle) -> Self {
        let text = support::text(MESSAGE_BYTES, &mut SplitMix64::new(1));
        Self {
            handle,
            message: Message::user(text),
            messages: 0,
        }
    }

    /// Appends until the session holds about `bytes`, and lets the store settle.
    fn fill(&mut self, bytes: usize) -> Outcome<()> {
        let batch = BATCH_BYTES / MESSAGE_BYTES;
        while self.messages * MESSAGE_BYTES < bytes {
            let messages = vec![self.message.clone(); batch];
            self.handle.append_all(BIG, messages).wait()?;
            self.messages += batch;
        }
        self.handle.flush().wait()?;
        Ok(())
    }

    /// Skips all but the newest third.
    fn truncate(&mut self) -> Outcome<()> {
        self.messages /= 3;
        self.handle.truncate_history(BIG, self.messages).wait()?;
        Ok(())
    }

    /// Drops what is skipped, and makes sure that it happened.
    fn compact(&self) -> Outcome<()> {
        let before = self.handle.stats().compactions;
        self.handle.compact(BIG).wait()?;
        let meta = self.handle.session_meta(BIG).wait()?;
        if self.handle.stats().compactions == before || meta.skip != 0 {
            return Err("the compaction replied without compacting".into());
        }
        Ok(())
    }
}

/// Runs the producers through one idle window, a truncation and a compaction.
fn measure(settings: &Settings, store: &Store, runtime: &Runtime, big: &mut Big) -> Outcome<Round> {
    let neighbours = Neighbours::start(settings.producers, store, runtime);
    std::thread::sleep(Duration::from_millis(200));
    let idle = timed(|| {
        std::thread::sleep(Duration::from_secs_f64(settings.seconds));
        Ok(())
    })?;
    let truncation = timed(|| big.truncate())?;
    let compaction = timed(|| big.compact())?;
    let appends = neighbours.stop(runtime)?;
    Ok(Round {
        idle: Window::undisturbed(&appends, idle),
        truncation: Window::touched(&appends, truncation),
        compaction: Window::touched(&appends, compaction),
    })
}

fn timed(work: impl FnOnce() -> Outcome<()>) -> Outcome<Range<Instant>> {
    let started = Instant::now();
    work()?;
    Ok(started..Instant::now())
}

/// The producers on the big session's shard.
struct Neighbours {
    stop: Arc<AtomicBool>,
    producers: Vec<JoinHandle<Vec<Range<Instant>>>>,
}

impl Neighbours {
    fn start(count: usize, store: &Store, runtime: &Runtime) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let text: Arc<str> = support::texts(1).remove(0).into();
        let producers = (0..)
            .map(|n| format!("stall:{n}"))
            .filter(|key| support::shard_of(key) == support::shard_of(BIG))
            .take(count)
            .map(|key| {
                let producer = produce(store.handle(), key, Arc::clone(&text), Arc::clone(&stop));
                runtime.spawn(producer)
            })
            .collect();
        Self { stop, producers }
    }

    /// Every append of every producer, from its call to its reply.
    fn stop(self, runtime: &Runtime) -> Outcome<Vec<Range<Instant>>> {
        self.stop.store(true, Ordering::Relaxed);
        let mut appends = Vec::new();
        for producer in self.producers {
            appends.append(&mut runtime.block_on(producer)?);
        }
        Ok(appends)
    }
}

async fn produce(
    handle: StoreHandle,
    key: String,
    text: Arc<str>,
    stop: Arc<AtomicBool>,
) -> Vec<Range<Instant>> {
    let mut appends = Vec::new();
    let mut started = Instant::now();
    while !stop.load(Ordering::Relaxed) {
        handle
            .add_message(&key, "user", &text)
            .await
            .expect("the append is acknowledged");
        let ended = Instant::now();
        appends.push(started..ended);
        started = ended;
    }
    appends
}

/// What the producers saw of a stretch of time.
#[derive(Clone, Copy, Serialize)]
struct Window {
    seconds: f64,
    ops: f64,
    latency: Latency,
}

impl Window {
    /// The appends that ended within it: one that goes on after it may be
    /// waiting for what came next.
    fn undisturbed(appends: &[Range<Instant>], window: Range<Instant>) -> Self {
        let within = appends.iter().filter(|append| window.contains(&append.end));
        Self::of(within, window.end - window.start)
    }

    /// The appends that were in flight at any moment of it.
    fn touched(appends: &[Range<Instant>], window: Range<Instant>) -> Self {
        let within = appends
            .iter()
            .filter(|append| append.start < window.end && append.end > window.start);
        Self::of(within, window.end - window.start)
    }

    fn of<'a>(appends: impl Iterator<Item = &'a Range<Instant>>, length: Duration) -> Self {
        let nanos: Vec<u64> = appends
            .map(|append| (append.end - append.start).as_nanos() as u64)
            .collect();
        let seconds = length.as_secs_f64();
        Self {
            seconds,
            ops: float(nanos.len()) / seconds,
            latency: Latency::of(nanos),
        }
    }

    fn median_of(windows: &[Self]) -> Self {
        let latencies: Vec<_> = windows.iter().map(|window| window.latency).collect();
        Self {
            seconds: median(windows.iter().map(|window| window.seconds)),
            ops: median(windows.iter().map(|window| window.ops)),
            latency: Latency::median_of(&latencies),
        }
    }

    fn print(&self, name: &str) {
        let latency = self.latency;
        println!(
            "{name:<10} {:>8.2} {:>9.0} {:>8} {:>8.2} {:>8.2} {:>8.2}",
            self.seconds, self.ops, latency.count, latency.p50_ms, latency.p99_ms, latency.max_ms
        );
    }
}

#[derive(Clone, Copy, Serialize)]
struct Round {
    idle: Window,
    truncation: Window,
    compaction: Window,
}

/// Medians over the rounds.
#[derive(Serialize)]
struct Report {
    machine: Machine,
    settings: String,
    idle: Window,
    truncation: Window,
    compaction: Window,
    /// The median of the rounds' ratios of p99 during compaction to idle.
    p99_ratio: f64,
    p99_ratios: Vec<f64>,
    bar: f64,
    met: bool,
    rounds: Vec<Round>,
}

impl Report {
    fn of(machine: Machine, settings: String, rounds: Vec<Round>) -> Self {
        let windows = |pick: fn(&Round) -> Window| {
            Window::median_of(&rounds.iter().map(pick).collect::<Vec<_>>())
        };
        let p99_ratios: Vec<f64> = rounds
            .iter()
            .map(|round| round.compaction.latency.p99_ms / round.idle.latency.p99_ms)
            .collect();
        let p99_ratio = median(p99_ratios.iter().copied());
        Self {
            machine,
            settings,
            idle: windows(|round| round.idle),
            truncation: windows(|round| round.truncation),
            compaction: windows(|round| round.compaction),
            p99_ratio,
            p99_ratios,
            bar: BAR,
            met: p99_ratio <= BAR,
            rounds,
        }
    }

    fn print(&self) {
        println!("{}settings     {}\n", self.machine, self.settings);
        println!("window      seconds     ops/s  appends   p50 ms   p99 ms   max ms");
        self.idle.print("idle");
        self.truncation.print("truncation");
        self.compaction.print("compaction");
        let verdict = if self.met { "met" } else { "MISSED" };
        println!(
            "p99 during compaction / idle: {:.2} (rounds {:.2?}), bar {:.1} {verdict}",
            self.p99_ratio, self.p99_ratios, self.bar
        );
    }
}
