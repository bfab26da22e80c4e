//! Finding sessions: the query, and the information returned for each.

mod page;

pub use self::page::SessionPage;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use sessionlog_core::session_file::{self, Meta, SessionMeta};
use sessionlog_core::stamp;
use time::OffsetDateTime;

use crate::engine::glance::Words;
use crate::front::erase::{Erase, Whose};
use crate::scope::SessionScope;

/// Selects sessions, their order, and the number on a page, for
/// [`StoreHandle::sessions`](crate::StoreHandle::sessions).
#[derive(Clone, Debug)]
#[must_use = "it does nothing until it is given to StoreHandle::sessions"]
pub struct SessionQuery {
    pub(super) prefix: String,
    pub(super) agent: Option<String>,
    pub(super) channel: Option<String>,
    pub(super) since: Option<OffsetDateTime>,
    pub(super) party: Option<Erase>,
    pub(super) labels: Vec<String>,
    pub(super) pinned: bool,
    pub(super) deleted: bool,
    pub(super) order: SessionOrder,
    pub(super) limit: usize,
    pub(super) after: Option<Cursor>,
}

/// The order in which sessions are listed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SessionOrder {
    /// By file name, as [`list_sessions`](crate::StoreHandle::list_sessions) lists them. A page
    /// reads the files of the sessions it shows.
    #[default]
    Name,
    /// The session updated last comes first. A page reads the sidecars of all sessions whose keys
    /// begin with the prefix. If the query names no agent, channel, person or chat, it does not
    /// read those of sessions not used since the open: for these it knows as much as
    /// [`updated_since`](SessionQuery::updated_since) does.
    Updated,
}

/// The place where the next page of sessions begins. If sessions are
/// [ordered](SessionOrder::Updated) by time of update, a session that is updated between two pages
/// may be shown again or not at all.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Cursor {
    pub(super) stem: String,
    pub(super) updated: i64,
}

impl Cursor {
    /// A cursor of a custom store: after the session that its order calls `name`, which was updated
    /// `updated` nanoseconds after 1970.
    #[must_use]
    pub fn new(name: impl Into<String>, updated: i64) -> Self {
        Self {
            stem: name.into(),
            updated,
        }
    }

    /// The name of the last session of the previous page.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.stem
    }

    /// The time when that session was updated, in nanoseconds since 1970; 0 where the order does
    /// not ask.
    #[must_use]
    pub fn updated(&self) -> i64 {
        self.updated
    }
}

impl Default for SessionQuery {
    fn default() -> Self {
        Self::new()
    }
}

impl SessionQuery {
    /// All sessions, by name, up to 1,000 on a page.
    pub fn new() -> Self {
        Self {
            prefix: String::new(),
            agent: None,
            channel: None,
            since: None,
            party: None,
            labels: Vec::new(),
            pinned: false,
            deleted: false,
            order: SessionOrder::default(),
            limit: 1000,
            after: None,
        }
    }

