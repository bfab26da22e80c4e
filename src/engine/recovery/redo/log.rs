//! Bringing a session's file up to the journal.

use std::path::Path;

use super::Redo;
use super::lines::{alone, append_behind};
use super::place::is_one_file;
use super::rewritten::holds;
use crate::disk::files::{self, log_path};
use crate::engine::recovery::plan::{Base, Plan, Prefix, Swap};
use crate::error::{Error, Result};
use crate::ground::storage::OpenMode;

/// What is left of a session's lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Left {
    /// Those that its file has, and those that the journal puts after them.
    Whole,
    /// The same, but another program changed the file: lines that the journal counts
    /// as hidden may be others.
    Changed,
    /// The journal's alone: the file they follow is gone.
    Journalled,
}

impl Redo<'_> {
    pub(super) fn log(&mut self, stem: &str, plan: &Plan) -> Result<Left> {
        match &plan.base {
            Base::OnDisk => self.append_in_place(stem, plan),
            Base::Deleted => self.start_anew(stem, plan),
            Base::Swapped(swap) => self.swap(stem, swap, plan),
            Base::Prefix(prefix) => match self.rebuild(prefix, plan)? {
                Some(scratch) => {
                    self.renames.push((scratch, log_path(self.dir, stem)));
                    Ok(Left::Whole)
                }
                None => self.stay(stem, prefix, plan),
            },
        }
    }

    fn append_in_place(&mut self, stem: &str, plan: &Plan) -> Result<Left> {
        let Some((offset, lines)) = plan.journalled() else {
            return Ok(Left::Whole);
        };
        if lines.is_empty() {
            return Ok(Left::Whole);
        }
        let path = log_path(self.dir, stem);
        self.put_or_begin(&path, plan, offset, &lines)
    }

    /// The session was taken back to what is gone, and stays as it was. Its file may
    /// be a backup by another name then, to which nothing may be appended.
    fn stay(&mut self, stem: &str, prefix: &Prefix, plan: &Plan) -> Result<Left> {
        let path = log_path(self.dir, stem);
        let Some(backup) = self.kept.get(&prefix.kept).cloned() else {
            return self.append_in_place(stem, plan);
        };
        if !is_one_file(self.storage, &path, &backup)? {
            return self.append_in_place(stem, plan);
        }
        let (scratch, file) = self.scratch()?;
        let wrap = |e| Error::io("recover", &scratch, e);
        let old = self.storage.open(&backup, OpenMode::Read).map_err(wrap)?;
        let len = old.info().map_err(wrap)?.len;
        old.copy_to(&*file, len).map_err(wrap)?;
        if !plan.appended().is_empty() {
            append_behind(&*file, len, prefix.len, plan.appended()).map_err(wrap)?;
        }
        self.renames.push((scratch, path));
        Ok(Left::Whole)
    }

    /// Puts lines where they belong in the file at `path`; where there is none,
    /// they begin one.
    fn put_or_begin(
        &mut self,
        path: &Path,
        plan: &Plan,
        offset: u64,
        lines: &[u8],
    ) -> Result<Left> {
        let Some(file) = self.open_place(path)? else {
            return self.begin(path, plan, offset, lines);
        };
        let alone = alone(Some(&*file), offset, lines);
        let alone = alone.map_err(|e| Error::io("recover", path, e))?;
        let ours = self.put(&*file, path, offset, lines)?;
        Ok(match (alone, ours) {
            (true, _) => Left::Journalled,
            (false, true) => Left::Whole,
            (false, false) => Left::Changed,
        })
    }

    /// The file that the lines follow is gone, unless they are the first.
    fn begin(&mut self, path: &Path, plan: &Plan, offset: u64, lines: &[u8]) -> Result<Left> {
        if offset > 0 {
            return self.begin_without(path, plan, offset, lines);
        }
        if !lines.is_empty() {
            let scratch = self.scratch_of(lines)?;
            self.renames.push((scratch, path.to_owned()));
        }
        Ok(Left::Whole)
    }

    fn begin_without(
        &mut self,
        path: &Path,
        plan: &Plan,
        offset: u64,
        lines: &[u8],
    ) -> Result<Left> {
        let whose = plan.image.as_ref().map(|image| &image.key);
        let whose = whose.map_or(String::new(), |key| format!(" of session {key:?}"));
        self.report.lose(format!(
            "{}{whose} is missing; {} journalled bytes are all that is left of its lines",
            path.display(),
            lines.len(),
        ));
        if !lines.is_empty() {
            let (scratch, file) = self.scratch()?;
            append_behind(&*file, 0, offset, lines)
                .map_err(|e| Error::io("recover", &scratch, e))?;
            self.renames.push((scratch, path.to_owned()));
        }
        Ok(Left::Journalled)
    }

    /// The session was deleted and written to again: its file starts empty.
    fn start_anew(&mut self, stem: &str, plan: &Plan) -> Result<Left> {
        let lines = plan.appended();
        let path = log_path(self.dir, stem);
        if lines.is_empty() {
            self.removals.push(path);
            return Ok(Left::Whole);
        }
        self.begin(&path, plan, 0, lines)
    }

    fn swap(&mut self, stem: &str, swap: &Swap, plan: &Plan) -> Result<Left> {
        let path = log_path(self.dir, stem);
        let temp = self.dir.join(&swap.temp);
        let lines = [&swap.tail, plan.appended()].concat();
        if let Some(file) = self.open_place(&temp)? {
            if !holds(&*file, swap, &temp)? {
                self.report.lose(format!(
                    "{} is not what the journal says was written there; as far as it reads, it \
                     is the session's file {}",
                    temp.display(),
                    path.display()
                ));
                // Nothing else may be left of the lines that are damaged.
                if files::is_there(self.storage, &path)? {
                    self.set_aside(&path, "what takes its place is damaged")?;
                }
            }
            self.renames.push((temp, path.clone()));
            if !lines.is_empty() {
                self.put(&*file, &path, swap.len, &lines)?;
            }
            return Ok(Left::Whole);
        }
        // Renamed before the crash: the file there must be the one.
        let Some(file) = self.open_place(&path)? else {
            return self.begin(&path, plan, swap.len, &lines);
        };
        // What stands there stays; what was acknowledged since comes after it.
        let ours = holds(&*file, swap, &path)?;
        if !ours {
            self.report.findings.push(format!(
                "{} is not the file the journal rewrote; it stays as it is",
                path.display()
            ));
        }
        if lines.is_empty() {
            return Ok(if ours { Left::Whole } else { Left::Changed });
        }
        self.put_or_begin(&path, plan, swap.len, &lines)
    }
}
