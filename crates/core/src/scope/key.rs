//! Current keys: opaque ones, and keys given explicitly.

use std::borrow::Cow;
use std::fmt::Write as _;

use super::legacy::build_legacy_main_alias;
use crate::session_file::{SessionScope, fold, sha256_hex};

const OPAQUE: &str = "sk_v1_";
const LEGACY: &str = "agent:";

/// The opaque key for an alias, ignoring its case and the white space around it: `sk_v1_` and the
/// SHA-256; `""` for a blank alias.
#[must_use]
pub fn build_opaque_session_key(alias: &str) -> String {
    let alias = fold(alias);
    if alias.is_empty() {
        return String::new();
    }
    hashed_key(&alias)
}

/// The opaque key of an agent's main session.
#[must_use]
pub fn build_main_session_key(agent_id: &str) -> String {
    build_opaque_session_key(&build_legacy_main_alias(agent_id))
}

/// The opaque key of a scope, made from its [`canonical_scope_signature`].
#[must_use]
pub fn build_session_key(scope: &SessionScope) -> String {
    build_opaque_session_key(&canonical_scope_signature(scope))
}

/// A scope on one line. Nothing in it is escaped, so two scopes may share it:
/// see [`collides`](super::collides).
///
/// ```
/// use sessionlog::scope::{SessionScope, canonical_scope_signature};
///
/// let scope = SessionScope {
///     version: 1,
///     agent_id: "main".into(),
///     channel: "Slack".into(),
///     account: "default".into(),
///     dimensions: vec!["chat".into()],
///     values: [("chat".into(), "group:C1".into())].into(),
/// };
/// assert_eq!(
///     canonical_scope_signature(&scope),
///     "v=1|agent=main|channel=slack|account=default|chat=group:c1",
/// );
/// ```
#[must_use]
pub fn canonical_scope_signature(scope: &SessionScope) -> String {
    let mut signature = format!("v={}", scope.version);
    for (name, value) in signature_parts(scope) {
        // Writing to a string does not fail.
        let _ = write!(signature, "|{name}={value}");
    }
    signature
}

/// Returns true if a key is an opaque one.
#[must_use]
pub fn is_opaque_session_key(key: &str) -> bool {
    fold(key).starts_with(OPAQUE)
}

/// Returns true if a key is a legacy one, or begins like one.
#[must_use]
pub fn is_legacy_agent_session_key(key: &str) -> bool {
    fold(key).starts_with(LEGACY)
}

/// Returns true if a key that came with a message names a session itself, so that it takes
/// precedence over an allocated one.
#[must_use]
pub fn is_explicit_session_key(key: &str) -> bool {
    is_opaque_session_key(key) || is_legacy_agent_session_key(key)
}

/// The key to use: the key that came with the message if it is explicit, unchanged, else the
/// allocated one.
///
/// The caller that sets the incoming key chooses the session: let only trusted callers do so.
///
/// ```
/// use sessionlog::scope::resolve_scope_key;
///
/// assert_eq!(resolve_scope_key("sk_v1_ab", "agent:main:main"), "agent:main:main");
/// assert_eq!(resolve_scope_key("sk_v1_ab", "telegram:7"), "sk_v1_ab");
/// ```
#[must_use]
pub fn resolve_scope_key<'a>(allocated: &'a str, incoming: &'a str) -> &'a str {
    if is_explicit_session_key(incoming) {
        incoming
    } else {
        allocated
    }
}

/// The opaque key of a text, without folding it.
pub(super) fn hashed_key(text: &str) -> String {
    format!("{OPAQUE}{}", sha256_hex(text.as_bytes()))
}

/// The names and values of a signature, in its order. A dimension's value is looked up by its
/// folded name, so a dimension with another spelling has an empty value.
pub(super) fn signature_parts(scope: &SessionScope) -> Vec<(Cow<'_, str>, Cow<'_, str>)> {
    let mut parts = vec![
        ("agent".into(), fold(&scope.agent_id)),
        ("channel".into(), fold(&scope.channel)),
        ("account".into(), fold(&scope.account)),
    ];
    for dimension in &scope.dimensions {
        let name = fold(dimension);
        if !name.is_empty() {
            let value = scope.values.get(&*name).map(String::as_str);
            parts.push((name, fold(value.unwrap_or_default())));
        }
    }
    parts
}
