//! The aliases that lead to one conversation only.
//!
//! A legacy key says less than a scope does, and nothing in it is escaped. If two conversations
//! claimed one key, the first to be ensured would get the messages of the other. So an alias is
//! kept only if it can lead to no other conversation, whatever ids the others have:
//!
//! - It names the channel, and the account unless that is the default one.
//! - It names everything by which the scope separates conversations. No alias names a space; a
//!   group's alias names no sender; a private one names one peer, so that chat and sender must be
//!   the same if both count.
//! - No id in it holds a separator.
//! - It does not name a linked person, unless the sender is that person.

use super::allocate::{is_direct, topic_in_chat};
use super::context::{InboundContext, SessionPolicy};
use super::identity::resolve_linked_sender;
use super::isolate::{is_a_name, is_impostor};
use super::legacy::{build_legacy_direct_aliases, build_legacy_peer_alias};
use crate::session_file::{SessionScope, fold};

/// The result of `normalize_account_id` for no account.
const DEFAULT_ACCOUNT: &str = "default";

/// The aliases that no other conversation keeps, in PicoClaw's order. The main alias is not among
/// them.
pub(super) fn own_aliases(
    scope: &SessionScope,
    context: &InboundContext,
    policy: &SessionPolicy,
) -> Vec<String> {
    let separated = [&context.channel, &context.chat_type, &context.chat_id]
        .iter()
        .any(|id| id.contains(':'));
    let spaced = has(scope, "space") || context.chat_id.contains('/');
    if separated || spaced {
        Vec::new()
    } else if is_direct(context) {
        of_a_person(scope, context, policy)
    } else {
        of_a_chat(scope, context)
    }
}

/// The aliases by the peer that identifies the conversation: by channel and peer, and by channel,
/// account and peer.
fn of_a_person(
    scope: &SessionScope,
    context: &InboundContext,
    policy: &SessionPolicy,
) -> Vec<String> {
    let by_topic = has(scope, "topic") || topic_in_chat(context, policy).is_some();
    let by = |dimension: &str| policy.dimensions.iter().any(|name| name == dimension);
    let (chat, sender) = (fold(&context.chat_id), fold(&context.sender_id));
    let person = person(context, policy);
    let peers = match (by("chat"), by("sender")) {
        _ if by_topic || is_impostor(context, policy) => Vec::new(),
        (true, true) if chat == sender => vec![&*sender],
        (true, true) => Vec::new(),
        (true, false) => vec![&*chat],
        (false, true) => vec![&*sender, &*person],
        (false, false) => vec![&*sender, &*person, &*chat],
    };
    let mut aliases = Vec::new();
    for peer in peers {
        let anothers = is_a_name(peer, policy) && peer != person;
        if anothers || peer.contains(':') {
            continue;
        }
        let SessionScope {
            agent_id,
            channel,
            account,
            ..
        } = scope;
        let forms = build_legacy_direct_aliases(agent_id, channel, account, peer);
        // The first form names no channel, the second no account.
        let vague = if account == DEFAULT_ACCOUNT { 1 } else { 2 };
        for alias in forms.into_iter().skip(vague) {
            if !aliases.contains(&alias) {
                aliases.push(alias);
            }
        }
    }
    aliases
}

/// The alias of a chat and its topic.
fn of_a_chat(scope: &SessionScope, context: &InboundContext) -> Vec<String> {
    let (kind, chat) = (fold(&context.chat_type), fold(&context.chat_id));
    // An empty kind counts as `unknown` here and as `direct` in the scope. A kind that only folds
    // to `direct` is not private, but has the same name.
    let vague = kind.is_empty() || kind == "direct" || chat.is_empty();
    if vague || has(scope, "sender") || scope.account != DEFAULT_ACCOUNT {
        return Vec::new();
    }
    let topic = fold(&context.topic_id);
    let peer = match &*topic {
        "" => chat.into_owned(),
        topic => format!("{chat}/{topic}"),
    };
    let (agent, channel) = (&scope.agent_id, &scope.channel);
    vec![build_legacy_peer_alias(agent, channel, &kind, &peer)]
}

/// The folded name of the linked person that sent the message; blank if there is none.
fn person(context: &InboundContext, policy: &SessionPolicy) -> String {
    let links = &policy.identity_links;
    let person = resolve_linked_sender(links, &context.channel, &context.sender_id);
    fold(person.unwrap_or_default()).into_owned()
}

fn has(scope: &SessionScope, dimension: &str) -> bool {
    scope.dimensions.iter().any(|name| name == dimension)
}
