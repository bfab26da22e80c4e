//! Who takes part, one a file.

pub(crate) mod committer;
pub(crate) mod files;
pub(crate) mod fjall;
pub(crate) mod leader;
pub(crate) mod raft_engine;
pub(crate) mod redb;
#[cfg(feature = "rocksdb")]
pub(crate) mod rocksdb;
pub(crate) mod sessionlog;
pub(crate) mod sqlite;
