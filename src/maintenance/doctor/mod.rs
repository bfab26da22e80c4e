//! Examines a directory and mends it: the work of `Store::verify` and `Store::repair`.
//!
//! [`verify()`] writes nothing. [`repair()`] first makes the journal sound, which leaves all its
//! data in the session files, and then mends those. Each of the two steps is committed by one batch
//! of the journal, so that after a crash at any point a repair can run again.
//!
//! # How a repair goes
//!
//! Lock; identity (from the segments' headers if it does not read); the journal; the
//! session files. A sound journal is carried out as by open and ended as by close. A
//! damaged one is inspected:
//!
//! 1. Commit records show whole batches, also after damage. Their records are laid over the files,
//!    gaps are counted, and every session that the journal names is written anew beside the old.
//! 2. One batch in a new segment has a *checkpoint over everything before*, and a *swap* for each
//!    session. It is the only commit point.
//! 3. The damaged segments are removed, and recovery goes on as usual.
//!
//! Session files and sidecars are mended the same way, by one batch of swaps and sidecar images. A
//! repair could patch files in place. It writes whole new ones, because only for a batch of swaps
//! are all crash points enumerated. The price is a copy of each session it touches, in memory and
//! on disk.
//!
//! A segment that cannot be *read* is no damage: the repair fails and gives nothing up. If damage
//! costs committed batches, nothing is done without `allow_data_loss`. Three things cost nothing: a
//! damaged header if its records verify, a segment that a later checkpoint covers, and an identity
//! that the headers agree on.
//!
//! A missing sidecar is made anew only if the file name tells the key: `_` stands for three other
//! characters. Otherwise the session waits until its key is used. A guess would give a history to a
//! conversation that never had it.
//!
//! # What a crash leaves
//!
//! Step by step: the state if the step was not finished, then the state after it.
//!
//! * *Copies in `backups/`, synced with their names*. Nothing is changed; the next repair
//!   makes copies of its own. After: the same.
//! * *Hidden files and quarantine, synced*. No record names the hidden files: the next
//!   repair or open removes them. Quarantined bytes may be there twice. After: the same.
//! * *The batch: a checkpoint over everything, and swaps*. Before: the damage is unchanged, and the
//!   next repair does everything again. After: the damaged segments are covered. The next repair
//!   removes them without loss; then both it and open carry the swaps out.
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
