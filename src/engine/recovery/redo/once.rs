//! Brings the ids of messages that a session took once up to the journal.

use std::path::Path;

use sessionlog_core::error::{Error, Result};

use super::Redo;
use crate::disk::files;
use crate::disk::files::once::{self, OnceContents};
use crate::engine::home;
use crate::engine::recovery::plan::PlannedOnce;

impl Redo<'_> {
    /// Adds the journal's ids after the present ones; if the session was deleted, they are the only
    /// ones.
    pub(super) fn once(&mut self, stem: &str, plan: &PlannedOnce) -> Result<()> {
        let [newest, old] = once::paths(self.once, stem);
        let mut there = Vec::new();
        if plan.anew {
            self.removals.push(old);
            if plan.lines.is_empty() {
                self.removals.push(newest);
                return Ok(());
            }
        } else {
            there = self.read_once(&newest)?;
            let taken = OnceContents::of([&there, &self.read_once(&old)?]);
            if plan.lacks_nothing(&taken) {
                return Ok(());
            }
        }
        home::create_all(self.storage, self.once)?;
        let scratch = self.scratch_of(&plan.after(&there))?;
        self.renames.push((scratch, newest));
        Ok(())
    }

    /// Reads one of the files; another thing of that name is set aside.
    fn read_once(&mut self, path: &Path) -> Result<Vec<u8>> {
        match once::read_file(self.storage, path) {
            Err(e) if files::is_taken(&e) => {
                self.set_aside(path, &e.to_string())?;
                Ok(Vec::new())
            }
            read => read.map_err(|e| Error::io("recover", path, e)),
        }
    }
}
