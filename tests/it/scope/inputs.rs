//! Contexts and policies, plain and hostile, and what tells them apart.

use std::collections::BTreeMap;

use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use sessionlog::scope::{
    InboundContext, SessionPolicy, normalize_account_id, normalize_agent_id, resolve_linked_sender,
};

/// The dimensions there are.
pub(crate) const DIMENSIONS: [&str; 4] = ["space", "chat", "topic", "sender"];

/// Letters of several scripts, of which none is another in lower case but by
/// folding each on its own.
const SCRIPTS: &str = "[a-zA-Z0-9äÖßİıΣσςЖђ文ぁا\u{212a}\u{1c90}𐐀🦀._-]{1,12}";

/// Ids as platforms give them: nothing in them that keys are joined with.
pub(crate) fn plain_id() -> impl Strategy<Value = String> {
    prop_oneof![Just(String::new()), "-?[0-9]{1,12}", SCRIPTS]
}

/// Ids made of the pieces that signatures and aliases are made of, so that
/// distinct ones often join to the same text.
pub(crate) fn forged_id() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        "[12a]",
        prop_oneof![Just("|"), Just("="), Just(":"), Just("/"), Just("\n")].prop_map(String::from),
        prop_oneof![
            Just("bob"),
            Just("alice"),
            Just("direct"),
            Just("group"),
            Just("topic:")
        ]
        .prop_map(String::from),
        prop_oneof![
            Just("|sender="),
            Just("|chat=direct:"),
            Just("|topic=topic:"),
            Just("|account=default"),
        ]
        .prop_map(String::from),
    ];
    vec(piece, 0..4).prop_map(|pieces| pieces.concat())
}

/// Anything at all, 64 KiB included.
pub(crate) fn any_id() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => plain_id(),
        4 => forged_id(),
        4 => any::<String>(),
        2 => "[ \t\r\n\u{b}\u{85}\u{a0}\u{2028}\u{3000}\u{200b}\u{feff}]{0,6}",
        1 => (SCRIPTS, 1..10_usize).prop_map(|(id, times)| id.repeat(65_536 / id.len() / times)),
    ]
}

/// A context of such ids.
pub(crate) fn context<S: Strategy<Value = String> + 'static>(
    id: fn() -> S,
) -> BoxedStrategy<InboundContext> {
    let channel = prop_oneof![
        3 => prop_oneof![Just("telegram"), Just("slack"), Just("Telegram ")].prop_map(String::from),
        1 => id(),
    ];
    let kind = || prop_oneof![3 => prop_oneof![Just(""), Just("direct"), Just("group")].prop_map(String::from), 1 => id()];
    ((channel, id(), id(), kind()), (id(), id(), kind(), id()))
        .prop_map(|((channel, account, chat_id, chat_type), rest)| {
            let (topic_id, space_id, space_type, sender_id) = rest;
            InboundContext {
                channel,
                account,
                chat_id,
                chat_type,
                topic_id,
                space_id,
                space_type,
                sender_id,
            }
        })
        .boxed()
}

/// A context made of few ids, chosen so that many of several such contexts join
/// to the same signature or alias.
pub(crate) fn forged_context() -> BoxedStrategy<InboundContext> {
    let one_of = |pool: &'static [&'static str]| {
        prop_oneof![
            9 => proptest::sample::select(pool).prop_map(String::from),
            1 => forged_id(),
        ]
    };
    let channel = one_of(&["slack", "telegram", "slack|account=default|chat=direct:1"]);
    let chat = one_of(&[
        "1",
        "bob",
        "alice",
        "direct:bob",
        "1/42",
        "b:c",
        "c",
        "1|sender=bob",
        "1|topic=topic:42",
        "2",
    ]);
    let kind = || one_of(&["", "direct", "a", "a:b"]);
    let topic = one_of(&["", "", "42", "42|sender=bob"]);
    let sender = one_of(&["", "bob", "alice", "a77", "x:a77", "slack:a77", "1"]);
    let account = one_of(&["", "", "direct", "a"]);
    (
        (channel, chat, kind(), topic),
        (one_of(&["", "c", "b:c"]), kind(), sender, account),
    )
        .prop_map(|((channel, chat_id, chat_type, topic_id), rest)| {
            let (space_id, space_type, sender_id, account) = rest;
            InboundContext {
                channel,
                account,
                chat_id,
                chat_type,
                topic_id,
                space_id,
                space_type,
                sender_id,
            }
        })
        .boxed()
}

