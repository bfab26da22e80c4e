//! Keys for conversations with ids that could be read as another conversation's.
//!
//! PicoClaw's signature is one to one as long as no part holds a `|`, no kind holds a `:`, no
//! Telegram chat holds a `/`, and no sender passes for a linked person. A conversation that breaks
//! one of these gets a key from another space; no other conversation does: sessions must be able to
//! move to PicoClaw and back.
//!
//! The key is computed without the store. So a lost sidecar lets no stranger in, and a forger
//! cannot keep the honest owner out by coming first.

use std::fmt::Write as _;

use super::allocate::{folds_topics, kind_or, topic_in_chat};
use super::context::{InboundContext, SessionPolicy};
use super::identity::{
    canonical_session_identity_id, resolve_linked_peer_id, resolve_linked_sender,
};
use super::key::{hashed_key, signature_parts};
use crate::session_file::{SessionScope, fold};

/// A key that only this conversation has, if its signature could be that of another.
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
            "sender" => is_impostor(context, policy),
            _ => false,
        });
    ambiguous.then(|| hashed_key(&unambiguous(scope, context, policy)))
}

/// True if a sender passes for a linked person without being that person: by the name, or by a
/// prefix that is part of the id.
pub(super) fn is_impostor(context: &InboundContext, policy: &SessionPolicy) -> bool {
    let InboundContext {
        channel, sender_id, ..
    } = context;
    let links = &policy.identity_links;
    let vouched = resolve_linked_sender(links, channel, sender_id);
    if vouched.is_some() && vouched == resolve_linked_peer_id(links, channel, sender_id) {
        return false;
    }
    is_a_name(
        &canonical_session_identity_id(channel, sender_id, links),
        policy,
    )
}

/// The conversation's ids, each with its length before it, so that no id can be read as part of the
/// next. Its beginning differs from that of any signature and alias.
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
                if is_impostor(context, policy) {
                    part("stranger");
                    part(&fold(&context.sender_id));
                } else {
                    part("");
                    part(&scope.values[dimension]);
                }
            }
            _ => part(&scope.values[dimension]),
        }
    }
    text
}

/// True if a folded id is the name of a linked person.
pub(super) fn is_a_name(id: &str, policy: &SessionPolicy) -> bool {
    let mut names = policy.identity_links.keys();
    names.any(|name| fold(name) == id)
}
