//! Decides whether an update is made, does nothing, or is refused.

use crate::error::{Error, Result, Version};
use crate::position::Position;

/// The longest id of messages, in bytes.
const MAX_ID: usize = 256;

/// The parts of an update that decide whether it applies.
#[derive(Clone, Copy, Debug, Default)]
pub struct UpdateOrder {
    /// The version that the session must be at.
    pub expect: Option<Version>,
    /// A position of the history that the session must still have.
    pub after: Option<Position>,
    /// True if it may hide lines.
    pub hides: bool,
    /// True if it adds and replaces nothing; it may still hide lines.
    pub adds_nothing: bool,
}

/// The decision about an update.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpdateDecision {
    /// It is made.
    Make,
    /// There is nothing to change. The answer is the present version. No session is created:
    /// `PicoClaw` would list it.
    Nothing,
    /// The session took these messages before. The answer is the present version.
    Duplicate,
}

impl UpdateOrder {
    /// Decides about an update of the session `key`, which is at the version `found`;
    /// [`Version::ABSENT`] if there is none. `goes_on` tells if it has the history of a position,
    /// and `took` if it took the update's messages before. `goes_on` is called only if
    /// [`after`](Self::after) is set, `took` only if version and history fit.
    ///
    /// # Errors
    /// [`Error::VersionConflict`], [`Error::PositionNotFound`], and that of `took`.
    pub fn decide(
        &self,
        key: &str,
        found: Version,
        goes_on: impl FnOnce(Position) -> bool,
        took: impl FnOnce() -> Result<bool>,
    ) -> Result<UpdateDecision> {
        found.require(key, self.expect)?;
        if !self.after.is_none_or(goes_on) {
            return Err(Error::no_position(key));
        }
        if took()? {
            return Ok(UpdateDecision::Duplicate);
        }
        let hides = self.hides && found != Version::ABSENT;
        Ok(if self.adds_nothing && !hides {
            UpdateDecision::Nothing
        } else {
            UpdateDecision::Make
        })
    }
}

/// Refuses an id of messages that is empty or longer than 256 bytes.
///
/// # Errors
/// [`Error::InvalidMessageId`].
pub fn check_id(id: &str) -> Result<()> {
    let reason = match id.len() {
        0 => "it is empty",
        1..=MAX_ID => return Ok(()),
        _ => "it is longer than 256 bytes",
    };
    Err(Error::InvalidMessageId {
        reason,
        size: id.len(),
    })
}

#[cfg(test)]
mod tests {
    use super::{UpdateDecision, UpdateOrder};
    use crate::error::{ErrorKind, Version};
    use crate::position::Position;

    fn decide(order: UpdateOrder, found: Version, took: bool) -> Result<UpdateDecision, ErrorKind> {
        let decided = order.decide("a", found, |after| after.history() == 7, || Ok(took));
        decided.map_err(|error| error.kind())
    }

    #[test]
    fn what_is_expected_comes_first_then_the_history_then_what_was_taken() {
        let (one, two) = (Version::new(1), Version::new(2));
        let order = UpdateOrder {
            expect: Some(one),
            after: Some(Position::new(8, 0)),
            ..UpdateOrder::default()
        };
        assert_eq!(decide(order, two, true), Err(ErrorKind::Conflict));
        assert!(decide(order, one, true).is_err());
        let order = UpdateOrder {
            after: Some(Position::new(7, 0)),
            ..order
        };
        assert_eq!(decide(order, one, true), Ok(UpdateDecision::Duplicate));
        assert_eq!(decide(order, one, false), Ok(UpdateDecision::Make));
    }

    #[test]
    fn nothing_makes_no_session_and_hides_nothing_of_one_that_is_not_there() {
        let order = UpdateOrder {
            adds_nothing: true,
            ..UpdateOrder::default()
        };
        let hides = UpdateOrder {
            hides: true,
            ..order
        };
        let there = Version::new(1);
        assert_eq!(decide(order, there, false), Ok(UpdateDecision::Nothing));
        assert_eq!(decide(hides, there, false), Ok(UpdateDecision::Make));
        let absent = decide(hides, Version::ABSENT, false);
        assert_eq!(absent, Ok(UpdateDecision::Nothing));
    }
}
