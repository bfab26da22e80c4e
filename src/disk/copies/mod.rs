//! Copies of what sidecars say, in the engine's own directory.
//!
//! A sidecar is a file that anyone may delete or damage while the store is closed, and
//! what it hides, how a session is summed up and what else it is called stand nowhere
//! else. A flush adds a line for every session whose sidecar says something new
//! ([`copy_file`]): another text, another number of hidden lines, or another file; appends
//! cost nothing. Opening looks there for what a sidecar that is missing or does not
//! decode said ([`lost`]).
//!
//! The copies are a cache. The journal goes before them, and a sidecar that is there
//! does; without them nothing is lost but this protection. Copies that find no space wait
//! for the next flush and fail none.
//!
//! A copy is made with a session's first flush after each open, whether or not there is
//! one: to know, the copies would have to be read. Only the ends of a session file are
//! compared, so that a copy costs the same however long the session is. What is put back
//! counts the lines anew; `updated_at` is the copy's, which appends leave alone.
//!
//! PicoClaw drops the fields of a sidecar that it does not know: title, labels, pin, and those
//! of other programs. An open that reads the sidecars puts them back, of a sidecar which has
//! none of them and belongs to the same session: one of that key, made at that time.
//!
//! # Format
//!
//! One line per change of a sidecar. Of one `stem` the last line that verifies holds.
//!
//! ```text
//! {"check":"…","live":N}
//! {"check":"…","stem":"…","length":N,"head":N,"tail":N,"sidecar":{…}}
//! {"check":"…","tagged":true,"stem":"…","length":N,"head":N,"tail":N,"sidecar":{…}}
//! {"check":"…","stem":"…"}
//! ```
//!
//! * `check`: the CRC-32 of everything that follows its eight digits.
//! * `length`: how long the session file was then. `head` and `tail`: the CRC-32 of its
//!   first and last 4 KiB; there only if `skip` is not 0.
//! * No `sidecar`: the session was deleted.
//! * `tagged`: the sidecar has fields that PicoClaw does not know.
//! * `live`: the length of the lines after it when the file was last written anew. The
//!   file is written anew by the flush that would take it past twice that and `SLACK`,
//!   and at a close after a deletion.
//!
//! # What a crash leaves
//!
//! * *Lines appended, synced*. Unfinished: the journal still holds images of what they
//!   say. A torn line fails its checksum, and the next line begins on its own. After:
//!   they are believed if a sidecar is lost and the journal has no image of it.
//! * *File written anew* (temporary file, sync, rename). Unfinished: the old file whole;
//!   the next rewrite removes what is left. After: the new file whole.

pub(crate) mod copy_file;
mod line;
pub(crate) mod lost;

use std::io;
use std::sync::Arc;

use crate::disk::session_file::SessionMeta;
use crate::ground::storage::StorageFile;

/// How much of each end of a session file is compared, bytes.
const END: u64 = 4 << 10;

/// What a sidecar said, and beside which session file.
#[derive(Debug, Clone)]
pub(crate) struct Said {
    meta: SessionMeta,
    /// Length of the session file then.
    len: u64,
    /// How it began and ended; looked at only if lines are hidden.
    ends: Option<Ends>,
}

impl Said {
    /// What `meta` says beside the first `len` bytes of `log`.
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

    /// Whether `log` is the file it was said beside, whatever was appended since.
    /// Of any other it does not tell which lines are hidden: believed there, it
    /// could hide some that were never truncated.
    fn is_of(&self, log: &dyn StorageFile) -> io::Result<bool> {
        match self.ends {
            Some(ends) if log.info()?.len >= self.len => Ok(Ends::of(log, self.len)? == ends),
            _ => Ok(false),
        }
    }
}

/// Checksums of the first and of the last [`END`] bytes, or of all if there are
/// not as many.
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
    /// Of two copies of one name the later holds. Two sessions may have had the
    /// name one after the other, and come from two workers.
    order: u64,
    /// What to write; `None` if the session is gone.
    line: Option<Vec<u8>>,
}

impl Copy {
    /// What a sidecar says now.
    pub(crate) fn new(stem: Arc<str>, order: u64, said: &Said) -> Self {
        let line = Some(line::encode(&stem, said));
        Self { stem, order, line }
    }

    /// The session was deleted: what was said of it must not come back to one
    /// of the same name.
    pub(crate) fn gone(stem: Arc<str>, order: u64) -> Self {
        let line = None;
        Self { stem, order, line }
    }
}
