//! Copies of the parts of a store besides its sessions.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;

use sessionlog_core::error::{Error, Result};
use sessionlog_core::session_file::log_name;
use sessionlog_wal::storage::{self, Storage};

use super::{BackupReport, DirectoryCopy};
use crate::disk::archive::ArchivePart;
use crate::disk::files::backup;
use crate::engine::glance::SessionLines;

impl DirectoryCopy {
    /// Copies files that name no session and have not become one of `stems`, as they are.
    pub(super) fn orphans(
        &self,
        storage: &dyn Storage,
        dir: &Path,
        orphans: Vec<String>,
        stems: &BTreeSet<String>,
        report: &mut BackupReport,
    ) -> Result<()> {
        for stem in orphans {
            if !stems.contains(&stem) {
                let lines = SessionLines::of_file(storage, dir, &stem);
                report.take_raw(&stem, self.raw(&log_name(&stem), lines)?);
            }
        }
        Ok(())
    }

    /// Returns the error if a file cannot be read; the earlier copy's file then stays.
    pub(super) fn raw(&self, name: &str, lines: Result<SessionLines>) -> Result<Option<Error>> {
        let failed = match lines {
            Ok(lines) if lines.is_any() => self.put_file(name, &lines.into())?,
            Ok(_) => None,
            Err(error) => Some(error),
        };
        if failed.is_some() {
            self.into.keep(&[name.to_owned()])?;
        }
        Ok(failed)
    }

    /// Copies the archive, after the sessions: lines dropped meanwhile are in both. A part that
    /// grows gets another name, and contains everything it had.
    pub(super) fn archive(
        &self,
        storage: &dyn Storage,
        dir: &Path,
        report: &mut BackupReport,
    ) -> Result<()> {
        let mut done = BTreeSet::new();
        loop {
            let names = storage::names(storage, dir).map_err(|e| Error::io("list", dir, e))?;
            let names: BTreeSet<String> = names.into_iter().collect();
            let is_new =
                |name: &&String| ArchivePart::parse(name).is_some() && !done.contains(*name);
            let new: Vec<String> = names.iter().filter(is_new).cloned().collect();
            for name in &new {
                let copy = format!(".sessionlog/archive/{name}");
                if !self.into.link(&dir.join(name), &copy)? {
                    let error = Error::io("read", &dir.join(name), io::Error::other("unreadable"));
                    report.take_raw(name, Some(error));
                    self.into.keep(&[copy])?;
                }
            }
            if new.is_empty() {
                return Ok(());
            }
            done.extend(new);
        }
    }

    /// Copies the backup files that are `wanted`, and the file that keeps the numbers of removed
    /// backups from being given again.
    pub(super) fn backup_files(
        &self,
        storage: &dyn Storage,
        dir: &Path,
        report: &mut BackupReport,
        wanted: impl Fn(&str) -> bool,
    ) -> Result<()> {
        let names = storage::names(storage, dir).map_err(|e| Error::io("list", dir, e))?;
        for name in names {
            let is_marker = backup::parse_number_marker(&name).is_some();
            let copy = in_backups(&name);
            if (is_marker || wanted(&name)) && !self.into.link(&dir.join(&name), &copy)? {
                let error = Error::io("read", &dir.join(&name), io::Error::other("unreadable"));
                report.take_raw(&name, Some(error));
                self.into.keep(&[copy])?;
            }
        }
        Ok(())
    }
}

pub(super) fn in_backups(name: &str) -> String {
    format!(".sessionlog/backups/{name}")
}
