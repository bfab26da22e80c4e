//! Walking the lines of a file, forwards and backwards. The memory needed depends on the longest
//! line up to [`LONGEST`], not on the length of the file, and no byte is searched or copied twice.

use std::io;

use memchr::{memchr, memrchr};
use sessionlog_wal::storage::StorageFile;

/// The longest line that is brought into memory, in bytes. No command writes a longer one. A longer
/// line is damage: it is skipped, and shown as [`Raw::is_huge`].
pub(crate) const LONGEST: u64 = 64 << 20;

/// The bytes read at a time, walking forwards.
const STEP: u64 = 4 << 20;

/// The bytes read first, and the most at a time, walking backwards.
const FIRST_STEP: u64 = 16 << 10;
const MAX_STEP: u64 = 4 << 20;

/// Stands for a line that is too long. It decodes to nothing, and counts as one line.
const HUGE: &[u8] = b"{";

/// A line of a file, without its LF.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Raw<'a> {
    /// The line, or [`HUGE`] if it is too long.
    pub(crate) text: &'a [u8],
    /// Its offset in the file; `len` is its length there.
    pub(crate) begin: u64,
    pub(crate) len: u64,
}

impl Raw<'_> {
    /// True if the line is too long to be here. Code that copies lines copies this one from the
    /// file.
    pub(crate) fn is_huge(&self) -> bool {
        self.len > LONGEST
    }

    /// The line as it stands in `file`, brought into memory whatever its length. For handing on
    /// whole sessions.
    pub(crate) fn whole<'a>(
        &'a self,
        file: &dyn StorageFile,
        room: &'a mut Vec<u8>,
    ) -> io::Result<&'a [u8]> {
        if !self.is_huge() {
            return Ok(self.text);
        }
        room.resize(self.len as usize, 0);
        file.read_exact_at(room, self.begin)?;
        Ok(room)
    }

    /// The offset of the next line, if an LF ends this one.
    pub(crate) fn next(&self) -> u64 {
        self.begin + self.len + 1
    }
}

