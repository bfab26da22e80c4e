//! Counts commands, refusals and levels.

use std::sync::Arc;

use sessionlog_core::error::{Error, ErrorKind};
use sessionlog_wal::clock::SystemClock;
use sessionlog_wal::meter::Meters;

use super::{Counters, Samples};

impl Counters {
    /// Counts messages and commands that settle together.
    pub(crate) fn add(&self, (messages, bytes): (u64, u64), commands: u64) {
        self.messages.add(messages);
        self.message_bytes.add(bytes);
        self.commands.add(commands);
    }

    /// Counts a command that was not carried out; returns the reason if the store was unable to.
    pub(crate) fn refused(&self, error: &Error) -> Option<&'static str> {
        let (count, why) = match error.kind() {
            ErrorKind::StorageFull => (&self.refused_full, "no space is left"),
            _ if error.out_of_descriptors() => (&self.refused_descriptors, "no descriptor is left"),
            ErrorKind::Busy => (&self.refused_overloaded, "too much waits for a session"),
            kind => {
                self.failed_commands.add(u64::from(kind.is_failure()));
                return None;
            }
        };
        count.add(1);
        Some(why)
    }

    /// Clears the levels: a closed store holds nothing.
    pub(crate) fn closed(&self) {
        let Samples {
            sessions,
            queued,
            journal_bytes,
            journal_limit,
            free_space,
            full,
            poisoned: _,
        } = &self.sampled;
        let held = [&self.open_files, &self.sessions_resident, sessions, queued];
        let of_journal = [journal_bytes, journal_limit, free_space, full];
        for level in held.into_iter().chain(of_journal) {
            level.set(0);
        }
    }
}

impl Default for Counters {
    fn default() -> Self {
        Self::new(&Meters::silent(), Arc::new(SystemClock::default()))
    }
}
