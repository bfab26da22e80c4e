//! The keys of older PicoClaw versions: `agent:<agent>:<rest>`.

use super::normalize::{normalize_account_id, normalize_agent_id};
use crate::session_file::{SessionScope, fold};

/// The parts of a legacy key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParsedLegacySessionKey {
    /// The agent, trimmed but not normalised.
    pub agent_id: String,
    /// The rest after the agent, unchanged.
    pub rest: String,
}

/// Splits a legacy key; `None` if it is not one. The prefix is matched in lower case only.
///
/// ```
/// use sessionlog::scope::parse_legacy_agent_session_key;
///
/// let parsed = parse_legacy_agent_session_key("agent:main:telegram:direct:7").unwrap();
/// assert_eq!((&*parsed.agent_id, &*parsed.rest), ("main", "telegram:direct:7"));
/// ```
#[must_use]
pub fn parse_legacy_agent_session_key(key: &str) -> Option<ParsedLegacySessionKey> {
    let (agent_id, rest) = key.trim().strip_prefix("agent:")?.split_once(':')?;
    let agent_id = agent_id.trim();
    (!agent_id.is_empty() && !rest.is_empty()).then(|| ParsedLegacySessionKey {
        agent_id: agent_id.to_owned(),
        rest: rest.to_owned(),
    })
}

/// The agent that a session belongs to, normalised: the one of its scope, else
/// the one in its legacy key.
#[must_use]
pub fn resolve_agent_id(scope: Option<&SessionScope>, session_key: &str) -> Option<String> {
    let scoped = scope.map(|scope| scope.agent_id.trim());
    if let Some(agent_id) = scoped.filter(|agent_id| !agent_id.is_empty()) {
        return Some(normalize_agent_id(agent_id));
    }
    let parsed = parse_legacy_agent_session_key(session_key)?;
    Some(normalize_agent_id(&parsed.agent_id))
}

/// The legacy key of an agent's main session.
#[must_use]
pub fn build_legacy_main_alias(agent_id: &str) -> String {
    format!("agent:{}:main", normalize_agent_id(agent_id))
}

/// The three legacy keys of a direct conversation: by peer, by channel and peer,
/// and by channel, account and peer; none for a blank peer.
///
/// ```
/// use sessionlog::scope::build_legacy_direct_aliases;
///
/// assert_eq!(
///     build_legacy_direct_aliases("main", "Telegram", "", "7"),
///     [
///         "agent:main:direct:7",
///         "agent:main:telegram:direct:7",
///         "agent:main:telegram:default:direct:7",
///     ],
/// );
/// ```
#[must_use]
pub fn build_legacy_direct_aliases(
    agent_id: &str,
    channel: &str,
    account: &str,
    peer_id: &str,
) -> Vec<String> {
    let peer = fold(peer_id);
    if peer.is_empty() {
        return Vec::new();
    }
    let agent = normalize_agent_id(agent_id);
    let channel = known(channel);
    let account = normalize_account_id(account);
    vec![
        format!("agent:{agent}:direct:{peer}"),
        format!("agent:{agent}:{channel}:direct:{peer}"),
        format!("agent:{agent}:{channel}:{account}:direct:{peer}"),
    ]
}

/// The legacy key of a conversation that is not direct. Blank parts count as
/// `unknown`.
#[must_use]
pub fn build_legacy_peer_alias(
    agent_id: &str,
    channel: &str,
    peer_kind: &str,
    peer_id: &str,
) -> String {
    format!(
        "agent:{}:{}:{}:{}",
        normalize_agent_id(agent_id),
        known(channel),
        known(peer_kind),
        known(peer_id),
    )
}

fn known(part: &str) -> String {
    let part = fold(part);
    if part.is_empty() { "unknown" } else { &part }.to_owned()
}
