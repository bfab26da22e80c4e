//! Sessions in memory: what the stores without an engine keep.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::clock::{self, Clock, SystemClock};
use crate::error::{Error, Result};
use crate::scope::{SessionScope, collides};
use crate::session_file;
use crate::{Message, StoreOptions};

/// How much a book holds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub(super) sessions: usize,
    /// Messages per session.
    pub(super) messages: usize,
    /// Encoded messages and summaries, over all sessions.
    pub(super) bytes: usize,
    /// One encoded message, or summary.
    pub(super) line: usize,
    /// Whether a key may look like a path that leads out of a directory.
    pub(super) paths: bool,
}

impl Limits {
    /// As much as memory holds, for what is on disk as well.
    pub(super) fn none() -> Self {
        Self {
            sessions: usize::MAX,
            messages: usize::MAX,
            bytes: usize::MAX,
            line: StoreOptions::new().max_line_bytes,
            paths: true,
        }
    }
}

/// One session.
#[derive(Clone, Debug, Default)]
pub(super) struct Page {
    pub(super) messages: Vec<Message>,
    pub(super) summary: String,
    pub(super) created: String,
    pub(super) updated: String,
    scope: Option<SessionScope>,
    aliases: Vec<String>,
    /// Bytes of each message, encoded.
    sizes: Vec<usize>,
    /// When it was last written to, as a number that grows.
    turn: u64,
    /// Whether it differs from what was last saved.
    pub(super) unsaved: bool,
}

impl Page {
    /// A session as it stands in a file, with the times it was made and changed.
    pub(super) fn found(
        messages: Vec<Message>,
        summary: String,
        (created, updated): (String, String),
    ) -> Self {
        let visible = messages
            .into_iter()
            .filter(|message| !message.is_transient());
        let messages: Vec<_> = visible.collect();
        Self {
            sizes: messages.iter().map(size).collect(),
            messages,
            summary,
            created,
            updated,
            ..Self::default()
        }
    }

    fn bytes(&self) -> usize {
        self.sizes.iter().sum::<usize>() + self.summary.len()
    }

    fn is_blank(&self) -> bool {
        self.messages.is_empty() && self.summary.trim().is_empty()
    }

    fn keep(&mut self, newest: usize) {
        let gone = self.messages.len().saturating_sub(newest);
        self.messages.drain(..gone);
        self.sizes.drain(..gone);
    }
}

/// All sessions.
#[derive(Debug)]
pub(super) struct Book {
    pages: BTreeMap<String, Page>,
    /// Who claims an alias, by the name its file would have.
    aliases: HashMap<String, BTreeSet<(String, String)>>,
    /// The sessions by when they were last written to.
    turns: BTreeMap<u64, String>,
    turn: u64,
    bytes: usize,
    limits: Limits,
    clock: SystemClock,
}

impl Book {
    pub(super) fn new(limits: Limits) -> Self {
        Self {
            pages: BTreeMap::new(),
            aliases: HashMap::new(),
            turns: BTreeMap::new(),
            turn: 0,
            bytes: 0,
            limits,
            clock: SystemClock::default(),
        }
    }

    pub(super) fn page(&self, key: &str) -> Option<&Page> {
        self.pages.get(key)
    }

    pub(super) fn keys(&self) -> Vec<String> {
        self.pages.keys().cloned().collect()
    }

    pub(super) fn unsaved(&self) -> Vec<String> {
        let unsaved = self.pages.iter().filter(|(_, page)| page.unsaved);
        unsaved.map(|(key, _)| key.clone()).collect()
    }

    /// What was written down of a session is as its `turn`, if it still is.
    pub(super) fn saved(&mut self, key: &str, saved: &Page) {
        if let Some(page) = self.pages.get_mut(key) {
            page.unsaved &= page.turn != saved.turn;
        }
    }

    /// Puts a session in as it was found.
    pub(super) fn put(&mut self, key: String, page: Page) {
        self.remove(&key);
        self.insert(key, page);
    }

    /// The session that a key means, or the key itself.
    pub(super) fn canonical(&self, key: &str) -> Result<String> {
        self.check_key(key)?;
        Ok(self.resolve(key).unwrap_or_else(|| key.to_owned()))
    }

    pub(super) fn resolve(&self, key: &str) -> Option<String> {
        let key = key.trim();
        let own = || self.pages.contains_key(key).then(|| key.to_owned());
        if session_file::short_circuits(key) && own().is_some() {
            return own();
        }
        let mut claims = self.aliases.get(key).into_iter().flatten();
        let other = claims.find(|(_, claimant)| claimant != key);
        other.map(|(_, claimant)| claimant.clone()).or_else(own)
    }

    pub(super) fn history(&self, key: &str) -> Vec<Message> {
        self.pages
            .get(key)
            .map(|page| page.messages.clone())
            .unwrap_or_default()
    }

    pub(super) fn summary(&self, key: &str) -> String {
        self.pages
            .get(key)
            .map(|page| page.summary.clone())
            .unwrap_or_default()
    }

    pub(super) fn scope(&self, key: &str) -> Option<SessionScope> {
        self.pages.get(key)?.scope.clone()
    }

    pub(super) fn append(&mut self, key: String, messages: Vec<Message>) -> Result<()> {
        let (messages, sizes) = self.accept(messages)?;
        if messages.is_empty() {
            return Ok(());
        }
        self.change(key, |page| {
            page.messages.extend(messages);
            page.sizes.extend(sizes);
        });
        Ok(())
    }

