//! `sessionlog backup`: a copy of the store.

use std::path::PathBuf;

use clap::Args;
use sessionlog::Error;

use crate::failure::{Failure, Outcome, Result};
use crate::output::{self, Output};
use crate::store::Dir;
use crate::{names, progress, safe};

/// Copy the store while it is in use
///
/// DESTINATION becomes a directory of sessions like DIR, with all that was acknowledged before;
/// it must be new, empty or an earlier backup of DIR, of which only what changed is written
/// anew. `restore` makes a store of it. Writers are not held up.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  sessionlog backup DIR /backups/sessions           the first time, and every time after
  sessionlog verify /backups/sessions
  sessionlog restore /backups/sessions /srv/sessions

Exits with 1 if a session could not be read; what an earlier backup had of it is kept.")]
pub(crate) struct Backup {
    #[command(flatten)]
    dir: Dir,
    /// Where the copy goes, outside of DIR
    #[arg(value_name = "DESTINATION")]
    destination: PathBuf,
    /// One JSON object
    #[arg(long)]
    json: bool,
}

impl Backup {
    pub(crate) fn run(self) -> Result<Outcome> {
        let store = self.dir.read()?;
        let copy = || store.chats.backup_to(&self.destination).wait();
        let copied = progress::while_reading(self.dir.path(), "copying", copy);
        let report = copied.map_err(|error| match error {
            Error::InStore { .. } => Failure::from(error)
                .hint("name a new directory; a backup that was opened as a store is none any more"),
            error => Failure::from(error),
        })?;
        let mut out = Output::new();
        if self.json {
            out.json(&report)?;
        } else {
            let sessions = output::count(report.sessions, "session");
            let written = output::bytes(report.written);
            let destination = self.destination.display();
            out.line(&format!("{sessions} in {destination}, {written} written"))?;
            for (key, why) in &report.failed {
                let line = format!("{key}: not copied: {why}");
                out.line(&out.paint(output::BAD, &safe::line(&names::text(&line))))?;
            }
        }
        out.finish()?;
        Ok(Outcome::found(report.failed.is_empty()))
    }
}
