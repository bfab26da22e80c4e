//! The suites: how they are built, run, and what their ends mean.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::fs::{self, File};
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::tree::Tree;

/// No suite takes nearly as long at this depth.
const PATIENCE: Duration = Duration::from_mins(15);

/// `seen by: schedules` stands for so many, and so many in full.
const SCHEDULES: [&str; 2] = ["2000", "50000"];

/// What must fail.
#[derive(Debug, Clone)]
pub(crate) struct Suite {
    /// `unit` (of the crate), `wal`, `core`, `loom`, `schedules`, or a test of the crate.
    program: String,
    filter: String,
    is_full: bool,
}

/// What came of a run.
#[derive(Debug)]
pub(crate) enum Outcome {
    Passed,
    /// By this claim.
    Failed(String),
    /// It says nothing, for this reason.
    Silent(String),
}

/// The programs of suites, built of what the tree holds.
#[derive(Debug)]
pub(crate) struct Programs {
    paths: HashMap<String, PathBuf>,
    work: PathBuf,
}

/// What does not compile.
#[derive(Debug)]
pub(crate) struct Failed {
    pub(crate) output: String,
    /// By file.
    pub(crate) lines: BTreeMap<String, BTreeSet<usize>>,
}

impl Suite {
    pub(crate) fn new(text: &str, is_full: bool) -> Self {
        let (program, filter) = text.split_once(' ').unwrap_or((text, ""));
        Self {
            program: program.to_owned(),
            filter: filter.to_owned(),
            is_full,
        }
    }

    /// Whether it measures the machine, and must run by itself.
    pub(crate) fn is_alone(&self) -> bool {
        ["full_disk", "process", "told"].contains(&self.program.as_str())
    }

    /// `cargo loom` and `cargo schedules` say whether all is well without a fault.
    fn is_explored(&self) -> bool {
        self.program == "loom" || self.program == "schedules"
    }
}

impl fmt::Display for Suite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.program, self.filter)
    }
}

impl Programs {
    /// Builds the programs of these suites. Warnings of a fault say nothing.
    ///
    /// # Errors
    /// With what the compiler said.
    pub(crate) fn build(tree: &Tree, suites: &[&Suite]) -> Result<Self, Failed> {
        let wanted: BTreeSet<_> = suites.iter().map(|suite| suite.program.as_str()).collect();
        let mut tests = vec!["test", "--no-run"];
        let mut explored = vec![
            "build",
            "--profile",
            "loom",
            "--package",
            "sessionlog-loom-tests",
        ];
        let mut is_unit = false;
        for &program in &wanted {
            match program {
                "unit" | "wal" | "core" => is_unit = true,
                "loom" => explored.extend(["--bin", "loom"]),
                "schedules" => {}
                test => tests.extend(["--test", test]),
            }
        }
        if is_unit {
            tests.push("--lib");
        }
        let mut programs = Self {
            paths: HashMap::new(),
            work: tree.work.clone(),
        };
        let is_any = |explored: bool| {
            let mut wanted = suites.iter();
            wanted.any(|suite| suite.is_explored() == explored)
        };
        if is_any(false) {
            let output = cargo(tree, &tests, "target", "['-A','warnings']")?;
            for line in output.lines() {
                programs.note(line);
            }
        }
        if is_any(true) {
            let flags = "['--cfg','sessionlog_loom','-A','warnings']";
            if wanted.contains("loom") {
                cargo(tree, &explored, "loom", flags)?;
            }
            if wanted.contains("schedules") {
                explored.truncate(5);
                explored.extend(["--bin", "schedules", "--features", "shuttle"]);
                cargo(tree, &explored, "loom", flags)?;
            }
            for name in ["loom", "schedules"] {
                let path = tree.work.join("loom/loom").join(name);
                programs.paths.insert(name.to_owned(), path);
            }
        }
        Ok(programs)
    }

    /// Keeps what cargo says of an executable: `Executable tests/kill.rs (TARGET/kill-HASH)`.
    fn note(&mut self, line: &str) {
        let Some(said) = line.trim_start().strip_prefix("Executable ") else {
            return;
        };
        let Some((_, path)) = said.trim_end_matches(')').rsplit_once(" (") else {
            return;
        };
        let file = path.rsplit('/').next().unwrap_or(path);
        let name = match file.rsplit_once('-') {
            Some(("sessionlog", _)) => "unit",
            Some(("sessionlog_wal", _)) => "wal",
            Some(("sessionlog_core", _)) => "core",
            Some((name, _)) => name,
            None => return,
        };
        self.paths.insert(name.to_owned(), path.into());
    }

    /// The suites that do not pass without a fault, and why.
    pub(crate) fn unsound(&self, suites: &[&Suite]) -> HashMap<String, String> {
        let suites: BTreeMap<_, _> = suites
            .iter()
            .filter(|suite| !suite.is_explored())
            .map(|suite| (suite.to_string(), *suite))
            .collect();
        let suites: Vec<_> = suites.into_iter().collect();
        let tried = side_by_side(&suites, |(name, suite)| {
            let suite = Suite {
                is_full: false,
                ..(*suite).clone()
            };
            match self.run(&suite, None) {
                Outcome::Passed => None,
                Outcome::Failed(why) | Outcome::Silent(why) => Some((name.clone(), why)),
            }
        });
        tried.into_iter().collect()
    }

