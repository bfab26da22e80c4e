//! Bringing backups up to the journal, and making sessions of them.
//!
//! A backup is the file that a session had, under another name: what the
//! journal said of the one holds for the other. A session that was taken back
//! is made anew of its backup: the copy that stood there may never have reached
//! the disk.

use std::io;
use std::path::PathBuf;

use super::rewritten::check;
use super::{Redo, remove};
use crate::disk::files::backup::{self, Name};
use crate::disk::files::is_temp_name;
use crate::engine::recovery::plan::{Base, Kept, Plan, Plans, Prefix};
use crate::error::{Error, Result};
use crate::ground::storage::OpenMode;

impl Redo<'_> {
    /// Brings one backup up to the journal.
    pub(super) fn backup(&mut self, kept: &Kept) -> Result<()> {
        let path = self.backups.join(&kept.name);
        let anew = match &kept.plan.base {
            Base::Prefix(prefix) => self.rebuild(prefix, &kept.plan)?,
            Base::Deleted => Some(self.lines_alone(&kept.plan)?),
            Base::OnDisk | Base::Swapped(_) => None,
        };
        if let Some(scratch) = anew {
            self.kept.insert(kept.name.clone(), scratch.clone());
            self.renames.push((scratch, path));
            return Ok(());
        }
        let link = self.backups.join(&kept.link);
        let linked = self.storage.info(&link).is_ok();
        let place = if linked { &link } else { &path };
        let file = match self.storage.open(place, OpenMode::ReadWrite) {
            Ok(file) => file,
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                let finding = format!("the backup {} is gone", path.display());
                self.report.findings.push(finding);
                return Ok(());
            }
            Err(e) => return Err(Error::io("recover", place, e)),
        };
        let appended = kept.plan.appended.as_ref();
        if let Base::Swapped(swap) = &kept.plan.base {
            check(&*file, swap, place)?;
            let mut lines = swap.tail.clone();
            lines.extend(appended.iter().flat_map(|(_, lines)| lines));
            self.put(&*file, place, swap.len, &lines)?;
        } else if let Some((offset, lines)) = appended {
            self.put(&*file, place, *offset, lines)?;
        }
        self.kept.insert(kept.name.clone(), place.clone());
        if linked {
            self.renames.push((link, path));
        }
        Ok(())
    }

    /// A file with the first bytes of a backup, and what was appended since;
    /// `None` where there is no such backup any more.
    pub(super) fn rebuild(&mut self, prefix: &Prefix, plan: &Plan) -> Result<Option<PathBuf>> {
        let made = self.kept.get(&prefix.of).cloned();
        let path = made.unwrap_or_else(|| self.backups.join(&prefix.of));
        let wrap = |e| Error::io("recover", &path, e);
        let opened = self.storage.open(&path, OpenMode::Read);
        let whole = match opened {
            Ok(file) if file.info().map_err(wrap)?.len >= prefix.len => Some(file),
            Ok(_) => None,
            Err(e) if e.kind() == io::ErrorKind::NotFound => None,
            Err(e) => return Err(wrap(e)),
        };
        let Some(source) = whole else {
            self.report.findings.push(format!(
                "the backup {} is missing or short; the session made of it stays as it is",
                path.display()
            ));
            return Ok(None);
        };
        let (scratch, file) = self.scratch()?;
        let (at, lines) = match &plan.appended {
            Some((at, lines)) => (*at, &lines[..]),
            None => (prefix.len, &[][..]),
        };
        debug_assert_eq!(at, prefix.len);
        source
            .copy_to(&*file, prefix.len)
            .and_then(|()| file.write_all_at(lines, prefix.len))
            .map_err(|e| Error::io("recover", &scratch, e))?;
        Ok(Some(scratch))
    }

    /// Backups of sessions that were deleted go with them.
    pub(super) fn remove_backups(&mut self, plans: &Plans) -> Result<()> {
        if plans.deleted.is_empty() {
            return Ok(());
        }
        for file in self.backup_files()? {
            if Name::parse(&file).is_some_and(|name| plans.unmakes(&name)) {
                self.removals.push(self.backups.join(file));
            }
        }
        Ok(())
    }

    /// Second names of session files that became no backups. The directory is
    /// synced even where none is left: one that was removed just before the
    /// process died would come back with a power loss, and stay until the next
    /// open.
    pub(super) fn clear_links(&self) -> Result<()> {
        let mut strays = self.backup_files()?;
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

    fn lines_alone(&mut self, plan: &Plan) -> Result<PathBuf> {
        let (scratch, file) = self.scratch()?;
        let lines = plan.appended.as_ref().map_or(&[][..], |(_, lines)| lines);
        file.write_all_at(lines, 0)
            .map_err(|e| Error::io("recover", &scratch, e))?;
        Ok(scratch)
    }

    fn backup_files(&self) -> Result<Vec<String>> {
        backup::files(self.storage, self.backups).map_err(|e| Error::io("list", self.backups, e))
    }
}
