//! Which scope and aliases a session may have, and whose history it may take over.

use serde_json::value::RawValue;

use crate::error::{Error, Oversized, Result, check_size};
use crate::{scope, session_file};

/// Refuses text that is not a scope, and a scope or aliases of more than `limit` bytes.
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

/// Refuses a scope of another conversation for a session that exists and has the scope `stored`, or
/// none: two chats with names that lead to one key would otherwise read each other.
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

/// A session that may take over the history of one of its aliases, because it shows nothing itself.
#[derive(Clone, Copy, Debug)]
pub struct Heir<'a> {
    /// All names that it is to have.
    pub names: &'a [String],
    /// The scope that it is to have, and the one that it has.
    pub scopes: [Option<&'a RawValue>; 2],
    /// The aliases that it has: their history was taken over or declined, and must not come back to
    /// a session that was cleared since.
    pub claimed: &'a [String],
}

impl Heir<'_> {
    /// True if the history under `alias` may be taken over, as far as the alias tells: that of an
    /// agent's main session is never, and a text that is no key names no session.
    #[must_use]
    pub fn may_ask(&self, alias: &String) -> bool {
        !self.claimed.contains(alias)
            && session_file::validate_key(alias).is_ok()
            && !session_file::is_main_alias(alias)
            && !scope::is_main_of(alias, self.names, self.scopes)
    }
}

/// True if the session of the key `alias` gives its history to another one: not if it is an agent's
/// main session by its key, its aliases or its scope.
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
