//! Carries out the verdicts on sessions with files that another program changed.
//!
//! The present file is kept under a second name, and the new file is written beside it. The records
//! that put it in place go into the batch that covers everything before. After that batch, a crash
//! finds an ordinary journal, and its records state the files that were looked at. A file that was
//! changed once more meanwhile is recognized by that.

use std::io;
use std::path::Path;

use sessionlog_core::error::{Error, Result};
use sessionlog_core::session_file::{self, SessionMeta};
use sessionlog_wal::journal::record::{self, Record};
use sessionlog_wal::storage::OpenMode;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::Redo;
use super::place::is_one_file;
use crate::disk::files::backup::{self, BackupName, BackupReason};
use crate::disk::files::{self, log_path};
use crate::engine::recovery::bytes::{Bytes, crc_of};
use crate::engine::recovery::foreign::{BarredSession, ChangedSession, Conflict};
use crate::engine::recovery::plan::Plans;
use crate::engine::recovery::planned::PlannedFiles;
use crate::engine::recovery::standing::FilesState;

/// The records that the journal needs for sessions that were changed.
#[derive(Debug, Default)]
pub(crate) struct Adoption {
    /// Its records, to be committed with the checkpoint over all before.
    pub(crate) records: Vec<u8>,
    /// The plans of these records, once they are committed.
    pub(crate) plans: Plans,
    /// Hidden files that they name.
    pub(super) temps: Vec<String>,
    /// Backups that are to stay, whatever the journal says of older ones.
    pub(super) made: Vec<String>,
}

impl Adoption {
    fn add(&mut self, record: &Record<'_>) {
        record::encode(&mut self.records, record);
        self.plans.apply(record);
    }
}

