//! Removing what was archived of sessions that were deleted.

use std::collections::BTreeSet;

use super::Redo;
use crate::disk::archive::Part;
use crate::disk::files;
use crate::engine::recovery::plan::Plans;
use crate::error::Result;

impl Redo<'_> {
    /// What is there of a session that was deleted and is there again is its own: it was not
    /// written to before the rest was gone.
    pub(super) fn archived(&mut self, plans: &Plans) -> Result<()> {
        let exists = |stem: &str| plans.sessions.get(stem).is_some_and(|plan| plan.exists());
        let deleted = plans.once.iter().filter(|(_, once)| once.anew);
        let deleted = deleted.map(|(stem, _)| stem.as_str());
        let deleted: BTreeSet<&str> = deleted.filter(|stem| !exists(stem)).collect();
        if deleted.is_empty() {
            return Ok(());
        }
        let parts = files::entries(self.storage, self.archive)?;
        let of_deleted = |part: &Part| deleted.contains(&*part.stem);
        let parts = parts.iter().filter_map(|name| Part::parse(name));
        let paths = parts.filter(of_deleted);
        let paths = paths.map(|part| self.archive.join(part.to_text()));
        self.removals.extend(paths);
        Ok(())
    }
}
