//! Replacing the blocks of all segments.

use std::sync::atomic::Ordering;

use sessionlog_core::error::Result;

use super::{Filling, Making, SegmentPool, segment};

impl SegmentPool {
    /// Continues the journal in blocks that never held a record: the next batch leaves the segment
    /// in use, and segments [retired](Self::retire) from then on are removed, not kept for reuse.
    /// Reused blocks hold old records until others are written over them. Must not run beside a
    /// [`retire`](Self::retire). A committer that needs a segment meanwhile waits.
    ///
    /// # Errors
    /// As [`SegmentPool::next`]. The journal is whole, and without spares.
    pub fn renew(&self) -> Result<()> {
        let _making = {
            let mut state = self.state.lock();
            while state.making {
                state.urgent = true;
                self.made.wait(&mut state);
            }
            if state.ended {
                return Ok(());
            }
            Making::begin(self, &mut state)
        };
        self.give_way()?;
        // Made before the journal moves there, while no other segment is being made. Leaving the
        // present segment must not fail for lack of space; otherwise a full disk would block the
        // checkpoint that frees some.
        let fresh = self.create(0, Filling::AtOnce, true)?;
        let first = fresh.number;
        let before = self.state.lock().ready.replace(fresh);
        // No ordering is needed: a checkpoint that must be in the new segment is queued later,
        // under the group commit's lock.
        self.renewed.store(first, Ordering::Relaxed);
        if let Some(before) = before {
            self.remove(&self.dir.join(segment::name(before.number)))?;
        }
        // The files on disk count, not the known ones: some may have been lost track of after an
        // error.
        for name in self.names()? {
            if name.strip_suffix(".tmp").is_some() {
                self.remove(&self.dir.join(name))?;
            }
        }
        self.sync_dir()
    }

    /// True if a segment must take no more batches.
    pub(crate) fn is_outdated(&self, number: u64) -> bool {
        number < self.renewed.load(Ordering::Relaxed)
    }

    /// True if full segments from before the [renewal](Self::renew) are left.
    pub fn holds_outdated(&self) -> bool {
        let state = self.state.lock();
        state.full.iter().any(|full| self.is_outdated(full.number))
    }
}
