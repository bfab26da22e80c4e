//! What isolation keeps of an allocation: only what no other conversation has.

use std::collections::BTreeMap;

use sessionlog::scope::{
    Allocation, InboundContext, SessionPolicy, allocate_route_session, build_session_key,
    resolve_linked_sender,
};
use sessionlog::{Store, StoreHandle};

fn context(channel: &str, kind: &str, chat: &str, sender: &str) -> InboundContext {
    InboundContext {
        channel: channel.into(),
        chat_type: kind.into(),
        chat_id: chat.into(),
        sender_id: sender.into(),
        ..InboundContext::default()
    }
}

fn by(dimensions: &[&str]) -> SessionPolicy {
    SessionPolicy {
        dimensions: dimensions.iter().map(|&name| name.into()).collect(),
        ..SessionPolicy::default()
    }
}

fn linked(dimensions: &[&str], name: &str, ids: &[&str]) -> SessionPolicy {
    let ids = ids.iter().map(|&id| id.into()).collect();
    SessionPolicy {
        identity_links: BTreeMap::from([(name.to_owned(), ids)]),
        ..by(dimensions)
    }
}

fn isolated(context: &InboundContext, policy: &SessionPolicy) -> Allocation {
    allocate_route_session("main", context, policy).isolated()
}

/// Both conversations have keys of their own, and no alias in common.
fn assert_apart(one: &Allocation, other: &Allocation) {
    assert_ne!(one.session_key, other.session_key);
    for alias in &one.session_aliases {
        assert!(!other.session_aliases.contains(alias), "{alias}");
    }
}

fn ensure(chats: &StoreHandle, session: &Allocation) {
    let scope = Some(session.scope.to_raw());
    let aliases = session.session_aliases.clone();
    let ensured = chats.ensure_session_metadata(&session.session_key, scope, aliases);
    ensured.wait().unwrap();
}

fn said(chats: &StoreHandle, key: &str) -> Vec<String> {
    let history = chats.history(key).wait().unwrap();
    let texts = history.iter().map(|message| message.text().into_owned());
    texts.collect()
}

#[test]
fn what_a_telegram_user_said_does_not_get_to_an_irc_user_of_the_same_id() {
    let policy = by(&["chat", "sender"]);
    let telegram = isolated(&context("telegram", "direct", "7", "7"), &policy);
    let irc = isolated(&context("irc", "direct", "7", "7"), &policy);
    assert_apart(&telegram, &irc);

    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    let chats = store.handle();
    // Nothing says whose the first one is.
    for old in ["agent:main:direct:7", "agent:main:telegram:direct:7"] {
        chats.add_message(old, "user", old).wait().unwrap();
    }
    for session in [&irc, &telegram] {
        ensure(&chats, session);
    }
    let inherited = said(&chats, &telegram.session_key);
    assert_eq!(inherited, ["agent:main:telegram:direct:7"]);
    assert_eq!(said(&chats, &irc.session_key), [""; 0]);
    assert_eq!(said(&chats, "agent:main:direct:7"), ["agent:main:direct:7"]);
    store.close().unwrap();
}

#[test]
fn a_channel_of_one_name_in_two_spaces_is_two_conversations() {
    let policy = by(&["space", "chat"]);
    let in_space = |space: &str| InboundContext {
        space_id: space.into(),
        ..context("irc", "channel", "#rust", "x")
    };
    let (libera, oftc) = (in_space("libera"), in_space("oftc"));
    let (libera, oftc) = (isolated(&libera, &policy), isolated(&oftc, &policy));
    assert_apart(&libera, &oftc);
    let nowhere = isolated(&in_space(""), &policy);
    assert_eq!(nowhere.session_aliases, ["agent:main:irc:channel:#rust"]);
}

