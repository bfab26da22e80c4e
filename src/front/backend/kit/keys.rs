//! Keys and aliases, and which session they mean.

use serde_json::value::RawValue;
use sessionlog_core::error::{Oversized, Result, check_size};
use sessionlog_core::scope;
use sessionlog_core::session_file::{self, TagChange};

use crate::front::handle::updates::check_id;

/// Refuses a key that no session can have.
///
/// # Errors
/// [`Error::InvalidKey`](crate::Error::InvalidKey).
pub fn check_key(key: &str) -> Result<()> {
    session_file::validate_key(key)
}

/// Refuses an id of a message that is taken once only.
///
/// # Errors
/// [`Error::InvalidMessageId`](crate::Error::InvalidMessageId).
pub fn check_message_id(id: &str) -> Result<()> {
    check_id(id)
}

/// Refuses a summary of more than `limit` bytes.
///
/// # Errors
/// [`Error::MessageTooLarge`](crate::Error::MessageTooLarge), without messages.
pub fn check_summary(summary: &str, limit: usize) -> Result<()> {
    check_size(Oversized::Summary, summary.len(), limit)
}

/// Refuses tags of more than `limit` bytes.
///
/// # Errors
/// [`Error::MessageTooLarge`](crate::Error::MessageTooLarge), without messages.
pub fn check_tags(tags: &TagChange, limit: usize) -> Result<()> {
    check_size(Oversized::Sidecar, tags.size(), limit)
}

/// Refuses text that is not a scope, and a scope or aliases of more than `limit` bytes.
///
/// # Errors
/// [`Error::InvalidScope`](crate::Error::InvalidScope),
/// [`Error::MessageTooLarge`](crate::Error::MessageTooLarge).
pub fn check_identity(scope: Option<&RawValue>, aliases: &[String], limit: usize) -> Result<()> {
    if let Some(scope) = scope.map(RawValue::get) {
        check_size(Oversized::Scope, scope.len(), limit)?;
        session_file::check_scope(scope)?;
    }
    let size = aliases.iter().map(String::len).sum();
    check_size(Oversized::Aliases, size, limit)
}

/// The aliases trimmed, without blanks, repetitions and the key itself, in their order.
#[must_use]
pub fn normalize_aliases(key: &str, aliases: &[String]) -> Vec<String> {
    session_file::normalize_aliases(key, aliases)
}

/// The name of a key's sidecar. Sessions are listed, and contested aliases decided, by the bytes of
/// this name.
#[must_use]
pub fn file_name(key: &str) -> String {
    session_file::sidecar_name(&session_file::plain_stem(key))
}

/// True if the session of this key takes precedence over a session that has it as an alias.
#[must_use]
pub fn is_own_first(key: &str) -> bool {
    session_file::short_circuits(key)
}

/// True if the session of a key, with the scope `stored` or none, may get the scope `new`.
#[must_use]
pub fn may_have_scope(key: &str, stored: Option<&RawValue>, new: &RawValue) -> bool {
    scope::may_follow(key, stored, new)
}

/// True if a session may take over the history under `alias`; false if that may be an agent's main
/// session. `names` and `scopes` are everything known of the session.
#[must_use]
pub fn inherits_from(alias: &str, names: &[String], scopes: [Option<&RawValue>; 2]) -> bool {
    session_file::validate_key(alias).is_ok()
        && !session_file::is_main_alias(alias)
        && !scope::is_main_of(alias, names, scopes)
}
