//! Lines that wait to be written to session files, and the limits for them.

use std::time::Duration;

use super::Worker;
use crate::engine::shard::Shard;

/// With up to this many sessions, settled lines are written at once.
const FEW: usize = 16;

/// Settled lines are written at once if they exceed one part in `UNWRITTEN_PART` of the journal's
/// limit. They need space in their files before the journal gives its own back: if more waited when
/// others fill the volume, the little space freed later would go to them, and no new lines would be
/// taken.
const UNWRITTEN_PART: u64 = 4;

/// Up to this many bytes wait their time, whatever the journal's limit.
const FEW_BYTES: u64 = 64 << 10;

/// The time after which lines that found no space are tried again.
const AGAIN: Duration = Duration::from_millis(100);

/// If more sessions than this are written to and commands keep coming, files are written for a part
/// of the time only.
const MANY: usize = 256;

/// After each session of many, the thread rests for this many times the time that the session took.
/// It does not rest once [too many](UNWRITTEN_PART) lines wait, or the journal needs the space that
/// the flush gives up: lines would pile up in memory and in the journal for as long as the load
/// lasts.
const REST: u32 = 2;

/// The longest rest.
const LONGEST_REST: Duration = Duration::from_millis(1);

impl Worker {
    /// Leaves files alone for a while after one that was begun at `started`.
    pub(super) fn rest_after(&mut self, started: Duration) {
        let flushes = self.flushes_many();
        let hurries = self.much_unwritten() || flushes && self.pool.is_pressing();
        let many = flushes || self.stuck.is_none() && self.unwritten_sessions() > MANY;
        if hurries || !many {
            return;
        }
        let now = self.shared.clock.monotonic();
        let took = now.saturating_sub(started);
        self.owed_rest += (took * REST).min(LONGEST_REST);
        // In few pieces: the shortest sleep takes 60 microseconds.
        if self.owed_rest >= LONGEST_REST {
            self.files_rest_until = now + std::mem::take(&mut self.owed_rest);
        }
    }

    /// True while files are left alone.
    pub(super) fn files_rest(&self) -> bool {
        self.files_rest_until > self.shared.clock.monotonic()
    }

    fn flushes_many(&self) -> bool {
        let flush = self.flush.as_ref();
        flush.is_some_and(|task| task.queue.len() > MANY)
    }

    pub(super) fn much_unwritten(&self) -> bool {
        self.stuck.is_none() && self.too_much_unwritten()
    }

    fn too_much_unwritten(&self) -> bool {
        self.exceeds_part(self.unwritten_bytes().sum())
    }

    /// True if so many lines find no space that no more are taken. The lines of the shard that has
    /// most do not count: a session whose file takes no more must not keep all others out.
    pub(super) fn keeps_others_out(&self) -> bool {
        let rest = || {
            let most = self.unwritten_bytes().max().unwrap_or(0);
            self.unwritten_bytes().sum::<u64>() - most
        };
        self.stuck.is_some() && self.exceeds_part(rest())
    }

    fn unwritten_bytes(&self) -> impl Iterator<Item = u64> {
        let shards = self.shards.iter();
        shards.map(|shard| shard.unwritten_bytes() as u64)
    }

    /// True if that is more than may wait.
    fn exceeds_part(&self, bytes: u64) -> bool {
        let part = || self.pool.standing().limit / UNWRITTEN_PART;
        bytes > FEW_BYTES && bytes > part()
    }

    pub(super) fn few_unwritten(&self) -> bool {
        self.stuck.is_none() && self.unwritten_sessions() <= FEW
    }

    /// Returns how long lines wait for more lines, or for space.
    pub(super) fn linger(&self) -> Duration {
        if self.stuck.is_some() {
            AGAIN
        } else {
            self.line_budget.wait()
        }
    }

    pub(super) fn unwritten_sessions(&self) -> usize {
        let sessions = self.shards.iter().map(Shard::unwritten_sessions);
        sessions.sum()
    }

    pub(super) fn note_unwritten(&mut self) {
        // A store that stopped writes no more: waiting lines would be work for ever.
        if self.poisoned.is_none() && self.unwritten_since.is_none() {
            let waiting = self.shards.iter().map(Shard::unwritten_since);
            self.unwritten_since = waiting.flatten().min();
        }
    }
}
