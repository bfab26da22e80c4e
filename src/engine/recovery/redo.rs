//! Carries out the journal, in two steps: first, everything that can be written beside the present
//! files is written and synced; then names change. A crash between them finds the journal untouched
//! and both sets of files whole.

mod adopt;
mod archive;
mod backups;
mod lines;
mod log;
mod once;
mod place;
mod rewritten;
mod scratch;
mod sidecar;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};

pub(crate) use self::adopt::Adoption;
pub(crate) use self::rewritten::{backup_fault, rewrite_fault};
pub(super) use self::scratch::SCRATCH_PREFIX;
pub(crate) use self::scratch::is_scratch_name;
use sessionlog_core::error::{Error, Result};
use sessionlog_wal::storage::{DirEntry, FileKind, Storage};

use super::foreign::{ForeignVerdict, judge, needs_no_file};
use super::plan::{Base, Plan, Plans};
use super::planned::PlannedFiles;
use super::report::RecoveryReport;
use crate::disk::copies::lost::Copies;
use crate::disk::files::backup::BackupName;
use crate::disk::files::{self, TempNames, is_temp_name, log_path};

/// The places of a store's files.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StorePlaces<'a> {
    pub(crate) dir: &'a Path,
    /// The directory for damaged sidecars, and for sessions of others that have the name of a
    /// sidecar.
    pub(crate) quarantine: &'a Path,
    pub(crate) backups: &'a Path,
    /// The directory of the ids of messages taken once.
    pub(crate) once: &'a Path,
    pub(crate) archive: &'a Path,
}

/// Brings all session files and backups up to the journal and makes them durable, except those that
/// another program changed: for them, it returns the records that the journal needs first. Hidden
/// files that are made for this have the names `temps`.
///
/// # Errors
/// As the operating system reports them. The journal is untouched then, and opening again does the
/// same again.
pub(crate) fn redo(
    storage: &dyn Storage,
    places: StorePlaces<'_>,
    plans: &Plans,
    temps: TempNames,
    copies: &mut Copies<'_>,
    report: &mut RecoveryReport,
) -> Result<Adoption> {
    let mut redo = Redo::new(storage, places, temps, report);
    redo.clear(is_scratch_name)?;
    // Files that failed attempts prepared: on a full disk each attempt would take more space.
    redo.clear_temps_from(&redo.temps.first())?;
    redo.clear_ways(plans)?;
    let changed = redo.judge(plans)?;
    redo.carry_out(plans, &changed, copies)
}

/// Removes the files that failed attempts left, if the journal names no session, and returns the
/// rest of the directory. Returns `None` if it is `known` that no attempt left anything.
///
/// # Errors
/// As the operating system reports them.
pub(crate) fn clear(
    storage: &dyn Storage,
    places: StorePlaces<'_>,
    known: bool,
    report: &mut RecoveryReport,
) -> Result<Option<Vec<DirEntry>>> {
    let redo = Redo::new(storage, places, TempNames::default(), report);
    redo.clear_links()?;
    if known {
        return Ok(None);
    }
    redo.clear(|name| is_scratch_name(name) || is_temp_name(name))
        .map(Some)
}

/// Brings session files up to the records that were journalled since they were looked at.
///
/// # Errors
/// As [`redo`].
pub(crate) fn redo_adopted(
    storage: &dyn Storage,
    places: StorePlaces<'_>,
    plans: &Plans,
    copies: &mut Copies<'_>,
    report: &mut RecoveryReport,
) -> Result<()> {
    let mut redo = Redo::new(storage, places, TempNames::default(), report);
    redo.carry_out(plans, &BTreeSet::new(), copies).map(drop)
}

struct Redo<'a> {
    storage: &'a dyn Storage,
    dir: &'a Path,
    quarantine: &'a Path,
    backups: &'a Path,
    once: &'a Path,
    archive: &'a Path,
    /// The present place of each backup that the journal made, by its file name.
    kept: BTreeMap<String, PathBuf>,
    report: &'a mut RecoveryReport,
    renames: Vec<(PathBuf, PathBuf)>,
    /// Names in the quarantine that are assigned already.
    asides: BTreeSet<PathBuf>,
    /// Every backup's file name, and true if the backup is made; empty until asked for.
    backup_names: BTreeMap<String, bool>,
    removals: Vec<PathBuf>,
    counter: u64,
    temps: TempNames,
}

