//! Floor 1: the only doors to the file system, to locks and threads, and to time.
//! Nothing here knows what a session is.

#[cfg_attr(
    not(any(feature = "testing", sessionlog_loom)),
    expect(
        unreachable_pub,
        reason = "reachable from outside only through `testing`"
    )
)]
pub mod clock;
pub(crate) mod emptied;
pub(crate) mod histogram;
pub(crate) mod mailbox;
pub(crate) mod meter;
pub(crate) mod seldom;
#[cfg_attr(
    not(any(feature = "testing", sessionlog_loom)),
    expect(
        unreachable_pub,
        reason = "reachable from outside only through `testing`"
    )
)]
pub mod storage;
pub(crate) mod sync;
