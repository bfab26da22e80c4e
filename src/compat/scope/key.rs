//! The keys of today: opaque ones, and which keys count as given.

use std::borrow::Cow;
use std::fmt::Write as _;

use super::legacy::build_legacy_main_alias;
use crate::disk::session_file::{SessionScope, fold, sha256_hex};

const OPAQUE: &str = "sk_v1_";
const LEGACY: &str = "agent:";

/// The opaque key that stands for an alias, whatever its case and the white
/// space around it: `sk_v1_` and the SHA-256; `""` for a blank alias.
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

/// The opaque key of a scope: that of its [`canonical_scope_signature`].
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

/// Whether a key is an opaque one.
#[must_use]
pub fn is_opaque_session_key(key: &str) -> bool {
    fold(key).starts_with(OPAQUE)
}

/// Whether a key is a legacy one, or means to be.
#[must_use]
pub fn is_legacy_agent_session_key(key: &str) -> bool {
    fold(key).starts_with(LEGACY)
}

/// Whether a key that came with a message names a session itself, so that it
/// wins over an allocated one.
#[must_use]
pub fn is_explicit_session_key(key: &str) -> bool {
    is_opaque_session_key(key) || is_legacy_agent_session_key(key)
}

/// The key to use: the one that came with the message if it is explicit, as it
/// is, else the allocated one.
///
/// Whoever can set the incoming key chooses the session: let only trusted
/// callers do so.
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

/// The opaque key of a text as it is.
pub(super) fn hashed_key(text: &str) -> String {
    format!("{OPAQUE}{}", sha256_hex(text.as_bytes()))
}

/// The names and values of a signature, in its order. A dimension's value is
/// looked up by its folded name, so that of a dimension spelled otherwise is
/// empty.
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
