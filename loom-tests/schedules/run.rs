//! Runs seeds, in as many processes as there are processors.

use std::num::NonZero;
use std::process::{Child, Command, ExitCode};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use shuttle::{Config, FailurePersistence, MaxSteps, Runner};

use crate::order::Order;
use crate::play::play;

/// Seeds that CI runs.
const SEEDS: u64 = 30_000;

/// More steps than this are a loop that makes no progress.
const MAX_STEPS: usize = 2_000_000;

pub(crate) fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args()
        .skip(1)
        .filter(|argument| argument != "--")
        .collect();
    let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
    let number = |text: &str| text.parse::<u64>().ok();
    let run = match *arguments {
        [] => Some(all(SEEDS)),
        ["--seed", seed] => number(seed).map(|seed| some(seed, seed)),
        ["--range", from, to] => number(from)
            .zip(number(to))
            .map(|(from, to)| some(from, to)),
        [seeds] => number(seeds).map(all),
        _ => None,
    };
    run.unwrap_or_else(|| {
        eprintln!("schedules [NUMBER | --seed SEED | --range FIRST LAST]");
        ExitCode::from(2)
    })
}

/// Seeds 1 to `seeds`, shared out.
fn all(seeds: u64) -> ExitCode {
    let processors = std::thread::available_parallelism().map_or(1, NonZero::get) as u64;
    let first = |part: u64| 1 + seeds * part / processors;
    let children: Vec<_> = (0..processors)
        .map(|part| child(first(part), first(part + 1) - 1))
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

fn child(first: u64, last: u64) -> std::io::Result<Child> {
    Command::new(std::env::current_exe()?)
        .args(["--range", &first.to_string(), &last.to_string()])
        .spawn()
}

/// In this process, which a schedule that goes wrong ends.
fn some(first: u64, last: u64) -> ExitCode {
    static SEED: AtomicU64 = AtomicU64::new(0);

    // Also of a panic that aborts the process.
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        let seed = SEED.load(Ordering::Relaxed);
        eprintln!("seed {seed} failed; cargo schedules --seed {seed}");
        usual(panic);
    }));
    let steps = Arc::new(AtomicU64::new(0));
    for seed in first..=last {
        SEED.store(seed, Ordering::Relaxed);
        Runner::new(Order::new(seed, steps.clone()), config()).run(move || play(seed));
    }
    let steps = steps.load(Ordering::Relaxed);
    println!("seeds {first} to {last}: {steps} steps");
    ExitCode::SUCCESS
}

fn config() -> Config {
    let mut config = Config::new();
    // The engine is not sparing with its stack.
    config.stack_size = 1 << 20;
    config.failure_persistence = FailurePersistence::None;
    config.max_steps = MaxSteps::FailAfter(MAX_STEPS);
    config.silence_warnings = true;
    config
}
