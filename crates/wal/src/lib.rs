//! The lower part of `sessionlog`: a write-ahead log with group commit, and the only access to files,
//! threads, locks, queues and time. It keeps records of sessions but does not interpret them.
//!
//! Use `sessionlog`. Everything here may change at any time.

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
