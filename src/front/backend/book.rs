//! Sessions in memory, shared by the stores without an engine.

mod updates;

pub(crate) use updates::window;

use std::collections::hash_map::RandomState;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::{BuildHasher, Hasher};

use serde_json::value::RawValue;
use sessionlog_core::error::{Error, Oversized, Result, check_size};
use sessionlog_core::rules::identity::{self, Heir, gives_away};
use sessionlog_core::rules::lines::{self, LineLimits};
use sessionlog_core::rules::moving::{self, Move};
use sessionlog_core::rules::names;
use sessionlog_core::scope::SessionScope;
use sessionlog_core::session_file::{self, TagChange};
use sessionlog_core::stamp::{self, ZERO_TIME};
use sessionlog_wal::clock::{Clock, SystemClock};

use super::page::{self, MemorySession, StoredMessage};
use crate::{Merged, Message, StoreOptions};

/// The limits of a book.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BookLimits {
    pub(crate) sessions: usize,
    /// Messages per session.
    pub(crate) messages: usize,
    /// Bytes of encoded messages, summaries, scopes and aliases, over all sessions. No session
    /// alone is over it.
    pub(crate) bytes: usize,
    /// Bytes of one encoded message, one summary, or one scope with its aliases.
    pub(crate) line: usize,
    /// True if a key may look like a path that leads out of a directory.
    pub(crate) paths: bool,
}

impl BookLimits {
    /// No limits but that of a line, for sessions that are on disk as well.
    pub(crate) fn none() -> Self {
        Self {
            sessions: usize::MAX,
            messages: usize::MAX,
            bytes: usize::MAX,
            line: StoreOptions::new().max_line_bytes,
            paths: true,
        }
    }

    /// The largest part that a session may get if it has `bytes` that no other part can push out.
    fn beside(&self, bytes: usize) -> usize {
        self.line.min(self.bytes.saturating_sub(bytes))
    }
}

/// All sessions.
pub(crate) struct Book {
    pages: BTreeMap<String, MemorySession>,
    /// The sessions that claim an alias, by the name their file would have.
    aliases: HashMap<String, BTreeSet<(String, String)>>,
    /// The sessions in the order in which they were last written to.
    turns: BTreeMap<u64, String>,
    turn: u64,
    bytes: usize,
    limits: BookLimits,
    clock: SystemClock,
}

/// Shows nothing of the sessions: the output ends up in logs, and reading them would take time.
impl std::fmt::Debug for Book {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Book")
            .field("sessions", &self.pages.len())
            .finish_non_exhaustive()
    }
}

impl Book {
    pub(crate) fn new(limits: BookLimits) -> Self {
        Self {
            pages: BTreeMap::new(),
            aliases: HashMap::new(),
            turns: BTreeMap::new(),
            // Versions of another book must not match versions of this one.
            turn: RandomState::new().build_hasher().finish() >> 8,
            bytes: 0,
            limits,
            clock: SystemClock::default(),
        }
    }

    pub(crate) fn page(&self, key: &str) -> Option<&MemorySession> {
        self.pages.get(key)
    }

    pub(crate) fn keys(&self) -> Vec<String> {
        self.pages.keys().cloned().collect()
    }

    pub(crate) fn unsaved(&self) -> Vec<String> {
        let unsaved = self.pages.iter().filter(|(_, page)| page.unsaved);
        unsaved.map(|(key, _)| key.clone()).collect()
    }

    pub(crate) fn is_saved(&self) -> bool {
        !self.pages.values().any(|page| page.unsaved)
    }

    /// Marks a session's saved file as out of date.
    pub(crate) fn unsave(&mut self, key: &str) {
        if let Some(page) = self.pages.get_mut(key) {
            page.unsaved = true;
        }
    }

    /// Marks a session as saved, if it is still at the saved page's `turn`.
    pub(crate) fn saved(&mut self, key: &str, saved: &MemorySession) {
        if let Some(page) = self.pages.get_mut(key) {
            page.unsaved &= page.turn != saved.turn;
        }
    }

