//! Proof that the tests catch what they are there for: bugs are seeded into a
//! copy of the crate, one at a time, and the rung named for each must fail.
//!
//! * `cargo test --test ladder` seeds all of them, about half an hour's work,
//!   and no part of a plain `cargo test`.
//! * `cargo test --test ladder -- --list` names them,
//! * `cargo test --test ladder -- sync salt` seeds those with either in their names.
//!
//! A bug whose text is no longer there exactly once, or that does not compile,
//! fails the run: it would prove nothing any more. So does a rung that fails
//! without a bug.

#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::unwrap_used,
    reason = "the test is a program that edits files and runs cargo"
)]

mod bugs;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use bugs::{BUGS, Bug, Rung};

/// A rung that takes longer hangs, which is a way to fail.
const HANGS: Duration = Duration::from_mins(10);

/// Fewer would not do.
const ENOUGH: usize = 25;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let filters: Vec<_> = arguments.iter().filter(|a| !a.starts_with('-')).collect();
    let wanted = |bug: &&Bug| {
        filters.is_empty()
            || filters
                .iter()
                .any(|filter| bug.name.contains(filter.as_str()))
    };
    let chosen: Vec<_> = BUGS.iter().filter(wanted).collect();
    if arguments.iter().any(|argument| argument == "--list") {
        for bug in &chosen {
            println!("{}: {} ({})", bug.name, bug.rung, bug.file);
        }
        return ExitCode::SUCCESS;
    }
    let copy = Copy::make();
    let mut failures = Vec::new();
    let rungs: BTreeSet<Rung> = chosen.iter().map(|bug| bug.rung).collect();
    for rung in rungs {
        let begun = Instant::now();
        let outcome = copy.climb(rung);
        println!(
            "ladder: {rung}, no bug: {outcome:?} in {:.0?}",
            begun.elapsed()
        );
        if outcome != Outcome::Passed {
            failures.push(format!("{rung} fails without a bug"));
        }
    }
    let mut caught = 0;
    for bug in &chosen {
        let begun = Instant::now();
        match copy.seed(bug) {
            Ok(Outcome::Failed | Outcome::Hung) => {
                caught += 1;
                println!(
                    "ladder: {}: caught by {} in {:.0?}",
                    bug.name,
                    bug.rung,
                    begun.elapsed()
                );
            }
            Ok(other) => {
                println!("ladder: {}: MISSED by {}: {other:?}", bug.name, bug.rung);
                failures.push(format!("{}: {other:?} ({})", bug.name, bug.rung));
            }
            Err(reason) => {
                println!("ladder: {}: {reason}", bug.name);
                failures.push(format!("{}: {reason}", bug.name));
            }
        }
    }
    println!("ladder: {caught} of {} seeded bugs caught", chosen.len());
    if filters.is_empty() && chosen.len() < ENOUGH {
        failures.push(format!("{} bugs, and {ENOUGH} are due", chosen.len()));
    }
    for failure in &failures {
        println!("ladder: FAILED: {failure}");
    }
    ExitCode::from(u8::from(!failures.is_empty()))
}

/// How a rung ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Passed,
    Failed,
    Hung,
    DoesNotCompile,
}

/// A copy of the crate with a target directory of its own, kept for the next
/// run.
struct Copy {
    root: PathBuf,
}

impl Copy {
    fn make() -> Self {
        let root = Path::new(env!("CARGO_TARGET_TMPDIR")).join("ladder");
        let from = Path::new(env!("CARGO_MANIFEST_DIR"));
        // The members are built by no rung, and named by the manifest.
        let members = ["sessionlog-cli", "sessionlog-postgres", "sessionlog-viewer"];
        let own = ["src", "tests", "examples", "benches", "loom-tests"];
        for name in own.into_iter().chain(members) {
            mirror(&from.join(name), &root.join(name));
        }
        for name in ["Cargo.toml", "Cargo.lock"] {
            write_if_changed(&root.join(name), &fs::read(from.join(name)).unwrap());
        }
        Self { root }
    }

    /// Runs the bug's rung on the copy with the bug in it.
    fn seed(&self, bug: &Bug) -> Result<Outcome, String> {
        let path = self.root.join(bug.file);
        let sound = fs::read_to_string(&path).map_err(|e| format!("{}: {e}", bug.file))?;
        let found = sound.matches(bug.original).count();
        if found != 1 {
            return Err(format!("its text stands {found} times in {}", bug.file));
        }
        fs::write(&path, sound.replacen(bug.original, bug.replacement, 1)).unwrap();
        let outcome = self.climb(bug.rung);
        fs::write(&path, sound).unwrap();
        Ok(outcome)
    }

    fn climb(&self, rung: Rung) -> Outcome {
        let mut build = self.cargo();
        build.args(rung.target).arg("--no-run");
        if !build.status().unwrap().success() {
            return Outcome::DoesNotCompile;
        }
        let mut run = self.cargo();
        run.args(rung.target).args(["--", rung.filter]);
        let mut child = run.spawn().unwrap();
        let begun = Instant::now();
        loop {
            match child.try_wait().unwrap() {
                Some(status) if status.success() => return Outcome::Passed,
                Some(_) => return Outcome::Failed,
                None if begun.elapsed() > HANGS => {
                    child.kill().unwrap();
                    child.wait().unwrap();
                    return Outcome::Hung;
                }
                None => std::thread::sleep(Duration::from_millis(50)),
            }
        }
    }

    fn cargo(&self) -> Command {
        let mut cargo = Command::new(env!("CARGO"));
        cargo
            .current_dir(&self.root)
            .args(["test", "--quiet"])
            .env("CARGO_TARGET_DIR", self.root.join("target"))
            // Built once for each bug: building is most of the work.
            .env("CARGO_INCREMENTAL", "1")
            .env("CARGO_PROFILE_TEST_DEBUG", "0")
            .env("CARGO_PROFILE_TEST_OPT_LEVEL", "1")
            .env("RUSTFLAGS", "--cap-lints allow")
            .env_remove("SESSIONLOG_SEED")
            .env_remove("SESSIONLOG_LONG")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        cargo
    }
}

/// Makes `to` hold what `from` holds, touching only what differs.
fn mirror(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    let mut names = BTreeSet::new();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        names.insert(entry.file_name());
        let copy = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            mirror(&entry.path(), &copy);
        } else {
            write_if_changed(&copy, &fs::read(entry.path()).unwrap());
        }
    }
    for entry in fs::read_dir(to).unwrap() {
        let entry = entry.unwrap();
        if names.contains(&entry.file_name()) {
            continue;
        }
        if entry.file_type().unwrap().is_dir() {
            fs::remove_dir_all(entry.path()).unwrap();
        } else {
            fs::remove_file(entry.path()).unwrap();
        }
    }
}

fn write_if_changed(path: &Path, bytes: &[u8]) {
    if fs::read(path).ok().as_deref() != Some(bytes) {
        fs::write(path, bytes).unwrap();
    }
}
