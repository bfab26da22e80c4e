//! Runs seeds, in as many processes as there are processors.

use std::num::NonZero;
use std::process::{Child, Command, ExitCode};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use shuttle::{Config, FailurePersistence, MaxSteps, Runner};

use crate::order::Order;
use crate::play::play;

/// Seeds that CI runs.
const SEEDS: u64 = 50_000;

/// More steps than this are a loop that makes no progress.
const MAX_STEPS: usize = 2_000_000;

pub(crate) fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args()
        .skip(1)
        .filter(|argument| argument != "--")
        .collect();
    let numbers: Option<Vec<u64>> = arguments
        .iter()
        .filter(|argument| !argument.starts_with("--"))
        .map(|argument| argument.parse().ok())
        .collect();
    let option = arguments.first().map(String::as_str);
    match (option, numbers.as_deref()) {
        (None, _) => all(SEEDS),
        (Some("--seed"), Some([seed])) => some(*seed, *seed + 1),
        (Some("--range"), Some([from, to])) => some(*from, *to),
        (Some(_), Some([seeds])) => all(*seeds),
        _ => {
            eprintln!("schedules [NUMBER | --seed SEED | --range FROM TO]");
            ExitCode::from(2)
        }
    }
}

/// Seeds 1 to `seeds`, shared out.
fn all(seeds: u64) -> ExitCode {
    let processors = std::thread::available_parallelism().map_or(1, NonZero::get) as u64;
    let bounds = |part: u64| 1 + seeds * part / processors;
    let children: Vec<_> = (0..processors)
        .map(|part| child(bounds(part), bounds(part + 1)))
        .collect();
    let ended = children.into_iter().map(|child| {
        let status = child.and_then(|mut child| child.wait());
        status.is_ok_and(|status| status.success())
    });
    if ended.filter(|well| !well).count() == 0 {
        println!("{seeds} random schedules, nothing wrong");
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

fn child(from: u64, to: u64) -> std::io::Result<Child> {
    Command::new(std::env::current_exe()?)
        .args(["--range", &from.to_string(), &to.to_string()])
        .spawn()
}

/// In this process. A schedule that goes wrong ends it, and its seed is the last named.
fn some(from: u64, to: u64) -> ExitCode {
    let steps = Arc::new(AtomicU64::new(0));
    for seed in from..to {
        let named = Named(seed);
        Runner::new(Order::new(seed, steps.clone()), config()).run(move || play(seed));
        std::mem::forget(named);
    }
    println!(
        "seeds {from} to {}: {} steps",
        to - 1,
        steps.load(Ordering::Relaxed)
    );
    ExitCode::SUCCESS
}

fn config() -> Config {
    let mut config = Config::new();
    // Debug builds of the engine are not sparing with their stack.
    config.stack_size = 1 << 20;
    config.failure_persistence = FailurePersistence::None;
    config.max_steps = MaxSteps::FailAfter(MAX_STEPS);
    config.silence_warnings = true;
    config
}

/// Names the seed of a run that unwinds.
struct Named(u64);

impl Drop for Named {
    fn drop(&mut self) {
        let seed = self.0;
        eprintln!("seed {seed} failed; cargo schedules --seed {seed}");
    }
}
