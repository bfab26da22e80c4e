//! Brings a session's file up to the journal.

use sessionlog_core::error::{Error, Result};

use super::Redo;
use super::lines::put;
use super::rewritten::holds;
use crate::disk::files::{self, log_path};
use crate::engine::recovery::bytes::Bytes;
use crate::engine::recovery::plan::{Base, Plan, PlannedSwap};
use crate::engine::recovery::planned::PlannedFiles;

impl Redo<'_> {
    /// Carries out the journal for a file that is as the journal left it.
    pub(super) fn log(&mut self, planned: PlannedFiles<'_>, stem: &str, plan: &Plan) -> Result<()> {
        let path = log_path(self.dir, stem);
        let (offset, lines) = plan.journalled().unwrap_or_default();
        match &plan.base {
            Base::Swapped(swap) => return self.swap(stem, plan, swap, &lines),
            // Its copy may never have reached the disk.
            Base::Prefix(_) => {
                let log = self.open_place(&path)?;
                let log = log.map(|log| Bytes::whole(Some(log), &path)).transpose()?;
                if let Some(lines) = planned.session(plan, log)? {
                    let scratch = self.scratch_with(&lines)?;
                    self.renames.push((scratch, path));
                }
                return Ok(());
            }
            Base::Deleted if lines.is_empty() => self.removals.push(path),
            Base::Deleted => {
                let scratch = self.scratch_of(&lines)?;
                self.renames.push((scratch, path));
            }
            Base::OnDisk if lines.is_empty() => {}
            Base::OnDisk => {
                if let Some(file) = self.open_place(&path)? {
                    return put(&*file, &path, offset, &lines);
                }
                let scratch = self.scratch_of(&lines)?;
                self.renames.push((scratch, path));
            }
        }
        Ok(())
    }

    fn swap(&mut self, stem: &str, plan: &Plan, swap: &PlannedSwap, lines: &[u8]) -> Result<()> {
        let path = log_path(self.dir, stem);
        let temp = self.dir.join(&swap.temp);
        let Some(file) = self.open_place(&temp)? else {
            let file = self.open_place(&path)?;
            // Another program may have removed the prepared file. If the journal holds it whole,
            // the file with the session's name may be the earlier one: lines written over it would
            // bring back the lines they do not cover.
            if let Some(file) = file
                && (swap.len > 0 || Self::is_exact(&*file, &path, plan)?)
            {
                return put(&*file, &path, swap.len, lines);
            }
            if swap.len == 0 {
                let scratch = self.scratch_of(lines)?;
                self.renames.push((scratch, path));
            }
            return Ok(());
        };
        if holds(&*file, swap, &temp)? {
            put(&*file, &temp, swap.len, lines)?;
            self.renames.push((temp, path));
            return Ok(());
        }
        self.report.lose(format!(
            "{} is not what the journal says was written there; as far as it reads, it is the \
             session's file {}",
            temp.display(),
            path.display()
        ));
        // No rest of the old file may be left where lines are damaged.
        if files::is_there(self.storage, &path)? {
            self.set_aside(&path, "what takes its place is damaged")?;
        }
        let damaged = Bytes::whole(Some(file), &temp)?;
        let whole = if damaged.size() < swap.len {
            damaged.followed(lines)
        } else {
            damaged.continued(swap.len, lines)
        };
        let whole = whole.map_err(|e| Error::io("recover", &temp, e))?;
        let scratch = self.scratch_with(&whole)?;
        self.renames.push((scratch, path));
        Ok(())
    }
}
