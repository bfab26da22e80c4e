//! Bringing up to the journal what is said of messages that a session took once.

use std::path::Path;

use super::Redo;
use crate::disk::files;
use crate::disk::files::once::{self, Taken};
use crate::engine::home;
use crate::engine::recovery::plan::Once;
use crate::error::{Error, Result};

impl Redo<'_> {
    /// What the journal says comes after what was there, unless the session was deleted:
    /// then there is nothing else.
    pub(super) fn once(&mut self, stem: &str, plan: &Once) -> Result<()> {
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
            let taken = Taken::of([&there, &self.read_once(&old)?]);
            if plan.lacks_nothing(&taken) {
                return Ok(());
            }
        }
        home::create_all(self.storage, self.once)?;
        let scratch = self.scratch_of(&plan.after(&there))?;
        self.renames.push((scratch, newest));
        Ok(())
    }

    /// What stands in one of the files; what else has the name is set aside.
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
