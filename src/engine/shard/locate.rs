//! Finding where a truncation cuts, from the end of the file backwards: what it
//! costs follows how much is kept, not how long the session is.

use std::io;

use crate::disk::files::lines::for_each_line_back;
use crate::disk::session_file::{self, Kind};
use crate::ground::storage::StorageFile;

/// What to find: the line behind which `keep` messages remain.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Query {
    pub(crate) start: u64,
    pub(crate) end: u64,
    /// Raw lines in the whole file.
    pub(crate) lines: u64,
    pub(crate) keep: usize,
}

/// Where a truncation cuts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Located {
    /// There is no message at all.
    Nothing,
    /// No more than `keep` messages: nothing is cut.
    All,
    /// The first `skip` raw lines go; the rest begins at `start`.
    Cut { skip: u64, start: u64 },
}

/// Reads backwards until one message more than `keep` was met.
///
/// # Errors
/// As the operating system reports them.
pub(crate) fn locate(file: &dyn StorageFile, query: &Query) -> io::Result<Located> {
    let (mut behind, mut kept, mut cut) = (0, 0, None);
    for_each_line_back(file, query.start, query.end, &mut |raw, next| {
        let kind = session_file::classify(raw);
        if kind == Kind::Message {
            if kept == query.keep {
                cut = Some(Located::Cut {
                    skip: query.lines - behind,
                    start: next,
                });
                return false;
            }
            kept += 1;
        }
        behind += u64::from(kind != Kind::Blank);
        true
    })?;
    Ok(match cut {
        Some(cut) => cut,
        None if kept == 0 => Located::Nothing,
        None => Located::All,
    })
}
