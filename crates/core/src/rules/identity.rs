//! Checks scopes and aliases, and decides which history a session takes over.

use serde_json::value::RawValue;

use crate::error::{Error, Oversized, Result, check_size};
use crate::{scope, session_file};

/// Refuses text that is not a scope, a scope of more than `limit` bytes, and aliases that together
/// are more.
///
/// # Errors
/// [`Error::InvalidScope`], [`Error::MessageTooLarge`].
pub fn check(scope: Option<&RawValue>, aliases: &[String], limit: usize) -> Result<()> {
    if let Some(scope) = scope.map(RawValue::get) {
        check_size(Oversized::Scope, scope.len(), limit)?;
        session_file::check_scope(scope)?;
    }
    let size = aliases.iter().map(String::len).sum();
    check_size(Oversized::Aliases, size, limit)
}

/// Refuses a scope of another conversation for the session `key`, which exists and has the scope
/// `stored` or none. Otherwise two chats with names that lead to one key would read each other.
///
/// # Errors
/// [`Error::ScopeConflict`].
pub fn admit(key: &str, stored: Option<&RawValue>, new: Option<&RawValue>) -> Result<()> {
    match new {
        Some(new) if !scope::may_follow(key, stored, new) => {
            Err(Error::ScopeConflict { key: key.into() })
        }
        _ => Ok(()),
    }
}

/// True if two scopes have the same text, or there is neither.
#[must_use]
pub fn is_same_text(one: Option<&RawValue>, other: Option<&RawValue>) -> bool {
    one.map(RawValue::get) == other.map(RawValue::get)
}

/// A session without visible messages and summary, which may take over the history of an alias.
#[derive(Clone, Copy, Debug)]
pub struct Heir<'a> {
    /// Its new aliases.
    pub names: &'a [String],
    /// Its new scope, and its present one.
    pub scopes: [Option<&'a RawValue>; 2],
    /// Its present aliases. Their history was taken over or declined, and must not come back to a
    /// session that was cleared since.
    pub claimed: &'a [String],
}

impl Heir<'_> {
    /// True if the history under `alias` may be taken over. False for an alias that it has already,
    /// for a text that is no key, and for an agent's main session.
    #[must_use]
    pub fn may_ask(&self, alias: &String) -> bool {
        !self.claimed.contains(alias)
            && session_file::validate_key(alias).is_ok()
            && !session_file::is_main_alias(alias)
            && !scope::is_main_of(alias, self.names, self.scopes)
    }
}

/// True if the session of the key `alias` may give its history away. An agent's main session, by its
/// key, its aliases or its scope, never does.
#[must_use]
pub fn gives_away(alias: &str, aliases: &[String], scope: Option<&RawValue>) -> bool {
    !session_file::is_main_alias(alias) && !scope::is_main_of(alias, aliases, [scope, None])
}

#[cfg(test)]
mod tests {
    use super::Heir;

    #[test]
    fn a_session_asks_no_main_session_and_no_alias_twice() {
        let names = ["old", "agent:main:main", "had", ""].map(str::to_owned);
        let heir = Heir {
            names: &names,
            scopes: [None, None],
            claimed: &names[2..3],
        };
        let asked: Vec<_> = names.iter().filter(|alias| heir.may_ask(alias)).collect();
        assert_eq!(asked, ["old"]);
    }
}
