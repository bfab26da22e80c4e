//! Letting go of the bytes of every segment.

use std::sync::atomic::Ordering;

use super::{Filling, Making, SegmentPool, segment};
use crate::error::Result;

impl SegmentPool {
    /// Has the journal go on in blocks that never held a record: the next batch leaves the
    /// segment in use, and what is [retired](Self::retire) from then on is removed, not kept
    /// for reuse. Reused blocks hold old records until others are written over them. Not
    /// beside a [`retire`](Self::retire). Who needs a segment meanwhile waits.
    ///
    /// # Errors
    /// As [`SegmentPool::next`]. The journal is whole, and without spares.
    pub(crate) fn renew(&self) -> Result<()> {
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
        // Made before anybody is sent there, and nobody else makes one: to leave the present
        // segment must not fail for want of space, or a full disk would keep the checkpoint
        // away that frees some.
        let fresh = self.create(0, Filling::AtOnce, true)?;
        let first = fresh.number;
        let before = self.state.lock().ready.replace(fresh);
        // No order is needed: a checkpoint that is to be in the new segment is queued
        // later, under the group commit's lock.
        self.renewed.store(first, Ordering::Relaxed);
        if let Some(before) = before {
            self.remove(&self.dir.join(segment::name(before.number)))?;
        }
        // What is there counts, not what is known: an error may have made us lose sight of it.
        for name in self.names()? {
            if name.strip_suffix(".tmp").is_some() {
                self.remove(&self.dir.join(name))?;
            }
        }
        self.sync_dir()
    }

    /// Whether a segment is to take no more batches.
    pub(crate) fn is_outdated(&self, number: u64) -> bool {
        number < self.renewed.load(Ordering::Relaxed)
    }

    /// Whether full segments of before the [renewal](Self::renew) are left.
    pub(crate) fn holds_outdated(&self) -> bool {
        let state = self.state.lock();
        state.full.iter().any(|full| self.is_outdated(full.number))
    }
}
