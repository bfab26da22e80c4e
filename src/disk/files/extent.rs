//! The shape of a session file: its lines, and the begin of the first that is not skipped.

use std::io;

use memchr::memchr;
use sessionlog_wal::storage::StorageFile;

/// The bytes read at a time.
const CHUNK: usize = 1 << 20;

/// The shape of a session file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Extent {
    pub(crate) end: u64,
    /// Raw non-empty lines.
    pub(crate) lines: u64,
    /// Offset of the first line that is not skipped.
    pub(crate) start: u64,
    /// True if the last line lacks its LF.
    pub(crate) torn: bool,
    /// CRC-32 of all bytes.
    pub(crate) crc: u32,
}

/// Counts the lines of `file[..len]` and of the bytes after it, and finds the end of the first
/// `skip`.
///
/// # Errors
/// As the operating system reports them.
pub(crate) fn measure(
    file: Option<&dyn StorageFile>,
    len: u64,
    behind: &[u8],
    skip: i64,
) -> io::Result<Extent> {
    let mut scan = LineScan::new(u64::try_from(skip).unwrap_or(0));
    if let Some(file) = file {
        let mut chunk = vec![0; CHUNK.min(len as usize)];
        let mut at = 0;
        while at < len {
            let want = (len - at).min(CHUNK as u64) as usize;
            file.read_exact_at(&mut chunk[..want], at)?;
            scan.feed(&chunk[..want], at);
            at += want as u64;
        }
    }
    scan.feed(behind, len);
    Ok(scan.finish(len + behind.len() as u64))
}

/// Counts lines over chunks. A line is empty, and not counted, if nothing or a
/// single CR stands before its LF.
struct LineScan {
    skip: u64,
    lines: u64,
    start: u64,
    /// Bytes of the line under way, as far as emptiness needs them.
    pending: u64,
    only_cr: bool,
    crc: crc32fast::Hasher,
}

impl LineScan {
    fn new(skip: u64) -> Self {
        Self {
            skip,
            lines: 0,
            start: 0,
            pending: 0,
            only_cr: true,
            crc: crc32fast::Hasher::new(),
        }
    }

    fn feed(&mut self, mut chunk: &[u8], mut at: u64) {
        self.crc.update(chunk);
        while let Some(lf) = memchr(b'\n', chunk) {
            self.extend(&chunk[..lf]);
            self.end_line(at + lf as u64 + 1);
            at += lf as u64 + 1;
            chunk = &chunk[lf + 1..];
        }
        self.extend(chunk);
    }

    fn extend(&mut self, part: &[u8]) {
        if part.is_empty() {
            return;
        }
        self.only_cr = self.pending == 0 && part == b"\r";
        self.pending += part.len() as u64;
    }

    fn end_line(&mut self, next: u64) {
        if self.pending > 0 && !self.only_cr {
            self.lines += 1;
            if self.lines <= self.skip {
                self.start = next;
            }
        }
        self.pending = 0;
        self.only_cr = true;
    }

    fn finish(mut self, end: u64) -> Extent {
        let torn = self.pending > 0;
        if torn {
            self.end_line(end);
        }
        Extent {
            end,
            lines: self.lines,
            start: if self.skip > self.lines {
                end
            } else {
                self.start
            },
            torn,
            crc: self.crc.finalize(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scan(text: &[u8], skip: u64, step: usize) -> Extent {
        let mut scan = LineScan::new(skip);
        for (i, chunk) in text.chunks(step).enumerate() {
            scan.feed(chunk, (i * step) as u64);
        }
        scan.finish(text.len() as u64)
    }

    #[test]
    fn lines_are_counted_as_picoclaw_counts_them_whatever_the_chunks() {
        let text = b"a\n\n\r\n b\r\n \n\x00\x00\nlast";
        for step in 1..=text.len() {
            let whole = scan(text, 2, step);
            assert_eq!(whole.lines, 5, "step {step}");
            assert!(whole.torn);
            assert_eq!(whole.crc, crc32fast::hash(text));
            assert_eq!(&text[whole.start as usize..][..2], b" \n");
        }
    }

    #[test]
    fn a_skip_beyond_the_file_leaves_nothing_live() {
        assert_eq!(scan(b"a\nb\n", 9, 2).start, 4);
        assert_eq!(scan(b"a\nb\n", 2, 2).start, 4);
        assert_eq!(scan(b"a\nb\n", 0, 2).start, 0);
    }
}
