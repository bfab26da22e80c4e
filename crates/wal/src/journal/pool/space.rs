//! Finding space for segments, and giving it back.

use sessionlog_core::error::{Error, Result};

use super::super::budget::JournalBudget;
use super::super::segment::{self, Filling, Spare};
use super::{PoolState, SegmentPool};

/// The space that a new segment can be made in, bytes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Space {
    free: u64,
    /// The part of it that the lines of full segments may need.
    spoken_for: u64,
}

impl Space {
    /// The space that no lines need.
    pub(super) fn unspoken(self) -> u64 {
        self.free.saturating_sub(self.spoken_for)
    }

    /// True if a segment of `len` bytes may be tried. A segment of the `least` size always may, if
    /// no lines need the space: the system may reserve more for some users than it says, and less
    /// for others.
    fn may_hold(self, len: u64, least: u64) -> bool {
        let untold = len == least && self.spoken_for == 0;
        untold || len <= self.unspoken()
    }
}

impl SegmentPool {
    /// Blocks for a segment of `len` bytes, or of as many as there is space for but not under
    /// `least`: a spare's if one is large enough, else new ones. If all spares are too small, they
    /// are removed to make room.
    pub(super) fn blank(
        &self,
        number: u64,
        mut len: u64,
        least: u64,
        mut space: Space,
        filling: Filling<'_>,
    ) -> Result<Spare> {
        loop {
            if let Some(spare) = self.spare(len) {
                return Ok(spare);
            }
            // A larger segment than fits would be written and removed for nothing, and others would
            // find no space meanwhile.
            let made = if space.may_hold(len, least) {
                segment::zeroed(&*self.storage, &self.dir, number, len, filling)
            } else {
                let path = self.dir.clone();
                Err(Error::StorageFull { path })
            };
            match made {
                Err(Error::StorageFull { .. }) if len > least => {
                    len = (len / 2).next_multiple_of(4096).clamp(least, len - 1);
                }
                Err(full @ Error::StorageFull { .. }) => {
                    if !self.give_way()? {
                        return Err(full);
                    }
                    space = self.look().0;
                }
                other => return other,
            }
        }
    }

    /// The smallest spare of at least `len` bytes.
    fn spare(&self, len: u64) -> Option<Spare> {
        let mut state = self.state.lock();
        let spares = state.spares.iter().enumerate();
        let fit = spares.filter(|(_, spare)| spare.len >= len);
        let (at, _) = fit.min_by_key(|(_, spare)| spare.len)?;
        Some(state.spares.swap_remove(at))
    }

    /// Looks at the available space, and computes the journal's budget. If the space is unknown, it
    /// counts as enough.
    pub(super) fn look(&self) -> (Space, JournalBudget) {
        let dir = self.storage.open_dir(&self.dir);
        let free = dir.and_then(|dir| dir.free_space()).unwrap_or(u64::MAX);
        let mut state = self.state.lock();
        let budget = JournalBudget::of(&self.lengths, free, state.bytes());
        state.budget = Some(budget);
        let spoken_for = state.spoken_for();
        (Space { free, spoken_for }, budget)
    }

    /// Gives up spares that the available space does not allow any more, or that only a past load
    /// needed.
    ///
    /// # Errors
    /// As the operating system reports them; the journal is whole.
    pub fn fit(&self) -> Result<()> {
        let (_, budget) = self.look();
        let allowed = |state: &PoolState| {
            budget.allows(state.bytes(), state.spare_bytes(), state.full_bytes())
        };
        self.give_up(|state| !allowed(state)).map(drop)
    }

    /// Gives up all spares; returns true if there was one.
    ///
    /// # Errors
    /// As the operating system reports them; the journal is whole.
    pub fn give_way(&self) -> Result<bool> {
        self.give_up(|_| true)
    }

    /// Gives up spares, largest first, while there is a `reason`.
    fn give_up(&self, reason: impl Fn(&PoolState) -> bool) -> Result<bool> {
        let mut any = false;
        loop {
            let spare = {
                let mut state = self.state.lock();
                if !reason(&state) {
                    return Ok(any);
                }
                let spares = state.spares.iter().enumerate();
                match spares.max_by_key(|(_, spare)| spare.len).map(|(at, _)| at) {
                    Some(at) => state.spares.swap_remove(at),
                    None => return Ok(any),
                }
            };
            self.remove(&spare.path)?;
            any = true;
        }
    }
}

impl PoolState {
    pub(super) fn full_bytes(&self) -> u64 {
        self.full.iter().map(|full| full.len).sum()
    }

    /// The space needed for lines in full segments and in the segment in use: they may still have
    /// to go to their session files. If it were taken, no flush could succeed, and only a flush
    /// gives full segments up.
    pub(super) fn spoken_for(&self) -> u64 {
        match self.full_bytes() {
            0 => 0,
            full => full + self.active,
        }
    }

    /// Bytes of all segments on disk, except one that is being made.
    pub(super) fn bytes(&self) -> u64 {
        let ready = self.ready.as_ref().map_or(0, |segment| segment.len);
        self.active + ready + self.full_bytes() + self.spare_bytes()
    }

    fn spare_bytes(&self) -> u64 {
        self.spares.iter().map(|spare| spare.len).sum()
    }
}
