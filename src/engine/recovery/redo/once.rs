//! Bringing up to the journal what is said of messages that a session took once.

use super::Redo;
use crate::disk::files::once;
use crate::engine::home;
use crate::engine::recovery::plan::Once;
use crate::error::{Error, Result};

impl Redo<'_> {
    /// Adds what is missing to what was there, unless the session was deleted: then there is
    /// nothing else.
    pub(super) fn once(&mut self, stem: &str, plan: &Once) -> Result<()> {
        let paths = once::paths(self.once, stem);
        let wrap = |e| Error::io("recover", &paths[0], e);
        if plan.anew {
            self.removals.push(paths[1].clone());
            if plan.lines.is_empty() {
                self.removals.push(paths[0].clone());
                return Ok(());
            }
            home::create_all(self.storage, self.once)?;
            let scratch = self.scratch_of(&plan.missing(&once::Taken::default()))?;
            self.renames.push((scratch, paths[0].clone()));
            return Ok(());
        }
        let taken = once::read(self.storage, &paths).map_err(wrap)?;
        let missing = plan.missing(&taken);
        if missing.is_empty() {
            return Ok(());
        }
        home::create_all(self.storage, self.once)?;
        once::add(self.storage, &paths[0], &missing).map_err(wrap)
    }
}
