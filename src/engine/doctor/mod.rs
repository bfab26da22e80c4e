//! Looking a directory over, and mending it: what `Store::verify` and `Store::repair` do.
//!
//! [`verify`] writes nothing. [`repair`] first makes the journal sound, which leaves
//! everything in the session files, then mends those; each of the two is committed by one
//! batch of the journal, so that a crash anywhere in between leaves something that can be
//! repaired again.
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

mod backup;
mod census;
mod content;
mod mend;
mod outcome;
mod print;
mod repair;
mod report;
mod salvage;
mod tools;
mod verify;

pub use outcome::{RepairOptions, RepairReport};
pub(crate) use repair::repair;
pub use report::{
    Claim, DamagedLine, JournalCheck, Mismatch, SegmentCheck, SegmentEnd, SessionCheck,
    SidecarCheck, VerifyReport,
};
pub(crate) use verify::verify;

#[cfg(test)]
mod tests;
