//! Letting go of the bytes of every segment.

use std::sync::atomic::Ordering;

use super::{Making, SegmentPool, segment};
use crate::error::Result;

impl SegmentPool {
    /// Has the journal go on in blocks that never held a record: the next batch leaves the
    /// segment in use, and what is [retired](Self::retire) from then on is removed, not kept
    /// for reuse. Reused blocks hold old records until others are written over them. Not
    /// beside a [`retire`](Self::retire).
    ///
    /// # Errors
    /// As [`SegmentPool::next`]. The journal is whole, and goes on as it did.
    pub(crate) fn renew(&self) -> Result<()> {
        let first = self.drop_blocks()?;
        // Made before anybody is sent there: to leave the present segment must not fail for
        // want of space, or a full disk would keep the checkpoint away that frees some.
        self.prepare()?;
        // No order is needed: a checkpoint that is to be in the new segment is queued
        // later, under the group commit's lock.
        self.renewed.store(first, Ordering::Relaxed);
        Ok(())
    }

    /// Removes all blocks that wait to be written to; the number of the first segment of
    /// others.
    fn drop_blocks(&self) -> Result<u64> {
        let (_making, first) = {
            let mut state = self.state.lock();
            while state.making {
                self.made.wait(&mut state);
            }
            let first = state.next_number;
            (Making::begin(self, &mut state), first)
        };
        let ready = self.state.lock().ready.take();
        if let Some(ready) = ready
            && let Err(error) = self.remove(&self.dir.join(segment::name(ready.number)))
        {
            self.state.lock().ready = Some(ready);
            return Err(error);
        }
        self.give_way()?;
        Ok(first)
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
