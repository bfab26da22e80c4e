//! Erasing conversations of a person, a chat or a key, and the receipt.

use serde::{Deserialize, Serialize};
use sessionlog_core::session_file::{self, Meta, fold};

use crate::scope::{SessionScope, parse_legacy_agent_session_key};

/// Selects the sessions that [`StoreHandle::erase`](crate::StoreHandle::erase) erases.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Erase {
    /// The session that a key means, and the key's own session if that is another one.
    Key(String),
    /// All conversations with one person.
    Person(Whose),
    /// All conversations in one chat.
    Chat(Whose),
}

/// An id on a platform, as it stands in the scopes of sessions; case and surrounding white space do
/// not count.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Whose {
    /// The id of the sender or chat, or the name of a linked person.
    pub id: String,
    /// The platform that the id belongs to, such as `telegram`; `None` means every platform that
    /// uses it.
    pub channel: Option<String>,
}

/// The outcome of [`StoreHandle::erase`](crate::StoreHandle::erase), and the traces left.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct EraseReceipt {
    /// The keys of the erased sessions. For [`Erase::Key`] the key itself, even if there was no
    /// session.
    pub sessions: Vec<String>,
    /// The files that are gone, relative to the store's directory. Removed journal files also spoke
    /// of other sessions; their own files have everything they said.
    pub removed: Vec<String>,
    /// The places where the keys, or aliases that no other session has, are still mentioned.
    pub traces: Traces,
    /// The keys of sessions with unreadable sidecars: these sessions may be meant, too.
    pub unreadable: Vec<String>,
    /// Files that may hold the erased lines, but do not say to which session they belong. For a
    /// person or a chat: session files without a sidecar, and files of sessions whose key has the
    /// id and that do not name a person or chat. Also files that were being written, or were set
    /// aside before they had their name.
    pub doubtful: Vec<String>,
}

/// The files of a store's directory in which texts were found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Traces {
    /// Files, relative to the store's directory, and texts found in them or in their names.
    pub found: Vec<(String, String)>,
    /// Files that could not be read; a log says why.
    pub unread: Vec<String>,
    /// The number of files read.
    pub files: usize,
    /// Their total length in bytes.
    pub bytes: u64,
}

impl Traces {
    /// True if all files were read, and nothing was found.
    #[must_use]
    pub fn is_none(&self) -> bool {
        self.found.is_empty() && self.unread.is_empty()
    }
}

impl EraseReceipt {
    /// True if it is certain that nothing mentions the erased sessions any more.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.traces.is_none() && self.unreadable.is_empty() && self.doubtful.is_empty()
    }
}

impl Erase {
    /// Erases the session that a key means.
    pub fn key(key: impl Into<String>) -> Self {
        Self::Key(key.into())
    }

    /// Erases all conversations with one person: sessions separated by sender, and private chats.
    pub fn person(id: impl Into<Whose>) -> Self {
        Self::Person(id.into())
    }

    /// Erases all conversations in one chat, from any sender, its topics included.
    pub fn chat(id: impl Into<Whose>) -> Self {
        Self::Chat(id.into())
    }

    /// The folded ids under which [`means`](Self::means) finds a session; more than those, if in
    /// doubt.
    pub(super) fn ids_of(key: &str, meta: &Meta) -> Vec<String> {
        let mut ids = Vec::new();
        for party in Party::all_of(key, meta) {
            let topics = party.id.match_indices('/');
            let chats = topics.filter(|_| party.channel == "telegram");
            ids.extend(chats.map(|(at, _)| party.id[..at].to_owned()));
            ids.push(party.id);
        }
        ids.sort_unstable();
        ids.dedup();
        ids
    }

    /// The folded id that [`means`](Self::means) looks for; `None` for a key.
    pub(super) fn id(&self) -> Option<String> {
        match self {
            Self::Key(_) => None,
            Self::Person(whose) | Self::Chat(whose) => Some(fold(&whose.id).into_owned()),
        }
    }

    /// True if a session is meant; always false for a key.
    pub(super) fn means(&self, key: &str, meta: &Meta) -> bool {
        let (whose, person) = match self {
            Self::Key(_) => return false,
            Self::Person(whose) => (whose, true),
            Self::Chat(whose) => (whose, false),
        };
        let id = fold(&whose.id);
        let channel = whose.channel.as_deref().map(fold);
        let mut parties = Party::all_of(key, meta).into_iter();
        parties.any(|party| {
            let is_kind = match party.kind.as_str() {
                "sender" => person,
                "direct" => true,
                _ => !person,
            };
            let is_there = channel.as_deref().is_none_or(|own| own == party.channel);
            is_kind && is_there && party.is_called(&id)
        })
    }
}

