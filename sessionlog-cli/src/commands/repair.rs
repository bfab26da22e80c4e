//! `sessionlog repair`: a damaged store becomes sound.

use clap::Args;
use sessionlog::{RepairOptions, Store};

use crate::failure::{Outcome, Result};
use crate::output::{self, Output};
use crate::store::{Dir, Writing};
use crate::{progress, safe};

/// Mend a damaged store
///
/// What it changes is first copied to DIR/.sessionlog/backups/repair-N; lines that are no
/// records go to DIR/.sessionlog/quarantine. What the files no longer hold is named as lost; what
/// they hold and mending would give up is left, and named, unless --allow-data-loss is given.
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
        let mut out = Output::new();
        for line in report.to_string().lines() {
            out.line(&safe::line(line))?;
        }
        out.finish()?;
        if !report.needs_data_loss.is_empty() {
            output::note("`--allow-data-loss` goes on without that; keep a copy of DIR first");
        }
        let left = report.needs_data_loss.len() + report.unreadable.len();
        let is_whole = left == 0 && report.losses.is_empty();
        Ok(Outcome::found(is_whole))
    }
}