    /// Inserts a session as it was found.
    pub(crate) fn put(&mut self, key: String, page: MemorySession) {
        self.remove(&key);
        self.claim(&key, &page.aliases);
        self.insert(key, page);
    }

    /// The session that a key means, or the key itself.
    pub(crate) fn canonical(&self, key: &str) -> Result<String> {
        self.check_key(key)?;
        Ok(self.resolve(key).unwrap_or_else(|| key.to_owned()))
    }

    pub(crate) fn resolve(&self, key: &str) -> Option<String> {
        let claimant = |alias: &str| self.claimant(alias).cloned();
        names::resolve(key, |key| self.pages.contains_key(key), claimant)
    }

    /// The session of another key that claims an alias, the first by file name if several do.
    fn claimant(&self, alias: &str) -> Option<&String> {
        let mut claims = self.aliases.get(alias).into_iter().flatten();
        let other = claims.find(|(_, claimant)| claimant != alias);
        other.map(|(_, claimant)| claimant)
    }

    pub(crate) fn history(&self, key: &str) -> Vec<Message> {
        self.pages
            .get(key)
            .map(MemorySession::messages)
            .unwrap_or_default()
    }

    pub(crate) fn tail(&self, key: &str, n: usize) -> Vec<Message> {
        self.page(key).map(|page| page.tail(n)).unwrap_or_default()
    }

    pub(crate) fn summary(&self, key: &str) -> String {
        let page = self.page(key);
        page.map_or_else(String::new, |page| page.summary.clone())
    }

    /// # Errors
    /// `InvalidScope` if the stored text is not a scope.
    pub(crate) fn scope(&self, key: &str) -> Result<Option<SessionScope>> {
        let stored = self.pages.get(key).and_then(|page| page.scope.as_ref());
        stored
            .map(|scope| SessionScope::from_json(scope.get()))
            .transpose()
    }

    pub(crate) fn append(&mut self, key: String, messages: Vec<Message>) -> Result<()> {
        let lines = self.accept(&key, messages, None, 0)?;
        if !lines.is_empty() {
            self.change(key, |page| page.extend(lines));
        }
        Ok(())
    }

    pub(crate) fn set_history(&mut self, key: String, messages: Vec<Message>) -> Result<()> {
        let lines = self.accept(&key, messages, None, 0)?;
        self.change(key, |page| page.replace(lines));
        Ok(())
    }

    pub(crate) fn set_summary(&mut self, key: String, summary: String) -> Result<()> {
        self.check_summary(&key, &summary)?;
        self.change(key, |page| page.summary = summary);
        Ok(())
    }

    fn check_summary(&self, key: &str, summary: &str) -> Result<()> {
        let page = self.pages.get(key);
        let identity = page.map_or(0, |page| page.identity() + page.ids() + page.tags.size());
        check_size(
            Oversized::Summary,
            summary.len(),
            self.limits.beside(identity),
        )
    }

    /// Refuses tags that are over the limit of a sidecar, or leave a session no room for them.
    fn check_tags(&self, key: &str, change: &TagChange, summary: Option<&str>) -> Result<()> {
        if change.is_empty() {
            return Ok(());
        }
        let page = self.pages.get(key);
        let mut tags = page.map(|page| page.tags.clone()).unwrap_or_default();
        let before = tags.size();
        change.clone().apply(&mut tags);
        let besides = page.map_or(0, |page| {
            page.identity() + page.ids() + summary.unwrap_or(&page.summary).len()
        });
        if tags.size() <= before {
            return Ok(());
        }
        check_size(Oversized::Sidecar, tags.size(), self.limits.beside(besides))
    }

    pub(crate) fn truncate(&mut self, key: String, keep_last: usize) {
        if self.pages.contains_key(&key) {
            self.change(key, |page| page.keep(keep_last));
        }
    }

    pub(crate) fn remove(&mut self, key: &str) -> bool {
        let Some(page) = self.pages.remove(key) else {
            return false;
        };
        self.bytes -= page.bytes();
        self.turns.remove(&page.turn);
        self.disclaim(key, &page.aliases);
        true
    }

