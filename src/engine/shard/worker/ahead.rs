//! Reaching for sessions before they are worked on.
//!
//! Of a session that is seldom written to everything comes from memory, one cache line
//! after the other. Worked on in turn, each would be waited for. Nothing here depends on
//! what comes, so a processor has many such reads under way at once. What is read is not
//! used.

use std::hint::black_box;
use std::sync::Arc;

use super::Worker;
use crate::engine::shard::inbox::Item;
use crate::engine::shard::session::Session;
use crate::ground::mailbox::Lot;

/// Changes reached for at a time: what they are about stays in a processor's own cache
/// until they are settled.
pub(super) const AHEAD: usize = 64;

impl Worker {
    /// Reaches for the sessions that the first items of these lots are for, each with its
    /// shard.
    pub(super) fn reach_for(&self, lots: &[(usize, Lot<Item>)]) {
        let items = || {
            lots.iter()
                .flat_map(|(shard, lot)| lot.items.iter().map(move |(item, _)| (shard, item)))
        };
        reach(|| {
            items().take(AHEAD).filter_map(|(&shard, item)| match item {
                Item::Append(append) => self.shards[shard].loaded(append.session as usize),
                Item::Command(_) => None,
            })
        });
    }

    /// Reaches for the sessions of so many changes, the oldest in flight.
    pub(super) fn reach_for_oldest(&self, changes: usize) {
        let oldest = || self.inflight.ops().take(changes);
        reach(|| oldest().filter_map(|op| self.shards[op.shard].loaded(op.session)));
    }
}

/// What is behind a pointer only after the pointers came.
fn reach<'a, I: Iterator<Item = &'a Session>>(sessions: impl Fn() -> I) {
    let near = sessions().map(Session::reach);
    black_box(near.fold(0, u64::wrapping_add));
    let far = sessions().map(Session::reach_further);
    black_box(far.fold(0, u64::wrapping_add));
}

impl Session {
    /// Reads something of each cache line that an append needs, from when it is staged until
    /// it is settled.
    fn reach(&self) -> u64 {
        let positions = [&self.staged, &self.settled];
        let metas = [&self.recorded, &self.synced_meta];
        let positions = positions.map(|at| at.end ^ at.meta.version.number());
        let metas = metas.map(|meta| meta.count.unsigned_abs() ^ meta.version.number());
        let rest = u64::from(self.busy) ^ self.imaged ^ self.synced ^ self.written;
        positions
            .iter()
            .chain(&metas)
            .fold(rest, |all, one| all ^ one)
    }

    /// The same of what the session points to.
    fn reach_further(&self) -> u64 {
        let stem = self.stem.as_bytes().first();
        Arc::strong_count(&self.tail) as u64 ^ u64::from(stem.copied().unwrap_or_default())
    }
}
