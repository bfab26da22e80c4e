//! `sessionlog verify`: whether everything is sound.

use clap::Args;
use serde::Serialize;
use sessionlog::{SessionCheck, Store, VerifyReport};

use crate::failure::{Failure, Outcome, Result};
use crate::output::{self, BAD, DIM, GOOD, Output};
use crate::store::Dir;
use crate::{progress, safe};

/// Read everything and say what is wrong
///
/// Every line of every session, every sidecar, every segment of the journal. Changes nothing,
/// and works beside a running gateway and on a copy.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  sessionlog verify DIR
  sessionlog verify DIR --full       every segment and session, not only what is wrong
  sessionlog verify DIR --json | jq -r '.problems[]'

Exits with 0 if all is sound, 1 if something is wrong (`sessionlog repair DIR` mends that) or DIR \
is no store.")]
pub(crate) struct Verify {
    #[command(flatten)]
    dir: Dir,
    /// Say something of every session and segment
    #[arg(short, long, conflicts_with = "json")]
    full: bool,
    /// One JSON object
    #[arg(long)]
    json: bool,
}

impl Verify {
    pub(crate) fn run(self) -> Result<Outcome> {
        let dir = self.dir.path();
        if !dir.is_dir() {
            return Err(Failure::new(format!(
                "there is no directory {}",
                dir.display()
            )));
        }
        let report = progress::while_reading(dir, "verifying", || Store::verify(dir))?;
        let is_store = !report.sessions.is_empty() || dir.join(".sessionlog").exists();
        let mut out = Output::new();
        if self.json {
            let summary = Summary::of(&report);
            out.json(&Summary {
                sound: summary.sound && is_store,
                ..summary
            })?;
        } else if self.full {
            for line in report.to_string().lines() {
                out.line(&safe::line(line))?;
            }
        } else {
            tell(&mut out, &report)?;
        }
        out.finish()?;
        if !is_store {
            output::note(&format!(
                "there is no session in {}: is it the right directory?",
                dir.display()
            ));
            return Ok(Outcome::Nothing);
        }
        if !report.is_sound() && !self.json {
            output::note(
                "`sessionlog repair DIR` mends what can be mended; it copies what it changes first",
            );
        }
        Ok(Outcome::found(report.is_sound()))
    }
}

#[derive(Serialize)]
struct Summary {
    sound: bool,
    problems: Vec<String>,
    sessions: usize,
    messages: u64,
    damaged_lines: u64,
    segments: usize,
    closed_in_order: bool,
    records_to_carry_out: u64,
    torn_bytes: u64,
    left_over: Vec<String>,
    busy: bool,
    unsettled: Vec<String>,
    /// Session files of which no sidecar says whose they are.
    ownerless: Vec<String>,
}

impl Summary {
    fn of(report: &VerifyReport) -> Self {
        Self {
            sound: report.is_sound(),
            problems: report.problems(),
            sessions: report.sessions.len(),
            messages: report.sessions.iter().map(|session| session.messages).sum(),
            damaged_lines: report
                .sessions
                .iter()
                .map(|session| session.damaged_lines)
                .sum(),
            segments: report.journal.segments.len(),
            closed_in_order: report.journal.clean,
            records_to_carry_out: report.journal.replayed_records,
            torn_bytes: report.journal.torn_bytes,
            left_over: report.strays.clone(),
            busy: report.busy,
            unsettled: report.unsettled.clone(),
            ownerless: ownerless(report)
                .map(|session| session.stem.clone())
                .collect(),
        }
    }
}

fn ownerless(report: &VerifyReport) -> impl Iterator<Item = &SessionCheck> {
    let sessions = report.sessions.iter();
    sessions.filter(|session| session.key.is_empty() && session.lines > 0)
}

fn tell(out: &mut Output, report: &VerifyReport) -> Result<()> {
    let summary = Summary::of(report);
    for problem in &summary.problems {
        out.line(&out.paint(BAD, &safe::line(problem)))?;
    }
    let read = format!(
        "{}, {} messages, {}",
        output::count(summary.sessions, "session"),
        summary.messages,
        output::count(summary.segments, "segment"),
    );
    let verdict = match summary.problems.len() {
        0 => out.paint(GOOD, "sound"),
        problems => out.paint(BAD, &output::count(problems, "problem")),
    };
    out.line(&format!("{verdict}: {read}"))?;
    for session in ownerless(report) {
        let SessionCheck { stem, messages, .. } = session;
        let what = format!(
            "{stem}: no sidecar says whose it is, so it is listed under its file name; messages in \
             it: {messages}. Writing to its key gives it a sidecar"
        );
        out.line(&out.paint(BAD, &safe::line(&what)))?;
    }
    let mut say = |what: String| {
        let what = out.paint(DIM, &safe::line(&what));
        out.line(&what)
    };
    if summary.records_to_carry_out > 0 && !summary.busy {
        let records = summary.records_to_carry_out;
        say(format!(
            "not closed in order: the next open carries out {records} records"
        ))?;
    }
    if !summary.unsettled.is_empty() {
        let names = summary.unsettled.join(", ");
        say(format!(
            "written to all the time, so nothing is known of {names}; look again"
        ))?;
    }
    Ok(())
}
