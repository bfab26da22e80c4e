//! How much waits to be written to session files, and what is done about it.

use std::time::Duration;

use super::Worker;

/// Up to so many sessions, settled lines are written at once.
const FEW: usize = 16;

/// Settled lines are written at once if they are more than one part in so many of what the
/// journal may take, over all workers. They need space in their files before the journal gives
/// its own back: were more to wait when others fill the volume, what little is freed later
/// would go to them, and nothing new would be taken.
const UNWRITTEN_PART: u64 = 4;

/// So few bytes wait their time whatever the journal may take.
const FEW_BYTES: u64 = 64 << 10;

/// When lines that found no space are tried again.
const AGAIN: Duration = Duration::from_millis(100);

/// Of no more sessions than these one is written after each turn.
const MANY: usize = 256;

/// Of more, whose commands keep coming, lines whose time has come, and a flush, get one part in
/// so many of what the turns take; as much as the turns, once [too many](UNWRITTEN_PART) lines
/// wait, or the journal needs what the flush gives up. Were it one session after each turn,
/// whatever a turn brings, lines would pile up in memory and in the journal for as long as the
/// load lasts.
const PER_TURN: u32 = 4;

/// No turn is followed by more: a thread that was not let run for a while took no longer for
/// its turn, and callers wait for the next.
const LONGEST_SHARE: Duration = Duration::from_millis(4);

impl Worker {
    /// For how long files are written after a turn that `took` so long. One file a turn keeps
    /// up with few sessions, and on a full disk leaves what space comes to the journal, too.
    pub(super) fn share(&self, took: Duration) -> Duration {
        let took = took.min(LONGEST_SHARE);
        let flushes = self.flushes_many();
        if self.much_unwritten() || flushes && self.pool.is_pressing() {
            took
        } else if flushes || self.stuck.is_none() && self.unwritten_sessions() > MANY {
            took / PER_TURN
        } else {
            Duration::ZERO
        }
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

    /// Whether so many lines find no space that no more are taken. Those of the shard that has
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
        shards.map(|owned| owned.shard.unwritten_bytes() as u64)
    }

    /// Whether that is more than this worker's part of what may wait.
    fn exceeds_part(&self, bytes: u64) -> bool {
        let part = || self.pool.standing().limit / UNWRITTEN_PART;
        bytes > FEW_BYTES && bytes > part() / self.alarm.workers.len() as u64
    }

    pub(super) fn few_unwritten(&self) -> bool {
        self.stuck.is_none() && self.unwritten_sessions() <= FEW
    }

    /// How long lines wait for company, or for space.
    pub(super) fn linger(&self) -> Duration {
        if self.stuck.is_some() {
            AGAIN
        } else {
            self.line_budget.wait()
        }
    }

    pub(super) fn unwritten_sessions(&self) -> usize {
        let sessions = self.shards.iter().map(|o| o.shard.unwritten_sessions());
        sessions.sum()
    }

    pub(super) fn note_unwritten(&mut self) {
        // A store that stopped writes no more: what waits would be work for ever.
        if self.poisoned.is_none() && self.unwritten_since.is_none() {
            let waiting = self.shards.iter().map(|o| o.shard.unwritten_since());
            self.unwritten_since = waiting.flatten().min();
        }
    }
}