    pub(super) fn set_history(&mut self, key: String, messages: Vec<Message>) -> Result<()> {
        let (messages, sizes) = self.accept(messages)?;
        self.change(key, |page| (page.messages, page.sizes) = (messages, sizes));
        Ok(())
    }

    pub(super) fn set_summary(&mut self, key: String, summary: String) -> Result<()> {
        check_size(summary.len(), self.limits.line)?;
        self.change(key, |page| page.summary = summary);
        Ok(())
    }

    pub(super) fn truncate(&mut self, key: String, keep_last: usize) {
        if self.pages.contains_key(&key) {
            self.change(key, |page| page.keep(keep_last));
        }
    }

    pub(super) fn remove(&mut self, key: &str) -> bool {
        let Some(page) = self.pages.remove(key) else {
            return false;
        };
        self.bytes -= page.bytes();
        self.turns.remove(&page.turn);
        self.disclaim(key, &page.aliases);
        true
    }

    /// See [`SessionStore::ensure_session_metadata`](super::SessionStore::ensure_session_metadata).
    pub(super) fn ensure(
        &mut self,
        key: &str,
        scope: Option<SessionScope>,
        aliases: &[String],
    ) -> Result<bool> {
        let key = key.trim();
        self.check_key(key)?;
        let size = aliases.iter().map(String::len).sum();
        check_size(size, self.limits.line)?;
        let stored = self.pages.get(key).and_then(|page| page.scope.as_ref());
        if let (Some(stored), Some(new)) = (stored, &scope)
            && collides(&stored.to_raw(), new)
        {
            return Err(Error::ScopeConflict { key: key.into() });
        }
        let aliases = session_file::normalize_aliases(key, aliases);
        let heritage = self.heritage(key, &aliases);
        let promoted = heritage.is_some();
        let old = self.pages.get(key).map(|page| page.aliases.clone());
        self.disclaim(key, &old.unwrap_or_default());
        for alias in &aliases {
            let claims = self.aliases.entry(alias.clone()).or_default();
            claims.insert((file_name(key), key.to_owned()));
        }
        self.change(key.to_owned(), |page| {
            (page.scope, page.aliases) = (scope, aliases);
            if let Some(from) = heritage {
                (page.messages, page.sizes) = (from.messages, from.sizes);
                if !from.summary.trim().is_empty() {
                    from.summary.trim().clone_into(&mut page.summary);
                }
            }
        });
        Ok(promoted)
    }

    /// What a session that shows nothing takes over from its aliases.
    fn heritage(&self, key: &str, aliases: &[String]) -> Option<Page> {
        if self.pages.get(key).is_some_and(|page| !page.is_blank()) {
            return None;
        }
        aliases
            .iter()
            .filter(|alias| {
                !session_file::is_main_alias(alias) && !session_file::is_main_among(alias, aliases)
            })
            .filter_map(|alias| Some((alias, self.pages.get(alias)?)))
            .find(|(alias, page)| {
                !page.is_blank() && !session_file::is_main_among(alias, &page.aliases)
            })
            .map(|(_, page)| page.clone())
    }

    /// What is stored of the messages given, and how large each is.
    fn accept(&self, messages: Vec<Message>) -> Result<(Vec<Message>, Vec<usize>)> {
        let now = self.now();
        let mut accepted = Vec::with_capacity(messages.len());
        let mut sizes = Vec::with_capacity(messages.len());
        let limit = self.limits.line.min(self.limits.bytes);
        for message in messages.iter().filter(|message| !message.is_transient()) {
            message.check_writable()?;
            let message = match message.created_at() {
                Some(_) => message.clone(),
                None => message.clone().with_created_at(&now)?,
            };
            let size = size(&message);
            if size > limit {
                return Err(Error::MessageTooLarge {
                    size,
                    limit,
                    messages,
                });
            }
            sizes.push(size);
            accepted.push(message);
        }
        Ok((accepted, sizes))
    }

    /// Changes a session, made if need be, and keeps all of them within limits.
    fn change(&mut self, key: String, change: impl FnOnce(&mut Page)) {
        let now = self.now();
        let mut page = self.pages.remove(&key).unwrap_or_else(|| Page {
            created: now.clone(),
            ..Page::default()
        });
        self.bytes -= page.bytes();
        self.turns.remove(&page.turn);
        change(&mut page);
        page.updated = now;
        page.unsaved = true;
        page.keep(self.limits.messages);
        while page.messages.len() > 1 && page.bytes() > self.limits.bytes {
            page.keep(page.messages.len() - 1);
        }
        self.insert(key, page);
        self.forget_oldest();
    }

    fn insert(&mut self, key: String, mut page: Page) {
        self.turn += 1;
        page.turn = self.turn;
        self.bytes += page.bytes();
        self.turns.insert(page.turn, key.clone());
        self.pages.insert(key, page);
    }

    /// Gives up the sessions not written to for longest, but never the last.
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

    fn disclaim(&mut self, key: &str, aliases: &[String]) {
        let claim = (file_name(key), key.to_owned());
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
        clock::rfc3339(self.clock.now())
    }
}

fn size(message: &Message) -> usize {
    session_file::encode(message, None).len()
}

fn file_name(key: &str) -> String {
    session_file::sidecar_name(&session_file::plain_stem(key))
}

fn check_size(size: usize, limit: usize) -> Result<()> {
    if size <= limit {
        return Ok(());
    }
    Err(Error::MessageTooLarge {
        size,
        limit,
        messages: Vec::new(),
    })
}
