//! What the store takes while it works: files, memory, descriptors.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use sessionlog::StoreStats;

use crate::OPEN_FILES;
use crate::chats::Chats;
use crate::support::Outcome;
use crate::table::Table;

/// Between two measurements.
const EVERY: Duration = Duration::from_millis(100);

const MB: f64 = 1_048_576.0;

/// What README allows a session file beside three times its live bytes, and how long
/// a compaction may take after a truncation.
const SLACK: u64 = 8 << 20;
const COMPACTED_IN: Duration = Duration::from_secs(3);

/// Descriptors beside those of session files: the journal's, directories, sidecars
/// while they are written, files of jobs and readers, and the process's own.
const OTHER_FILES: usize = 64;

/// The largest of what was seen.
#[derive(Default)]
pub(crate) struct Gauges {
    /// Since when a session file is over its bound, and the longest that one was.
    over: BTreeMap<PathBuf, Instant>,
    longest_over: Duration,
    journal: u64,
    journal_bound: u64,
    descriptors: usize,
    /// Resident memory, and that of the first quarter.
    memory: u64,
    memory_early: u64,
    samples: usize,
}

impl Gauges {
    /// Measures for `length`.
    pub(crate) fn over(length: Duration, dir: &Path, chats: &Chats) -> Outcome<Self> {
        let mut gauges = Self {
            journal_bound: journal_bound(dir)?,
            ..Self::default()
        };
        let started = Instant::now();
        while started.elapsed() < length && !chats.failed() {
            std::thread::sleep(EVERY);
            gauges.sample(dir, chats, started.elapsed() < length / 4)?;
        }
        Ok(gauges)
    }

    fn sample(&mut self, dir: &Path, chats: &Chats, early: bool) -> Outcome<()> {
        self.samples += 1;
        for (path, live) in chats.sizes(dir, self.samples) {
            let size = fs::metadata(&path).map_or(0, |info| info.len());
            if size <= 3 * live as u64 + SLACK {
                self.over.remove(&path);
                continue;
            }
            let since = self.over.entry(path).or_insert_with(Instant::now);
            self.longest_over = self.longest_over.max(since.elapsed());
        }
        self.journal = self
            .journal
            .max(directory_size(&dir.join(".sessionlog/journal"))?);
        self.descriptors = self.descriptors.max(fs::read_dir("/proc/self/fd")?.count());
        let memory = resident()?;
        self.memory = self.memory.max(memory);
        if early {
            self.memory_early = self.memory_early.max(memory);
        }
        Ok(())
    }

    /// `settled`: whether the first quarter was long enough to show what a store needs.
    pub(crate) fn report(&self, stats: &StoreStats, settled: bool, table: &mut Table) {
        let compactions = stats.compaction_bytes as f64;
        let appended = stats.session_bytes.max(1) as f64;
        table.say("commands", stats.commands as f64);
        table.say("messages", stats.messages as f64);
        table.say("compactions", stats.compactions as f64);
        table.say("flushes", stats.flushes as f64);
        table.say("MiB appended", appended / MB);
        table.at_most(
            "a file over 3 times its live bytes and 8 MiB, longest, s",
            self.longest_over.as_secs_f64(),
            COMPACTED_IN.as_secs_f64(),
        );
        table.at_most(
            "bytes compacted per byte appended",
            compactions / appended,
            4.0,
        );
        let bound = self.journal_bound as f64 / MB;
        table.at_most("journal, MiB", self.journal as f64 / MB, bound);
        let files = (OPEN_FILES + OTHER_FILES) as f64;
        table.at_most("descriptors", self.descriptors as f64, files);
        // What is in flight and one job of each background thread may be large; what
        // grows with the messages would go on growing.
        let memory = self.memory as f64 / MB;
        if settled {
            let bound = self.memory_early as f64 * 1.5 / MB + 64.0;
            table.at_most("resident memory, MiB", memory, bound);
        } else {
            table.say("resident memory, MiB", memory);
        }
    }
}

/// What the guide names: an eighth of the volume's space, and 768 MiB, at most, and
/// what is written during one flush: another segment.
fn journal_bound(dir: &Path) -> Outcome<u64> {
    let volume = rustix::fs::statvfs(dir)?;
    let free = volume.f_bavail * volume.f_frsize;
    Ok((free / 8).min(768 << 20) + (64 << 20))
}

fn directory_size(dir: &Path) -> Outcome<u64> {
    let mut size = 0;
    for entry in fs::read_dir(dir)? {
        // Segments come and go.
        size += entry?.metadata().map_or(0, |info| info.len());
    }
    Ok(size)
}

fn resident() -> Outcome<u64> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.split_ascii_whitespace().next());
    Ok(kib.and_then(|kib| kib.parse().ok()).unwrap_or(0) << 10)
}
