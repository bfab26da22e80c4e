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
/// Comes from a `SessionSnapshot` or a `Window`; written
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
    /// looked. If that message was truncated meanwhile, nothing is cut.
    From(Position),
}

/// The part of a history that stays, where a position has become a place among a store's lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut<T> {
    /// The newest `n` messages.
    Last(usize),
    /// At least `n` messages, and the rest of the turn that the oldest of them belongs to.
    Turns(usize),
    /// The line at this place, and those after it.
    From(T),
}

impl Keep {
    /// Returns the part that stays, with the place at which `find` finds a position.
    ///
    /// # Errors
    /// That of `find`.
    pub fn cut<T, E>(self, find: impl FnOnce(Position) -> Result<T, E>) -> Result<Cut<T>, E> {
        Ok(match self {
            Self::Last(n) => Cut::Last(n),
            Self::Turns(n) => Cut::Turns(n),
            Self::From(position) => Cut::From(find(position)?),
        })
    }
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
