//! What a person wants to know afterwards.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use sessionlog::{Health, RecoveryReport, StoreStats, StoreStatus};

use crate::acks::Expected;
use crate::check::Checked;
use crate::inbound::Platform;
use crate::intake::{Chat, Intake};
use crate::run::Outcome;
use crate::units::{bytes, duration, grouped, per_second, ratio};

/// At most so many complaints of a kind are shown.
const SHOWN: usize = 5;

/// Lines of text, coloured only for a terminal.
pub(crate) struct Report {
    text: String,
    colour: bool,
}

impl Report {
    pub(crate) fn new(colour: bool) -> Self {
        Self {
            text: String::new(),
            colour,
        }
    }

    pub(crate) fn into_text(self) -> String {
        self.text
    }

    pub(crate) fn intake(&mut self, intake: &Intake, source: &str) {
        let counts = &intake.counts;
        let mut by_platform = String::new();
        for (platform, messages) in Platform::ALL.iter().zip(counts.by_platform) {
            let _ = write!(by_platform, "   {} {}", platform.name(), grouped(messages));
        }
        self.blank();
        self.row("updates", &grouped(counts.updates), source);
        self.row(
            "messages",
            &grouped(counts.messages),
            by_platform.trim_start(),
        );
        self.row(
            "",
            "",
            &format!(
                "dropped: {} redeliveries   {} edits   {} from bots   {} service",
                grouped(counts.redeliveries),
                grouped(counts.edits),
                grouped(counts.bots),
                grouped(counts.service),
            ),
        );
        let malformed = intake.malformed.iter();
        let lines: Vec<String> = malformed
            .map(|(line, why)| format!("line {line}: {why}"))
            .collect();
        self.complaints("malformed updates, skipped", &lines);
    }

    pub(crate) fn policy(&mut self, dimensions: &[String], doubts: &[String]) {
        let apart = match dimensions {
            [] => String::from("nothing: all of a platform is one conversation"),
            some => some.join(", "),
        };
        self.row("told apart by", "", &apart);
        self.complaints("identity links", doubts);
    }

    pub(crate) fn recovery(&mut self, recovery: &RecoveryReport) {
        if recovery.clean && recovery.findings.is_empty() {
            return;
        }
        self.row(
            "recovered",
            &grouped(recovery.replayed_records),
            &format!(
                "journal records replayed, {} of an unfinished commit dropped",
                bytes(recovery.torn_bytes),
            ),
        );
        self.complaints("findings", &recovery.findings);
    }

    pub(crate) fn status(&mut self, status: &StoreStatus) {
        let health = match &status.health {
            Health::Healthy => String::from("healthy"),
            Health::Full => String::from("full"),
            Health::Poisoned { reason } => format!("stopped: {reason}"),
            other => format!("{other:?}"),
        };
        let space = status.free_space.map(bytes);
        self.row(
            "store",
            &health,
            &format!(
                "journal of {}, may take {}   {} left on the disk",
                bytes(status.journal_bytes),
                bytes(status.journal_limit),
                space.as_deref().unwrap_or("unknown"),
            ),
        );
    }

    pub(crate) fn run(&mut self, outcome: &Outcome, stats: &StoreStats, durability: &str) {
        let tally = &outcome.tally;
        let appends = tally.latencies.len() as u64;
        let latency = Percentiles::of(&tally.latencies);
        let continued = match tally.continued {
            0 => String::from("new"),
            some => format!("{} continued from an earlier run", grouped(some)),
        };
        self.blank();
        self.row("chats", &grouped(outcome.ledgers.len() as u64), &continued);
        self.row(
            "appended",
            &grouped(tally.messages),
            &format!(
                "messages in {} {durability} appends, {}",
                grouped(appends),
                duration(outcome.elapsed),
            ),
        );
        self.row(
            "throughput",
            &per_second(appends, outcome.elapsed),
            &format!(
                "{durability} appends/s   {} messages/s",
                per_second(tally.messages, outcome.elapsed),
            ),
        );
        self.row(
            "latency",
            &duration(latency.p50),
            &format!(
                "p50   {} p99   {} max",
                duration(latency.p99),
                duration(latency.max),
            ),
        );
        self.row(
            "syncs",
            &grouped(stats.syncs),
            &format!("{} appends per sync", ratio(appends, stats.syncs)),
        );
        self.row(
            "compactions",
            &grouped(stats.compactions),
            &format!("after {} truncations", grouped(tally.truncations)),
        );
        self.row(
            "written",
            &bytes(stats.journal_bytes + stats.session_bytes),
            &format!(
                "{} journal   {} session files",
                bytes(stats.journal_bytes),
                bytes(stats.session_bytes),
            ),
        );
        self.complaints("messages refused", &tally.refused);
        self.complaints("chats stopped", &tally.failures);
    }

    pub(crate) fn checked(&mut self, checked: &Checked) {
        self.blank();
        let found = format!(
            "chats, {} visible messages, reopened and read in {}",
            grouped(checked.messages),
            duration(checked.took),
        );
        self.row("checked", &grouped(checked.chats), &found);
        if checked.faults.is_empty() {
            self.verdict(
                true,
                "every acknowledged message is there, nothing truncated is back",
            );
        } else {
            self.verdict(false, "the store does not hold what it acknowledged");
            self.complaints("chats that differ", &checked.faults);
        }
    }