    /// See [`SessionStore::merge_session`](super::SessionStore::merge_session).
    pub(crate) fn move_session(&mut self, old: &str, new: &str, merge: bool) -> Result<Merged> {
        let literal = |key| names::literal(key, |key| self.pages.contains_key(key));
        let (old, new) = (literal(old), literal(new));
        self.check_key(old)?;
        self.check_key(new)?;
        let new_owner = self.resolve(new).filter(|key| key != new);
        let moved = Move {
            old,
            new,
            is_there: self.pages.contains_key(old),
            old_claimant: self.claimant(old).map(String::as_str),
            new_owner: new_owner.as_deref(),
        };
        moved.check()?;
        let Some(older) = self.pages.get(old) else {
            return Err(Error::SessionNotFound { key: old.into() });
        };
        let own = self.pages.get(new);
        let has_said = own.is_some_and(|page| !page.is_blank());
        moving::check_history(new, has_said, merge)?;
        let mut page = own
            .cloned()
            .unwrap_or_else(|| MemorySession::made(ZERO_TIME));
        let (is_made, turn) = (own.is_none(), older.turn);
        page.follow(new, (old, older.clone()));
        let besides = page.bytes() - page.identity();
        let lines = page.messages_size();
        check_size(
            Oversized::Sidecar,
            page.identity(),
            self.limits.beside(besides - lines),
        )?;
        page.unsaved = true;
        page.keep(self.limits.messages);
        page.fit(self.limits.bytes);
        self.remove(old);
        if is_made {
            // It is the other session, and no further one.
            page.turned(turn);
            self.claim(new, &page.aliases);
            self.place(new.to_owned(), page);
        } else {
            self.put(new.to_owned(), page);
        }
        self.forget_oldest();
        Ok(if has_said {
            Merged::Joined
        } else {
            Merged::Renamed
        })
    }

    /// See [`SessionStore::ensure_session_metadata`](super::SessionStore::ensure_session_metadata).
    pub(crate) fn ensure(
        &mut self,
        key: &str,
        scope: Option<&SessionScope>,
        aliases: &[String],
    ) -> Result<bool> {
        let key = names::literal(key, |key| self.pages.contains_key(key));
        self.check_key(key)?;
        let size = page::identity(None, aliases);
        check_size(Oversized::Aliases, size, self.limits.line)?;
        let scope = scope.map(SessionScope::to_raw);
        let aliases = session_file::normalize_aliases(key, aliases);
        if let Some(page) = self.pages.get(key) {
            identity::admit(key, page.scope.as_deref(), scope.as_deref())?;
        }
        let heritage = self.heritage(key, scope.as_deref(), &aliases);
        let promoted = heritage.is_some();
        let old = self.pages.get(key);
        if !promoted && old.is_some_and(|page| page.is_known_as(scope.as_deref(), &aliases)) {
            return Ok(false);
        }
        let old_summary = old.map_or(0, |page| page.summary.len() + page.ids() + page.tags.size());
        let old_aliases = old.map_or_else(Vec::new, |page| page.aliases.clone());
        let summary = heritage.as_ref().map_or(0, |page| page.summary.len());
        check_size(
            Oversized::Sidecar,
            page::identity(scope.as_deref(), &aliases),
            self.limits.beside(summary.max(old_summary)),
        )?;
        self.disclaim(key, &old_aliases);
        self.claim(key, &aliases);
        self.change(key.to_owned(), |page| {
            (page.scope, page.aliases) = (scope, aliases);
            if let Some(from) = heritage {
                page.inherit(from);
            }
        });
        Ok(promoted)
    }

