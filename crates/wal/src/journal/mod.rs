//! The journal: one group commit for the whole store.
//!
//! All commands that the shards queued while the last sync ran go out as one write and one sync.
//! [`segment`] is the format of a file and [`record`] that of its records; [`pool`] keeps the
//! files, [`budget`] limits their size, [`committer`] commits, [`syncing`] syncs beside that,
//! [`progress`] has the watermarks, `cursor.rs` writes, [`scan`] reads back after a crash,
//! [`inspect`] reads damaged journals.
//!
//! # What a crash leaves
//!
//! "Death" is the death of the process: the page cache survives. "Loss" is a power loss. For each
//! step: the state if it was not finished, then the state after it.
//!
//! * *Segment made* (zeros and header, sync, rename, directory sync). Unfinished: a `.tmp` file or
//!   an empty segment, which the next open removes or skips. No batch is written before the name is
//!   synced: a power loss could take the batch with the name. After: a segment ready for use. A
//!   reused segment has a new salt, so its old records fail their checksums.
//! * *Batch written* (whole pages in one write, or the batch alone onto a page last written through
//!   the cache; one sync). Written in part: it has no valid commit record, so none of it took
//!   effect. The batches before it on its first page are written again unchanged, or not at all, so
//!   that a page torn at its sectors still holds them. Refused for lack of space: the next batch is
//!   written over it, and it is never there whole. Written whole but not synced: after death all of
//!   it is there, after loss all or nothing; more was not promised. After the sync: all of it is
//!   replayed.
//! * *Hole found by the scan*. At or below a synced watermark it is damage (`Corrupt`). Above every
//!   watermark it is a torn end: no caller was told that it held. The last batch, damaged whole,
//!   therefore looks like a commit that never finished.
//! * *Rotation* (full segment synced, next one used). The full segment is synced before a batch
//!   goes into the next: later syncs would not reach it. Segments are read in the order of their
//!   numbers.
//! * *Checkpoint synced*. Before: everything since the last checkpoint is replayed. After: the
//!   batches it covers are skipped, and covered segments may be missing in any combination.
//! * *Segments retired* (removed or renamed to spares, directory sync). Unfinished: the checkpoint
//!   covers all that are left. A spare may get a new header only after the directory sync: under
//!   its old name it would look damaged.

pub mod budget;
pub mod committer;
pub mod counters;
mod cursor;
pub mod follow;
pub mod inspect;
pub mod pool;
pub mod progress;
pub mod record;
pub mod scan;
pub mod segment;
pub mod syncing;