impl<'a> Redo<'a> {
    fn new(
        storage: &'a dyn Storage,
        places: StorePlaces<'a>,
        temps: TempNames,
        report: &'a mut RecoveryReport,
    ) -> Self {
        Self {
            storage,
            dir: places.dir,
            quarantine: places.quarantine,
            backups: places.backups,
            once: places.once,
            archive: places.archive,
            kept: BTreeMap::new(),
            report,
            renames: Vec::new(),
            asides: BTreeSet::new(),
            backup_names: BTreeMap::new(),
            removals: Vec::new(),
            counter: 0,
            temps,
        }
    }

    fn carry_out(
        &mut self,
        plans: &Plans,
        changed: &BTreeSet<&str>,
        copies: &mut Copies<'_>,
    ) -> Result<Adoption> {
        let mut adopted = Adoption::default();
        if plans.sessions.is_empty() {
            // A sync of the whole file system would wait for the writes of every other program, and
            // there is nothing of ours to wait for.
            self.clear_temps(plans, &[])?;
            return Ok(adopted);
        }
        let planned = self.planned(plans);
        // First: files that are kept as found must not be written to before.
        for stem in changed {
            // Judged once more: keeping the results for thousands would keep as many files open.
            let Some(plan) = plans.sessions.get(*stem) else {
                continue;
            };
            match judge(planned, stem, plan)? {
                ForeignVerdict::Changed(changed) => {
                    self.adopt(planned, stem, &changed, &mut adopted)?;
                }
                ForeignVerdict::Barred(barred) => self.bar(planned, stem, &barred, &mut adopted)?,
                ForeignVerdict::Ours { .. } => {}
            }
        }
        for kept in &plans.backups {
            let name = BackupName::parse(&kept.name);
            let shared = name.is_some_and(|name| changed.contains(&*name.stem));
            self.backup(kept, shared)?;
        }
        for (stem, plan) in &plans.sessions {
            if !changed.contains(&**stem) {
                self.with_room(|redo| redo.session(planned, stem, plan, copies))?;
            }
        }
        for (stem, once) in &plans.once {
            self.with_room(|redo| redo.once(stem, once))?;
        }
        self.archived(plans)?;
        self.remove_backups(plans, &adopted.made)?;
        let (storage, dir) = (self.storage, self.dir);
        let sync = || storage.sync_all(dir).map_err(|e| Error::io("sync", dir, e));
        sync()?;
        self.change_names()?;
        self.clear_temps(plans, &adopted.temps)?;
        sync()?;
        Ok(adopted)
    }

    /// Runs `attempt`; if there is no space left, changes the names that are prepared so far and
    /// tries again: each replaced file frees space. A crash then leaves some names changed, like
    /// one while all are changed.
    fn with_room(&mut self, mut attempt: impl FnMut(&mut Self) -> Result<()>) -> Result<()> {
        let (renames, removals) = (self.renames.len(), self.removals.len());
        let (findings, scratch) = (self.report.findings.len(), self.counter);
        match attempt(self) {
            Err(Error::StorageFull { .. }) if renames + removals > 0 => {}
            done => return done,
        }
        self.report.findings.truncate(findings);
        self.removals.truncate(removals);
        self.renames.truncate(renames);
        for number in scratch..self.counter {
            remove(self.storage, &self.scratch_path(number))?;
        }
        let (storage, dir) = (self.storage, self.dir);
        let sync = || storage.sync_all(dir).map_err(|e| Error::io("sync", dir, e));
        sync()?;
        self.change_names()?;
        sync()?;
        attempt(self)
    }

