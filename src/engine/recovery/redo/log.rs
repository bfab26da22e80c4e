//! Bringing a session's file up to the journal.

use std::io;
use std::path::Path;
use std::sync::Arc;

use super::Redo;
use super::rewritten::{check, gone};
use crate::disk::files::log_path;
use crate::engine::recovery::plan::{Base, Plan, Swap};
use crate::error::{Error, Result};
use crate::ground::storage::{OpenMode, StorageFile};

impl Redo<'_> {
    pub(super) fn log(&mut self, stem: &str, plan: &Plan) -> Result<()> {
        match &plan.base {
            Base::OnDisk => self.append_in_place(stem, plan),
            Base::Deleted => self.start_anew(stem, plan),
            Base::Swapped(swap) => self.swap(stem, swap, plan),
            Base::Prefix(prefix) => match self.rebuild(prefix, plan)? {
                Some(scratch) => {
                    self.renames.push((scratch, log_path(self.dir, stem)));
                    Ok(())
                }
                None => self.append_in_place(stem, plan),
            },
        }
    }

    fn append_in_place(&mut self, stem: &str, plan: &Plan) -> Result<()> {
        let Some((offset, lines)) = &plan.appended else {
            return Ok(());
        };
        if lines.is_empty() {
            return Ok(());
        }
        let path = log_path(self.dir, stem);
        let file = self.open_or_create(&path)?;
        self.put(&*file, &path, *offset, lines)
    }

    /// The session was deleted and written to again: its file starts empty.
    fn start_anew(&mut self, stem: &str, plan: &Plan) -> Result<()> {
        let lines = plan.appended.as_ref().map_or(&[][..], |(_, lines)| lines);
        let path = log_path(self.dir, stem);
        if lines.is_empty() {
            self.removals.push(path);
            return Ok(());
        }
        let (temp, file) = self.scratch()?;
        file.write_all_at(lines, 0)
            .map_err(|e| Error::io("recover", &temp, e))?;
        self.renames.push((temp, path));
        Ok(())
    }

    fn swap(&mut self, stem: &str, swap: &Swap, plan: &Plan) -> Result<()> {
        let path = log_path(self.dir, stem);
        let temp = self.dir.join(&swap.temp);
        let behind = swap.len + swap.tail.len() as u64;
        let file = match self.storage.open(&temp, OpenMode::ReadWrite) {
            Ok(file) => {
                self.renames.push((temp.clone(), path.clone()));
                check(&*file, swap, &temp)?;
                file
            }
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                // Renamed before the crash: the file there must be the one.
                let file = match self.storage.open(&path, OpenMode::ReadWrite) {
                    Err(e) if e.kind() == io::ErrorKind::NotFound => return Err(gone(&path)),
                    other => other.map_err(|e| Error::io("recover", &path, e))?,
                };
                // What stands there stays; what was acknowledged since comes
                // behind it.
                if check(&*file, swap, &path).is_err() {
                    self.report.findings.push(format!(
                        "{} is not the file the journal rewrote; it stays as it is",
                        path.display()
                    ));
                }
                file
            }
            Err(e) => return Err(Error::io("recover", &temp, e)),
        };
        let mut lines = swap.tail.clone();
        if let Some((offset, appended)) = &plan.appended {
            debug_assert_eq!(*offset, behind);
            lines.extend_from_slice(appended);
        }
        if lines.is_empty() {
            return Ok(());
        }
        self.put(&*file, &path, swap.len, &lines)
    }

    fn open_or_create(&self, path: &Path) -> Result<Arc<dyn StorageFile>> {
        match self.storage.open(path, OpenMode::ReadWrite) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                self.storage.open(path, OpenMode::CreateNew)
            }
            other => other,
        }
        .map_err(|e| Error::io("recover", path, e))
    }
}
