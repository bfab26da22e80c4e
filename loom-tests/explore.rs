//! Runs models, each to exhaustion, and refuses to call anything less a pass.

use std::num::NonZero;
use std::process::{Command, ExitCode, Stdio};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// A longer path than this is a loop that makes no progress.
const MAX_BRANCHES: usize = 10_000;

/// Bytes of stack for the model's own thread. loom's 32 KiB are almost used up by a store
/// that is recovered and the panic that says what it lost. If they overflow, a fault that
/// was found cannot be told from a model that is broken.
const STACK: usize = 1 << 20;

/// What a model ends with that found nothing wrong and explored too little.
const TOO_FEW: u8 = 3;

/// A protocol to explore.
#[derive(Clone, Copy)]
pub(crate) struct Model {
    /// What it is called on the command line.
    pub(crate) name: &'static str,
    /// Every schedule with at most so many preemptions is explored. Lost wake-ups need
    /// one; what ends in seconds goes beyond two.
    pub(crate) bound: usize,
    /// Fewer executions than this at the bound or above mean that the model has stopped
    /// exploring what it was written for.
    pub(crate) at_least: u64,
    /// One execution. Several are explored one after the other.
    pub(crate) runs: &'static [fn()],
}

/// A model with fewer executions than this ends within seconds.
const QUICK: u64 = 8_000;

/// Runs the one model that is named in full here, others in child processes: those that
/// `--quick` and the beginnings of names select, or all.
pub(crate) fn main(models: &[Model]) -> ExitCode {
    let arguments: Vec<_> = std::env::args()
        .skip(1)
        .filter(|argument| argument != "--")
        .collect();
    let Ok(bound) = bound() else {
        return ExitCode::from(2);
    };
    if let [name] = arguments.as_slice()
        && let Some(model) = models.iter().find(|model| model.name == name)
    {
        return explore_one(model, bound);
    }
    for name in &arguments {
        let is_known = |model: &Model| model.name.starts_with(name.as_str());
        if name != "--quick" && !models.iter().any(is_known) {
            return refuse(models, &format!("the name of no model begins with {name}"));
        }
    }
    let is_chosen = |model: &Model| {
        arguments.iter().any(|name| match name.as_str() {
            "--quick" => model.at_least < QUICK,
            name => model.name.starts_with(name),
        })
    };
    let mut chosen = models.to_vec();
    chosen.retain(|model| arguments.is_empty() || is_chosen(model));
    explore_all(&chosen, bound)
}

/// What `LOOM_MAX_PREEMPTIONS` says in the place of every model's own bound.
fn bound() -> Result<Option<usize>, std::num::ParseIntError> {
    let Ok(text) = std::env::var("LOOM_MAX_PREEMPTIONS") else {
        return Ok(None);
    };
    let parsed = text.parse().map(Some);
    parsed.inspect_err(|error| eprintln!("LOOM_MAX_PREEMPTIONS={text}: {error}"))
}

fn refuse(models: &[Model], why: &str) -> ExitCode {
    eprintln!("{why}; the models are:");
    for model in models {
        eprintln!("  {}", model.name);
    }
    ExitCode::from(2)
}

fn explore_one(model: &Model, bound: Option<usize>) -> ExitCode {
    static EXECUTIONS: AtomicU64 = AtomicU64::new(0);

    let bound = bound.unwrap_or(model.bound);
    let mut executions = 0;
    for (number, &run) in model.runs.iter().enumerate() {
        explorer(bound).check(move || {
            EXECUTIONS.fetch_add(1, Ordering::Relaxed);
            stacker::grow(STACK, run);
        });
        let before = std::mem::replace(&mut executions, EXECUTIONS.load(Ordering::Relaxed));
        if bound >= model.bound && executions == before + 1 {
            eprintln!("{}, run {number}: nothing in it is concurrent", model.name);
            return ExitCode::from(TOO_FEW);
        }
    }
    println!("{executions}");
    if bound >= model.bound && executions < model.at_least {
        eprintln!("{}: expected at least {}", model.name, model.at_least);
        return ExitCode::from(TOO_FEW);
    }
    ExitCode::SUCCESS
}

/// Without loom's limits on time and permutations, whatever the environment
/// says: past those, loom stops and reports success. `check` returns only when
/// the last execution is done.
fn explorer(bound: usize) -> loom::model::Builder {
    let mut explorer = loom::model::Builder::new();
    explorer.preemption_bound = Some(bound);
    explorer.max_branches = MAX_BRANCHES;
    explorer.max_duration = None;
    explorer.max_permutations = None;
    explorer
}

/// As many models at a time as there are processors: each is one busy thread.
fn explore_all(models: &[Model], bound: Option<usize>) -> ExitCode {
    println!("| model | bound | executions | seconds |");
    println!("|---|---:|---:|---:|");
    let (next, failed) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let explorer = || {
        while let Some(model) = models.get(next.fetch_add(1, Ordering::Relaxed)) {
            if !explored_in_child(model, bound.unwrap_or(model.bound)) {
                failed.fetch_add(1, Ordering::Relaxed);
            }
        }
    };
    let processors = std::thread::available_parallelism().map_or(1, NonZero::get);
    std::thread::scope(|scope| {
        for _ in 0..processors {
            scope.spawn(explorer);
        }
    });
    let failed = failed.into_inner();
    if failed == 0 {
        println!("{} models, all explored to the end", models.len());
        return ExitCode::SUCCESS;
    }
    eprintln!("{failed} of {} models failed", models.len());
    ExitCode::FAILURE
}

fn explored_in_child(model: &Model, bound: usize) -> bool {
    #[expect(clippy::disallowed_types, reason = "times a child, not the engine")]
    let start = std::time::Instant::now();
    let executions = executions_in_child(model, bound);
    println!(
        "| {} | {bound} | {} | {:.1} |",
        model.name,
        executions.as_deref().unwrap_or("FAILED"),
        start.elapsed().as_secs_f64(),
    );
    executions.is_some()
}

/// The count a child printed. A child that ended well without one was cut off.
fn executions_in_child(model: &Model, bound: usize) -> Option<String> {
    let child = Command::new(std::env::current_exe().ok()?)
        .arg(model.name)
        .env("LOOM_MAX_PREEMPTIONS", bound.to_string())
        .stderr(Stdio::inherit())
        .output()
        .ok()?;
    let printed = String::from_utf8(child.stdout).ok()?;
    let executions = printed.lines().last()?.trim();
    let counted = executions.parse::<u64>().is_ok();
    (child.status.success() && counted).then(|| executions.to_owned())
}
