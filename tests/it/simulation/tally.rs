//! What was tried, added up.

use std::fmt;
use std::ops::AddAssign;

/// Shards a key may belong to.
const SHARDS: u32 = 64;

/// Counts of one run or of many.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) seeds: u64,
    /// Openings of a store that served.
    pub(crate) lives: u64,
    pub(crate) commands: u64,
    pub(crate) acknowledged: u64,
    pub(crate) refused: u64,
    pub(crate) by_alias: u64,
    pub(crate) reads: u64,
    /// Of those, after a call had failed.
    pub(crate) reads_disturbed: u64,
    pub(crate) closes: u64,
    pub(crate) deaths: u64,
    pub(crate) power_losses: u64,
    /// Recoveries that were cut off or met an error.
    pub(crate) recoveries_disturbed: u64,
    /// Faults planned, and calls that failed by one.
    pub(crate) planned: u64,
    pub(crate) hits: u64,
    /// Disks that were full, and stores that went on once there was room.
    pub(crate) filled: u64,
    pub(crate) healed: u64,
    pub(crate) compactions: u64,
    pub(crate) flushes: u64,
    /// Calls to the disk.
    pub(crate) steps: u64,
    /// A bit for each shard that had a session.
    shards: u64,
}

impl Tally {
    /// Notes the shard of a session.
    pub(crate) fn touch(&mut self, key: &str) {
        let hash = key.bytes().fold(0x811c_9dc5_u32, |hash, byte| {
            (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
        });
        self.shards |= 1 << (hash % SHARDS);
    }

    pub(crate) fn shards(&self) -> u32 {
        self.shards.count_ones()
    }
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.seeds += other.seeds;
        self.lives += other.lives;
        self.commands += other.commands;
        self.acknowledged += other.acknowledged;
        self.refused += other.refused;
        self.by_alias += other.by_alias;
        self.reads += other.reads;
        self.reads_disturbed += other.reads_disturbed;
        self.closes += other.closes;
        self.deaths += other.deaths;
        self.power_losses += other.power_losses;
        self.recoveries_disturbed += other.recoveries_disturbed;
        self.planned += other.planned;
        self.hits += other.hits;
        self.filled += other.filled;
        self.healed += other.healed;
        self.compactions += other.compactions;
        self.flushes += other.flushes;
        self.steps += other.steps;
        self.shards |= other.shards;
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "simulation: {} seeds, {} lives, {} commands on {} shards ({} by alias): \
             {} acknowledged, {} refused; {} reads checked, {} of them after a failure",
            self.seeds,
            self.lives,
            self.commands,
            self.shards(),
            self.by_alias,
            self.acknowledged,
            self.refused,
            self.reads,
            self.reads_disturbed
        )?;
        writeln!(
            f,
            "simulation: {} compactions, {} flushes, {} storage calls; \
             {} closes, {} deaths, {} power losses, {} recoveries cut off or disturbed",
            self.compactions,
            self.flushes,
            self.steps,
            self.closes,
            self.deaths,
            self.power_losses,
            self.recoveries_disturbed
        )?;
        write!(
            f,
            "simulation: {} faults planned, {} calls failed; {} disks full, {} healed",
            self.planned, self.hits, self.filled, self.healed
        )
    }
}
