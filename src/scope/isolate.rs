//! Keys for conversations whose ids could be read as another's.
//!
//! PicoClaw's signature is one to one as long as no part holds a `|`, no kind
//! holds a `:`, no Telegram chat holds a `/`, and no sender bears a linked
//! person's name. Whatever breaks one of these gets a key from another space.

use std::fmt::Write as _;

use super::allocate::{folds_topics, is_direct, kind_or, topic_in_chat};
use super::context::{InboundContext, SessionPolicy};
use super::identity::resolve_linked_peer_id;
use super::key::{hashed_key, signature_parts};
use crate::session_file::{SessionScope, fold};

/// A key that only this conversation has, if its signature could be another's.
pub(super) fn own_key(
    scope: &SessionScope,
    context: &InboundContext,
    policy: &SessionPolicy,
) -> Option<String> {
    let joins = signature_parts(scope)
        .iter()
        .any(|(_, value)| value.contains('|'));
    let ambiguous = joins
        || scope.dimensions.iter().any(|dimension| match &**dimension {
            "space" => context.space_type.contains(':'),
            "chat" => {
                let folded = folds_topics(context, policy) && context.chat_id.contains('/');
                context.chat_type.contains(':') || folded
            }
            "sender" => bears_a_name(context, policy),
            _ => false,
        });
    ambiguous.then(|| hashed_key(&unambiguous(scope, context, policy)))
}

/// Whether the aliases could be another conversation's: that of a chat and its
/// topic is not escaped, and those of a private chat know no topics.
pub(super) fn shares_aliases(
    scope: &SessionScope,
    context: &InboundContext,
    policy: &SessionPolicy,
) -> bool {
    let has = |name: &str| scope.dimensions.iter().any(|dimension| dimension == name);
    let by_topic = has("topic") || has("chat") && topic_in_chat(context, policy).is_some();
    context.chat_id.contains('/')
        || context.chat_type.contains(':')
        || is_direct(context) && by_topic
}

/// Whether a sender that is nobody's calls itself what a linked person is called.
fn bears_a_name(context: &InboundContext, policy: &SessionPolicy) -> bool {
    let links = &policy.identity_links;
    if resolve_linked_peer_id(links, &context.channel, &context.sender_id).is_some() {
        return false;
    }
    let sender = fold(&context.sender_id);
    links.keys().any(|name| fold(name) == sender)
}

/// The conversation's ids, each with its length before it, so that none can
/// reach into the next. It starts as no signature and no alias does.
fn unambiguous(scope: &SessionScope, context: &InboundContext, policy: &SessionPolicy) -> String {
    let mut text = String::from("isolated");
    let mut part = |part: &str| {
        // Writing to a string does not fail.
        let _ = write!(text, "|{}:{part}", part.len());
    };
    part(&scope.agent_id);
    part(&scope.channel);
    part(&scope.account);
    for dimension in &scope.dimensions {
        part(dimension);
        match &**dimension {
            "space" => {
                part(&kind_or(&context.space_type, "space"));
                part(&fold(&context.space_id));
            }
            "chat" => {
                part(&kind_or(&context.chat_type, "direct"));
                part(&fold(&context.chat_id));
                part(&fold(topic_in_chat(context, policy).unwrap_or_default()));
            }
            "sender" => {
                let named = bears_a_name(context, policy);
                part(if named { "stranger" } else { "" });
                part(&scope.values[dimension]);
            }
            _ => part(&scope.values[dimension]),
        }
    }
    text
}
