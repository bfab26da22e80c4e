//! Brings backups up to the journal, and makes sessions of them.
//!
//! A backup is the file that a session had, under another name: the journal's records of that file
//! hold for the backup. A session that was taken back is made anew from its backup: the copy in its
//! place may never have reached the disk.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sessionlog_core::error::{Error, Result};
use sessionlog_wal::storage::{OpenMode, StorageFile};

use super::lines::put;
use super::rewritten::holds;
use super::{Redo, remove};
use crate::disk::files::backup::BackupName;
use crate::disk::files::is_taken;
use crate::disk::files::{self, is_temp_name};
use crate::engine::recovery::bytes::Bytes;
use crate::engine::recovery::foreign::arrived;
use crate::engine::recovery::plan::{Base, Plan, PlannedBackup, Plans, Prefix};

impl Redo<'_> {
    /// Brings one backup up to the journal. If it is `shared`, it may be the file of a session that
    /// another program changed, and must not be written to.
    pub(super) fn backup(&mut self, kept: &PlannedBackup, shared: bool) -> Result<()> {
        let path = self.backups.join(&kept.name);
        let anew = match &kept.plan.base {
            Base::Prefix(prefix) => self.rebuild(prefix, &kept.plan)?,
            Base::Deleted => Some(self.scratch_of(kept.plan.appended())?),
            Base::OnDisk | Base::Swapped(_) => None,
        };
        if let Some(scratch) = anew {
            self.kept.insert(kept.name.clone(), scratch.clone());
            self.renames.push((scratch, path));
            return Ok(());
        }
        let link = self.backups.join(&kept.link);
        let linked = files::is_there(self.storage, &link)?;
        let place = if linked { &link } else { &path };
        let Some(file) = self.open_place(place)? else {
            return self.quarantine_lines(kept, &path);
        };
        if let Base::Swapped(swap) = &kept.plan.base
            && !holds(&*file, swap, place)?
        {
            self.report.lose(format!(
                "the backup {} is not what the journal says it is; it stays as it is",
                path.display()
            ));
        }
        let exact = Self::is_exact(&*file, place, &kept.plan)?;
        if !exact {
            let found = self.keep_found(place, "file")?;
            let found = found.map_or(String::new(), |found| format!("; {found}"));
            self.report.findings.push(format!(
                "{} is not as the journal says, and is made anew{found}",
                place.display()
            ));
        }
        if shared || !exact {
            let scratch = self.anew(file, place, &kept.plan)?;
            self.kept.insert(kept.name.clone(), scratch.clone());
            self.renames.push((scratch, path));
            self.removals.extend(linked.then_some(link));
            return Ok(());
        }
        let (offset, lines) = kept.plan.journalled().unwrap_or_default();
        put(&*file, place, offset, &lines)?;
        self.kept.insert(kept.name.clone(), place.clone());
        if linked {
            self.renames.push((link, path));
        }
        Ok(())
    }

    /// True if a file has nothing but the journal's lines, as far as it was written.
    pub(super) fn is_exact(file: &dyn StorageFile, path: &Path, plan: &Plan) -> Result<bool> {
        let wrap = |e| Error::io("recover", path, e);
        let len = file.info().map_err(wrap)?.len;
        let Some(offset) = plan.base_end() else {
            return Ok(true);
        };
        let (_, lines) = plan.journalled().unwrap_or_default();
        if len < offset || len > offset + lines.len() as u64 {
            return Ok(false);
        }
        let mut found = vec![0; (len - offset) as usize];
        file.read_exact_at(&mut found, offset).map_err(wrap)?;
        Ok(arrived(&found, &lines))
    }

    /// Makes a backup without the lines that others added while it was a session's file.
    fn anew(&mut self, file: Arc<dyn StorageFile>, path: &Path, plan: &Plan) -> Result<PathBuf> {
        let (_, lines) = plan.journalled().unwrap_or_default();
        let found = Bytes::whole(Some(file), path)?;
        let end = plan.base_end().unwrap_or_default();
        let whole = if found.size() < end {
            found.followed(&lines)
        } else {
            found.continued(end, &lines)
        };
        let whole = whole.map_err(|e| Error::io("recover", path, e))?;
        self.scratch_with(&whole)
    }

    /// Keeps the journal's lines of a backup that is gone: they are no history to go back to, but
    /// are kept all the same.
    fn quarantine_lines(&mut self, kept: &PlannedBackup, path: &Path) -> Result<()> {
        let gone = format!("the backup {} is gone", path.display());
        let lines = kept.plan.journalled().map(|(_, lines)| lines);
        let Some(lines) = lines.filter(|lines| !lines.is_empty()) else {
            self.report.lose(gone);
            return Ok(());
        };
        let scratch = self.scratch_of(&lines)?;
        let aside = self.free_aside(path)?;
        self.report.lose(format!(
            "{gone}; {} journalled bytes of it are in {}",
            lines.len(),
            aside.display()
        ));
        self.renames.push((scratch, aside));
        Ok(())
    }

    /// Makes a file of the first bytes of a backup and the lines appended since; `None` if there is
    /// no such backup any more.
    pub(super) fn rebuild(&mut self, prefix: &Prefix, plan: &Plan) -> Result<Option<PathBuf>> {
        let made = self.kept.get(&prefix.of).cloned();
        let path = made.unwrap_or_else(|| self.backups.join(&prefix.of));
        let wrap = |e| Error::io("recover", &path, e);
        let opened = self.storage.open(&path, OpenMode::Read);
        let whole = match opened {
            Ok(file) if file.info().map_err(wrap)?.len >= prefix.len => Some(file),
            Ok(_) => None,
            Err(e) if e.kind() == io::ErrorKind::NotFound || is_taken(&e) => None,
            Err(e) => return Err(wrap(e)),
        };
        let Some(source) = whole else {
            self.report.lose(format!(
                "the backup {} is missing or short; the session made of it stays as it is",
                path.display()
            ));
            return Ok(None);
        };
        let whole = Bytes::whole(Some(source), &path)?;
        let whole = whole.continued(prefix.len, plan.appended());
        let whole = whole.map_err(|e| Error::io("recover", &path, e))?;
        self.scratch_with(&whole).map(Some)
    }

    /// Removes the backups of deleted sessions.
    pub(super) fn remove_backups(&mut self, plans: &Plans, made: &[String]) -> Result<()> {
        if plans.deleted.is_empty() {
            return Ok(());
        }
        for file in files::entries(self.storage, self.backups)? {
            let unmade = BackupName::parse(&file).filter(|name| plans.unmakes(name));
            if let Some(name) = unmade.filter(|_| !made.contains(&file)) {
                self.removals.push(self.backups.join(name.sidecar()));
                self.removals.push(self.backups.join(file));
            }
        }
        Ok(())
    }

    /// Removes second names of session files that became no backups. The directory is synced even
    /// if none is left: a name that was removed just before the process died would come back with a
    /// power loss, and stay until the next open.
    pub(super) fn clear_links(&self) -> Result<()> {
        let mut strays = files::entries(self.storage, self.backups)?;
        strays.retain(|file| is_temp_name(file));
        match self.storage.info(self.backups) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
            other => other.map_err(|e| Error::io("look at", self.backups, e))?,
        };
        for file in strays {
            remove(self.storage, &self.backups.join(file))?;
        }
        self.storage
            .sync_dir(self.backups)
            .map_err(|e| Error::io("sync", self.backups, e))
    }
}
