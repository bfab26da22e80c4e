//! Brings the archive up to the journal: the parts of sessions that were deleted, or got another
//! key.

use std::collections::BTreeSet;

use sessionlog_core::error::Result;

use super::Redo;
use crate::disk::archive::ArchivePart;
use crate::disk::files::{self, is_temp_name};
use crate::engine::recovery::plan::{Base, Plans};

impl Redo<'_> {
    /// Removes the parts of deleted sessions. The parts of a session that was deleted and exists
    /// again are its own: it was not written to before the old ones were gone.
    pub(super) fn archived(&mut self, plans: &Plans) -> Result<()> {
        self.move_parts(plans)?;
        let exists = |stem: &str| plans.sessions.get(stem).is_some_and(|plan| plan.exists());
        let deleted = plans.once.iter().filter(|(_, once)| once.anew);
        let deleted = deleted.map(|(stem, _)| stem.as_str());
        let deleted: BTreeSet<&str> = deleted.filter(|stem| !exists(stem)).collect();
        if deleted.is_empty() {
            return Ok(());
        }
        let parts = files::entries(self.storage, self.archive)?;
        let of_deleted = |part: &ArchivePart| deleted.contains(&*part.stem);
        let parts = parts.iter().filter_map(|name| ArchivePart::parse(name));
        let paths = parts.filter(of_deleted);
        let paths = paths.map(|part| self.archive.join(part.to_text()));
        self.removals.extend(paths);
        Ok(())
    }

    /// Renames the parts that were prepared for a session that got another key, beside its file.
    fn move_parts(&mut self, plans: &Plans) -> Result<()> {
        let names = files::entries(self.storage, self.archive)?;
        let swapped = plans.sessions.iter();
        let swapped = swapped.filter_map(|(stem, plan)| match &plan.base {
            Base::Swapped(swap) => Some((stem, &swap.temp)),
            Base::OnDisk | Base::Deleted | Base::Prefix(_) => None,
        });
        let swapped: Vec<_> = swapped.collect();
        for name in names.iter().filter(|name| is_temp_name(name)) {
            let mut parts = swapped.iter();
            let part = parts.find_map(|(stem, temp)| ArchivePart::of_hidden(name, temp, stem));
            if let Some(part) = part {
                let (from, to) = (self.archive.join(name), self.archive.join(part.to_text()));
                self.renames.push((from, to));
            }
        }
        Ok(())
    }
}
