//! Where a line of a session stands, for those who point at it later.

use std::fmt;
use std::num::ParseIntError;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Where a message stands in its session, or where its messages end. It stays true while
/// messages are appended and others truncated, and through compactions; replacing the
/// history or taking it back, editing or removing a message, deleting the session, and opening
/// the store anew end it; on a
/// store opened read-only, so do a compaction and the first time that the session's lines
/// reach a file, up to seconds after they were written. Got
/// from a [`SessionSnapshot`](crate::SessionSnapshot) or a [`Window`](crate::Window);
/// written as text, also by serde.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Position {
    numbering: u64,
    at: u64,
}

impl Position {
    /// One of a store of one's own: the line `at` of a history that no other has the number
    /// of.
    #[must_use]
    pub const fn new(history: u64, at: u64) -> Self {
        Self {
            numbering: history,
            at,
        }
    }

    /// The number of the history.
    #[must_use]
    pub const fn history(self) -> u64 {
        self.numbering
    }

    /// Which line it is: what comes later has a greater number.
    #[must_use]
    pub const fn at(self) -> u64 {
        self.at
    }
}

/// How much of a history stays, of the messages that are there before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Keep {
    /// The newest so many messages.
    Last(usize),
    /// At least the newest so many messages, and the rest of the turn that the oldest of them
    /// belongs to. A turn begins with a message of the role `user` that has no tool's result
    /// after it whose call stands before it; if there is none, with the next best message of
    /// a user; if there is none of these, everything stays.
    Turns(usize),
    /// The message at this position, and those after it: also those that were appended since
    /// the caller looked. A position whose message was truncated meanwhile cuts nothing.
    From(Position),
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:x}-{:x}", self.numbering, self.at)
    }
}

impl FromStr for Position {
    type Err = ParseIntError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (numbering, at) = text.split_once('-').unwrap_or((text, ""));
        Ok(Self {
            numbering: u64::from_str_radix(numbering, 16)?,
            at: u64::from_str_radix(at, 16)?,
        })
    }
}

impl TryFrom<String> for Position {
    type Error = ParseIntError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<Position> for String {
    fn from(position: Position) -> Self {
        position.to_string()
    }
}

/// What turns offsets in a session's file into positions. A compaction moves lines to
/// other offsets and leaves their positions alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Numbering {
    /// Names it. No two histories have the same.
    of: u64,
    /// What an offset is short of its position, modulo 2⁶⁴.
    shift: u64,
    /// The first offset that has a position. What stood before it is gone.
    begin: u64,
}

/// Where a position is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// At this offset.
    Here(u64),
    /// Truncated, and compacted away.
    Gone,
    /// In another history.
    Elsewhere,
}

impl Numbering {
    /// One of its own: positions are offsets.
    pub(crate) fn new(of: u64) -> Self {
        Self {
            of,
            shift: 0,
            begin: 0,
        }
    }

    /// The same positions, where what stood at `from` stands at `to`, and nothing of what
    /// was before is left.
    pub(crate) fn moved(self, from: u64, to: u64) -> Self {
        let shift = self.shift.wrapping_add(from).wrapping_sub(to);
        Self {
            shift,
            begin: to,
            ..self
        }
    }

    /// Where the line at `offset` is. What a compaction carried along stands before the first
    /// position; it is at that: numbers before are of lines that are gone.
    pub(crate) fn position(self, offset: u64) -> Position {
        Position {
            numbering: self.of,
            at: offset.max(self.begin).wrapping_add(self.shift),
        }
    }

    /// Whether the first position is at this offset.
    pub(crate) fn begins_at(self, offset: u64) -> bool {
        offset == self.begin
    }

    /// Where the position is in the file.
    pub(crate) fn find(self, position: Position) -> Place {
        if position.numbering != self.of {
            return Place::Elsewhere;
        }
        // Before the begin of the file, it wraps to a number that no file reaches.
        let offset = position.at.wrapping_sub(self.shift);
        if offset < self.begin || i64::try_from(offset).is_err() {
            return Place::Gone;
        }
        Place::Here(offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_is_the_same_line_after_lines_moved() {
        let before = Numbering::new(7);
        let (gone, kept) = (before.position(10), before.position(60));
        // What stood at 50 stands at 5 now, after something that was carried along.
        let after = before.moved(50, 5);
        assert_eq!(after.find(kept), Place::Here(15));
        assert_eq!(after.find(gone), Place::Gone);
        assert_eq!(after.find(before.position(49)), Place::Gone);
        assert_eq!(after.position(15), kept);
        for carried in 0..=5 {
            assert_eq!(after.find(after.position(carried)), Place::Here(5));
        }
        assert_eq!(Numbering::new(8).find(kept), Place::Elsewhere);
        assert_eq!(kept.to_string().parse(), Ok(kept));
        assert!("7".parse::<Position>().is_err());
    }
}
