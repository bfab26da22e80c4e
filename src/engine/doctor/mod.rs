//! Looking a directory over, and mending it: what `Store::verify` and `Store::repair` do.
//!
//! [`verify()`] writes nothing. [`repair()`] first makes the journal sound, which leaves
//! everything in the session files, then mends those; each of the two is committed by one
//! batch of the journal, so that a crash anywhere in between leaves something that can be
//! repaired again.
//!
//! # How a repair goes
//!
//! Lock; identity (from the segments' headers if it does not read); the journal; the
//! session files. A sound journal is carried out as by open and ended as by close. A
//! damaged one is inspected:
//!
//! 1. Commit records show whole batches, after damage, too. What they say is laid over
//!    the files, gaps are counted, and every session that the journal speaks of is
//!    written anew beside the old.
//! 2. One batch in a new segment says *checkpoint over everything before*, and *swap* for
//!    each session. It is the only commit point.
//! 3. The damaged segments are removed, and recovery goes on as ever.
//!
//! Session files and sidecars are mended the same way, by one batch of swaps and sidecar
//! images. A repair could patch files in place. It writes whole new ones, because one
//! batch of swaps is the one way of changing files whose every crash point is enumerated.
//! The price is a copy of each session it touches, in memory and on disk.
//!
//! A segment that cannot be *read* is no damage: the repair fails and gives nothing up.
//! If damage costs committed batches, nothing is done without `allow_data_loss`. A
//! damaged header whose records verify, a segment that a later checkpoint covers, and an
//! identity that the headers agree on cost nothing.
//!
//! A missing sidecar is made anew only if the file name tells the key: `_` stands for
//! three other characters. Otherwise the session waits for its key to be used. A guess
//! would give a history to a conversation that never had it.
//!
//! # What a crash leaves
//!
//! Step by step: what is there if the step was not finished, then what is there after it.
//!
//! * *Copies in `backups/`, synced with their names*. Nothing is changed; the next repair
//!   makes copies of its own. After: the same.
//! * *Hidden files and quarantine, synced*. No record names the hidden files: the next
//!   repair or open removes them. Quarantined bytes may be there twice. After: the same.
//! * *The batch: a checkpoint over everything, and swaps*. Before: the damage is as it
//!   was, and the next repair does it all again. After: the damaged segments are covered.
//!   The next repair removes them without loss; then both it and open carry the swaps
//!   out.
//! * *Damaged segments removed, recovery, clean end*. Unfinished: as after the batch,
//!   then as in recovery and close. After: a clean store.

mod census;
mod cost;
mod faults;
mod look;
mod mend;
mod once;
mod originals;
mod outcome;
mod print;
mod repair;
mod report;
mod rounds;
mod salvage;
mod tools;
mod verify;

pub use faults::{Fault, Remedy};
pub use outcome::{RepairOptions, RepairReport};
pub(crate) use repair::repair;
pub use report::{
    Claim, DamagedLine, JournalCheck, Mismatch, SegmentCheck, SegmentEnd, SessionCheck,
    SidecarCheck, VerifyReport,
};
pub(crate) use verify::verify;

#[cfg(test)]
mod tests;
