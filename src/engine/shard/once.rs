//! The messages that a session took once.
//!
//! A session's files are read when it is first asked; later additions are in memory, too. Messages
//! in flight are kept apart from those that hold: a message that is delivered again while its first
//! delivery may still be refused waits for that.

use crate::disk::files::once::OnceContents;

/// The messages that a session took once.
#[derive(Debug, Default)]
pub(super) struct Once {
    /// The content of its files, with the lines still to be written; `None` before they were read.
    pub(super) known: Option<OnceContents>,
    /// Lines that hold and are not in a file, oldest first.
    pub(super) unwritten: Vec<Box<str>>,
    /// Lines in flight.
    staged: Vec<Box<str>>,
}

impl Once {
    /// True if the session took the message of that line. One in flight does not count.
    pub(super) fn has_taken(&self, line: &str) -> bool {
        let known = self.known.as_ref();
        known.is_some_and(|known| known.lines.contains(line.as_bytes()))
    }

    /// Takes in the content of its files.
    pub(super) fn read(&mut self, mut taken: OnceContents) {
        let unwritten = self.unwritten.iter().map(|line| line.as_bytes().to_vec());
        taken.lines.extend(unwritten);
        self.known = Some(taken);
    }

    pub(super) fn is_staged(&self, line: &str) -> bool {
        self.staged.iter().any(|staged| **staged == *line)
    }

    /// Notes that a line is in flight now.
    pub(super) fn stage(&mut self, line: &str) {
        self.staged.push(line.into());
    }

    /// Notes that a line that was in flight holds, or does not.
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

    /// Notes that the unwritten lines are written.
    pub(super) fn written(&mut self) {
        let written = self.unwritten.drain(..).count();
        if let Some(known) = &mut self.known {
            known.newest += written;
        }
    }

    /// True if it knows nothing that cannot be read again.
    pub(super) fn is_written(&self) -> bool {
        self.staged.is_empty() && self.unwritten.is_empty()
    }
}
