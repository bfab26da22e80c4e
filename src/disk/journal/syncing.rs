//! A sync under way.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use super::committer::Ticket;
use crate::ground::storage::StorageFile;

/// A sync of what was written before it began, and of nothing else: more may be written to
/// the segment while it runs, of which nobody may be told because of it.
#[derive(Debug)]
#[must_use = "whoever waits for what it syncs is told when it is ended"]
pub(crate) struct Syncing {
    pub(super) file: Arc<dyn StorageFile>,
    pub(super) tickets: Vec<Ticket>,
    /// The last batch written when it began.
    pub(super) sequence: u64,
    pub(super) began: Duration,
}

impl Syncing {
    /// Syncs, and blocks for as long as that takes.
    ///
    /// # Errors
    /// As the operating system reports them.
    pub(crate) fn run(&self) -> io::Result<()> {
        self.file.sync_data()
    }
}
