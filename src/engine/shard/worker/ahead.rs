//! Fetches sessions into the cache before they are worked on.
//!
//! All data of a session that is seldom written to comes from memory, one cache line after the
//! other. Sessions worked on one by one would each be waited for. Here no read depends on the
//! result of another, so a processor has many of them under way at once. The values read are not
//! used.
//! used.

use std::hint::black_box;
use std::sync::Arc;

use sessionlog_wal::mailbox::Lot;

use super::Worker;
use crate::engine::shard::inbox::Item;
use crate::engine::shard::session::Session;

/// Number of changes fetched ahead at a time: their data stays in a processor's own cache until
/// they are settled.
pub(super) const AHEAD: usize = 64;

impl Worker {
    /// Fetches the sessions that the first items of these lots are for, each with its shard.
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

    /// Fetches the sessions of the oldest `changes` changes in flight.
    pub(super) fn reach_for_oldest(&self, changes: usize) {
        let oldest = || self.inflight.ops().take(changes);
        reach(|| oldest().filter_map(|op| self.shards[op.shard].loaded(op.session)));
    }
}

/// Reads the sessions, and then the data behind their pointers.
fn reach<'a, I: Iterator<Item = &'a Session>>(sessions: impl Fn() -> I) {
    let near = sessions().map(Session::reach);
    black_box(near.fold(0, u64::wrapping_add));
    let far = sessions().map(Session::reach_further);
    black_box(far.fold(0, u64::wrapping_add));
}

impl Session {
    /// Reads part of each cache line that an append needs, from its staging to its settling.
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

    /// Does the same for the data that the session points to.
    fn reach_further(&self) -> u64 {
        let stem = self.stem.as_bytes().first();
        Arc::strong_count(&self.tail) as u64 ^ u64::from(stem.copied().unwrap_or_default())
    }
}
