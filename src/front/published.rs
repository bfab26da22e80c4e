//! Looking at a store that another process runs.

use std::path::Path;

use sessionlog_core::error::Result;
use sessionlog_wal::storage::DiskStorage;

use crate::engine::published::{self, PublishedStats};

/// Reads what the store in `dir`, run by some process, last published about itself. That is at most
/// about a second old if anything happened since, older while the store flushes to a slow disk.
/// `None` if no process writes to `dir`, or if the process that does publishes nothing
/// ([`StoreOptions::publish_stats`](crate::StoreOptions::publish_stats) is off, or there was no
/// space or descriptor for its file).
///
/// Reads `.sessionlog/stats`, takes no lock that a writer needs, and writes nothing: it never keeps
/// a store from opening. Names no session. Blocks for as long as reading a small file takes.
///
/// ```
/// use sessionlog::{Store, published_stats};
///
/// # fn main() -> sessionlog::Result<()> {
/// # let scratch = tempfile::tempdir().unwrap();
/// # let dir = scratch.path();
/// if let Some(store) = published_stats(dir)? {
///     let syncs = &store.stats.sync_nanos;
///     println!("{}: {} syncs, p99 {} ns", store.pid, syncs.count(), syncs.p99());
/// }
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// [`Error::Io`](crate::Error::Io) if the file is there and cannot be read, or is something else;
/// [`Error::Corrupt`](crate::Error::Corrupt) if it is whole but this version cannot read it.
pub fn published_stats(dir: impl AsRef<Path>) -> Result<Option<PublishedStats>> {
    published::read(&DiskStorage::default(), dir.as_ref())
}
