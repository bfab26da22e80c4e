//! From an inbound message to its session.

use super::context::{InboundContext, SessionPolicy};
use super::identity::canonical_session_identity_id;
use super::isolate;
use super::key::{build_opaque_session_key, build_session_key};
use super::legacy::{
    build_legacy_direct_aliases, build_legacy_main_alias, build_legacy_peer_alias,
};
use super::normalize::{normalize_account_id, normalize_agent_id};
use super::own_aliases::own_aliases;
use crate::session_file::{SessionScope, fold};

/// The session of an inbound message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Allocation {
    /// The session's scope, to be stored with it.
    pub scope: SessionScope,
    /// The session's key.
    pub session_key: String,
    /// The keys that older versions gave the conversation, the main one first.
    pub session_aliases: Vec<String>,
    /// The key of the agent's main session.
    pub main_session_key: String,
    /// The keys that older versions gave the main session.
    pub main_aliases: Vec<String>,
    /// The key that [`isolated`](Self::isolated) uses instead, if another conversation could have
    /// the same key.
    own_key: Option<String>,
    /// The aliases that `isolated` uses instead.
    own_aliases: Vec<String>,
}

impl Allocation {
    /// Returns true if another conversation, with other ids, gets the same key: an id holds a
    /// character that PicoClaw joins ids with, or a sender passes for a linked person, by the name
    /// or by a prefix of its own making ([`resolve_linked_sender`](super::resolve_linked_sender)).
    #[must_use]
    pub fn is_ambiguous(&self) -> bool {
        self.own_key.is_some()
    }

    /// The allocation with a key and aliases that no other conversation has. A key that is not
    /// [ambiguous](Self::is_ambiguous) stays PicoClaw's. An ambiguous key becomes an opaque key
    /// that PicoClaw does not know and that is not the key of the scope
    /// ([`build_session_key`](super::build_session_key)); it has no aliases. So no sender can join
    /// another conversation by choosing an id, nor keep another sender out of theirs.
    ///
    /// Of the aliases, those stay that no other conversation under the same policy keeps. The
    /// following are removed, and with them the history that an older version kept under them,
    /// unless the gateway promotes it by itself:
    ///
    /// - `agent:<agent>:main`, which all of an agent's conversations claim. The main session has a
    ///   key of its own, [`main_session_key`](Self::main_session_key).
    /// - `agent:<agent>:direct:<peer>`, which does not name the platform.
    /// - Aliases without an account, for every account but `default`.
    /// - All aliases in a space, all of a group separated by sender, and all of a private chat with
    ///   a topic, if the scope separates conversations by these.
    /// - Of a private chat, the aliases of the peer that does not separate it: by `chat`, those of
    ///   the sender; by `sender`, those of the chat; by both, all unless the two ids are the same,
    ///   as they are on Telegram.
    /// - Aliases with a `:` in an id, or a `/` in the chat's id; those of a chat without a kind;
    ///   and those that name a linked person other than the sender.
    ///
    /// The main key and aliases are left as they are.
    ///
    /// ```
    /// use sessionlog::scope::{InboundContext, SessionPolicy, allocate_route_session};
    ///
    /// let policy = SessionPolicy {
    ///     dimensions: vec!["chat".into(), "sender".into()],
    ///     ..SessionPolicy::default()
    /// };
    /// let allocate = |chat: &str, sender: &str| {
    ///     let context = InboundContext {
    ///         channel: "irc".into(),
    ///         chat_id: chat.into(),
    ///         sender_id: sender.into(),
    ///         ..InboundContext::default()
    ///     };
    ///     allocate_route_session("main", &context, &policy)
    /// };
    /// let (bob, forger) = (allocate("1", "bob"), allocate("1|sender=bob", ""));
    /// assert_eq!(bob.session_key, forger.session_key);
    /// assert_ne!(bob.session_key, forger.isolated().session_key);
    /// assert_eq!(bob.session_key, bob.clone().isolated().session_key);
    /// ```
    #[must_use]
    pub fn isolated(mut self) -> Self {
        if let Some(key) = self.own_key.take() {
            self.session_key = key;
            self.own_aliases.clear();
        }
        self.session_aliases.clone_from(&self.own_aliases);
        self
    }
}

