//! Finding where a truncation cuts, from the end of the file backwards: what it
//! costs follows how much is kept, not how long the session is.

use std::io;

use crate::disk::files::lines::{Raw, for_each_line_back};
use crate::disk::session_file::{self, Kind};
use crate::ground::storage::StorageFile;

/// What to find: the line after which `keep` messages remain.
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

/// What is read at most to find a cut on a worker's thread, bytes: its other sessions
/// wait meanwhile.
const INLINE: u64 = 256 << 10;

/// The same as [`locate`], if not much has to be read for it.
///
/// # Errors
/// As the operating system reports them.
pub(crate) fn locate_nearby(file: &dyn StorageFile, query: &Query) -> io::Result<Option<Located>> {
    let start = query.start.max(query.end.saturating_sub(INLINE));
    if start == query.start {
        return locate(file, query).map(Some);
    }
    // The line that is cut off by `start` counts for nothing.
    let mut search = Search::new(query);
    for_each_line_back(file, start, query.end, &mut |raw| {
        raw.begin > start && search.take(raw)
    })?;
    Ok(search.cut)
}

/// Reads backwards until one message more than `keep` was met.
///
/// # Errors
/// As the operating system reports them.
pub(crate) fn locate(file: &dyn StorageFile, query: &Query) -> io::Result<Located> {
    let mut search = Search::new(query);
    for_each_line_back(file, query.start, query.end, &mut |raw| search.take(raw))?;
    Ok(match search.cut {
        Some(cut) => cut,
        None if search.kept == 0 => Located::Nothing,
        None => Located::All,
    })
}

struct Search<'a> {
    query: &'a Query,
    /// Lines met so far, and messages among them.
    lines: u64,
    kept: usize,
    cut: Option<Located>,
}

impl<'a> Search<'a> {
    fn new(query: &'a Query) -> Self {
        Self {
            query,
            lines: 0,
            kept: 0,
            cut: None,
        }
    }

    /// Whether it goes on.
    fn take(&mut self, raw: Raw<'_>) -> bool {
        let kind = session_file::classify(raw.text);
        if kind == Kind::Message {
            if self.kept == self.query.keep {
                self.cut = Some(Located::Cut {
                    skip: self.query.lines - self.lines,
                    start: raw.next().min(self.query.end),
                });
                return false;
            }
            self.kept += 1;
        }
        self.lines += u64::from(kind != Kind::Blank);
        true
    }
}
