//! Looking a directory over, and mending it: what `Store::verify` and
//! `Store::repair` do.
//!
//! [`verify`] writes nothing. [`repair`] first makes the journal sound, which
//! leaves everything in the session files, then mends those; each of the two is
//! committed by one batch of the journal, so that a crash anywhere in between
//! leaves something that can be repaired again.

mod backup;
mod census;
mod content;
mod look;
mod mend;
mod outcome;
mod print;
mod repair;
mod report;
mod rounds;
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
