//! Bringing up to the journal what is said of messages that a session took once.

use super::Redo;
use crate::disk::files::once;
use crate::engine::home;
use crate::engine::recovery::plan::Once;
use crate::error::{Error, Result};

impl Redo<'_> {
    pub(super) fn once(&mut self, stem: &str, plan: &Once) -> Result<()> {
        let path = once::path(self.once, stem);
        let found = once::read(self.storage, &path);
        let old = found.map_err(|e| Error::io("read", &path, e))?;
        let lines = plan.lines(&old);
        if lines.is_empty() {
            self.removals.push(path);
        } else if lines != old {
            home::create_all(self.storage, self.once)?;
            let scratch = self.scratch_of(&lines)?;
            self.renames.push((scratch, path));
        }
        Ok(())
    }
}
