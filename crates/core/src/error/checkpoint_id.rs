//! The id of a conversation's checkpoint.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The id of a checkpoint, as its line in the session's file has it: the first is 0, the next ones
/// count up. As in kimi-cli, files may name any 64-bit number. It converts from a number and
/// compares with one; serde writes it as one.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct CheckpointId(i64);

impl CheckpointId {
    /// The checkpoint of this number.
    #[must_use]
    pub const fn new(number: i64) -> Self {
        Self(number)
    }

    /// Its number.
    #[must_use]
    pub const fn number(self) -> i64 {
        self.0
    }
}

impl From<i64> for CheckpointId {
    fn from(number: i64) -> Self {
        Self(number)
    }
}

impl From<CheckpointId> for i64 {
    fn from(id: CheckpointId) -> Self {
        id.0
    }
}

impl PartialEq<i64> for CheckpointId {
    fn eq(&self, number: &i64) -> bool {
        self.0 == *number
    }
}

impl PartialEq<CheckpointId> for i64 {
    fn eq(&self, id: &CheckpointId) -> bool {
        *self == id.0
    }
}

impl fmt::Display for CheckpointId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for CheckpointId {
    type Err = std::num::ParseIntError;

    fn from_str(text: &str) -> std::result::Result<Self, Self::Err> {
        text.parse().map(Self)
    }
}
