//! Recovery: bringing a directory to the state its last writer acknowledged.
//!
//! Open reads the journal ([`plan`]), brings the session files up to it and makes that durable
//! ([`redo`]), and only then serves anything. Every step is an absolute redo, so a crash in here
//! costs nothing: the next open does the same again. Files that another program changed meanwhile
//! are told from ours first ([`foreign`]).
//!
//! # What a crash leaves
//!
//! Step by step: the state if the step was not finished, then the state after it.
//!
//! * *Writes in place and into scratch files, syncs*. Names are untouched and the journal
//!   is whole: the next open does the same again, before and after.
//! * *Renames, removals, syncs*. Unfinished: each rename is atomic and stated by the
//!   journal, and is done again. After: the files hold everything.
//! * *Changed by others: both files kept as found, a new file and a backup of ours written beside*.
//!   Unfinished: the files are as they were found, and the next open looks at them again. It finds
//!   the same copies and backup, and makes no second ones. After: records that put the new files in
//!   place stand in the batch of the checkpoint. The rest is an ordinary recovery, and a file that
//!   is changed once more is recognized by its record.
//! * *Lost sidecar put back* (hidden file, sync, damaged one set aside, rename, sync).
//!   Unfinished: the next open does the same again. After: the sidecar.
//! * *Checkpoint in a new segment*. Unfinished: the old segments are replayed again.
//!   After: they are skipped.
//! * *Old segments removed*. As when a flush retires segments. Then serving begins. They go only
//!   after the checkpoint: with some of them gone and no checkpoint, the rest would be replayed
//!   onto files that are ahead of it.
//! * *Backups of no session set aside, after recovery's checkpoint; both directories synced*.
//!   Unfinished: in their place or in `quarantine/`, and the next open goes on. No record names
//!   them any more. After: all in `quarantine/`; the open that moved one reports it in a finding.

pub(crate) mod bytes;
pub(crate) mod foreign;
pub(crate) mod plan;
pub(crate) mod planned;
pub(crate) mod redo;
mod report;
pub(crate) mod restore;
pub(crate) mod run;
pub(crate) mod standing;
pub(crate) mod survey;

pub use report::RecoveryReport;
