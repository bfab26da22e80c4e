//! The closed loop: producers that each wait for one append before the next.

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::runtime::Runtime;

use super::sample::{Latency, float};
use super::{Outcome, machine};

/// Steele, Lea and Flood's generator: one multiplication chain per number, so
/// that choosing a session costs the producer nothing measurable.
pub(crate) struct SplitMix64(u64);

impl SplitMix64 {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number in `0..bound`, uniform up to the bias of a 64-bit remainder.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }
}

/// Something that makes one message durable.
pub(crate) trait Appender: Send + Sync + 'static {
    /// Appends text number `text` to session number `session` and returns once
    /// it is durable.
    fn append(&self, session: usize, text: usize) -> impl Future<Output = ()> + Send;
}

/// What every producer runs over.
#[derive(Clone, Copy)]
pub(crate) struct Load {
    /// Concurrent producers, one task each.
    pub(crate) producers: usize,
    /// Sessions to choose from, uniformly.
    pub(crate) sessions: usize,
    /// Texts to choose from, in turn.
    pub(crate) texts: usize,
    /// Runs before anything counts.
    pub(crate) warm_up: Duration,
    /// The measured window.
    pub(crate) window: Duration,
    /// Seed of the choices; equal seeds choose equally.
    pub(crate) seed: u64,
}

/// What one window measured.
#[derive(Clone, Copy, Debug, serde::Serialize)]
pub(crate) struct Cell {
    /// Appends acknowledged within the window, per second.
    pub(crate) ops: f64,
    /// Of those appends.
    pub(crate) latency: Latency,
    /// CPU seconds of the whole process, producers included, per million
    /// appends.
    pub(crate) cpu_per_million: f64,
    /// Every append that was acknowledged, warm-up and stragglers included.
    pub(crate) acknowledged: usize,
}

/// Runs the load against an appender and measures the window.
pub(crate) fn run(runtime: &Runtime, appender: &Arc<impl Appender>, load: Load) -> Outcome<Cell> {
    let opens = Instant::now() + load.warm_up;
    let closes = opens + load.window;
    let producers: Vec<_> = (0..load.producers as u64)
        .map(|id| {
            let appender = Arc::clone(appender);
            runtime.spawn(produce(appender, load, id, opens..closes))
        })
        .collect();
    sleep_until(opens);
    let cpu_before = machine::cpu_seconds()?;
    sleep_until(closes);
    let cpu = machine::cpu_seconds()? - cpu_before;

    let mut nanos = Vec::new();
    let mut acknowledged = 0;
    for producer in producers {
        let (mut counted, all) = runtime.block_on(producer)?;
        nanos.append(&mut counted);
        acknowledged += all;
    }
    let counted = float(nanos.len());
    Ok(Cell {
        ops: counted / load.window.as_secs_f64(),
        latency: Latency::of(nanos),
        cpu_per_million: cpu / counted.max(1.0) * 1e6,
        acknowledged,
    })
}

/// One producer: latencies of the appends that ended within the window, and
/// the number of all of them.
async fn produce(
    appender: Arc<impl Appender>,
    load: Load,
    id: u64,
    window: std::ops::Range<Instant>,
) -> (Vec<u64>, usize) {
    let mut random = SplitMix64::new(load.seed ^ id.wrapping_mul(0x5851_f42d_4c95_7f2d));
    let mut nanos = Vec::with_capacity(4096);
    let mut acknowledged = 0;
    let mut started = Instant::now();
    while started < window.end {
        let session = random.below(load.sessions);
        appender.append(session, acknowledged % load.texts).await;
        acknowledged += 1;
        let ended = Instant::now();
        if window.contains(&ended) {
            nanos.push((ended - started).as_nanos() as u64);
        }
        started = ended;
    }
    (nanos, acknowledged)
}

fn sleep_until(instant: Instant) {
    std::thread::sleep(instant.saturating_duration_since(Instant::now()));
}
