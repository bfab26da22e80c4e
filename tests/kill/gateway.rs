//! The gateway as a program: built, run, killed.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

/// Nothing the gateway is asked here takes nearly as long; a run that does hangs.
const HANGS: Duration = Duration::from_mins(5);

const SIGKILL: i32 = 9;

/// The example's executable.
pub(crate) struct Gateway {
    program: PathBuf,
    /// Where it complains.
    stderr: PathBuf,
}

/// How a run ended.
pub(crate) struct Ended {
    status: ExitStatus,
    pub(crate) stdout: String,
    pub(crate) took: Duration,
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
        let ended = self.kill_after(HANGS, arguments)?;
        if ended.killed() {
            return Err(io::Error::other(format!(
                "the gateway did not end within {HANGS:?}"
            )));
        }
        Ok(ended)
    }

    /// Kills it with `SIGKILL` after `delay`, unless it has ended by then.
    pub(crate) fn kill_after<A: AsRef<OsStr>>(
        &self,
        delay: Duration,
        arguments: &[A],
    ) -> io::Result<Ended> {
        let begun = Instant::now();
        let mut child = Command::new(&self.program)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(File::create(&self.stderr)?)
            .spawn()?;
        let said = listen(&mut child);
        let in_time = said.recv_timeout(delay.saturating_sub(begun.elapsed()));
        let took = begun.elapsed();
        let stdout = match in_time {
            Ok(stdout) => stdout,
            Err(_) => {
                child.kill()?;
                said.recv().map_err(io::Error::other)?
            }
        };
        Ok(Ended {
            status: child.wait()?,
            stdout,
            took,
        })
    }

    /// What the last run complained about.
    pub(crate) fn complaints(&self) -> String {
        std::fs::read_to_string(&self.stderr).unwrap_or_default()
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

/// Sends all that the child says once it has said everything, which is when it
/// ends.
fn listen(child: &mut Child) -> mpsc::Receiver<String> {
    let (send, receive) = mpsc::channel();
    let stdout = child.stdout.take();
    thread::spawn(move || {
        let mut said = Vec::new();
        if let Some(mut stdout) = stdout {
            // A pipe that breaks has said everything, too.
            let _ = stdout.read_to_end(&mut said);
        }
        let _ = send.send(String::from_utf8_lossy(&said).into_owned());
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