    /// Only sessions with keys that begin with this.
    pub fn prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = prefix.into();
        self
    }

    /// Only sessions with this agent in their scope.
    pub fn agent(mut self, agent_id: impl Into<String>) -> Self {
        self.agent = Some(agent_id.into());
        self
    }

    /// Only sessions with this channel in their scope.
    pub fn channel(mut self, channel: impl Into<String>) -> Self {
        self.channel = Some(channel.into());
        self
    }

    /// Only sessions updated at that time or later, according to their sidecars. A
    /// [`SystemTime`](std::time::SystemTime) will do. For sessions not used since the open, the
    /// catalog of the last clean close is used: if another program has written to a sidecar in
    /// place since, that counts only after the session's first use.
    pub fn updated_since(mut self, time: impl Into<OffsetDateTime>) -> Self {
        self.since = Some(time.into());
        self
    }

    /// Only conversations with one person: those that [`Erase::person`] means by themselves.
    /// Replaces a [chat](Self::chat).
    ///
    /// ```
    /// # use sessionlog::{SessionQuery, Store, Whose};
    /// # fn main() -> sessionlog::Result<()> {
    /// # let scratch = tempfile::tempdir().unwrap();
    /// # let store = Store::open(scratch.path())?;
    /// let chats = store.handle();
    /// for key in ["agent:main:telegram:direct:7", "agent:main:telegram:direct:8"] {
    ///     chats.add_message(key, "user", "hi").wait()?;
    /// }
    /// let query = SessionQuery::new().person(Whose::new("7").on("telegram"));
    /// let page = chats.sessions(query).wait()?;
    /// assert_eq!(page.sessions.len(), 1);
    /// assert_eq!(page.sessions[0].key, "agent:main:telegram:direct:7");
    /// # store.close()
    /// # }
    /// ```
    pub fn person(mut self, id: impl Into<Whose>) -> Self {
        self.party = Some(Erase::person(id));
        self
    }

    /// Only conversations in one chat: those that [`Erase::chat`] means by themselves. Replaces a
    /// [person](Self::person).
    pub fn chat(mut self, id: impl Into<Whose>) -> Self {
        self.party = Some(Erase::chat(id));
        self
    }

    /// Only sessions with this label. Repeated calls require all labels.
    pub fn label(mut self, label: impl Into<String>) -> Self {
        self.labels.push(label.into().trim().to_owned());
        self
    }

    /// Only pinned sessions.
    pub fn pinned(mut self) -> Self {
        self.pinned = true;
        self
    }

    /// Only sessions in the [trash](crate::StoreHandle::delete_session), in place of the others.
    /// The query matches their former keys and metadata. By name they are listed in the order of
    /// their deletion. A database and a store in memory have no trash.
    pub fn deleted(mut self) -> Self {
        self.deleted = true;
        self
    }

    /// Sets the order.
    pub fn order(mut self, order: SessionOrder) -> Self {
        self.order = order;
        self
    }

    /// At most this many sessions on a page; at least one.
    pub fn limit(mut self, most: usize) -> Self {
        self.limit = most.max(1);
        self
    }

    /// Starts where a page [ended](SessionPage::next). The rest of the query must be the same.
    pub fn after(mut self, cursor: Cursor) -> Self {
        self.after = Some(cursor);
        self
    }

    /// See [`prefix`](Self::prefix); empty if any prefix will do.
    #[must_use]
    pub fn get_prefix(&self) -> &str {
        &self.prefix
    }

    /// See [`agent`](Self::agent).
    #[must_use]
    pub fn get_agent(&self) -> Option<&str> {
        self.agent.as_deref()
    }

    /// See [`channel`](Self::channel).
    #[must_use]
    pub fn get_channel(&self) -> Option<&str> {
        self.channel.as_deref()
    }

    /// See [`updated_since`](Self::updated_since).
    #[must_use]
    pub fn get_updated_since(&self) -> Option<OffsetDateTime> {
        self.since
    }

    /// See [`label`](Self::label).
    #[must_use]
    pub fn get_labels(&self) -> &[String] {
        &self.labels
    }

    /// See [`pinned`](Self::pinned).
    #[must_use]
    pub fn get_pinned(&self) -> bool {
        self.pinned
    }

    /// See [`deleted`](Self::deleted).
    #[must_use]
    pub fn get_deleted(&self) -> bool {
        self.deleted
    }

    /// See [`order`](Self::order).
    #[must_use]
    pub fn get_order(&self) -> SessionOrder {
        self.order
    }

    /// See [`limit`](Self::limit).
    #[must_use]
    pub fn get_limit(&self) -> usize {
        self.limit
    }

    /// See [`after`](Self::after).
    #[must_use]
    pub fn get_after(&self) -> Option<&Cursor> {
        self.after.as_ref()
    }

    /// See [`person`](Self::person).
    #[must_use]
    pub fn get_person(&self) -> Option<&Whose> {
        match &self.party {
            Some(Erase::Person(whose)) => Some(whose),
            _ => None,
        }
    }

    /// See [`chat`](Self::chat).
    #[must_use]
    pub fn get_chat(&self) -> Option<&Whose> {
        match &self.party {
            Some(Erase::Chat(whose)) => Some(whose),
            _ => None,
        }
    }

    /// True if a session is with the person or chat that the query names.
    pub(super) fn is_with(&self, key: &str, scope: Option<&RawValue>, aliases: &[String]) -> bool {
        self.party.as_ref().is_none_or(|who| {
            let mut meta = SessionMeta::empty(key);
            meta.scope = scope.map(ToOwned::to_owned);
            meta.aliases = aliases.to_vec();
            who.means(key, &Meta::of(meta))
        })
    }

    /// True if the query asks nothing of sidecars.
    pub(super) fn admits_all(&self) -> bool {
        self.since.is_none() && self.asks_nothing_but_time()
    }

    fn asks_nothing_but_time(&self) -> bool {
        self.agent.is_none()
            && self.channel.is_none()
            && self.party.is_none()
            && self.labels.is_empty()
            && !self.pinned
    }

    /// True if a session with these labels matches, pinned or not as given.
    pub(super) fn is_tagged(&self, labels: &[String], pinned: bool) -> bool {
        self.labels.iter().all(|label| labels.contains(label)) && (pinned || !self.pinned)
    }

    /// Tells from the time of update whether a session matches, if that alone decides; otherwise
    /// `None`.
    pub(super) fn admits_at(&self, updated: i64) -> Option<bool> {
        self.asks_nothing_but_time().then(|| self.is_since(updated))
    }

    fn is_since(&self, updated: i64) -> bool {
        let since = self.since.map(stamp::nanos);
        since.is_none_or(|since| updated >= since)
    }

    /// True if a session matches, as far as its sidecar tells; a deleted session by its former key
    /// and metadata.
    pub(super) fn admits(&self, key: &str, meta: &Meta) -> bool {
        if session_file::is_deleted_key(key) != self.deleted {
            return false;
        }
        let (key, meta) = meta.undeleted(key);
        let (key, meta) = (&*key, &*meta);
        let since = self.is_since(updated(meta));
        let tags = &meta.text.tags;
        let tagged = self.is_tagged(&tags.labels, tags.pinned);
        if !since || !tagged || self.party.as_ref().is_some_and(|who| !who.means(key, meta)) {
            return false;
        }
        if self.agent.is_none() && self.channel.is_none() {
            return true;
        }
        let scope = meta.text.scope.as_ref();
        let scope = scope.and_then(|scope| SessionScope::from_json(scope.get()).ok());
        let scope = scope.unwrap_or_default();
        let is = |wanted: &Option<String>, own: &str| wanted.as_deref().is_none_or(|w| w == own);
        is(&self.agent, &scope.agent_id) && is(&self.channel, &scope.channel)
    }
}

