//! The lines of a file, as recovery would leave them.

use std::io;
use std::path::Path;
use std::sync::Arc;

use crate::engine::recovery::redo::{alone, glued, ours, resumed_at};
use crate::error::{Error, Result};
use crate::ground::storage::StorageFile;

/// The lines of a session, or of a backup: a file as far as it counts, and what
/// the journal puts after that.
#[derive(Debug)]
pub(crate) struct Bytes {
    pub(crate) file: Option<Arc<dyn StorageFile>>,
    pub(crate) len: u64,
    pub(crate) behind: Vec<u8>,
    /// Whether the journal's lines are all that is left of more.
    pub(super) alone: bool,
    /// Whether another program changed the file before the journal's lines were in it.
    pub(super) changed: bool,
}

impl Bytes {
    pub(super) fn none() -> Self {
        Self {
            file: None,
            len: 0,
            behind: Vec::new(),
            alone: false,
            changed: false,
        }
    }

    pub(super) fn whole(file: Option<Arc<dyn StorageFile>>, path: &Path) -> Result<Self> {
        let len = match &file {
            Some(file) => file.info().map_err(|e| Error::io("read", path, e))?.len,
            None => 0,
        };
        Ok(Self {
            file,
            len,
            ..Self::none()
        })
    }

    pub(crate) fn size(&self) -> u64 {
        self.len + self.behind.len() as u64
    }

    /// Without what stands at `len` and after, and with `lines` there.
    ///
    /// # Errors
    /// As the operating system reports them.
    pub(super) fn continued(self, len: u64, lines: &[u8]) -> io::Result<Self> {
        let mut bytes = self.cut(len);
        if !lines.is_empty() && bytes.would_glue(lines)? {
            // The line feed before them is damaged; recovery puts it back.
            bytes = bytes.cut(len - 1);
            bytes.behind.push(b'\n');
        }
        bytes.behind.extend_from_slice(lines);
        Ok(bytes)
    }

    /// All of it, and `lines` after that.
    ///
    /// # Errors
    /// As the operating system reports them.
    pub(super) fn followed(mut self, lines: &[u8]) -> io::Result<Self> {
        self.alone = false;
        if !lines.is_empty() && self.size() > 0 && self.would_glue(b"{")? {
            self.behind.push(b'\n');
        }
        self.behind.extend_from_slice(lines);
        Ok(self)
    }

    fn would_glue(&self, lines: &[u8]) -> io::Result<bool> {
        match (self.behind.last(), &self.file) {
            (Some(last), _) => Ok(*last != b'\n' && lines.first() != Some(&b'\n')),
            (None, Some(file)) => glued(&**file, self.len, lines),
            (None, None) => Ok(false),
        }
    }

    /// Without what stands at `len` and after.
    fn cut(mut self, len: u64) -> Self {
        self.alone = false;
        self.behind.truncate(len.saturating_sub(self.len) as usize);
        self.len = self.len.min(len);
        self
    }
}

impl Bytes {
    /// A whole file as recovery would leave it, if the journal has lines that
    /// begin at `base`.
    pub(super) fn followed_by(self, base: u64, journalled: Vec<u8>) -> io::Result<Self> {
        let Self { file, len, .. } = self;
        let alone = alone(file.as_deref(), base, &journalled)?;
        let (ours, len, behind) = behind_base(file.as_deref(), len, base, journalled)?;
        Ok(Self {
            file,
            len,
            behind,
            alone,
            changed: !ours && !alone,
        })
    }
}

/// Whether a file is as the journal left it; how much of it recovery would leave
/// alone, and what it would make stand after that. What the file has there already may be the zeros a power loss
/// left, so the journal's bytes count.
fn behind_base(
    file: Option<&dyn StorageFile>,
    len: u64,
    base: u64,
    mut journalled: Vec<u8>,
) -> io::Result<(bool, u64, Vec<u8>)> {
    let Some(file) = file else {
        return Ok((true, 0, journalled));
    };
    if journalled.is_empty() {
        return Ok((true, len, journalled));
    }
    // At its very end an unended line is somebody else's: recovery ends it, and
    // takes the file for one that was changed.
    let glued = base > 0 && len >= base && glued(file, base, &journalled)?;
    let holds = len >= base && !(glued && len == base) && ours(file, base, &journalled, len)?;
    let base = if holds {
        base
    } else if let Some(resumed) = resumed_at(file, &journalled, len)? {
        resumed
    } else {
        let mut last = [b'\n'];
        if len > 0 {
            file.read_exact_at(&mut last, len - 1)?;
        }
        if last != *b"\n" {
            journalled.insert(0, b'\n');
        }
        return Ok((false, len, journalled));
    };
    // The line feed before them is damaged; recovery puts it back.
    if holds && glued {
        let (len, behind) = behind(file, len, base, journalled)?;
        return Ok((true, len - 1, [b"\n", &behind[..]].concat()));
    }
    let (len, behind) = behind(file, len, base, journalled)?;
    Ok((holds, len, behind))
}

/// The same if the journalled lines stand at `base`.
fn behind(
    file: &dyn StorageFile,
    len: u64,
    base: u64,
    mut journalled: Vec<u8>,
) -> io::Result<(u64, Vec<u8>)> {
    let end = base + journalled.len() as u64;
    let journal_len = journalled.len();
    journalled.resize(journal_len + len.saturating_sub(end) as usize, 0);
    file.read_exact_at(&mut journalled[journal_len..], end)?;
    Ok((base, journalled))
}
