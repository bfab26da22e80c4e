//! `sessionlog migrate`: sessions of PicoClaw's older manager become sessions of the store.

use std::path::Path;

use clap::Args;
use sessionlog::{MigrationReport, StoreHandle};

use crate::failure::{Failure, Outcome, Result};
use crate::output::{self, Output};
use crate::store::{Dir, Writing};
use crate::{names, safe};

/// Take over a directory of PicoClaw's older manager, in place
///
/// Each *.json file in DIR, one session each, becomes a session of the store in DIR, and is
/// renamed to *.json.migrated. What a session of the same key had becomes a backup. Files that
/// do not read stay as they are. Run again, it changes nothing. (`import --format picoclaw` brings
/// such files in from another directory.)
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  sessionlog migrate ~/.picoclaw/sessions
  sessionlog migrate ~/.picoclaw/sessions --wait 10s    a gateway may still be closing

Exits with 1 if files had to be left.")]
pub(crate) struct Migrate {
    #[command(flatten)]
    dir: Dir,
    #[command(flatten)]
    writing: Writing,
}

impl Migrate {
    pub(crate) fn run(self) -> Result<Outcome> {
        // Nothing is made if the directory does not exist.
        is_there(self.dir.path())?;
        let store = self.dir.create_or_older(self.writing)?;
        let report = import(self.dir.path(), &store.handle())?;
        let told = told(&report);
        store.close()?;
        output::lines(&told)?;
        Ok(Outcome::found(report.skipped.is_empty()))
    }
}

/// Imports the files of a directory, which must be there.
///
/// # Errors
/// If it is not, and those of the store.
pub(crate) fn import(source: &Path, chats: &StoreHandle) -> Result<MigrationReport> {
    is_there(source)?;
    Ok(sessionlog::import_picoclaw(source, chats)?)
}

fn is_there(source: &Path) -> Result<()> {
    if source.is_dir() {
        return Ok(());
    }
    let what = format!("there is no directory {}", source.display());
    Err(Failure::new(what).hint("name the directory that has the *.json files"))
}

/// Returns the lines that report the imported sessions, and those that were not. The store knows
/// the names of its sessions while it is open.
pub(crate) fn told(report: &MigrationReport) -> Vec<String> {
    let sessions = output::count(report.migrated, "session");
    let mut told = vec![format!("{sessions} imported")];
    for key in &report.replaced {
        let name = names::name(key);
        told.push(format!("{name}: what it had before is a backup now"));
    }
    for (key, why) in &report.without_identity {
        let (name, why) = (names::name(key), safe::line(why));
        told.push(format!("{name}: without scope and aliases: {why}"));
    }
    let out = Output::new();
    for (path, why) in &report.skipped {
        let line = format!("{}: left as it is: {why}", path.display());
        told.push(out.paint(output::BAD, &safe::line(&line)));
    }
    told
}
