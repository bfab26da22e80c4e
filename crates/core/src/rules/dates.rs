//! Decides the times of an imported session.

use crate::stamp::{self, Stamp};

/// The times at which an imported session was made and last changed at its origin, in RFC 3339. A
/// time that does not parse counts as none.
#[derive(Clone, Debug, Default)]
pub struct Dates {
    /// The time of creation.
    pub created: Option<String>,
    /// The time of the last change.
    pub updated: Option<String>,
    /// True to keep the present time of change if it is later, and the session had messages.
    pub keep_later: bool,
}

impl Dates {
    /// Returns the new time of creation, if it is earlier than `known` or `known` does not parse.
    #[must_use]
    pub fn created_before(&self, known: &str) -> Option<&String> {
        let created = self.created.as_ref()?;
        let own = stamp::parse_nanos(created)?;
        let is_earlier = stamp::parse_nanos(known).is_none_or(|known| own < known);
        is_earlier.then_some(created)
    }

    /// Returns the time of change after the import; `None` for now. `known` is the time before it,
    /// if the session had messages.
    #[must_use]
    pub fn updated_after(&self, known: Option<&Stamp>) -> Option<Stamp> {
        let updated = Stamp::from(self.updated.as_deref()?);
        let own = updated.nanos()?;
        let is_later = |known: &&Stamp| self.keep_later && known.nanos() > Some(own);
        Some(known.filter(is_later).cloned().unwrap_or(updated))
    }
}

#[cfg(test)]
mod tests {
    use super::Dates;
    use crate::stamp::Stamp;

    #[test]
    fn the_creation_moves_back_only_and_a_later_change_stays_the_last() {
        let (early, late) = ("2020-01-01T00:00:00Z", "2021-01-01T00:00:00Z");
        let dates = Dates {
            created: Some(early.into()),
            updated: Some(early.into()),
            keep_later: true,
        };
        assert_eq!(dates.created_before(late).map(String::as_str), Some(early));
        assert_eq!(dates.created_before("2019-01-01T00:00:00Z"), None);
        assert_eq!(dates.created_before("").map(String::as_str), Some(early));
        let later = Stamp::from(late);
        assert_eq!(dates.updated_after(Some(&later)), Some(later.clone()));
        assert_eq!(dates.updated_after(None), Some(Stamp::from(early)));
        let moved = Dates {
            keep_later: false,
            ..dates
        };
        assert_eq!(moved.updated_after(Some(&later)), Some(Stamp::from(early)));
        let none = Dates {
            created: Some("then".into()),
            ..Dates::default()
        };
        assert_eq!(
            (none.created_before(late), none.updated_after(None)),
            (None, None)
        );
    }
}
