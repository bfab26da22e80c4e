//! The lines of a file, as recovery would leave them.

use std::io;
use std::path::Path;
use std::sync::Arc;

use crate::engine::recovery::redo::{glued, ours, resumed_at};
use crate::error::{Error, Result};
use crate::ground::storage::StorageFile;

/// The lines of a session, or of a backup: a file as far as it counts, and what
/// the journal puts behind that.
#[derive(Debug)]
pub(crate) struct Bytes {
    pub(crate) file: Option<Arc<dyn StorageFile>>,
    pub(crate) len: u64,
    pub(crate) behind: Vec<u8>,
}

impl Bytes {
    pub(super) fn whole(file: Option<Arc<dyn StorageFile>>, path: &Path) -> Result<Self> {
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

    pub(super) fn size(&self) -> u64 {
        self.len + self.behind.len() as u64
    }

    /// Without what stands at `len` and behind.
    pub(super) fn cut(mut self, len: u64) -> Self {
        self.behind.truncate(len.saturating_sub(self.len) as usize);
        self.len = self.len.min(len);
        self
    }
}

/// How much of a file recovery would leave alone, and what it would make stand
/// behind that. What the file has there already may be the zeros a power loss
/// left, so the journal's bytes count.
pub(super) fn behind_base(
    file: Option<&dyn StorageFile>,
    len: u64,
    base: u64,
    mut journalled: Vec<u8>,
) -> io::Result<(u64, Vec<u8>)> {
    let Some(file) = file else {
        return Ok((0, journalled));
    };
    let holds = len >= base && ours(file, base, &journalled, len)?;
    let base = if holds || journalled.is_empty() {
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
        return Ok((len, journalled));
    };
    // The line feed before them is damaged; recovery puts it back.
    if holds && len > base && glued(file, base, &journalled)? {
        let (len, behind) = behind(file, len, base, journalled)?;
        return Ok((len - 1, [b"\n", &behind[..]].concat()));
    }
    behind(file, len, base, journalled)
}

/// The same where the journalled lines stand at `base`.
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
