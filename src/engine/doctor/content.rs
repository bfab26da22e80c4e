//! What a session's file holds once the journal is carried out: its bytes, and
//! those that would come after them.

use std::io;

use memchr::memchr;

use crate::engine::view::{Bytes, Planned};
use crate::error::Result;

/// How much is read at a time, bytes.
const CHUNK: u64 = 1 << 20;

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
        self.0.len + self.0.behind.len() as u64 == 0
    }

    /// Calls `visit` with every line, its offset, and whether a line feed ends
    /// it. Holds one line and one chunk in memory, and no line of `behind` twice.
    ///
    /// # Errors
    /// As the operating system reports them.
    pub(super) fn for_each_line(&self, mut visit: impl FnMut(&[u8], u64, bool)) -> io::Result<()> {
        let (mut line, mut begin) = (Vec::new(), 0);
        let mut take = |mut part: &[u8]| {
            while let Some(lf) = memchr(b'\n', part) {
                line.extend_from_slice(&part[..lf]);
                visit(&line, begin, true);
                begin += line.len() as u64 + 1;
                line.clear();
                part = &part[lf + 1..];
            }
            line.extend_from_slice(part);
        };
        if let Some(file) = &self.0.file {
            let mut chunk = vec![0; CHUNK.min(self.0.len) as usize];
            let mut at = 0;
            while at < self.0.len {
                let want = CHUNK.min(self.0.len - at) as usize;
                file.read_exact_at(&mut chunk[..want], at)?;
                take(&chunk[..want]);
                at += want as u64;
            }
        }
        take(&self.0.behind);
        if !line.is_empty() {
            visit(&line, begin, false);
        }
        Ok(())
    }
}
