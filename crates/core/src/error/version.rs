//! Versions of a session.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::{Error, Result};

/// The version of a session: it changes with every change that a verb makes, and with no
/// compaction. Two versions of one session are equal only if nothing changed in between.
///
/// A version is valid within the process that opened the store for writing. After the next open
/// every session has another one, so that a caller with an old version gets
/// [`VersionConflict`](crate::error::Error::VersionConflict) rather than the wrong state. It is written as
/// hexadecimal text, also by serde, because many JSON readers are exact only up to 2⁵³.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Version(u64);

impl Version {
    /// The version of a session that does not exist. To expect it (`Update::expect`) is to
    /// create the session, or fail.
    pub const ABSENT: Self = Self(0);

    /// A version for a custom store: a number that a session has only once, in this process and in
    /// others; 0 for a session that does not exist.
    #[must_use]
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// The number that it was made from.
    #[must_use]
    pub const fn number(self) -> u64 {
        self.0
    }

    /// # Errors
    /// `VersionConflict` if a caller expects another version of the session `key`.
    #[doc(hidden)]
    pub fn require(self, key: &str, expected: Option<Self>) -> Result<()> {
        match expected {
            Some(expected) if expected != self => Err(Error::VersionConflict {
                key: key.into(),
                expected,
                found: self,
            }),
            _ => Ok(()),
        }
    }
}

impl fmt::Debug for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Version({self})")
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:x}", self.0)
    }
}

impl FromStr for Version {
    type Err = std::num::ParseIntError;

    fn from_str(text: &str) -> std::result::Result<Self, Self::Err> {
        u64::from_str_radix(text, 16).map(Self)
    }
}

impl TryFrom<String> for Version {
    type Error = std::num::ParseIntError;

    fn try_from(text: String) -> std::result::Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<Version> for String {
    fn from(version: Version) -> Self {
        version.to_string()
    }
}
