//! `sessionlog verify`: checks that everything is sound.

use std::path::Path;

use clap::Args;
use serde::Serialize;
use sessionlog::{Fault, Remedy, SessionCheck, Store, VerifyReport};

use crate::failure::{Failure, Outcome, Result};
use crate::lock::{self, Writer};
use crate::names::Names;
use crate::output::{self, BAD, DIM, GOOD, Output};
use crate::store::{self, Dir};
use crate::{progress, safe};

/// Read everything and say what is wrong
///
/// Every line of every session, every sidecar, every segment of the journal. Of each fault it
/// says which sessions it concerns, what is lost by it and what to run next; what has one cause is
/// one fault. Changes nothing, and works beside a running gateway and on a copy.
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
    #[arg(long, conflicts_with = "json")]
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
            let summary = Summary::of(&report, dir);
            out.json(&Summary {
                sound: summary.sound && is_store,
                ..summary
            })?;
        } else if self.full {
            let names = Names::of_checks(&report.sessions);
            for line in report.to_string().lines() {
                out.line(&names.line(line))?;
            }
        } else {
            tell(&mut out, dir, &report)?;
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
            let writer = lock::writer(dir);
            if matches!(writer, Writer::Process(_) | Writer::Somebody) {
                let who = writer.text();
                output::note(&format!("{who} writes to it: stop that before a repair"));
            }
            output::note("a repair copies what it changes first");
            if report.faults().iter().any(|fault| !fault.losses.is_empty()) {
                let restore = "sessionlog restore BACKUP ELSEWHERE";
                output::note(&format!("a backup may have what is lost: {restore}"));
            }
        }
        Ok(Outcome::found(report.is_sound()))
    }
}

#[derive(Serialize)]
struct Summary {
    sound: bool,
    faults: Vec<Told>,
    /// The places of all faults.
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
    /// Session files without a sidecar that names their key.
    ownerless: Vec<String>,
}

/// A fault for a script.
#[derive(Serialize)]
struct Told {
    cause: &'static str,
    places: Vec<String>,
    sessions: Vec<String>,
    losses: Vec<String>,
    next: String,
}

impl Summary {
    fn of(report: &VerifyReport, dir: &Path) -> Self {
        let told = |fault: Fault| Told {
            cause: fault.cause,
            next: next(dir, fault.remedy),
            places: fault.places,
            sessions: fault.sessions,
            losses: fault.losses,
        };
        Self {
            sound: report.is_sound(),
            faults: report.faults().into_iter().map(told).collect(),
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

/// The most places and sessions named per fault, without `--full`.
const NAMED: usize = 20;

fn tell(out: &mut Output, dir: &Path, report: &VerifyReport) -> Result<()> {
    let summary = Summary::of(report, dir);
    let names = Names::of_checks(&report.sessions);
    for fault in report.faults() {
        tell_fault(out, dir, &names, &fault)?;
    }
    let read = format!(
        "{}, {} messages, {}",
        output::count(summary.sessions, "session"),
        summary.messages,
        output::count(summary.segments, "segment"),
    );
    let verdict = match summary.faults.len() {
        0 => out.paint(GOOD, "sound"),
        faults => out.paint(BAD, &output::count(faults, "fault")),
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
        let names: Vec<_> = summary
            .unsettled
            .iter()
            .map(|key| names.name(key))
            .collect();
        let names = names.join(", ");
        say(format!(
            "written to all the time, so nothing is known of {names}; look again"
        ))?;
    }
    Ok(())
}

/// Prints a fault: its cause, its places, its cost and the next command.
fn tell_fault(out: &mut Output, dir: &Path, names: &Names, fault: &Fault) -> Result<()> {
    out.line(&out.paint(BAD, fault.cause))?;
    some(out, "", &fault.places, |place| names.line(place))?;
    if fault.sessions.len() > fault.places.len() {
        let count = output::count(fault.sessions.len(), "session");
        let first = fault.sessions.iter().take(NAMED);
        let first: Vec<_> = first.map(|key| names.name(key)).collect();
        let more = fault.sessions.len() - first.len();
        let more = if more > 0 {
            format!(", and {more} more")
        } else {
            String::new()
        };
        out.line(&format!("  concerns {count}: {}{more}", first.join(", ")))?;
    }
    if fault.losses.is_empty() {
        out.line("  lost: nothing")?;
    }
    some(out, "lost: ", &fault.losses, |loss| names.line(loss))?;
    out.line(&format!("  next: {}", next(dir, fault.remedy)))
}

/// Prints the first lines, and the number of the others.
fn some(
    out: &mut Output,
    label: &str,
    lines: &[String],
    shown: impl Fn(&str) -> String,
) -> Result<()> {
    for line in lines.iter().take(NAMED) {
        out.line(&format!("  {label}{}", shown(line)))?;
    }
    match lines.len().saturating_sub(NAMED) {
        0 => Ok(()),
        more => out.line(&format!("  {label}{more} more, as --full lists")),
    }
}

/// Returns the next command, or the next step.
fn next(dir: &Path, remedy: Remedy) -> String {
    let repair = store::command("repair", dir);
    match remedy {
        Remedy::Open => String::from("nothing; the next open settles it"),
        Remedy::Look => format!(
            "look at these; no program can decide. Then {}",
            store::command("verify", dir)
        ),
        Remedy::RepairWithLoss => format!(
            "{repair} says the same; with --allow-data-loss it goes on without that. A backup may \
             have more"
        ),
        _ => repair,
    }
}
