//! The journal: one group commit for the whole store.
//!
//! Whatever all shards queued while the last sync ran goes out as one write and
//! one sync. [`record`] is the format, [`segment`] and [`pool`] are the files,
//! [`group`] is the hand-over from many producers to one committer,
//! [`committer`] writes, [`scan`] reads back after a crash.

pub(crate) mod committer;
pub(crate) mod group;
pub(crate) mod pool;
pub(crate) mod record;
pub(crate) mod scan;
pub(crate) mod segment;
