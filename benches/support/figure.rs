//! One operation timed beside its baseline.

use std::hint::black_box;
use std::time::{Duration, Instant};

use serde::Serialize;

use super::Outcome;
use super::sample::median;

/// One operation's median, beside its baseline's.
#[derive(Serialize)]
pub(crate) struct Figure {
    name: String,
    micros: f64,
    runs: usize,
    baseline: Option<&'static str>,
    baseline_micros: Option<f64>,
}

type Work = fn() -> Outcome<()>;

/// For what a program without the store has no counterpart to.
pub(crate) const NO_BASELINE: Option<(&str, Work)> = None;

/// At least this many runs of each side, whatever they take.
const LEAST_RUNS: usize = 3;

/// Runs both sides in turns for `budget`, after one run of each to warm up.
pub(crate) fn compare<B: FnMut() -> Outcome<()>>(
    name: &str,
    budget: Duration,
    mut ours: impl FnMut() -> Outcome<()>,
    mut baseline: Option<(&'static str, B)>,
) -> Outcome<Figure> {
    eprintln!("{name}");
    let mut seconds = Vec::new();
    let mut baseline_seconds = Vec::new();
    let started = Instant::now();
    let mut dear = Duration::ZERO;
    while seconds.len() <= LEAST_RUNS || started.elapsed().saturating_sub(dear) < budget {
        seconds.push(timed(&mut ours)?);
        if let Some((_, work)) = &mut baseline
            && (baseline_seconds.len() <= LEAST_RUNS || cheap(&baseline_seconds))
        {
            let taken = timed(work)?;
            baseline_seconds.push(taken);
            if !cheap(&baseline_seconds) {
                dear += Duration::from_secs_f64(taken);
            }
        }
    }
    Ok(Figure {
        name: name.to_owned(),
        micros: micros(&seconds[1..]),
        runs: seconds.len() - 1,
        baseline: baseline.as_ref().map(|(name, _)| *name),
        baseline_micros: baseline.map(|_| micros(&baseline_seconds[1..])),
    })
}

/// A baseline that takes its time is run only as often as it must be, and does
/// not count for the budget, so that this is spent on ours.
fn cheap(seconds: &[f64]) -> bool {
    seconds.last().is_some_and(|last| *last < 0.01)
}

fn timed(work: &mut impl FnMut() -> Outcome<()>) -> Outcome<f64> {
    let started = Instant::now();
    black_box(work()?);
    Ok(started.elapsed().as_secs_f64())
}

fn micros(seconds: &[f64]) -> f64 {
    median(seconds.iter().copied()) * 1e6
}

impl Figure {
    /// The median of runs that were timed elsewhere.
    pub(crate) fn single(name: &str, seconds: &[f64]) -> Self {
        Self {
            name: name.to_owned(),
            micros: micros(seconds),
            runs: seconds.len(),
            baseline: None,
            baseline_micros: None,
        }
    }

    pub(crate) fn print(&self) {
        print!(
            "{:<36} {:>12} {:>8}",
            self.name,
            duration(self.micros),
            self.runs
        );
        if let (Some(name), Some(micros)) = (self.baseline, self.baseline_micros) {
            print!(
                " {:>12} {:>9.1}x  {name}",
                duration(micros),
                micros / self.micros
            );
        }
        println!();
    }
}

fn duration(micros: f64) -> String {
    if micros < 1.0 {
        format!("{:.0} ns", micros * 1_000.0)
    } else if micros < 1_000.0 {
        format!("{micros:.1} us")
    } else {
        format!("{:.2} ms", micros / 1_000.0)
    }
}
