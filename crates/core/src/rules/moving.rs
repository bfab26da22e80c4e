//! Decides whether a session may be renamed or merged.

use crate::error::{Error, Result};

/// A renaming or merging, with what the store knows of both keys.
#[derive(Clone, Copy, Debug)]
pub struct Move<'a> {
    /// The session's key.
    pub old: &'a str,
    /// The key that it is to have.
    pub new: &'a str,
    /// True if there is a session of the old key.
    pub is_there: bool,
    /// The session of another key that claims `old` as an alias.
    pub old_claimant: Option<&'a str>,
    /// The session of another key that `new` means.
    pub new_owner: Option<&'a str>,
}

impl Move<'_> {
    /// Refuses equal keys, a session that does not exist, and a key that means a third session: later
    /// messages would go there.
    ///
    /// # Errors
    /// [`Error::InvalidKey`], [`Error::SessionNotFound`], [`Error::IsAlias`].
    pub fn check(&self) -> Result<()> {
        if self.old == self.new {
            return Err(Error::own_key());
        }
        if !self.is_there {
            return Err(match self.old_claimant {
                Some(key) => Error::is_alias(self.old, key),
                None => Error::SessionNotFound {
                    key: self.old.into(),
                },
            });
        }
        if let Some(third) = self.old_claimant.filter(|key| *key != self.new) {
            return Err(Error::is_alias(self.old, third));
        }
        match self.new_owner.filter(|key| *key != self.old) {
            Some(third) => Err(Error::is_alias(self.new, third)),
            None => Ok(()),
        }
    }
}

/// Refuses a key that has a history, unless the two are to be merged.
///
/// # Errors
/// [`Error::HasHistory`].
pub fn check_history(key: &str, has_history: bool, merges: bool) -> Result<()> {
    if has_history && !merges {
        return Err(Error::HasHistory { key: key.into() });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::Move;
    use crate::error::Error;

    const FREE: Move<'static> = Move {
        old: "old",
        new: "new",
        is_there: true,
        old_claimant: None,
        new_owner: None,
    };

    #[test]
    fn the_aliases_of_both_sessions_are_no_hindrance_and_those_of_a_third_are() {
        assert!(FREE.check().is_ok());
        let both = Move {
            old_claimant: Some("new"),
            new_owner: Some("old"),
            ..FREE
        };
        assert!(both.check().is_ok());
        for (old_claimant, new_owner, name) in
            [(Some("third"), None, "old"), (None, Some("third"), "new")]
        {
            let refused = Move {
                old_claimant,
                new_owner,
                ..FREE
            };
            let error = refused.check().unwrap_err();
            assert!(
                matches!(&error, Error::IsAlias { alias, key } if alias == name && key == "third"),
                "{error}"
            );
        }
    }

    #[test]
    fn a_session_that_is_not_there_is_told_from_an_alias() {
        let gone = Move {
            is_there: false,
            ..FREE
        };
        assert!(matches!(gone.check(), Err(Error::SessionNotFound { .. })));
        let alias = Move {
            old_claimant: Some("new"),
            ..gone
        };
        assert!(matches!(alias.check(), Err(Error::IsAlias { .. })));
    }
}