impl Redo<'_> {
    /// Prepares the new state of one session.
    pub(super) fn adopt(
        &mut self,
        planned: PlannedFiles<'_>,
        stem: &str,
        changed: &ChangedSession,
        adopted: &mut Adoption,
    ) -> Result<()> {
        let mut told = vec![changed.finding.clone()];
        if let Some(conflict) = &changed.conflict {
            told.push(self.keep_ours(planned, stem, conflict, adopted)?);
        }
        if changed.lines.is_some() {
            told.extend(self.keep_found(&log_path(self.dir, stem), "file")?);
        }
        let sidecar = self.sidecar_path(stem);
        match &changed.meta {
            None if changed.gone && files::is_there(self.storage, &sidecar)? => {
                let aside = self.free_aside(&sidecar)?;
                told.push(format!("its sidecar is now {}", aside.display()));
                self.renames.push((sidecar, aside));
            }
            None => {}
            Some(meta) => {
                let standing = FilesState::of(self.storage, self.dir, stem)?;
                let image = session_file::encode_sidecar(meta);
                if changed.lines.is_some() || !standing.says(&image) {
                    told.extend(self.keep_found(&sidecar, "sidecar")?);
                }
                self.say(stem, changed.lines.as_ref(), (&standing, &image), adopted)?;
            }
        }
        self.tell(&told, changed.lost);
        Ok(())
    }

    /// Keeps the journal's lines of a session that cannot be written to.
    pub(super) fn bar(
        &mut self,
        planned: PlannedFiles<'_>,
        stem: &str,
        barred: &BarredSession,
        adopted: &mut Adoption,
    ) -> Result<()> {
        let mut told = vec![barred.finding.clone()];
        if let Some(conflict) = &barred.conflict {
            told.push(self.keep_ours(planned, stem, conflict, adopted)?);
        }
        if let Some(meta) = &barred.meta {
            let scratch = self.scratch_with(&Bytes::of(session_file::encode_sidecar(meta)))?;
            self.renames.push((scratch, self.sidecar_path(stem)));
        }
        self.tell(&told, false);
        Ok(())
    }

    fn tell(&mut self, told: &[String], is_loss: bool) {
        let told = told.join("; ");
        // Logged now: the open may be cut short after the journal has it, and the next open finds
        // nothing changed.
        tracing::warn!("{told}");
        if is_loss {
            self.report.lose(told);
        } else {
            self.report.findings.push(told);
        }
    }

    fn say(
        &mut self,
        stem: &str,
        lines: Option<&Bytes>,
        (standing, image): (&FilesState, &[u8]),
        adopted: &mut Adoption,
    ) -> Result<()> {
        let Some(lines) = lines else {
            if !standing.says(image) {
                adopted.add(&Record::Meta {
                    stem,
                    generation: 0,
                    before: standing.prior(),
                    image,
                });
            }
            return Ok(());
        };
        let temp = self.temps.take(self.storage, self.dir)?;
        let path = self.dir.join(&temp);
        let file = self.storage.open(&path, OpenMode::CreateNew);
        let base_crc = file
            .and_then(|file| lines.write_to(&*file))
            .map_err(|e| Error::io("recover", &path, e))?;
        adopted.add(&standing.swap(stem, image, &temp, (lines.size(), base_crc)));
        adopted.temps.push(temp);
        Ok(())
    }

    /// Keeps a file as it was found, unless an attempt that was cut short did.
    pub(super) fn keep_found(&mut self, path: &Path, what: &str) -> Result<Option<String>> {
        if !files::is_there(self.storage, path)? {
            return Ok(None);
        }
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let told = |kept: &Path| Some(format!("the {what} as found is {}", kept.display()));
        for nth in 0.. {
            let earlier = self.quarantine.join(files::numbered(&name, nth));
            if is_one_file(self.storage, &earlier, path)? {
                return Ok(told(&earlier));
            }
            if !files::is_there(self.storage, &earlier)? {
                break;
            }
        }
        let aside = self.free_aside(path)?;
        files::keep(self.storage, path, &aside).map_err(|e| Error::io("keep", path, e))?;
        Ok(told(&aside))
    }

    /// Makes a backup of our acknowledged lines; returns a description of its place. Another
    /// session that has the file name must not be shown it.
    fn keep_ours(
        &mut self,
        planned: PlannedFiles<'_>,
        stem: &str,
        conflict: &Conflict,
        adopted: &mut Adoption,
    ) -> Result<String> {
        let (log, sidecar, told) = if conflict.displaced {
            let log = self.free_aside(&log_path(self.dir, stem))?;
            let sidecar = self.free_aside(&self.sidecar_path(stem))?;
            let told = format!("what the journal held of ours is {}", log.display());
            (log, sidecar, told)
        } else {
            let name = self.conflict_name(planned, stem, conflict)?;
            adopted.made.extend([name.to_text(), name.sidecar()]);
            let conflict = (conflict.meta.key.clone(), name.number);
            self.report.conflicts.push(conflict);
            let told = format!(
                "what the journal held of ours is its backup {}",
                name.number
            );
            let place = |name: &str| self.backups.join(name);
            (place(&name.to_text()), place(&name.sidecar()), told)
        };
        let image = session_file::encode_sidecar(&conflict.meta);
        for (bytes, to) in [(&Bytes::of(image), sidecar), (&conflict.lines, log)] {
            let scratch = self.scratch_with(bytes)?;
            self.renames.push((scratch, to));
        }
        Ok(told)
    }

    /// Returns the name of a backup: that of an attempt that was cut short, if it is the same.
    fn conflict_name(
        &mut self,
        planned: PlannedFiles<'_>,
        stem: &str,
        conflict: &Conflict,
    ) -> Result<BackupName> {
        match self.storage.create_dir(self.backups) {
            Err(e) if e.kind() != io::ErrorKind::AlreadyExists => {
                return Err(Error::io("create", self.backups, e));
            }
            _ => {}
        }
        let mut name = BackupName {
            stem: stem.into(),
            number: 1,
            reason: BackupReason::Conflict,
            millis: millis(&conflict.meta),
            skip: u64::try_from(conflict.meta.skip).unwrap_or(0),
        };
        let mut last = 0;
        for (file, is_made) in self.backups_of(planned, stem)? {
            if let Some((_, number)) =
                backup::parse_number_marker(&file).filter(|(other, _)| *other == stem)
            {
                last = last.max(number);
            }
            let Some(other) = BackupName::parse(&file).filter(|other| other.stem == stem) else {
                continue;
            };
            last = last.max(other.number);
            name.number = other.number;
            let found = is_made && name == other;
            if found && self.is_copy(&self.backups.join(&file), &conflict.lines)? {
                return Ok(name);
            }
        }
        name.number = last + 1;
        Ok(name)
    }

    /// Returns the names of a session's backups, and of others that begin alike, each with true if
    /// it is made.
    fn backups_of(&mut self, planned: PlannedFiles<'_>, stem: &str) -> Result<Vec<(String, bool)>> {
        if self.backup_names.is_empty() {
            let to_make = planned.plans.backups.iter();
            let to_make = to_make.map(|kept| (kept.name.clone(), false));
            self.backup_names.extend(to_make);
            let made = files::entries(self.storage, self.backups)?;
            self.backup_names
                .extend(made.into_iter().map(|name| (name, true)));
        }
        let begin = format!("{stem}.");
        let names = self.backup_names.range(begin.clone()..);
        let names = names.take_while(|(name, _)| name.starts_with(&begin));
        Ok(names.map(|(name, made)| (name.clone(), *made)).collect())
    }

    fn is_copy(&self, path: &Path, lines: &Bytes) -> Result<bool> {
        let wrap = |e| Error::io("read", path, e);
        let file = self.storage.open(path, OpenMode::Read).map_err(wrap)?;
        let len = file.info().map_err(wrap)?.len;
        if len != lines.size() {
            return Ok(false);
        }
        let ours = lines.crc().map_err(wrap)?;
        Ok(crc_of(&*file, len).map_err(wrap)? == ours)
    }
}

/// Returns the time of a session's last write, milliseconds since 1970.
fn millis(meta: &SessionMeta) -> i64 {
    let time = OffsetDateTime::parse(&meta.updated_at, &Rfc3339);
    let millis = time.map_or(0, |time| time.unix_timestamp_nanos() / 1_000_000);
    i64::try_from(millis).unwrap_or(0).max(0)
}