    /// Who wrote from several platforms and had one conversation.
    pub(crate) fn people(&mut self, people: &[Person]) {
        for Person { name, by_platform } in people {
            let mut platforms = Vec::new();
            for (platform, messages) in Platform::ALL.iter().zip(by_platform) {
                if *messages > 0 {
                    platforms.push(format!("{messages} messages on {}", platform.name()));
                }
            }
            let conversation = format!("{}: one conversation", platforms.join(", "));
            self.row("linked", name, &conversation);
        }
    }

    pub(crate) fn acks(&mut self, expected: &Expected) {
        self.blank();
        self.row(
            "log",
            &grouped(expected.acknowledged),
            &format!(
                "commands acknowledged in {} runs, {} in doubt",
                grouped(expected.runs),
                grouped(expected.in_doubt() as u64),
            ),
        );
    }

    /// How to look at one chat with the tools that are there.
    pub(crate) fn look(&mut self, dir: &Path, key: &str) {
        if let Some(path) = session_file(dir, key) {
            self.blank();
            let (dim, plain) = self.dim();
            let path = quoted(&path);
            let _ = writeln!(
                self.text,
                "  {dim}{:<12}{plain}tail -n 4 {path}",
                "look at one"
            );
        }
    }

    pub(crate) fn blank(&mut self) {
        self.text.push('\n');
    }

    fn row(&mut self, name: &str, value: &str, rest: &str) {
        let (dim, plain) = self.dim();
        let line = if value.is_empty() {
            format!("  {dim}{name:<12}{plain}{:11}{dim}{rest}{plain}", "")
        } else {
            format!("  {dim}{name:<12}{plain}{value:>9}  {dim}{rest}{plain}")
        };
        self.text.push_str(line.trim_end());
        self.text.push('\n');
    }

    fn dim(&self) -> (&'static str, &'static str) {
        if self.colour {
            ("\x1b[2m", "\x1b[0m")
        } else {
            ("", "")
        }
    }

    fn verdict(&mut self, good: bool, words: &str) {
        let (sign, code) = if good {
            ("✓", "\x1b[32m")
        } else {
            ("✗", "\x1b[31m")
        };
        let (code, plain) = if self.colour {
            (code, "\x1b[0m")
        } else {
            ("", "")
        };
        let _ = writeln!(self.text, "  {code}{sign} {words}{plain}");
    }

    fn complaints(&mut self, name: &str, lines: &[String]) {
        if lines.is_empty() {
            return;
        }
        let _ = writeln!(self.text, "  {name} ({}):", grouped(lines.len() as u64));
        for line in lines.iter().take(SHOWN) {
            let _ = writeln!(self.text, "    {line}");
        }
        if lines.len() > SHOWN {
            let _ = writeln!(self.text, "    and {} more", lines.len() - SHOWN);
        }
    }
}

/// A person linked across platforms, and the messages from each, in the order
/// of [`Platform::ALL`].
pub(crate) struct Person {
    name: String,
    by_platform: [usize; 3],
}

impl Person {
    /// Those of whom one chat has messages from several platforms.
    pub(crate) fn of(chats: &[Chat]) -> Vec<Self> {
        let person = |chat: &Chat| {
            let by_platform = chat.by_platform();
            let platforms = by_platform.iter().filter(|messages| **messages > 0);
            let name = chat.person.clone().filter(|_| platforms.count() > 1)?;
            Some(Self { name, by_platform })
        };
        chats.iter().filter_map(person).collect()
    }
}

struct Percentiles {
    p50: Duration,
    p99: Duration,
    max: Duration,
}

impl Percentiles {
    /// By nearest rank: the smallest value that so many percent do not exceed.
    fn of(latencies: &[Duration]) -> Self {
        let mut sorted = latencies.to_vec();
        sorted.sort_unstable();
        let rank = |percent: usize| (sorted.len() * percent).div_ceil(100).max(1) - 1;
        let at = |percent| sorted.get(rank(percent)).copied().unwrap_or_default();
        Self {
            p50: at(50),
            p99: at(99),
            max: at(100),
        }
    }
}

/// The session's file. A name that two keys would share is not the plain one;
/// then the sidecar says whose file it is.
fn session_file(dir: &Path, key: &str) -> Option<PathBuf> {
    let owner = |sidecar: &Path| -> Option<String> {
        let meta: serde_json::Value = serde_json::from_slice(&std::fs::read(sidecar).ok()?).ok()?;
        Some(meta.get("key")?.as_str()?.to_owned())
    };
    let plain = dir.join(format!("{}.meta.json", key.replace([':', '/', '\\'], "_")));
    let others = std::fs::read_dir(dir)
        .ok()?
        .flatten()
        .map(|entry| entry.path());
    let sidecar = std::iter::once(plain)
        .chain(others.filter(|path| path.to_string_lossy().ends_with(".meta.json")))
        .find(|path| owner(path).as_deref() == Some(key))?;
    let stem = sidecar.file_name()?.to_str()?.strip_suffix(".meta.json")?;
    Some(dir.join(format!("{stem}.jsonl")))
}

/// Quoted where a shell would read more into it than a path.
fn quoted(path: &Path) -> String {
    let text = path.display().to_string();
    let plain = |c: char| c.is_alphanumeric() || matches!(c, '/' | '.' | '_' | '-' | ':');
    if text.chars().all(plain) {
        text
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_values_that_occurred() {
        let latencies: Vec<Duration> = (1..=200).map(Duration::from_millis).collect();
        let percentiles = Percentiles::of(&latencies);
        assert_eq!(percentiles.p50, Duration::from_millis(100));
        assert_eq!(percentiles.p99, Duration::from_millis(198));
        assert_eq!(percentiles.max, Duration::from_millis(200));
        assert_eq!(Percentiles::of(&[]).max, Duration::ZERO);
    }
}
