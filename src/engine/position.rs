//! Positions of lines in a session, to point at them later.

use std::fmt;
use std::num::ParseIntError;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The position of a message in its session, or the position where its messages end. It stays valid
/// while messages are appended and others truncated, and through compactions. It becomes invalid if
/// the history is replaced or reverted, a message edited or removed, the session deleted, or the
/// store opened anew. On a store opened read-only it also becomes invalid with a compaction, and
/// the first time that the session's lines reach a file, up to seconds after they were written.
/// Comes from a [`SessionSnapshot`](crate::SessionSnapshot) or a [`Window`](crate::Window); written
/// as text, also by serde.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Position {
    numbering: u64,
    at: u64,
}

impl Position {
    /// A position of a custom store: the line `at` of a history with a number that no other history
    /// has.
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

    /// The number of the line; later lines have greater numbers.
    #[must_use]
    pub const fn at(self) -> u64 {
        self.at
    }
}

/// The part of a history that stays, among the messages that are there before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Keep {
    /// The newest messages, this many.
    Last(usize),
    /// At least this many of the newest messages, and the rest of the turn that the oldest of them
    /// belongs to. A turn begins with a message of the role `user`, such that no tool result after
    /// it has its call before it. If there is no such message, it begins with the next best message
    /// of a user; if there is none, everything stays.
    Turns(usize),
    /// The message at this position and all later ones, including those appended since the caller
    /// looked. A position whose message was truncated meanwhile cuts nothing.
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

/// Converts offsets in a session's file to positions. A compaction moves lines to other offsets but
/// leaves their positions unchanged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Numbering {
    /// The number of the history. No two histories have the same.
    of: u64,
    /// The position minus the offset, modulo 2⁶⁴.
    shift: u64,
    /// The first offset that has a position. Lines before it are gone.
    begin: u64,
}

/// The place of a position.
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
    /// A new numbering: positions are offsets.
    pub(crate) fn new(of: u64) -> Self {
        Self {
            of,
            shift: 0,
            begin: 0,
        }
    }

    /// The same positions after the line at `from` moved to `to` and all lines before it were
    /// removed.
    pub(crate) fn moved(self, from: u64, to: u64) -> Self {
        let shift = self.shift.wrapping_add(from).wrapping_sub(to);
        Self {
            shift,
            begin: to,
            ..self
        }
    }

    /// The position of the line at `offset`. Lines that a compaction carried along stand before the
    /// first position and get that position: lower numbers belong to lines that are gone.
    pub(crate) fn position(self, offset: u64) -> Position {
        Position {
            numbering: self.of,
            at: offset.max(self.begin).wrapping_add(self.shift),
        }
    }

    /// True if the first position is at this offset.
    pub(crate) fn begins_at(self, offset: u64) -> bool {
        offset == self.begin
    }

    /// The place of a position in the file.
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
        // The line at 50 moved to 5, after lines that were carried along.
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
