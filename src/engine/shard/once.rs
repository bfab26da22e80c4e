//! Which messages a session took once.
//!
//! A session's files are read when it is first asked; what is added since is in memory, too.
//! What is in flight is told apart from what holds: a message that is delivered again
//! while the first delivery may yet be refused waits for that.

use crate::disk::files::once::Taken;

/// The messages that a session took once.
#[derive(Debug, Default)]
pub(super) struct Once {
    /// What its files say, and will with what is not written; nothing before they were read.
    pub(super) known: Option<Taken>,
    /// Lines that hold and are not in a file, oldest first.
    pub(super) unwritten: Vec<Box<str>>,
    /// Lines in flight.
    staged: Vec<Box<str>>,
}

impl Once {
    /// Whether the session took the message of that line. One in flight does not count.
    pub(super) fn has_taken(&self, line: &str) -> bool {
        let known = self.known.as_ref();
        known.is_some_and(|known| known.lines.contains(line.as_bytes()))
    }

    /// What was read of its files.
    pub(super) fn read(&mut self, mut taken: Taken) {
        let unwritten = self.unwritten.iter().map(|line| line.as_bytes().to_vec());
        taken.lines.extend(unwritten);
        self.known = Some(taken);
    }

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
        if !holds {
            return;
        }
        self.unwritten.push(line.into());
        if let Some(known) = &mut self.known {
            known.lines.insert(line.as_bytes().to_vec());
        }
    }

    /// What was not written is.
    pub(super) fn written(&mut self) {
        let written = self.unwritten.drain(..).count();
        if let Some(known) = &mut self.known {
            known.newest += written;
        }
    }

    /// Whether nothing is known that cannot be read again.
    pub(super) fn is_written(&self) -> bool {
        self.staged.is_empty() && self.unwritten.is_empty()
    }
}
