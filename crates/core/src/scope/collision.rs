//! Two conversations with one key.
//!
//! A store uses these checks for callers that do not isolate. It refuses the second scope rather
//! than move it to another key: a caller that is not told would go on writing to the first. A
//! session whose scope does not name its conversation is given to no scope that could be a forgery;
//! this needs no memory of erased scopes.

use serde_json::value::RawValue;

use super::key::{build_session_key, canonical_scope_signature, signature_parts};
use crate::session_file::SessionScope;

/// Returns true if two scopes are of one conversation: equal in every part, except for case and
/// surrounding white space.
#[must_use]
pub fn same_conversation(one: &SessionScope, other: &SessionScope) -> bool {
    one.version == other.version && signature_parts(one) == signature_parts(other)
}

/// Returns true if the session with the scope `stored` belongs to another conversation than `new`,
/// though both get one key: a value holds a forged piece of signature. Then `new` must not have the
/// session, neither to read it nor to replace its scope.
///
/// Scopes with different signatures do not collide, since they do not get one key: a caller that
/// stores one in place of the other, under a key of its own choice, does so on purpose. A stored
/// scope that does not decode says nothing, so it collides with every scope that could be a
/// forgery.
///
/// ```
/// use sessionlog::scope::{SessionScope, collides};
///
/// let scope = |dimensions: &[&str], values: &[(&str, &str)]| SessionScope {
///     version: 1,
///     dimensions: dimensions.iter().map(|&name| name.into()).collect(),
///     values: values.iter().map(|&(name, value)| (name.into(), value.into())).collect(),
///     ..SessionScope::default()
/// };
/// let bob = scope(&["chat", "sender"], &[("chat", "direct:1"), ("sender", "bob")]);
/// let forged = scope(&["chat"], &[("chat", "direct:1|sender=bob")]);
/// assert!(collides(&bob.to_raw(), &forged));
/// assert!(!collides(&bob.to_raw(), &bob));
/// ```
#[must_use]
pub fn collides(stored: &RawValue, new: &SessionScope) -> bool {
    match SessionScope::from_json(stored.get()) {
        Ok(stored) => {
            !same_conversation(&stored, new)
                && canonical_scope_signature(&stored) == canonical_scope_signature(new)
        }
        Err(_) => could_be_forged(new),
    }
}

/// Returns true if the existing session `key` may have the scope `new` in place of `stored`. A text
/// that is not a scope says nothing about the session's conversation.
#[must_use]
pub fn may_follow(key: &str, stored: Option<&RawValue>, new: &RawValue) -> bool {
    let same = stored.is_some_and(|stored| stored.get() == new.get());
    same || SessionScope::from_json(new.get()).map_or(true, |new| may_take(key, stored, &new))
}

/// Returns true if the existing session `key` may get the scope `new` in place of `stored`. If
/// `stored` does not name the session's conversation (it is missing, does not decode, or leads to
/// another key), a scope that leads to the key and could be a forgery is refused: a lost or erased
/// scope must not let a stranger in.
fn may_take(key: &str, stored: Option<&RawValue>, new: &SessionScope) -> bool {
    let vouched = stored.and_then(|stored| SessionScope::from_json(stored.get()).ok());
    let leads_here = |scope: &SessionScope| build_session_key(scope) == key;
    match (stored, vouched) {
        (_, Some(stored)) if leads_here(&stored) => {
            same_conversation(&stored, new) || !leads_here(new)
        }
        (Some(stored), None) if collides(stored, new) => false,
        _ => !(could_be_forged(new) && leads_here(new)),
    }
}

fn could_be_forged(scope: &SessionScope) -> bool {
    let parts = signature_parts(scope);
    let mut parts = parts.iter();
    parts.any(|(name, value)| name.contains(['|', '=']) || value.contains('|'))
}
