//! `sessionlog restore`: a backup becomes a store.

use std::path::{Path, PathBuf};

use clap::Args;
use serde::Serialize;
use sessionlog::Store;

use crate::failure::{Failure, Outcome, Result};
use crate::lock::{self, Writer};
use crate::output::{self, BAD, Output};
use crate::store::{self, Dir};
use crate::{names, progress, safe};

/// Make a store of a backup
///
/// BACKUP is checked first, then copied to DIR, and what was written is checked again. DIR must
/// be new or empty: no message of a store that is there is ever replaced. BACKUP stays as it is,
/// and may be any directory of sessions that no process writes to.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  sessionlog restore /backups/sessions /srv/sessions
  mv /srv/sessions /srv/sessions.old        what is there goes aside first
  sessionlog restore /backups/sessions /srv/sessions --allow-damage

Exits with 0 if DIR is sound, 1 if it was restored with damage, 2 if nothing was restored.")]
pub(crate) struct Restore {
    /// The backup's directory
    #[arg(value_name = "BACKUP")]
    backup: PathBuf,
    /// Where the store goes, new or empty
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// Restore also what is damaged, as far as it reads
    #[arg(long)]
    allow_damage: bool,
    /// One JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Restored {
    sessions: usize,
    bytes: u64,
    sound: bool,
    /// The faults of the restored directory.
    problems: Vec<String>,
}

impl Restore {
    pub(crate) fn run(self) -> Result<Outcome> {
        let backup = Dir {
            dir: self.backup.clone(),
        };
        backup.is_store()?;
        is_free(&self.dir)?;
        let check = |dir: &Path, what| progress::while_reading(dir, what, || Store::verify(dir));
        let found = check(&self.backup, "checking the backup")?;
        if !found.is_sound() && !self.allow_damage {
            let faults = output::count(found.faults().len(), "fault");
            let what = format!(
                "{} has {faults}; nothing was restored",
                self.backup.display()
            );
            let verify = store::command("verify", &self.backup);
            return Err(Failure::new(what).hint(format!(
                "`{verify}` says what is wrong; --allow-damage restores what reads"
            )));
        }
        let reading = backup.read()?;
        let copy = || reading.chats.backup_to(&self.dir).wait();
        let copied = progress::while_reading(&self.backup, "restoring", copy)?;
        let now = check(&self.dir, "checking what was restored")?;
        let mut problems = now.problems();
        let failed = copied.failed.iter();
        problems.extend(failed.map(|(key, why)| format!("{key}: not restored: {why}")));
        let restored = Restored {
            sessions: copied.sessions,
            bytes: copied.written,
            sound: problems.is_empty(),
            problems,
        };
        self.tell(&restored)?;
        Ok(Outcome::found(restored.sound))
    }

    fn tell(&self, restored: &Restored) -> Result<()> {
        let mut out = Output::new();
        if self.json {
            out.json(restored)?;
            return out.finish();
        }
        let verdict = if restored.sound { ", sound" } else { "" };
        let (sessions, bytes) = (
            output::count(restored.sessions, "session"),
            output::bytes(restored.bytes),
        );
        let dir = self.dir.display().to_string();
        out.line(&format!(
            "{sessions} restored to {} ({bytes}{verdict})",
            safe::line(&dir)
        ))?;
        for problem in &restored.problems {
            // The backup is still open, and has the same sessions.
            out.line(&out.paint(BAD, &safe::line(&names::text(problem))))?;
        }
        out.finish()?;
        if !restored.sound {
            let repair = store::command("repair", &self.dir);
            output::note(&format!("`{repair}` mends what can be mended"));
        }
        Ok(())
    }
}

/// # Errors
/// If something is in `dir`, or it is no directory.
fn is_free(dir: &Path) -> Result<()> {
    let mut entries = match dir.read_dir() {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(Failure::new(format!("open {}: {error}", dir.display()))),
    };
    if entries.next().is_none() {
        return Ok(());
    }
    let name = dir.display();
    let (what, stop) = match lock::writer(dir) {
        writer @ (Writer::Process(_) | Writer::Somebody) => (
            format!("{name} is in use by {}", writer.text()),
            "stop that, and ",
        ),
        Writer::Nobody | Writer::Unknown => (format!("{name} is not empty"), ""),
    };
    let mut aside = dir.as_os_str().to_owned();
    aside.push(".old");
    Err(Failure::new(what).hint(format!(
        "nothing was restored; {stop}put what is there aside first: mv {} {}",
        store::quoted(dir),
        store::quoted(Path::new(&aside)),
    )))
}
