//! Recognising the opaque key of an agent's main session.

use serde_json::value::RawValue;

use super::key::{build_main_session_key, is_opaque_session_key};
use super::legacy::parse_legacy_agent_session_key;
use crate::session_file::{SessionScope, fold};

/// True if an opaque `alias` is the main key of an agent named by one of `names` or `scopes`. A
/// hash alone does not name its agent, and no session may inherit an agent's main history.
#[must_use]
pub fn is_main_of(alias: &str, names: &[String], scopes: [Option<&RawValue>; 2]) -> bool {
    if !is_opaque_session_key(alias) {
        return false;
    }
    let key = fold(alias);
    let scopes = scopes.into_iter().flatten();
    let carried = scopes.filter_map(|scope| SessionScope::from_json(scope.get()).ok());
    let mut agents = carried.map(|scope| scope.agent_id).chain(
        names
            .iter()
            .filter_map(|name| parse_legacy_agent_session_key(name))
            .map(|parsed| parsed.agent_id),
    );
    agents.any(|agent| build_main_session_key(&agent) == *key)
}