    fn planned<'p>(&self, plans: &'p Plans) -> PlannedFiles<'p>
    where
        'a: 'p,
    {
        PlannedFiles {
            storage: self.storage,
            dir: self.dir,
            backups: self.backups,
            plans,
        }
    }

    /// Returns the sessions with files that another program changed.
    fn judge<'p>(&mut self, plans: &'p Plans) -> Result<BTreeSet<&'p str>>
    where
        'a: 'p,
    {
        let planned = self.planned(plans);
        let mut changed = BTreeSet::new();
        for (stem, plan) in &plans.sessions {
            let judged = match judge(planned, stem, plan) {
                Err(error) if !error.may_pass() => judge(planned, stem, plan),
                judged => judged,
            };
            match judged {
                Ok(ForeignVerdict::Ours { finding, .. }) => self.report.findings.extend(finding),
                Ok(ForeignVerdict::Changed(_) | ForeignVerdict::Barred(_)) => {
                    changed.insert(&**stem);
                }
                // A damaged block of one session must not keep all others from being served.
                Err(error) if !error.may_pass() && self.is_no_longer(stem, plan)? => {
                    let finding = format!("{error}; what the journal holds is written there");
                    self.report.findings.push(finding);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(changed)
    }

    /// True if a session's file has no room for lines of others after ours.
    fn is_no_longer(&self, stem: &str, plan: &Plan) -> Result<bool> {
        let path = log_path(self.dir, stem);
        let info = self.storage.info(&path);
        let len = info.map_err(|e| Error::io("look at", &path, e))?.len;
        let lines = plan.appended().len() as u64;
        Ok(plan.base == Base::OnDisk && plan.base_end().is_some_and(|end| len <= end + lines))
    }

    fn clear_ways(&mut self, plans: &Plans) -> Result<()> {
        let planned = self.planned(plans);
        for (stem, plan) in &plans.sessions {
            self.clear_way(&self.sidecar_path(stem))?;
            // A file that cannot be made again is not given up.
            if needs_no_file(planned, plan)? {
                self.clear_way(&log_path(self.dir, stem))?;
            }
        }
        Ok(())
    }

    fn session(
        &mut self,
        planned: PlannedFiles<'_>,
        stem: &str,
        plan: &Plan,
        copies: &mut Copies<'_>,
    ) -> Result<()> {
        if !plan.exists() {
            self.removals.push(log_path(self.dir, stem));
            self.removals.push(self.sidecar_path(stem));
            return Ok(());
        }
        let before = self.renames.len();
        self.log(planned, stem, plan)?;
        self.sidecar(stem, plan, before, copies)
    }

    /// Sets aside a thing that is no file and has the name of a session's file that the journal
    /// names: it must keep neither that session's lines from it, nor the store from opening.
    fn clear_way(&mut self, path: &Path) -> Result<()> {
        let name = path.file_name().and_then(|name| name.to_str());
        let kind = files::kind_of(self.storage, path);
        let (Some(name), Some(FileKind::Directory | FileKind::Symlink | FileKind::Other)) =
            (name, kind)
        else {
            return Ok(());
        };
        let aside = files::free_path(self.storage, self.quarantine, name)?;
        self.storage
            .rename(path, &aside)
            .map_err(|e| Error::io("set aside", path, e))?;
        self.report.findings.push(format!(
            "{} was no file; it is now {}",
            path.display(),
            aside.display()
        ));
        Ok(())
    }

    fn change_names(&mut self) -> Result<()> {
        for (from, to) in std::mem::take(&mut self.renames) {
            self.rename(&from, &to)?;
            let moved = self.kept.values_mut().find(|place| **place == from);
            if let Some(place) = moved {
                *place = to;
            }
        }
        for path in self.removals.drain(..) {
            match remove(self.storage, &path) {
                // It is another program's, and its name is free: it is in no session's way.
                Err(Error::Io { source, .. }) if files::is_taken(&source) => {
                    let finding = format!("{} is not removed: {source}", path.display());
                    self.report.findings.push(finding);
                }
                other => other?,
            }
        }
        Ok(())
    }
}

fn remove(storage: &dyn Storage, path: &Path) -> Result<()> {
    match storage.remove_file(path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(Error::io("remove", path, e)),
        _ => Ok(()),
    }
}
