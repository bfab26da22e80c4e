//! The journal: one group commit for the whole store.
//!
//! Whatever all shards queued while the last sync ran goes out as one write and
//! one sync. [`record`] is the format, [`segment`] and [`pool`] are the files, of which
//! [`budget`] says how large they may get,
//! [`group`] is the hand-over from many producers to one committer, [`pace`] says when a
//! commit waits for company, [`committer`] writes, [`scan`] reads back after a crash,
//! [`inspect`] reads what damage left.

#![cfg_attr(
    not(any(feature = "testing", sessionlog_loom)),
    expect(
        unreachable_pub,
        reason = "reachable from outside only through `testing`"
    )
)]

pub(crate) mod budget;
pub(crate) mod committer;
pub mod group;
pub(crate) mod inspect;
pub(crate) mod pace;
pub(crate) mod pool;
pub(crate) mod record;
pub(crate) mod scan;
pub(crate) mod segment;

impl From<group::Refusal> for crate::Error {
    fn from(refusal: group::Refusal) -> Self {
        match refusal {
            group::Refusal::Closed => Self::Closed,
            group::Refusal::Poisoned(reason) => Self::Poisoned { reason },
        }
    }
}