/// Calls `visit` with every raw line of `file[start..end]`. Bytes after the last LF are a line.
///
/// # Errors
/// As the operating system or `visit` reports them.
pub(crate) fn for_each_line(
    file: &dyn StorageFile,
    start: u64,
    end: u64,
    visit: &mut dyn FnMut(Raw<'_>) -> io::Result<()>,
) -> io::Result<()> {
    let mut lines = Forwards::at(start);
    lines.read(file, start, end, visit)?;
    lines.finish(visit)
}

/// The current line, walking forwards through bytes that come piece by piece.
pub(crate) struct Forwards {
    begin: u64,
    /// Length so far.
    len: u64,
    /// Its text so far, if it is not too long.
    text: Vec<u8>,
}

impl Forwards {
    pub(crate) fn at(begin: u64) -> Self {
        Self {
            begin,
            len: 0,
            text: Vec::new(),
        }
    }

    /// Continues with `file[start..end]`.
    ///
    /// # Errors
    /// As [`for_each_line`].
    pub(crate) fn read(
        &mut self,
        file: &dyn StorageFile,
        start: u64,
        end: u64,
        visit: &mut dyn FnMut(Raw<'_>) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut chunk = vec![0; (end.saturating_sub(start)).min(STEP) as usize];
        let mut at = start;
        while at < end {
            let want = (end - at).min(STEP) as usize;
            file.read_exact_at(&mut chunk[..want], at)?;
            at += want as u64;
            self.take(&chunk[..want], visit)?;
        }
        Ok(())
    }

    /// Continues with `bytes`.
    ///
    /// # Errors
    /// As `visit` reports them.
    pub(crate) fn take(
        &mut self,
        mut bytes: &[u8],
        visit: &mut dyn FnMut(Raw<'_>) -> io::Result<()>,
    ) -> io::Result<()> {
        while let Some(lf) = memchr(b'\n', bytes) {
            self.end(&bytes[..lf], visit)?;
            self.begin += 1;
            bytes = &bytes[lf + 1..];
        }
        self.keep(bytes);
        Ok(())
    }

    /// Visits the last line if no LF ends it.
    ///
    /// # Errors
    /// As `visit` reports them.
    pub(crate) fn finish(
        mut self,
        visit: &mut dyn FnMut(Raw<'_>) -> io::Result<()>,
    ) -> io::Result<()> {
        if self.len == 0 {
            return Ok(());
        }
        self.end(&[], visit)
    }

    fn keep(&mut self, part: &[u8]) {
        self.len += part.len() as u64;
        if self.len > LONGEST {
            self.text = Vec::new();
        } else {
            self.text.extend_from_slice(part);
        }
    }

    /// Ends the line with `part`; the next one begins right after it.
    fn end(
        &mut self,
        part: &[u8],
        visit: &mut dyn FnMut(Raw<'_>) -> io::Result<()>,
    ) -> io::Result<()> {
        let alone = self.len == 0;
        if alone {
            self.len = part.len() as u64;
        } else {
            self.keep(part);
        }
        let text = match self.len > LONGEST {
            true => HUGE,
            false if alone => part,
            false => &self.text,
        };
        let (begin, len) = (self.begin, self.len);
        let visited = visit(Raw { text, begin, len });
        self.begin += len;
        self.len = 0;
        self.text.clear();
        visited
    }
}

/// Calls `visit` with each raw line of `file[start..end]`, last line first, until it
/// returns `false`.
///
/// # Errors
/// As the operating system reports them.
pub(crate) fn for_each_line_back(
    file: &dyn StorageFile,
    start: u64,
    end: u64,
    visit: &mut dyn FnMut(Raw<'_>) -> bool,
) -> io::Result<()> {
    let (mut at, mut stride) = (end, FIRST_STEP);
    let mut line = Backwards::default();
    // True if a line ends at the LF met last; false before the first LF.
    let mut ended = false;
    while at > start {
        let want = stride.min(at - start);
        let mut chunk = vec![0; want as usize];
        file.read_exact_at(&mut chunk, at - want)?;
        let mut left = chunk.len();
        if at == end && chunk.last() == Some(&b'\n') {
            left -= 1;
            ended = true;
        }
        at -= want;
        stride = (stride * 2).min(MAX_STEP);
        while let Some(lf) = memrchr(b'\n', &chunk[..left]) {
            if !line.begin(&chunk[lf + 1..left], at + lf as u64 + 1, visit) {
                return Ok(());
            }
            left = lf;
            ended = true;
        }
        chunk.truncate(left);
        line.keep(chunk);
    }
    if ended || line.len > 0 {
        line.begin(&[], start, visit);
    }
    Ok(())
}

/// The current line, walking backwards.
#[derive(Default)]
struct Backwards {
    len: u64,
    /// Its text so far, last piece first, if it is not too long.
    pieces: Vec<Vec<u8>>,
}

impl Backwards {
    fn keep(&mut self, piece: Vec<u8>) {
        self.len += piece.len() as u64;
        if self.len > LONGEST {
            self.pieces = Vec::new();
        } else if !piece.is_empty() {
            self.pieces.push(piece);
        }
    }

    /// Begins the line at `begin`, with `part`.
    fn begin(&mut self, part: &[u8], begin: u64, visit: &mut dyn FnMut(Raw<'_>) -> bool) -> bool {
        let len = self.len + part.len() as u64;
        let goes_on = if len > LONGEST {
            visit(Raw {
                text: HUGE,
                begin,
                len,
            })
        } else if self.pieces.is_empty() {
            visit(Raw {
                text: part,
                begin,
                len,
            })
        } else {
            let mut text = part.to_vec();
            self.pieces
                .iter()
                .rev()
                .for_each(|piece| text.extend_from_slice(piece));
            visit(Raw {
                text: &text,
                begin,
                len,
            })
        };
        self.len = 0;
        self.pieces.clear();
        goes_on
    }
}

#[cfg(test)]
mod tests;