/// Finds the session of an inbound message. The result is byte for byte the same as PicoClaw's, and
/// the same for the same input.
///
/// A dimension without a value is left out of the scope. On Telegram, the topic is part of the
/// chat's value, so that topics are separate, unless the policy names `topic`, in any case:
/// `Topic` adds no dimension, but merges the topics all the same.
///
/// ```
/// use sessionlog::scope::{InboundContext, SessionPolicy, allocate_route_session};
///
/// let policy = SessionPolicy {
///     dimensions: vec!["sender".into()],
///     identity_links: [("Alice".into(), vec!["telegram:99".into(), "100".into()])].into(),
/// };
/// let key = |sender: &str| {
///     let context = InboundContext {
///         channel: "telegram".into(),
///         sender_id: sender.into(),
///         ..InboundContext::default()
///     };
///     allocate_route_session("main", &context, &policy).session_key
/// };
/// assert_eq!(key("99"), key("100"));
/// assert_ne!(key("99"), key("101"));
/// ```
#[must_use]
pub fn allocate_route_session(
    agent_id: &str,
    context: &InboundContext,
    policy: &SessionPolicy,
) -> Allocation {
    let scope = build_scope(agent_id, context, policy);
    let main_alias = build_legacy_main_alias(agent_id);
    Allocation {
        session_key: build_session_key(&scope),
        session_aliases: build_aliases(agent_id, context, policy),
        main_session_key: build_opaque_session_key(&main_alias),
        main_aliases: vec![main_alias],
        own_key: isolate::own_key(&scope, context, policy),
        own_aliases: own_aliases(&scope, context, policy),
        scope,
    }
}

/// The topic that is part of the chat's value: forum topics on Telegram, unless the policy has
/// topics as a dimension.
pub(super) fn topic_in_chat<'a>(
    context: &'a InboundContext,
    policy: &SessionPolicy,
) -> Option<&'a str> {
    let topic = context.topic_id.trim();
    (folds_topics(context, policy) && !topic.is_empty()).then_some(topic)
}

/// True if a topic, if there is one, is part of the chat's value.
pub(super) fn folds_topics(context: &InboundContext, policy: &SessionPolicy) -> bool {
    let names_topic = |dimension: &String| dimension.trim().eq_ignore_ascii_case("topic");
    context.channel.trim().eq_ignore_ascii_case("telegram")
        && !policy.dimensions.iter().any(names_topic)
}

/// True if a chat is private. (An empty kind is not, as far as aliases are concerned.)
pub(super) fn is_direct(context: &InboundContext) -> bool {
    context.chat_type.trim().eq_ignore_ascii_case("direct")
}

/// A kind of chat or space, or `default` for an empty one.
pub(super) fn kind_or(kind: &str, default: &str) -> String {
    let kind = fold(kind);
    if kind.is_empty() { default } else { &kind }.to_owned()
}

fn build_scope(agent_id: &str, context: &InboundContext, policy: &SessionPolicy) -> SessionScope {
    let mut scope = SessionScope {
        version: 1,
        agent_id: normalize_agent_id(agent_id),
        channel: kind_or(&context.channel, "unknown"),
        account: normalize_account_id(&context.account),
        ..SessionScope::default()
    };
    for dimension in &policy.dimensions {
        if let Some(value) = value_of(dimension, context, policy) {
            scope.dimensions.push(dimension.clone());
            scope.values.insert(dimension.clone(), value);
        }
    }
    scope
}

fn value_of(dimension: &str, context: &InboundContext, policy: &SessionPolicy) -> Option<String> {
    let present = |id: &str| Some(fold(id).into_owned()).filter(|id| !id.is_empty());
    match dimension {
        "space" => {
            let id = present(&context.space_id)?;
            Some(format!("{}:{id}", kind_or(&context.space_type, "space")))
        }
        "chat" => {
            let id = present(&context.chat_id)?;
            let kind = kind_or(&context.chat_type, "direct");
            Some(match topic_in_chat(context, policy) {
                Some(topic) => format!("{kind}:{id}/{}", fold(topic)),
                None => format!("{kind}:{id}"),
            })
        }
        "topic" => Some(format!("topic:{}", present(&context.topic_id)?)),
        "sender" => present(&canonical_session_identity_id(
            &context.channel,
            &context.sender_id,
            &policy.identity_links,
        )),
        _ => None,
    }
}

fn build_aliases(agent_id: &str, context: &InboundContext, policy: &SessionPolicy) -> Vec<String> {
    let mut aliases = vec![build_legacy_main_alias(agent_id)];
    if is_direct(context) {
        let InboundContext {
            channel,
            account,
            sender_id,
            chat_id,
            ..
        } = context;
        let person = canonical_session_identity_id(channel, sender_id, &policy.identity_links);
        for peer in [sender_id, &person, chat_id] {
            aliases.extend(build_legacy_direct_aliases(
                agent_id, channel, account, peer,
            ));
        }
    } else {
        let (chat, topic) = (context.chat_id.trim(), context.topic_id.trim());
        let peer = if topic.is_empty() {
            chat.to_owned()
        } else {
            format!("{chat}/{topic}")
        };
        if !chat.is_empty() {
            let InboundContext {
                channel, chat_type, ..
            } = context;
            aliases.push(build_legacy_peer_alias(agent_id, channel, chat_type, &peer));
        }
    }
    distinct(aliases)
}

fn distinct(aliases: Vec<String>) -> Vec<String> {
    let mut distinct: Vec<String> = Vec::with_capacity(aliases.len());
    for alias in aliases {
        if !distinct.contains(&alias) {
            distinct.push(alias);
        }
    }
    distinct
}
