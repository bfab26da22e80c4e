//! Two contenders measured in turns: the bare loop and the store.

use serde::Serialize;

use super::load::Cell;
use super::sample::{float, median};

/// The least share of the bare loop that the store promises, by producers.
const BARS: [(usize, f64); 3] = [(1, 0.7), (64, 0.7), (1024, 0.6)];

/// Everything measured with one number of producers.
pub(crate) struct Contest {
    producers: usize,
    bare: Vec<Turn>,
    ours: Vec<Turn>,
}

/// One contender's turn in one round.
#[derive(Clone, Copy, Serialize)]
pub(crate) struct Turn {
    /// What the window measured.
    pub(crate) cell: Cell,
    /// Group commits of the turn, warm-up included.
    pub(crate) commits: usize,
    /// What flushing took once the window had closed; nothing for the bare
    /// loop, which leaves nothing behind.
    pub(crate) flush_seconds: f64,
}

impl Contest {
    pub(crate) fn new(producers: usize) -> Self {
        Self {
            producers,
            bare: Vec::new(),
            ours: Vec::new(),
        }
    }

    pub(crate) fn producers(&self) -> usize {
        self.producers
    }

    pub(crate) fn record_bare(&mut self, turn: Turn) {
        self.bare.push(turn);
    }

    /// Records our turn; it is compared with the bare turn of the same round.
    pub(crate) fn record_ours(&mut self, turn: Turn) {
        self.ours.push(turn);
    }

    /// Medians over the rounds.
    pub(crate) fn outcome(&self) -> ContestOutcome {
        let pairs = self.ours.iter().zip(&self.bare);
        let ratios: Vec<f64> = pairs
            .map(|(ours, bare)| ours.cell.ops / bare.cell.ops)
            .collect();
        let comparison = (!ratios.is_empty()).then(|| Comparison::of(self.producers, &ratios));
        ContestOutcome {
            producers: self.producers,
            bare: Contender::of(&self.bare),
            ours: comparison.is_some().then(|| Contender::of(&self.ours)),
            comparison,
        }
    }
}

/// What one number of producers came to.
#[derive(Serialize)]
pub(crate) struct ContestOutcome {
    producers: usize,
    bare: Contender,
    ours: Option<Contender>,
    comparison: Option<Comparison>,
}

/// The store's share of the bare loop, taken within each round.
#[derive(Serialize)]
struct Comparison {
    median: f64,
    lowest: f64,
    highest: f64,
    bar: Option<f64>,
}

/// One contender's medians over the rounds.
#[derive(Serialize)]
struct Contender {
    ops: f64,
    p50_ms: f64,
    p99_ms: f64,
    cpu_per_million: f64,
    appends_per_commit: f64,
    flush_seconds: f64,
    rounds: Vec<Turn>,
}

impl ContestOutcome {
    /// Whether this contest has a bar and misses it.
    pub(crate) fn missed(&self) -> bool {
        self.comparison.as_ref().is_some_and(Comparison::missed)
    }

    fn print(&self) {
        self.bare.print(&self.producers.to_string(), "bare");
        println!();
        if let (Some(ours), Some(comparison)) = (&self.ours, &self.comparison) {
            ours.print("", "ours");
            println!(" {:>8.2}  {}", ours.flush_seconds, comparison.describe());
        }
    }
}

/// Prints every contest, two lines each.
pub(crate) fn print_table(outcomes: &[ContestOutcome]) {
    println!(
        "{:>9}  {:<5} {:>9} {:>8} {:>8} {:>8} {:>8} {:>8}  ours / bare",
        "producers", "", "ops/s", "p50 ms", "p99 ms", "CPU s/1M", "/commit", "flush s"
    );
    for outcome in outcomes {
        outcome.print();
    }
}

impl Comparison {
    fn of(producers: usize, ratios: &[f64]) -> Self {
        let bar = BARS.iter().find(|(count, _)| *count == producers);
        Self {
            median: median(ratios.iter().copied()),
            lowest: ratios.iter().copied().fold(f64::INFINITY, f64::min),
            highest: ratios.iter().copied().fold(0.0, f64::max),
            bar: bar.map(|(_, bar)| *bar),
        }
    }

    fn missed(&self) -> bool {
        self.bar.is_some_and(|bar| self.median < bar)
    }

    fn describe(&self) -> String {
        let verdict = if self.missed() { "MISSED" } else { "met" };
        let bar = self
            .bar
            .map_or_else(String::new, |bar| format!(", bar {bar:.2} {verdict}"));
        format!(
            "{:.2} ({:.2}-{:.2}){bar}",
            self.median, self.lowest, self.highest
        )
    }
}

impl Contender {
    fn of(turns: &[Turn]) -> Self {
        let of = |pick: fn(&Turn) -> f64| median(turns.iter().map(pick));
        Self {
            ops: of(|turn| turn.cell.ops),
            p50_ms: of(|turn| turn.cell.latency.p50_ms),
            p99_ms: of(|turn| turn.cell.latency.p99_ms),
            cpu_per_million: of(|turn| turn.cell.cpu_per_million),
            appends_per_commit: of(|turn| {
                float(turn.cell.acknowledged) / float(turn.commits.max(1))
            }),
            flush_seconds: of(|turn| turn.flush_seconds),
            rounds: turns.to_vec(),
        }
    }

    fn print(&self, producers: &str, name: &str) {
        print!(
            "{producers:>9}  {name:<5} {:>9.0} {:>8.2} {:>8.2} {:>8.1} {:>8.1}",
            self.ops, self.p50_ms, self.p99_ms, self.cpu_per_million, self.appends_per_commit
        );
    }
}