impl Whose {
    /// An id on any platform.
    pub fn new(id: impl Into<String>) -> Self {
        Self {
            id: id.into(),
            channel: None,
        }
    }

    /// Restricts the id to this platform.
    #[must_use]
    pub fn on(mut self, channel: impl Into<String>) -> Self {
        self.channel = Some(channel.into());
        self
    }
}

impl From<&str> for Whose {
    fn from(id: &str) -> Self {
        Self::new(id)
    }
}

impl From<String> for Whose {
    fn from(id: String) -> Self {
        Self::new(id)
    }
}

/// The person or chat that a session is with.
#[derive(Debug, PartialEq, Eq)]
struct Party {
    channel: String,
    /// `sender`, or a kind of chat.
    kind: String,
    id: String,
}

impl Party {
    /// The parties named by a session's scope. If the scope leaves them open or is missing, those
    /// named by its aliases and its key.
    fn all_of(key: &str, meta: &Meta) -> Vec<Self> {
        let scope = meta.text.scope.as_ref();
        let scope = scope.and_then(|scope| SessionScope::from_json(scope.get()).ok());
        let told = meta.text.aliases.iter().map(String::as_str).chain([key]);
        let Some(scope) = scope else {
            return told.filter_map(|name| Self::named(name, "")).collect();
        };
        let party = |kind: &str, id: &str| Self {
            channel: fold(&scope.channel).into_owned(),
            kind: fold(kind).into_owned(),
            id: fold(id).into_owned(),
        };
        let chat = scope.values.get("chat");
        let chat = chat.and_then(|chat| chat.split_once(':'));
        let chat = chat.map(|(kind, id)| party(kind, id));
        let sender = scope.values.get("sender").map(|id| party("sender", id));
        // A session separated by sender alone covers all the sender's chats.
        let kind = if chat.is_some() { "direct" } else { "sender" };
        // The aliases of a session that many share belong to the last writer.
        let is_ones = chat.is_some() || sender.is_some();
        let told = told.filter(|_| is_ones);
        let told = told.filter_map(|name| Self::named(name, &scope.channel));
        let told = told.filter(|peer| peer.kind == "direct");
        let told = told.map(|peer| party(kind, &peer.id));
        let told: Vec<_> = told.collect();
        chat.into_iter().chain(sender).chain(told).collect()
    }

    /// The party that a key of older versions names.
    fn named(key: &str, channel: &str) -> Option<Self> {
        let rest = parse_legacy_agent_session_key(key)?.rest;
        let party = |channel: &str, kind: &str, id: &str| Self {
            channel: fold(channel).into_owned(),
            kind: fold(kind).into_owned(),
            id: fold(id).into_owned(),
        };
        if let Some(id) = rest.strip_prefix("direct:") {
            return Some(party(channel, "direct", id));
        }
        let (channel, rest) = rest.split_once(':')?;
        let (kind, id) = rest.split_once(':')?;
        match id.strip_prefix("direct:") {
            // `kind` is the account.
            Some(id) if kind != "direct" => Some(party(channel, "direct", id)),
            _ => Some(party(channel, kind, id)),
        }
    }

    /// A topic is part of its chat. (On platforms other than Telegram an id may hold a `/`.)
    fn is_called(&self, id: &str) -> bool {
        let rest = self.id.strip_prefix(id);
        rest.is_some_and(|rest| {
            rest.is_empty() || self.channel == "telegram" && rest.starts_with('/')
        })
    }
}

/// True if an alias can belong to one conversation: an agent's main alias belongs to all.
pub(super) fn is_own(alias: &str) -> bool {
    !session_file::is_main_alias(&fold(alias))
}

