//! What ran the benchmark: without it a number means nothing.

use std::fmt;
use std::path::Path;
use std::process::Command;

use super::Outcome;

/// Clock ticks per second of `/proc/<pid>/stat`: fixed at 100 by the kernel's
/// user interface on every 64-bit target.
const TICKS_PER_SECOND: f64 = 100.0;

/// User and system CPU seconds of this process, all threads, in steps of 10 ms.
pub(crate) fn cpu_seconds() -> Outcome<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    // The command name is in parentheses and may hold spaces; utime and stime
    // are the 12th and 13th fields after it.
    let fields = stat.rsplit(')').next().unwrap_or_default();
    let ticks: f64 = fields
        .split_ascii_whitespace()
        .skip(11)
        .take(2)
        .map(|field| field.parse().unwrap_or(0.0))
        .sum();
    Ok(ticks / TICKS_PER_SECOND)
}

/// Lets the process open as many files as its hard limit allows: thousands of
/// session files stay open during a run.
pub(crate) fn raise_open_files() -> Outcome<()> {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    setrlimit(Resource::Nofile, limit)?;
    Ok(())
}

/// The head of every report.
#[derive(serde::Serialize)]
pub(crate) struct Machine {
    cpus: usize,
    cpu_model: String,
    kernel: String,
    file_system: String,
    rustc: String,
    commit: String,
    date: String,
    load_average: String,
}

impl Machine {
    /// Describes the machine, and the file system that holds `dir`.
    pub(crate) fn describe(dir: &Path) -> Self {
        let rustc = std::env::var("RUSTC").unwrap_or_else(|_| "rustc".into());
        Self {
            cpus: std::thread::available_parallelism().map_or(0, usize::from),
            cpu_model: cpu_model(),
            kernel: first_line("/proc/sys/kernel/osrelease"),
            file_system: file_system(dir),
            rustc: output(&rustc, &["--version"]).replace("rustc ", ""),
            commit: commit(),
            date: date(),
            load_average: first_line("/proc/loadavg"),
        }
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "cpu          {} x {}", self.cpus, self.cpu_model)?;
        writeln!(f, "kernel       {}", self.kernel)?;
        writeln!(f, "file system  {}", self.file_system)?;
        writeln!(f, "rustc        {}", self.rustc)?;
        writeln!(f, "commit       {}", self.commit)?;
        writeln!(f, "date         {}", self.date)?;
        writeln!(f, "load         {}", self.load_average)
    }
}

fn unknown() -> String {
    "unknown".into()
}

fn first_line(path: &str) -> String {
    std::fs::read_to_string(path).map_or_else(|_| unknown(), |text| text.trim().to_owned())
}

fn output(program: &str, arguments: &[&str]) -> String {
    match Command::new(program).args(arguments).output() {
        Ok(output) if output.status.success() => {
            String::from_utf8_lossy(&output.stdout).trim().to_owned()
        }
        _ => unknown(),
    }
}

fn cpu_model() -> String {
    std::fs::read_to_string("/proc/cpuinfo")
        .ok()
        .and_then(|text| {
            let line = text.lines().find(|line| line.starts_with("model name"))?;
            Some(line.split_once(':')?.1.trim().to_owned())
        })
        .unwrap_or_else(unknown)
}

fn commit() -> String {
    let package = env!("CARGO_MANIFEST_DIR");
    let commit = output("git", &["-C", package, "rev-parse", "--short=12", "HEAD"]);
    let changes = output("git", &["-C", package, "status", "--porcelain"]);
    if commit == unknown() || changes.is_empty() {
        commit
    } else {
        format!("{commit} with uncommitted changes")
    }
}

fn date() -> String {
    use time::format_description::well_known::Rfc3339;
    let now = time::OffsetDateTime::now_utc();
    now.replace_nanosecond(0)
        .ok()
        .and_then(|now| now.format(&Rfc3339).ok())
        .unwrap_or_else(unknown)
}

/// Type, device and options of the mount with the longest matching prefix. On
/// a file system in memory a sync costs nothing, so the type is said aloud.
fn file_system(dir: &Path) -> String {
    let dir = dir.canonicalize().unwrap_or_else(|_| dir.to_owned());
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    mounts
        .lines()
        .filter_map(|line| {
            let mut fields = line.split(' ');
            let (device, point) = (fields.next()?, fields.next()?);
            let (kind, options) = (fields.next()?, fields.next()?);
            dir.starts_with(point)
                .then(|| (point.len(), format!("{kind} on {device} ({options})")))
        })
        .max_by_key(|(length, _)| *length)
        .map_or_else(unknown, |(_, description)| description)
}
