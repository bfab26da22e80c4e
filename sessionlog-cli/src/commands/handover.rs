//! `sessionlog handover`: the directory is left so that PicoClaw can take it.

use std::collections::BTreeMap;

use clap::Args;
use serde::Serialize;
use sessionlog::{Format, Message, Store, StoreHandle, VerifyReport};

use crate::failure::{Outcome, Result};
use crate::names::Names;
use crate::output::{self, BAD, GOOD, Output};
use crate::store::{Dir, Writing};
use crate::{progress, safe};

/// Leave the directory so that PicoClaw can take it
///
/// Recovers what a crash left, brings every file up to date, ends the journal and closes; then
/// reads everything once more. It says of which sessions PicoClaw reads less than there is:
/// control records (checkpoints, token counts, system prompts), messages that are lists of
/// parts, lines over 10 MiB, files that PicoClaw looks for under another name. `sessionlog
/// export DIR --format picoclaw -o NEW` writes such sessions as PicoClaw can read them. DIR must not
/// be in use by another process, nor afterwards by two.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  sessionlog handover ~/.picoclaw/sessions
  sessionlog handover DIR --json

Exits with 1 if PicoClaw reads less than there is of some sessions, or something is damaged.")]
pub(crate) struct Handover {
    #[command(flatten)]
    dir: Dir,
    /// One JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    writing: Writing,
}

/// The longest line that PicoClaw's scanner takes, bytes; one that is longer fails the whole
/// session there.
const LONGEST: usize = 10_485_759;

/// The longest file name without extension that PicoClaw can make, bytes.
const LONGEST_NAME: usize = 255 - ".meta.json".len();

#[derive(Serialize)]
struct Report {
    sessions: usize,
    /// The sessions of which PicoClaw reads less, with the reasons.
    less: BTreeMap<String, Vec<String>>,
    /// The faults.
    problems: Vec<String>,
}

impl Handover {
    pub(crate) fn run(self) -> Result<Outcome> {
        let store = self.dir.write(self.writing)?;
        let chats = store.handle().exact_keys();
        chats.flush().wait()?;
        let mut report = look(&chats)?;
        store.close()?;
        let dir = self.dir.path();
        let verified = progress::while_reading(dir, "verifying", || Store::verify(dir))?;
        report.add(&verified);
        self.tell(&report, &Names::of_checks(&verified.sessions))?;
        Ok(Outcome::found(report.is_whole()))
    }

    fn tell(&self, report: &Report, names: &Names) -> Result<()> {
        let mut out = Output::new();
        if self.json {
            out.json(report)?;
            return out.finish();
        }
        for (key, reasons) in &report.less {
            for why in reasons {
                out.line(&format!("{}: {}", names.name(key), safe::line(why)))?;
            }
        }
        for problem in &report.problems {
            out.line(&out.paint(BAD, &names.line(problem)))?;
        }
        let sessions = output::count(report.sessions, "session");
        let verdict = if report.is_whole() {
            out.paint(GOOD, "PicoClaw reads all there is")
        } else {
            out.paint(BAD, "PicoClaw reads less than there is")
        };
        let dir = self.dir.path().display();
        out.line(&format!(
            "{dir} is closed and up to date, {sessions}: {verdict}"
        ))?;
        out.finish()
    }
}

/// Finds the lines of each session that PicoClaw does not read.
fn look(chats: &StoreHandle) -> Result<Report> {
    let keys = chats.list_sessions().wait()?;
    let bar = progress::counted(keys.len(), "sessions");
    let mut less = BTreeMap::new();
    for key in &keys {
        let lines = chats.export(key, Format::Jsonl).wait()?;
        let mut losses = Losses::default();
        lines.lines().for_each(|line| losses.take(line));
        let reasons = losses.reasons();
        if !reasons.is_empty() {
            less.insert(key.clone(), reasons);
        }
        bar.inc(1);
    }
    bar.finish_and_clear();
    Ok(Report {
        sessions: keys.len(),
        less,
        problems: Vec::new(),
    })
}

/// Counts of lines that PicoClaw does not read, or reads as something else.
#[derive(Default)]
struct Losses {
    controls: usize,
    lists: usize,
    long: usize,
}

impl Losses {
    fn take(&mut self, line: &str) {
        self.long += usize::from(line.len() > LONGEST);
        match Message::from_json(line.as_bytes()) {
            Ok(message) => self.lists += usize::from(message.content_parts().is_some()),
            // A line that is no record at all is damage, which the check reports.
            Err(_) => self.controls += usize::from(is_control(line)),
        }
    }

    fn reasons(&self) -> Vec<String> {
        let counts = [
            (
                self.controls,
                "PicoClaw knows no control records (checkpoints, token counts, prompts)",
            ),
            (
                self.lists,
                "PicoClaw takes messages that are lists of parts for damaged",
            ),
            (
                self.long,
                "PicoClaw cannot read the session at all, for its lines over 10 MiB",
            ),
        ];
        let some = counts.into_iter().filter(|(many, _)| *many > 0);
        some.map(|(many, why)| format!("{why}: {many}")).collect()
    }
}

fn is_control(line: &str) -> bool {
    let value: Option<serde_json::Value> = serde_json::from_str(line).ok();
    let role = value.as_ref().and_then(|value| value.get("role")?.as_str());
    role.is_some_and(|role| role.starts_with('_'))
}

impl Report {
    /// Adds the findings of a check of the closed directory.
    fn add(&mut self, verified: &VerifyReport) {
        self.problems = verified.problems();
        for session in &verified.sessions {
            let expected = session.key.replace([':', '/', '\\'], "_");
            let is_found = expected == session.stem && expected.len() <= LONGEST_NAME;
            if !is_found && !session.key.is_empty() {
                let why = format!(
                    "PicoClaw looks for it in {expected}.jsonl, it is in {}.jsonl",
                    session.stem
                );
                self.less.entry(session.key.clone()).or_default().push(why);
            }
        }
    }

    fn is_whole(&self) -> bool {
        self.less.is_empty() && self.problems.is_empty()
    }
}
