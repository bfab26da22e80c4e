//! Which messages a session took once.
//!
//! A session's file is read when it is first asked; what is added since is in memory, too.
//! What is in flight is told apart from what holds: a message that is delivered again
//! while the first delivery may yet be refused waits for that.

use crate::disk::files::once;

/// The messages that a session took once.
#[derive(Debug, Default)]
pub(super) struct Once {
    /// What is in its file or will be: whole lines, the oldest first. Nothing before the
    /// file was read.
    pub(super) known: Option<Vec<u8>>,
    /// Lines that hold and are not in the file.
    pub(super) unwritten: Vec<u8>,
    /// Lines in flight.
    staged: Vec<Box<str>>,
}

impl Once {
    pub(super) fn is_staged(&self, line: &str) -> bool {
        self.staged.iter().any(|staged| **staged == *line)
    }

    /// A line is in flight now.
    pub(super) fn stage(&mut self, line: &str) {
        self.staged.push(line.into());
    }

    /// A line that was in flight holds, or does not.
    pub(super) fn settle(&mut self, line: &str, holds: bool) {
        if let Some(at) = self.staged.iter().position(|staged| **staged == *line) {
            self.staged.remove(at);
        }
        if holds {
            self.unwritten.extend_from_slice(line.as_bytes());
            if let Some(known) = &mut self.known {
                once::add(known, line.as_bytes());
            }
        }
    }

    /// Whether nothing is known that cannot be read again.
    pub(super) fn is_written(&self) -> bool {
        self.staged.is_empty() && self.unwritten.is_empty()
    }
}
