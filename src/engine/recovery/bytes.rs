//! The lines of a session, or of a backup, as the journal makes them.

use std::io;
use std::path::Path;
use std::sync::Arc;

use sessionlog_core::error::{Error, Result};
use sessionlog_wal::storage::StorageFile;

use crate::disk::files::lines::{Forwards, Raw};

/// The first bytes of a file, and the bytes that follow them.
#[derive(Debug, Clone)]
pub(crate) struct Bytes {
    pub(crate) file: Option<Arc<dyn StorageFile>>,
    pub(crate) len: u64,
    pub(crate) behind: Vec<u8>,
}

impl Bytes {
    pub(crate) fn none() -> Self {
        Self::of(Vec::new())
    }

    /// Returns lines that are in no file.
    pub(crate) fn of(behind: Vec<u8>) -> Self {
        Self {
            file: None,
            len: 0,
            behind,
        }
    }

    pub(crate) fn whole(file: Option<Arc<dyn StorageFile>>, path: &Path) -> Result<Self> {
        let len = match &file {
            Some(file) => file.info().map_err(|e| Error::io("read", path, e))?.len,
            None => 0,
        };
        Ok(Self {
            file,
            len,
            behind: Vec::new(),
        })
    }

    pub(crate) fn size(&self) -> u64 {
        self.len + self.behind.len() as u64
    }

    /// Returns the bytes before `len`, and `lines` after them. If the line feed before them is
    /// damaged it is put back: otherwise the line before would run into the first of them.
    ///
    /// # Errors
    /// As the operating system reports them.
    pub(crate) fn continued(self, len: u64, lines: &[u8]) -> io::Result<Self> {
        let mut bytes = self.cut(len);
        if bytes.would_glue(lines)? {
            bytes = bytes.cut(len - 1);
            bytes.behind.push(b'\n');
        }
        bytes.behind.extend_from_slice(lines);
        Ok(bytes)
    }

    /// Returns all of it, with `lines` after it.
    ///
    /// # Errors
    /// As the operating system reports them.
    pub(crate) fn followed(mut self, lines: &[u8]) -> io::Result<Self> {
        if self.would_glue(lines)? {
            self.behind.push(b'\n');
        }
        self.behind.extend_from_slice(lines);
        Ok(self)
    }

    /// Returns true if `lines` after it would continue its last line.
    ///
    /// # Errors
    /// As the operating system reports them.
    pub(crate) fn would_glue(&self, lines: &[u8]) -> io::Result<bool> {
        if self.size() == 0 || matches!(lines.first(), None | Some(b'\n')) {
            return Ok(false);
        }
        let mut last = [0];
        match (self.behind.last(), &self.file) {
            (Some(byte), _) => last = [*byte],
            (None, Some(file)) => file.read_exact_at(&mut last, self.len - 1)?,
            (None, None) => {}
        }
        Ok(last != *b"\n")
    }

    /// Returns the bytes before `len`.
    pub(crate) fn cut(mut self, len: u64) -> Self {
        self.behind.truncate(len.saturating_sub(self.len) as usize);
        self.len = self.len.min(len);
        self
    }

    /// Reads `len` bytes at `at`.
    ///
    /// # Errors
    /// As the operating system reports them.
    pub(crate) fn read(&self, at: u64, len: usize, into: &mut Vec<u8>) -> io::Result<()> {
        let in_file = (self.len.saturating_sub(at)).min(len as u64) as usize;
        into.clear();
        into.resize(in_file, 0);
        if let (Some(file), 1..) = (&self.file, in_file) {
            file.read_exact_at(into, at)?;
        }
        let rest = at.saturating_sub(self.len) as usize;
        into.extend_from_slice(&self.behind[rest..rest + len - in_file]);
        Ok(())
    }

    /// Calls `visit` with every line. A last line without LF is a line.
    ///
    /// # Errors
    /// As the operating system reports them.
    pub(crate) fn for_each_line(&self, mut visit: impl FnMut(Raw<'_>)) -> io::Result<()> {
        let visit = &mut |raw: Raw<'_>| {
            visit(raw);
            Ok(())
        };
        let mut lines = Forwards::at(0);
        if let Some(file) = &self.file {
            lines.read(&**file, 0, self.len, visit)?;
        }
        lines.take(&self.behind, visit)?;
        lines.finish(visit)
    }

    /// Returns the CRC-32 of all of it.
    ///
    /// # Errors
    /// As the operating system reports them.
    pub(crate) fn crc(&self) -> io::Result<u32> {
        let start = match &self.file {
            Some(file) => crc_of(&**file, self.len)?,
            None => 0,
        };
        let mut crc = crc32fast::Hasher::new_with_initial(start);
        crc.update(&self.behind);
        Ok(crc.finalize())
    }

    /// Writes all of it to a new file; returns its CRC-32.
    ///
    /// # Errors
    /// As the operating system reports them.
    pub(crate) fn write_to(&self, to: &dyn StorageFile) -> io::Result<u32> {
        if let Some(file) = &self.file {
            file.copy_to(to, self.len)?;
        }
        to.write_all_at(&self.behind, self.len)?;
        crc_of(to, self.size())
    }
}

/// Number of bytes that are read at a time.
pub(crate) const CHUNK: u64 = 1 << 20;

/// Returns the CRC-32 of the first `len` bytes.
///
/// # Errors
/// As the operating system reports them.
pub(crate) fn crc_of(file: &dyn StorageFile, len: u64) -> io::Result<u32> {
    let mut crc = crc32fast::Hasher::new();
    let mut chunk = vec![0; CHUNK.min(len) as usize];
    let mut at = 0;
    while at < len {
        let want = (len - at).min(CHUNK) as usize;
        file.read_exact_at(&mut chunk[..want], at)?;
        crc.update(&chunk[..want]);
        at += want as u64;
    }
    Ok(crc.finalize())
}