/// The time when a session was updated; long ago if its sidecar has no readable time.
pub(super) fn updated(meta: &Meta) -> i64 {
    meta.updated_at.nanos().unwrap_or(i64::MIN)
}

/// The information returned for a session that was found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SessionInfo {
    /// Its key.
    pub key: String,
    /// Its summary; empty if it has none.
    pub summary: String,
    /// The first text that is not hidden, at most 200 characters; a stand-in where there is no
    /// title.
    pub first_text: String,
    /// The last text, at most 200 characters.
    pub last_text: String,
    /// Lines that are not hidden, as the sidecar counts them: messages, control records,
    /// and lines that do not decode.
    pub lines: u64,
    /// The bytes of all its lines, hidden ones included.
    pub bytes: u64,
    /// The time when it was created, as its sidecar says.
    pub created_at: String,
    /// The time when it was last changed, as its sidecar says.
    pub updated_at: String,
    /// The agent and the channel that its scope names; empty if it has none.
    pub agent: String,
    /// See [`agent`](Self::agent).
    pub channel: String,
    /// Its other keys.
    #[serde(default)]
    pub aliases: Vec<String>,
    /// Its title; empty if it has none.
    #[serde(default)]
    pub title: String,
    /// Its labels.
    #[serde(default)]
    pub labels: Vec<String>,
    /// True if it is pinned.
    #[serde(default)]
    pub pinned: bool,
    /// Its deletion, if it is in the trash.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deleted: Option<Deletion>,
}

/// The time when a session was deleted, and its former key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Deletion {
    /// The key that it had.
    pub key: String,
    /// The time when it was deleted, in RFC 3339.
    pub at: String,
}

impl Deletion {
    /// The time when it was deleted; `None` if the text cannot be parsed.
    #[must_use]
    pub fn time(&self) -> Option<OffsetDateTime> {
        stamp::parse(&self.at)
    }
}

impl SessionInfo {
    /// The time when it was created; `None` if the text cannot be parsed.
    #[must_use]
    pub fn created(&self) -> Option<OffsetDateTime> {
        stamp::parse(&self.created_at)
    }

    /// The time when it was last changed; `None` if the text cannot be parsed.
    #[must_use]
    pub fn updated(&self) -> Option<OffsetDateTime> {
        stamp::parse(&self.updated_at)
    }

    pub(super) fn new(key: &str, meta: &Meta, words: Words) -> Self {
        let was = meta.text.undeleted();
        let scope = meta.text.scope.as_ref();
        let scope = scope.and_then(|scope| SessionScope::from_json(scope.get()).ok());
        let scope = scope.unwrap_or_default();
        let deleted = session_file::deleted_at(key).map(|at| Deletion {
            key: was.key.clone(),
            at,
        });
        let (title, labels, pinned) = meta.text.tags.shown();
        Self {
            key: key.to_owned(),
            summary: meta.text.summary.clone(),
            first_text: words.first,
            last_text: words.last,
            lines: u64::try_from(meta.count.saturating_sub(meta.skip)).unwrap_or(0),
            bytes: words.size,
            created_at: meta.text.created_at.clone(),
            updated_at: meta.updated_at.to_string(),
            agent: scope.agent_id,
            channel: scope.channel,
            aliases: was.aliases.clone(),
            title: title.to_owned(),
            labels: labels.to_vec(),
            pinned,
            deleted,
        }
    }
}
