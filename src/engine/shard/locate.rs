//! Finds where a truncation cuts, from the end of the file backwards: the cost follows the lines
//! that are kept, not the length of the session.

use std::cmp::Ordering;
use std::io;

use sessionlog_core::position;
use sessionlog_core::session_file::{self, Decoded, Kind, Turns};
use sessionlog_wal::storage::StorageFile;

use crate::disk::files::lines::{Raw, for_each_line_back};

/// A search for a cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Query {
    pub(crate) start: u64,
    pub(crate) end: u64,
    /// Raw lines in the whole file.
    pub(crate) lines: u64,
    pub(crate) keep: Cut,
}

/// The lines that stay, from an offset.
pub(crate) type Cut = position::Cut<u64>;

impl Query {
    /// Returns the result, if it needs no look at the lines.
    pub(crate) fn at_once(&self) -> Option<CutPlace> {
        match self.keep {
            _ if self.start == self.end => Some(CutPlace::Nothing),
            Cut::Last(0) | Cut::Turns(0) => Some(CutPlace::Nothing),
            Cut::From(offset) if offset <= self.start => Some(CutPlace::All),
            Cut::From(offset) if offset == self.end => Some(CutPlace::Nothing),
            Cut::Last(_) | Cut::Turns(_) | Cut::From(_) => None,
        }
    }
}

/// Where a truncation cuts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CutPlace {
    /// Nothing stays: there is no message at all.
    Nothing,
    /// All stays: there is no more than is to be kept.
    All,
    /// The first `skip` raw lines go; the rest begins at `start`.
    Cut { skip: u64, start: u64 },
    /// No line begins at the offset.
    Amiss,
}

/// The most that is read to find a cut on a worker's thread, bytes: its other sessions wait
/// meanwhile.
const INLINE: u64 = 256 << 10;

/// Does the same as [`locate`], if little has to be read for it.
///
/// # Errors
/// As the operating system reports them.
pub(crate) fn locate_nearby(file: &dyn StorageFile, query: &Query) -> io::Result<Option<CutPlace>> {
    let start = query.start.max(query.end.saturating_sub(INLINE));
    if start == query.start {
        return locate(file, query).map(Some);
    }
    // The line that `start` cuts through does not count.
    let mut search = LineSearch::new(query);
    for_each_line_back(file, start, query.end, &mut |raw| {
        raw.begin > start && search.take(raw)
    })?;
    Ok(search.cut)
}

/// Reads backwards until one message more than `keep` was met.
///
/// # Errors
/// As the operating system reports them.
pub(crate) fn locate(file: &dyn StorageFile, query: &Query) -> io::Result<CutPlace> {
    let mut search = LineSearch::new(query);
    for_each_line_back(file, query.start, query.end, &mut |raw| search.take(raw))?;
    Ok(search.end())
}

struct LineSearch<'a> {
    query: &'a Query,
    /// Lines met so far, and messages among them.
    lines: u64,
    kept: usize,
    turns: Turns<CutPlace>,
    /// The user's message nearest to the end from which on there are enough messages.
    spoken: Option<CutPlace>,
    cut: Option<CutPlace>,
}

impl<'a> LineSearch<'a> {
    fn new(query: &'a Query) -> Self {
        Self {
            query,
            lines: 0,
            kept: 0,
            turns: Turns::default(),
            spoken: None,
            cut: None,
        }
    }

    /// Takes the next line back; returns true while the search goes on.
    fn take(&mut self, raw: Raw<'_>) -> bool {
        self.cut = match self.query.keep {
            Cut::Last(n) => self.take_message(raw, n),
            Cut::Turns(n) => self.take_turn(raw, n),
            Cut::From(offset) => self.take_line(raw, offset),
        };
        self.cut.is_none()
    }

    fn take_message(&mut self, raw: Raw<'_>, n: usize) -> Option<CutPlace> {
        let kind = session_file::classify(raw.text);
        if kind == Kind::Message {
            if self.kept == n {
                return Some(self.at(raw.next().min(self.query.end)));
            }
            self.kept += 1;
        }
        self.lines += u64::from(kind != Kind::Blank);
        None
    }

    fn take_turn(&mut self, raw: Raw<'_>, n: usize) -> Option<CutPlace> {
        let decoded = session_file::decode(raw.text);
        self.lines += u64::from(decoded != Decoded::Blank);
        if let Decoded::Message(message) = decoded {
            self.kept += 1;
            let here = (self.kept >= n).then(|| self.at(raw.begin));
            self.turns.take_back(&message, here);
            if message.role() == "user" {
                self.spoken = self.spoken.or(here);
            }
            if !self.turns.is_open() {
                return self.turns.newest().copied();
            }
        }
        None
    }

    fn take_line(&mut self, raw: Raw<'_>, offset: u64) -> Option<CutPlace> {
        let after = self.at(raw.next().min(self.query.end));
        let blank = session_file::classify(raw.text) == Kind::Blank;
        self.lines += u64::from(!blank);
        match raw.begin.cmp(&offset) {
            Ordering::Greater => None,
            Ordering::Equal => Some(self.at(offset)),
            // The end of a line that lacked its LF when the offset was taken: the next line follows
            // it.
            Ordering::Less if raw.begin + raw.len == offset => Some(after),
            Ordering::Less => Some(CutPlace::Amiss),
        }
    }

    /// Returns a cut before the lines met so far.
    fn at(&self, start: u64) -> CutPlace {
        CutPlace::Cut {
            skip: self.query.lines - self.lines,
            start,
        }
    }

    /// Returns the result once all lines were met.
    fn end(self) -> CutPlace {
        let turn = self.turns.newest().copied();
        let found = self.cut.or(turn).or(self.spoken);
        found.unwrap_or(match self.query.keep {
            Cut::Last(_) | Cut::Turns(_) if self.kept == 0 => CutPlace::Nothing,
            Cut::From(offset) if offset > self.query.start => CutPlace::Amiss,
            Cut::Last(_) | Cut::Turns(_) | Cut::From(_) => CutPlace::All,
        })
    }
}