impl Erase {
    /// True if the history under an alias of a meant session is meant, too. A group's is not, if
    /// the session has only what one of its members said.
    pub(super) fn goes_along(&self, alias: &str, own: &Meta, session: &Meta) -> bool {
        if !is_own(alias) {
            return false;
        }
        if !matches!(self, Self::Key(_)) {
            return self.means(alias, own);
        }
        let Some(named) = Party::named(alias, "") else {
            return true;
        };
        let scope = session.text.scope.as_ref();
        let scope = scope.and_then(|scope| SessionScope::from_json(scope.get()).ok());
        let of_chat = scope.is_none_or(|scope| {
            scope.values.contains_key("chat") && !scope.values.contains_key("sender")
        });
        named.kind == "direct" || of_chat
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scope::{InboundContext, SessionPolicy, allocate_route_session};

    fn meta(
        dimensions: &[&str],
        channel: &str,
        chat: (&str, &str),
        sender: &str,
    ) -> (String, Meta) {
        let context = InboundContext {
            channel: channel.into(),
            chat_type: chat.0.into(),
            chat_id: chat.1.into(),
            sender_id: sender.into(),
            topic_id: if chat.1 == "-5" { "9" } else { "" }.into(),
            ..InboundContext::default()
        };
        let policy = SessionPolicy {
            dimensions: dimensions.iter().map(|&d| d.into()).collect(),
            ..SessionPolicy::default()
        };
        let allocation = allocate_route_session("main", &context, &policy);
        let mut meta = Meta::empty(&allocation.session_key);
        let text = std::sync::Arc::make_mut(&mut meta.text);
        text.scope = Some(allocation.scope.to_raw());
        text.aliases = allocation.session_aliases;
        (allocation.session_key, meta)
    }

    #[test]
    fn a_persons_conversations_are_told_by_scopes_and_by_keys_without_one() {
        let means = |what: &Erase, (key, meta): &(String, Meta)| what.means(key, meta);
        let (direct, group) = (("direct", "7"), ("group", "-5"));
        let private = meta(&["chat"], "telegram", direct, "7");
        let shared = meta(&["chat"], "telegram", group, "7");
        let split = meta(&["chat", "sender"], "telegram", group, "7");
        let own = meta(&["sender"], "telegram", direct, "7");
        let all = meta(&[], "telegram", direct, "7");
        let slack = meta(&["chat"], "slack", direct, "7");
        let old = |key: &str| (key.to_owned(), Meta::empty(key));

        let person = Erase::person(" 7 ");
        for (is_meant, session) in [
            (true, &private),
            (false, &shared),
            (true, &split),
            (true, &own),
            (false, &all),
            (true, &slack),
            (true, &old("agent:main:telegram:direct:7")),
            (true, &old("agent:main:telegram:bot:direct:7")),
            (true, &old("agent:main:direct:7")),
            (false, &old("agent:main:telegram:group:7")),
            (false, &old("agent:main:telegram:direct:77")),
            (false, &old("telegram:7")),
        ] {
            assert_eq!(means(&person, session), is_meant, "{session:?}");
        }
        let there = Erase::person(Whose::new("7").on("Telegram"));
        assert!(means(&there, &private) && !means(&there, &slack));
        assert!(!means(&there, &old("agent:main:slack:direct:7")));

        let chat = Erase::chat("-5");
        assert!(means(&chat, &shared) && means(&chat, &split));
        assert!(means(&chat, &old("agent:main:telegram:group:-5/9")));
        assert!(!means(&chat, &old("agent:main:irc:group:-5/9")));
        assert!(!means(&chat, &private));
        let private_chat = Erase::chat("7");
        assert!(means(&private_chat, &private) && !means(&private_chat, &own));

        let cased = (String::from("x"), {
            let scope = r#"{"channel":"Slack","dimensions":["chat"],"values":{"chat":"group:C1"}}"#;
            let mut meta = Meta::empty("x");
            let text = std::sync::Arc::make_mut(&mut meta.text);
            text.scope = Some(crate::RawValue::from_string(scope.into()).unwrap());
            meta
        });
        assert!(means(&Erase::chat(Whose::new("c1").on("slack")), &cased));
        assert!(means(&Erase::chat("C1"), &cased));

        let key = Erase::key("x");
        let goes = |what: &Erase, alias: &str, of: &(String, Meta)| {
            what.goes_along(alias, &Meta::empty(alias), &of.1)
        };
        let (of_group, of_person) = (
            "agent:main:telegram:group:-5",
            "agent:main:telegram:direct:7",
        );
        assert!(goes(&key, of_group, &shared) && !goes(&key, of_group, &split));
        assert!(goes(&key, of_person, &private) && goes(&person, of_person, &private));
        assert!(!goes(&person, of_group, &split) && !goes(&key, "agent:main:main", &private));
        assert!(!goes(&there, "agent:main:direct:7", &private));
    }
}
