//! What a session's file holds once the journal is carried out: its bytes, and
//! those that would come after them.

use std::io;

use crate::disk::files::lines::{Forwards, Raw};
use crate::engine::view::{Bytes, Planned};
use crate::error::Result;

/// A session's lines, not read yet.
#[derive(Debug)]
pub(super) struct Content(Bytes);

impl Content {
    /// The lines of `stem`, given what the journal says of it.
    ///
    /// # Errors
    /// If its files cannot be read.
    pub(super) fn of(planned: Planned<'_>, stem: &str) -> Result<Self> {
        planned.lines(stem).map(Self)
    }

    /// Whether there are no bytes at all.
    pub(super) fn is_empty(&self) -> bool {
        self.0.size() == 0
    }

    /// Calls `visit` with every line, and whether a line feed ends it.
    ///
    /// # Errors
    /// As the operating system reports them.
    pub(super) fn for_each_line(&self, mut visit: impl FnMut(Raw<'_>, bool)) -> io::Result<()> {
        let Bytes {
            file, len, behind, ..
        } = &self.0;
        let size = self.0.size();
        let visit = &mut |raw: Raw<'_>| {
            visit(raw, raw.next() <= size);
            Ok(())
        };
        let mut lines = Forwards::at(0);
        if let Some(file) = file {
            lines.read(&**file, 0, *len, visit)?;
        }
        lines.take(behind, visit)?;
        lines.finish(visit)
    }
}
