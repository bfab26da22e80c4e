//! The journal: one group commit for the whole store.

#![cfg_attr(
    not(any(feature = "testing", sessionlog_loom)),
    expect(
        unreachable_pub,
        reason = "reachable from outside only through `internals`"
    )
)]

pub mod group;
