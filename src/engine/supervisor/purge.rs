//! Leaving no byte of deleted sessions in what the engine keeps for itself.

use super::Supervisor;
use super::event_loop::Loop;
use super::wait::Wait;
use crate::error::{Error, Result};

impl Loop {
    /// Flushes, and lets go of all that the journal held, and of what the copies say of
    /// sessions that were deleted before.
    ///
    /// # Errors
    /// As a flush; if there is no space for another segment. Some of it may be there still.
    pub(super) fn purge(&mut self, wait: &mut impl Wait) -> Result<()> {
        self.supervisor.renew()?;
        self.flush(wait)?;
        // What was committed between the watermark of that flush and its checkpoint.
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
