//! The gateway as a program: built, run, killed.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

/// Nothing the gateway is asked here takes nearly as long; a run that does hangs.
const HANGS: Duration = Duration::from_mins(5);

const SIGKILL: i32 = 9;

/// What the gateway reports between its last command and the closing of the
/// store.
const WORK_DONE: &str = "throughput";

/// The example's executable.
pub(crate) struct Gateway {
    program: PathBuf,
    /// Where it complains.
    stderr: PathBuf,
}

/// When to kill.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Moment {
    /// So long after the start.
    Started(Duration),
    /// So long after the last command was answered and the store flushed.
    Worked(Duration),
}

/// How a run ended.
pub(crate) struct Ended {
    status: ExitStatus,
    pub(crate) stdout: String,
    pub(crate) took: Duration,
    /// The part of it behind the last command.
    pub(crate) closing: Option<Duration>,
}

impl Gateway {
    /// Builds the example, which `cargo test --test kill` alone does not: an
    /// executable that happens to lie there may be older than the engine.
    pub(crate) fn build(profile: &str, stderr: PathBuf) -> io::Result<Self> {
        let test = std::env::current_exe()?;
        let target = test.ancestors().nth(3).unwrap_or(Path::new("target"));
        let built = Command::new(env!("CARGO"))
            .args(["build", "--quiet", "--example", "bot_gateway"])
            .args(["--message-format", "json-render-diagnostics"])
            .args(["--profile", profile, "--target-dir"])
            .arg(target)
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .stderr(Stdio::inherit())
            .output()?;
        let program = String::from_utf8_lossy(&built.stdout)
            .lines()
            .find_map(executable)
            .filter(|_| built.status.success())
            .ok_or_else(|| io::Error::other("cargo did not build the example bot_gateway"))?;
        Ok(Self { program, stderr })
    }

    /// Runs it to its end.
    pub(crate) fn run<A: AsRef<OsStr>>(&self, arguments: &[A]) -> io::Result<Ended> {
        let ended = self.kill(Moment::Started(HANGS), arguments)?;
        if ended.killed() {
            return Err(io::Error::other(format!(
                "the gateway did not end within {HANGS:?}"
            )));
        }
        Ok(ended)
    }

    /// Kills it with `SIGKILL`, unless it ends before.
    pub(crate) fn kill<A: AsRef<OsStr>>(
        &self,
        moment: Moment,
        arguments: &[A],
    ) -> io::Result<Ended> {
        let begun = Instant::now();
        let mut child = Command::new(&self.program)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(File::create(&self.stderr)?)
            .spawn()?;
        let lines = listen(&mut child);
        let mut stdout = String::new();
        let mut deadline = moment.deadline(begun);
        let mut worked = None;
        let took = loop {
            match lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(line) => {
                    if line.contains(WORK_DONE) {
                        worked = Some(begun.elapsed());
                        deadline = moment.deadline_once_worked(deadline);
                    }
                    stdout.push_str(&line);
                }
                Err(RecvTimeoutError::Timeout) => {
                    let took = begun.elapsed();
                    child.kill()?;
                    stdout.extend(lines);
                    break took;
                }
                Err(RecvTimeoutError::Disconnected) => break begun.elapsed(),
            }
        };
        Ok(Ended {
            status: child.wait()?,
            stdout,
            took,
            closing: worked.map(|worked| took.saturating_sub(worked)),
        })
    }

    /// What the last run complained about.
    pub(crate) fn complaints(&self) -> String {
        std::fs::read_to_string(&self.stderr).unwrap_or_default()
    }
}

impl Moment {
    fn deadline(self, begun: Instant) -> Instant {
        match self {
            Self::Started(delay) => begun + delay,
            Self::Worked(_) => begun + HANGS,
        }
    }

    fn deadline_once_worked(self, deadline: Instant) -> Instant {
        match self {
            Self::Started(_) => deadline,
            Self::Worked(delay) => Instant::now() + delay,
        }
    }
}

impl Ended {
    pub(crate) fn killed(&self) -> bool {
        self.status.signal() == Some(SIGKILL)
    }

    pub(crate) fn succeeded(&self) -> bool {
        self.status.success()
    }
}

/// Sends the lines of the child's standard output, until it ends.
fn listen(child: &mut Child) -> mpsc::Receiver<String> {
    let (send, receive) = mpsc::channel();
    let stdout = child.stdout.take();
    thread::spawn(move || {
        let mut lines = stdout.map(BufReader::new);
        let mut line = String::new();
        while let Some(lines) = &mut lines
            && lines.read_line(&mut line).is_ok_and(|read| read > 0)
        {
            if send.send(std::mem::take(&mut line)).is_err() {
                break;
            }
        }
    });
    receive
}

/// The executable in one of cargo's messages.
fn executable(message: &str) -> Option<PathBuf> {
    let message: serde_json::Value = serde_json::from_str(message).ok()?;
    let is_gateway = message["target"]["name"] == "bot_gateway";
    let path = message["executable"].as_str()?;
    is_gateway.then(|| path.into())
}
