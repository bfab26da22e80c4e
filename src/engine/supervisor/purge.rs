//! Removes every byte of deleted sessions from the engine's own files.

use sessionlog_core::error::{Error, Result};

use super::Supervisor;
use super::event_loop::Loop;
use super::wait::Wait;

impl Loop {
    /// Flushes, and lets go of all records in the journal and of the copies of sessions that were
    /// deleted before.
    ///
    /// # Errors
    /// As a flush; if there is no space for another segment. Some bytes may still be there then.
    pub(super) fn purge(&mut self, wait: &mut impl Wait) -> Result<()> {
        self.supervisor.renew()?;
        self.flush(wait)?;
        // For the records committed between the watermark of that flush and its checkpoint.
        if self.supervisor.pool.holds_outdated() {
            self.flush(wait)?;
        }
        self.supervisor.purge_copies()
    }
}

impl Supervisor {
    fn renew(&self) -> Result<()> {
        self.pool.renew().map_err(|error| match error {
            Error::Poisoned { .. } => self.poison(&error),
            other => other,
        })
    }

    fn purge_copies(&mut self) -> Result<()> {
        self.copies.purge()?;
        self.copies.sync().map_err(|error| self.poison(&error))
    }
}
