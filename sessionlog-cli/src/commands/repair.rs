//! `sessionlog repair`: a damaged store becomes sound.

use std::collections::BTreeSet;
use std::path::PathBuf;

use clap::Args;
use serde::Serialize;
use sessionlog::{RepairOptions, RepairReport, Store};

use crate::failure::{Outcome, Result};
use crate::output::{self, BAD, GOOD, Output};
use crate::store::{Dir, Writing};
use crate::{names, progress, safe};

/// Mend a damaged store
///
/// What it changes is first copied to DIR/.sessionlog/backups/repair-N; lines that are no
/// records go to DIR/.sessionlog/quarantine. Data that is already gone is reported as lost. Data that
/// a repair would discard is kept and reported, unless --allow-data-loss is given.
/// DIR must not be in use by another process.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  sessionlog verify COPY                      what is wrong, and nothing else
  sessionlog repair COPY
  sessionlog repair COPY --allow-data-loss    also what cannot be mended without loss

Exits with 0 if all is sound now and nothing is lost, 1 if something is left or lost.")]
pub(crate) struct Repair {
    #[command(flatten)]
    dir: Dir,
    /// Go on without what cannot be saved
    #[arg(long)]
    allow_data_loss: bool,
    /// One JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    writing: Writing,
}

impl Repair {
    pub(crate) fn run(self) -> Result<Outcome> {
        let dir = self.dir.path();
        self.dir.is_store()?;
        let options = RepairOptions::new()
            .allow_data_loss(self.allow_data_loss)
            .allow_other_owner(self.writing.allows_other_owner())
            .allow_missing_lock(self.writing.allows_missing_lock());
        let report = progress::while_reading(dir, "repairing", || Store::repair(dir, options))?;
        let left = report.needs_data_loss.len() + report.unreadable.len();
        let is_whole = left == 0 && report.losses.is_empty();
        if self.json {
            let mut out = Output::new();
            out.json(&Told::of(&report))?;
            out.finish()?;
            return Ok(Outcome::found(is_whole));
        }
        // If it does not open yet, keys are shown in place of names.
        let store = self.dir.read();
        tell(&report)?;
        drop(store);
        if !report.needs_data_loss.is_empty() {
            output::note("`--allow-data-loss` goes on without that; keep a copy of DIR first");
        }
        if !report.losses.is_empty() {
            output::note("a backup may have what is lost: `sessionlog restore BACKUP ELSEWHERE`");
        }
        Ok(Outcome::found(is_whole))
    }
}

/// A repair for a script.
#[derive(Serialize)]
struct Told<'a> {
    mended: &'a [String],
    lost: &'a [String],
    needs_data_loss: &'a [String],
    unreadable: &'a [String],
    sessions: &'a BTreeSet<String>,
    quarantined: &'a [PathBuf],
    backup: Option<&'a PathBuf>,
}

impl<'a> Told<'a> {
    fn of(report: &'a RepairReport) -> Self {
        Self {
            mended: &report.done,
            lost: &report.losses,
            needs_data_loss: &report.needs_data_loss,
            unreadable: &report.unreadable,
            sessions: &report.sessions,
            quarantined: &report.quarantined,
            backup: report.backup.as_ref(),
        }
    }
}

fn tell(report: &RepairReport) -> Result<()> {
    let mut out = Output::new();
    if *report == RepairReport::default() {
        out.line(&out.paint(GOOD, "nothing to repair"))?;
        return out.finish();
    }
    for (label, lines) in [
        ("mended", &report.done),
        ("lost", &report.losses),
        ("left, for it would lose data", &report.needs_data_loss),
        ("left, for it cannot be read", &report.unreadable),
    ] {
        let style = if label == "mended" { GOOD } else { BAD };
        for line in lines {
            let label = out.paint(style, label);
            out.line(&format!("{label}: {}", safe::line(&names::text(line))))?;
        }
    }
    let is_all_kept = report.losses.is_empty() && report.unreadable.is_empty();
    if is_all_kept && report.needs_data_loss.is_empty() {
        out.line("nothing was lost")?;
    }
    if !report.sessions.is_empty() {
        let sessions: Vec<_> = report.sessions.iter().map(|key| names::name(key)).collect();
        out.line(&format!("sessions concerned: {}", sessions.join(", ")))?;
    }
    for path in &report.quarantined {
        let path = path.display().to_string();
        out.line(&format!("set aside in {}", safe::line(&path)))?;
    }
    if let Some(path) = &report.backup {
        let path = path.display().to_string();
        out.line(&format!(
            "what was there before is in {}",
            safe::line(&path)
        ))?;
    }
    out.finish()
}
