//! The part of `sessionlog` that knows no sessions: the only doors to the file system, to locks and
//! threads, and to time, and a journal whose records are committed in groups.
//!
//! What is public here is for `sessionlog`'s own crates, without a promise of stability.

pub mod clock;
pub mod emptied;
pub mod histogram;
pub mod journal;
pub mod mailbox;
pub mod meter;
pub mod seldom;
pub mod storage;
pub mod sync;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