#[test]
fn a_user_of_two_bots_has_two_conversations() {
    let policy = by(&["chat"]);
    let of = |account: &str, kind: &str| {
        let account = account.into();
        isolated(
            &InboundContext {
                account,
                ..context("telegram", kind, "7", "7")
            },
            &policy,
        )
    };
    for kind in ["direct", "group"] {
        assert_apart(&of("bot-a", kind), &of("bot-b", kind));
        assert_apart(&of("bot-a", kind), &of("", kind));
    }
    assert_eq!(
        of("bot-a", "direct").session_aliases,
        ["agent:main:telegram:bot-a:direct:7"]
    );
}

#[test]
fn nobody_inherits_by_taking_a_linked_persons_name() {
    for dimensions in [&["chat"][..], &["sender"], &["chat", "sender"], &[]] {
        let policy = linked(dimensions, "Alice", &["irc:a77"]);
        let alice = isolated(&context("irc", "direct", "dm1", "a77"), &policy);
        for (chat, sender) in [("dm9", "alice"), ("alice", "x"), ("alice", "alice")] {
            let stranger = isolated(&context("irc", "direct", chat, sender), &policy);
            let named = |alias: &String| alias.ends_with(":alice");
            assert!(!stranger.session_aliases.iter().any(named), "{stranger:?}");
            if !dimensions.is_empty() {
                assert_apart(&alice, &stranger);
            }
        }
    }
}

#[test]
fn a_prefix_of_ones_own_making_makes_nobody_a_linked_person() {
    let policy = linked(&["sender"], "Alice", &["telegram:99", "100", "irc:al"]);
    let of =
        |channel: &str, sender: &str| isolated(&context(channel, "direct", "", sender), &policy);
    let alice = of("irc", "al");
    assert_eq!(alice.session_key, of("irc", "100").session_key);
    assert_eq!(alice.session_key, of("irc", "irc:100").session_key);
    for forged in [
        "evil:100",
        "telegram:99",
        "x:telegram:99",
        "irc:telegram:99",
        "alice",
    ] {
        assert_apart(&alice, &of("irc", forged));
    }
    let links = &policy.identity_links;
    assert_eq!(
        resolve_linked_sender(links, "telegram", "99"),
        Some("Alice")
    );
    assert_eq!(resolve_linked_sender(links, "slack", "telegram:99"), None);
    assert_eq!(resolve_linked_sender(links, "slack", " "), None);
}

#[test]
fn a_chat_that_spells_a_private_one_has_none_of_its_aliases() {
    let policy = by(&["chat"]);
    let victim = InboundContext {
        account: "group".into(),
        ..context("telegram", "direct", "7", "7")
    };
    let forger = context("telegram", "group", "direct:7", "evil");
    assert_apart(&isolated(&victim, &policy), &isolated(&forger, &policy));
}

#[test]
fn a_chat_and_a_sender_of_one_id_are_not_confused() {
    for dimensions in [&["chat"][..], &["sender"], &["chat", "sender"]] {
        let policy = by(dimensions);
        let by_chat = isolated(&context("slack", "direct", "D1", "U1"), &policy);
        let by_sender = isolated(&context("slack", "direct", "D2", "D1"), &policy);
        let without_chat = isolated(&context("slack", "direct", "", "D1"), &policy);
        assert_apart(&by_chat, &by_sender);
        assert_apart(&by_chat, &without_chat);
    }
}

#[test]
fn the_main_alias_is_no_conversations() {
    let session = isolated(&context("telegram", "direct", "7", "7"), &by(&["chat"]));
    assert_eq!(
        session.session_aliases,
        [
            "agent:main:telegram:direct:7",
            "agent:main:telegram:default:direct:7"
        ]
    );
    assert_eq!(session.main_aliases, ["agent:main:main"]);
    assert_eq!(session.session_key, build_session_key(&session.scope));
    let forged = isolated(&context("irc", "", "1|sender=bob", ""), &by(&["chat"]));
    assert_ne!(forged.session_key, build_session_key(&forged.scope));
}
