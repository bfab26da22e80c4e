//! Copies of sidecars, in the engine's own directory.
//!
//! A sidecar is a file that can be deleted or damaged while the store is closed. The number of
//! hidden lines, the session's summary and its aliases are stored nowhere else. A flush adds a line
//! for every session with something new in its sidecar ([`copy_file`]): another text, another
//! number of hidden lines, or another file; appends cost nothing. If a sidecar is missing or does
//! not decode, opening looks for its contents there ([`lost`]).
//!
//! The copies are a cache. The journal and an existing sidecar take precedence over them; if they
//! are gone, only this protection is lost. Copies that find no space wait for the next flush, and
//! do not fail one.
//!
//! A copy is made with a session's first flush after each open, even if there is one already: to
//! know, the copies would have to be read. Only the ends of a session file are compared, so that a
//! copy costs the same for a session of any length. A restored sidecar counts the lines anew;
//! `updated_at` is the copy's, and appends do not change it there.
//!
//! PicoClaw drops the fields of a sidecar that it does not know: title, labels, pin, and fields of
//! other programs. An open that reads the sidecars puts them back if the sidecar has none of them
//! and belongs to the same session: with that key, created at that time.
//!
//! # Format
//!
//! One line per change of a sidecar. If a `stem` has several lines, the last that verifies counts.
//!
//! ```text
//! {"check":"…","live":N}
//! {"check":"…","stem":"…","length":N,"head":N,"tail":N,"sidecar":{…}}
//! {"check":"…","tagged":true,"stem":"…","length":N,"head":N,"tail":N,"sidecar":{…}}
//! {"check":"…","stem":"…"}
//! ```
//!
//! * `check`: the CRC-32 of everything that follows its eight digits.
//! * `length`: the length of the session file then. `head` and `tail`: the CRC-32 of its first and
//!   last 4 KiB; only if `skip` is not 0.
//! * No `sidecar`: the session was deleted.
//! * `tagged`: the sidecar has fields that PicoClaw does not know.
//! * `live`: the length of the lines after it when the file was last rewritten. The flush that
//!   would take the file past twice that and `SLACK` rewrites it, and so does a close after a
//!   deletion.
//!
//! # What a crash leaves
//!
//! * *Lines appended, synced*. Unfinished: the journal still holds images of the same sidecars. A
//!   torn line fails its checksum, and the next line begins on its own. After: they are used if a
//!   sidecar is lost and the journal has no image of it.
//! * *File rewritten* (temporary file, sync, rename). Unfinished: the old file whole; the next
//!   rewrite removes the temporary file. After: the new file whole.

pub(crate) mod copy_file;
mod line;
pub(crate) mod lost;

use std::io;
use std::sync::Arc;

use sessionlog_core::session_file::SessionMeta;
use sessionlog_wal::storage::StorageFile;

/// The number of bytes that are compared at each end of a session file.
const END: u64 = 4 << 10;

/// The contents of a sidecar, and the session file it belonged to.
#[derive(Debug, Clone)]
pub(crate) struct SidecarCopy {
    meta: SessionMeta,
    /// Length of the session file then.
    len: u64,
    /// Checksums of its ends; used only if lines are hidden.
    ends: Option<Ends>,
}

impl SidecarCopy {
    /// The contents of `meta` for the first `len` bytes of `log`.
    ///
    /// # Errors
    /// As the operating system reports them.
    pub(crate) fn beside(
        log: Option<&dyn StorageFile>,
        len: u64,
        meta: SessionMeta,
    ) -> io::Result<Self> {
        let log = log.filter(|_| meta.skip > 0);
        let ends = log.map(|log| Ends::of(log, len)).transpose()?;
        Ok(Self { meta, len, ends })
    }

    /// True if `log` is still the same file, whatever was appended since. For another file the copy
    /// does not tell which lines are hidden: used there, it could hide lines that were never
    /// truncated.
    fn is_of(&self, log: &dyn StorageFile) -> io::Result<bool> {
        match self.ends {
            Some(ends) if log.info()?.len >= self.len => Ok(Ends::of(log, self.len)? == ends),
            _ => Ok(false),
        }
    }
}

/// Checksums of the first and of the last [`END`] bytes, or of all if there are fewer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Ends {
    head: u32,
    tail: u32,
}

impl Ends {
    fn of(log: &dyn StorageFile, len: u64) -> io::Result<Self> {
        let size = len.min(END);
        let mut bytes = vec![0; size as usize];
        log.read_exact_at(&mut bytes, 0)?;
        let head = crc32fast::hash(&bytes);
        log.read_exact_at(&mut bytes, len - size)?;
        let tail = crc32fast::hash(&bytes);
        Ok(Self { head, tail })
    }
}

/// A copy to be written.
#[derive(Debug)]
pub(crate) struct Copy {
    stem: Arc<str>,
    /// If there are two copies of one name, the later counts. Two sessions may have had the name
    /// one after the other, and come from two workers.
    order: u64,
    /// The line to write; `None` if the session is gone.
    line: Option<Vec<u8>>,
}

impl Copy {
    /// A copy of a sidecar.
    pub(crate) fn new(stem: Arc<str>, order: u64, said: &SidecarCopy) -> Self {
        let line = Some(line::encode(&stem, said));
        Self { stem, order, line }
    }

    /// A copy for a deleted session: its sidecar must not be restored for a new session of the same
    /// name.
    pub(crate) fn gone(stem: Arc<str>, order: u64) -> Self {
        let line = None;
        Self { stem, order, line }
    }
}