    /// Runs a suite, with a fault.
    pub(crate) fn run(&self, suite: &Suite, fault: Option<usize>) -> Outcome {
        static RUNS: AtomicUsize = AtomicUsize::new(0);
        let Some(path) = self.paths.get(&suite.program) else {
            return Outcome::Silent("was not built".to_owned());
        };
        let said = format!("said-{}", RUNS.fetch_add(1, Ordering::Relaxed));
        let said = self.work.join(said);
        let file = File::create(&said).expect("can be made");
        let mut command = Command::new(path);
        match suite.program.as_str() {
            "schedules" => command.arg(SCHEDULES[usize::from(suite.is_full)]),
            _ => command.arg(&suite.filter),
        };
        command
            .env_remove("SESSIONLOG_LONG")
            .env_remove("SESSIONLOG_FAULT")
            .current_dir(self.work.join("source"))
            .stdin(Stdio::null())
            .stderr(file.try_clone().expect("can be shared"))
            .stdout(file);
        if suite.is_full {
            command.env("SESSIONLOG_LONG", "1");
        }
        if let Some(fault) = fault {
            command.env("SESSIONLOG_FAULT", fault.to_string());
        }
        let code = ended(command);
        let output = String::from_utf8_lossy(&fs::read(&said).expect("can be read")).into_owned();
        let _ = fs::remove_file(said);
        let has_run = suite.is_explored()
            || output.lines().any(|line| {
                let counted = line.strip_prefix("test result: ok. ");
                counted.is_some_and(|counted| !counted.starts_with("0 "))
            });
        match code {
            None => Outcome::Silent("hangs".to_owned()),
            Some(0) if has_run => Outcome::Passed,
            Some(0) => Outcome::Silent("runs no test".to_owned()),
            Some(code) => match claim(&output) {
                Some(claim) => Outcome::Failed(claim),
                None => Outcome::Silent(format!("ends without a claim (exit code {code})")),
            },
        }
    }
}

/// What a run failed by, if that was a claim.
fn claim(output: &str) -> Option<String> {
    if output.contains("overflowed its stack") {
        return None;
    }
    let mut lines = output
        .lines()
        .skip_while(|line| !line.contains("panicked at"));
    lines.next()?;
    Some(lines.next().unwrap_or_default().chars().take(100).collect())
}

/// Runs cargo over the copy, and returns what it said.
fn cargo(tree: &Tree, arguments: &[&str], target: &str, flags: &str) -> Result<String, Failed> {
    let done = Command::new("cargo")
        .args(arguments)
        .args(["--locked", "--color", "never", "--target-dir"])
        .arg(tree.work.join(target))
        .args(["--config", &format!("build.rustflags={flags}")])
        .env("CARGO_INCREMENTAL", "1")
        .env_remove("RUSTFLAGS")
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .env_remove("CARGO_BUILD_RUSTFLAGS")
        .current_dir(&tree.root)
        .output()
        .expect("cargo is there");
    let output = String::from_utf8_lossy(&done.stderr).into_owned();
    if done.status.success() {
        return Ok(output);
    }
    let mut lines = BTreeMap::<_, BTreeSet<_>>::new();
    for line in output.lines() {
        let place = line.trim_start().strip_prefix("--> ");
        if let Some((file, line)) = place.and_then(|place| place.split_once(':'))
            && let Some(line) = line.split(':').next().and_then(|line| line.parse().ok())
        {
            lines.entry(file.to_owned()).or_default().insert(line);
        }
    }
    Err(Failed { output, lines })
}

/// The exit code, or nothing if it took too long. A signal counts as -1.
fn ended(mut command: Command) -> Option<i32> {
    let mut child = command.process_group(0).spawn().expect("can be run");
    let begun = Instant::now();
    loop {
        if let Some(status) = child.try_wait().expect("can be waited for") {
            return Some(status.code().unwrap_or(-1));
        }
        if begun.elapsed() > PATIENCE {
            // With the processes that it began.
            let group = format!("-{}", child.id());
            let _ = Command::new("kill").args(["-KILL", "--", &group]).status();
            let _ = child.wait();
            return None;
        }
        thread::sleep(Duration::from_millis(20));
    }
}

/// Does it for each, as many at a time as there are processors, and returns what came of some.
pub(crate) fn side_by_side<T: Sync, R: Send>(
    items: &[T],
    run: impl Fn(&T) -> Option<R> + Sync,
) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let results = Mutex::new(Vec::new());
    let take = || {
        while let Some(item) = items.get(next.fetch_add(1, Ordering::Relaxed)) {
            if let Some(result) = run(item) {
                results
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .push(result);
            }
        }
    };
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(take);
        }
    });
    results.into_inner().unwrap_or_else(PoisonError::into_inner)
}