/// The policies under which such contexts meet.
pub(crate) fn forged_policy() -> BoxedStrategy<SessionPolicy> {
    let links = BTreeMap::from([("Alice".to_owned(), vec!["a77".to_owned()])]);
    let dimensions = proptest::sample::subsequence(&DIMENSIONS[..], 1..=4);
    let some = dimensions.prop_map(move |dimensions| SessionPolicy {
        dimensions: dimensions.into_iter().map(String::from).collect(),
        identity_links: links.clone(),
    });
    prop_oneof![9 => some, 1 => policy(forged_id)].boxed()
}

/// A policy of any dimensions, known and unknown, with links of such ids.
pub(crate) fn policy<S: Strategy<Value = String> + 'static>(
    id: fn() -> S,
) -> BoxedStrategy<SessionPolicy> {
    let dimension = prop_oneof![
        6 => proptest::sample::select(&DIMENSIONS[..]).prop_map(String::from),
        1 => prop_oneof![Just("Topic"), Just(" chat"), Just(""), Just("unknown")].prop_map(String::from),
    ];
    let name = prop_oneof![Just("Alice".to_owned()), Just("bob".to_owned()), id()];
    (vec(dimension, 0..6), btree_map(name, vec(id(), 0..3), 0..3))
        .prop_map(|(dimensions, identity_links)| SessionPolicy {
            dimensions,
            identity_links,
        })
        .boxed()
}

/// A policy that distinguishes whatever can be distinguished.
pub(crate) fn distinguishing(links: BTreeMap<String, Vec<String>>) -> SessionPolicy {
    SessionPolicy {
        dimensions: DIMENSIONS.map(String::from).to_vec(),
        identity_links: links,
    }
}

/// What a policy tells conversations apart by, part by part: two contexts whose
/// parts are equal are one conversation, and no others are.
pub(crate) fn parts(agent: &str, context: &InboundContext, policy: &SessionPolicy) -> Vec<String> {
    let kind = |kind: &str, default: &str| {
        Some(folded(kind))
            .filter(|k| !k.is_empty())
            .unwrap_or(default.into())
    };
    let topic = folded(&context.topic_id);
    let names_topic = policy.dimensions.iter().any(|d| folded(d) == "topic");
    let mut parts = vec![
        normalize_agent_id(agent),
        kind(&context.channel, "unknown"),
        normalize_account_id(&context.account),
    ];
    for dimension in &policy.dimensions {
        let mut part = match &**dimension {
            "space" => vec![
                folded(&context.space_id),
                kind(&context.space_type, "space"),
            ],
            "chat" => {
                let folds = folded(&context.channel) == "telegram" && !names_topic;
                let topic = if folds { topic.clone() } else { String::new() };
                vec![
                    folded(&context.chat_id),
                    kind(&context.chat_type, "direct"),
                    topic,
                ]
            }
            "topic" => vec![topic.clone()],
            "sender" => {
                let links = &policy.identity_links;
                match resolve_linked_sender(links, &context.channel, &context.sender_id) {
                    Some(name) => vec![folded(name), "linked".into()],
                    None => vec![folded(&context.sender_id)],
                }
            }
            _ => continue,
        };
        if !part[0].is_empty() {
            parts.push(dimension.clone());
            parts.append(&mut part);
        }
    }
    parts
}

/// Folding as Go does it, for the letters that occur here.
pub(crate) fn folded(id: &str) -> String {
    let lower = |c: char| match c {
        'İ' => 'i',
        c => c.to_lowercase().next().unwrap_or(c),
    };
    id.trim().chars().map(lower).collect()
}