    /// The page that a session without visible content takes over from its aliases. An alias that
    /// it claims already is skipped: history that was cleared since must not come back.
    fn heritage(
        &self,
        key: &str,
        scope: Option<&RawValue>,
        aliases: &[String],
    ) -> Option<MemorySession> {
        let own = self.pages.get(key);
        if own.is_some_and(|page| !page.is_blank()) {
            return None;
        }
        let heir = Heir {
            names: aliases,
            scopes: [scope, own.and_then(|page| page.scope.as_deref())],
            claimed: own.map_or_else(Default::default, |page| &*page.aliases),
        };
        aliases
            .iter()
            .filter(|alias| heir.may_ask(alias))
            .filter_map(|alias| Some((alias, self.pages.get(alias)?)))
            .find(|(alias, page)| {
                !page.is_blank() && gives_away(alias, &page.aliases, page.scope.as_deref())
            })
            .map(|(_, page)| page.clone())
    }

    /// The lines to store for the messages given to a session, beside its summary or a new one, and
    /// `more` bytes.
    fn accept(
        &self,
        key: &str,
        messages: Vec<Message>,
        summary: Option<&str>,
        more: usize,
    ) -> Result<Vec<StoredMessage>> {
        let now = self.now();
        let page = self.pages.get(key);
        let old = page.map_or("", |page| &page.summary);
        let besides = page.map_or(0, |page| page.identity() + page.ids() + page.tags.size()) + more;
        let limits = LineLimits {
            line: self.limits.beside(besides + summary.unwrap_or(old).len()),
            batch: usize::MAX,
        };
        let mut accepted = Vec::with_capacity(messages.len());
        let each = |message, size| accepted.push((message, size));
        if let Err(error) = lines::encode(&messages, &now, limits, &mut Vec::new(), each) {
            return Err(lines::hand_back(error, || messages));
        }
        let dated = accepted.into_iter().map(|(message, size)| {
            let message = match message.created_at() {
                Some(_) => message.clone(),
                None => message.clone().with_created_at(&now)?,
            };
            Ok(StoredMessage { message, size })
        });
        dated.collect()
    }

    /// Changes a session, created if needed, and keeps the book within its limits.
    fn change(&mut self, key: String, change: impl FnOnce(&mut MemorySession)) {
        let now = self.now();
        let made = || MemorySession::made(&now);
        let mut page = self.pages.remove(&key).unwrap_or_else(made);
        self.bytes -= page.bytes();
        self.turns.remove(&page.turn);
        change(&mut page);
        page.updated = now;
        page.unsaved = true;
        page.keep(self.limits.messages);
        page.fit(self.limits.bytes);
        self.insert(key, page);
        self.forget_oldest();
    }

    fn insert(&mut self, key: String, mut page: MemorySession) {
        self.turn += 1;
        page.turned(self.turn);
        self.place(key, page);
    }

    fn place(&mut self, key: String, page: MemorySession) {
        self.bytes += page.bytes();
        self.turns.insert(page.turn, key.clone());
        self.pages.insert(key, page);
    }

    /// Drops the sessions not written to for longest, but never the last.
    fn forget_oldest(&mut self) {
        while self.pages.len() > 1
            && (self.pages.len() > self.limits.sessions || self.bytes > self.limits.bytes)
        {
            let Some((_, oldest)) = self.turns.pop_first() else {
                return;
            };
            self.remove(&oldest);
        }
    }

    fn claim(&mut self, key: &str, aliases: &[String]) {
        for alias in aliases {
            let claims = self.aliases.entry(alias.clone()).or_default();
            claims.insert((names::file_name(key), key.to_owned()));
        }
    }

    fn disclaim(&mut self, key: &str, aliases: &[String]) {
        let claim = (names::file_name(key), key.to_owned());
        for alias in aliases {
            if let Some(claims) = self.aliases.get_mut(alias) {
                claims.remove(&claim);
                if claims.is_empty() {
                    self.aliases.remove(alias);
                }
            }
        }
    }

    fn check_key(&self, key: &str) -> Result<()> {
        session_file::validate_key(key)?;
        let mut parts = key.split(['/', '\\']);
        if !self.limits.paths && parts.any(|part| matches!(part.trim(), "." | "..")) {
            return Err(Error::InvalidKey {
                reason: "it leads out of the directory",
            });
        }
        Ok(())
    }

    fn now(&self) -> String {
        stamp::rfc3339(self.clock.now())
    }
}
