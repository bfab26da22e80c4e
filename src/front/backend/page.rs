//! One session in memory, and the count of its bytes.

use std::collections::VecDeque;

use serde_json::value::RawValue;
use sessionlog_core::position::{Cut, Keep, Position};
use sessionlog_core::rules::identity;
use sessionlog_core::scope::SessionScope;
use sessionlog_core::session_file::{self, LegacySession, MetaText, SessionTags};

use crate::Message;
use crate::engine::glance::SHOWN;
use crate::front::backend::kit::turn_begins_at;
use crate::front::sessions::SessionInfo;

/// One session.
#[derive(Clone, Debug, Default)]
pub(crate) struct MemorySession {
    lines: VecDeque<StoredMessage>,
    pub(crate) summary: String,
    created: String,
    pub(crate) updated: String,
    /// As given or found; it may not be a valid scope.
    pub(crate) scope: Option<Box<RawValue>>,
    pub(crate) aliases: Vec<String>,
    pub(crate) tags: SessionTags,
    /// Bytes of all lines.
    held: usize,
    /// The number of its history: a position of another history is none of its lines. 0 until it is
    /// in the book.
    history: u64,
    /// The number of the oldest line that is still there.
    first: u64,
    /// The ids of messages that it took once, the newest last.
    taken: VecDeque<String>,
    /// The turn in which it was last written to; turns grow.
    pub(crate) turn: u64,
    /// True if it differs from what was last saved.
    pub(crate) unsaved: bool,
}

/// A message, and its size encoded, in bytes.
#[derive(Clone, Debug)]
pub(crate) struct StoredMessage {
    pub(crate) message: Message,
    pub(crate) size: usize,
}

impl StoredMessage {
    pub(crate) fn of(message: Message) -> Self {
        let size = session_file::encode(&message, None).len();
        Self { message, size }
    }
}

impl MemorySession {
    pub(crate) fn made(now: &str) -> Self {
        Self {
            created: now.into(),
            ..Self::default()
        }
    }

    /// A session as it stands in a file.
    pub(crate) fn found(session: LegacySession) -> Self {
        let aliases = session_file::normalize_aliases(&session.key, &session.aliases);
        let visible = session.messages.into_iter();
        let visible = visible.filter(|message| !message.is_transient());
        let mut page = Self {
            summary: session.summary,
            created: session.created,
            updated: session.updated,
            scope: session.scope,
            aliases,
            tags: *session.tags,
            ..Self::default()
        };
        page.extend(visible.map(StoredMessage::of));
        page
    }

    /// The session as it is stored in its file.
    pub(crate) fn to_file(&self, key: &str) -> LegacySession {
        LegacySession {
            key: key.into(),
            messages: self.messages(),
            summary: self.summary.clone(),
            created: self.created.clone(),
            updated: self.updated.clone(),
            scope: self.scope.clone(),
            aliases: self.aliases.clone(),
            tags: Box::new(self.tags.clone()),
        }
    }

    pub(crate) fn messages(&self) -> Vec<Message> {
        self.tail(self.len())
    }

    /// The newest `n` messages, oldest first.
    pub(crate) fn tail(&self, n: usize) -> Vec<Message> {
        let newest = self.lines.iter().skip(self.len().saturating_sub(n));
        newest.map(|line| line.message.clone()).collect()
    }

    pub(crate) fn len(&self) -> usize {
        self.lines.len()
    }

    pub(crate) fn extend(&mut self, lines: impl IntoIterator<Item = StoredMessage>) {
        for line in lines {
            self.held += line.size;
            self.lines.push_back(line);
        }
    }

    pub(crate) fn replace(&mut self, lines: impl IntoIterator<Item = StoredMessage>) {
        self.keep(0);
        self.extend(lines);
        self.history = 0;
    }

    /// Marks it as in the book, as of this turn.
    pub(crate) fn turned(&mut self, turn: u64) {
        self.turn = turn;
        if self.history == 0 {
            (self.history, self.first) = (turn, 0);
        }
    }

    /// The position where its messages end.
    pub(crate) fn end(&self) -> Position {
        Position::new(self.history, self.first + self.lines.len() as u64)
    }

    /// The messages, newest first, each with its position and its bytes.
    pub(crate) fn newest_first(&self) -> impl Iterator<Item = (Position, usize, Message)> {
        let numbered = (self.first..).zip(&self.lines).collect::<Vec<_>>();
        let position = |number| Position::new(self.history, number);
        let lines = numbered.into_iter().rev();
        lines.map(move |(number, line)| (position(number), line.size, line.message.clone()))
    }

    /// The number of newest messages that stay; `None` if the position is not in its history.
    pub(crate) fn staying(&self, keep: Keep) -> Option<usize> {
        let cut = keep.cut(|position| {
            if position.history() != self.history {
                return Err(());
            }
            let gone = position.at().saturating_sub(self.first);
            let gone = usize::try_from(gone).unwrap_or(usize::MAX);
            self.lines.len().checked_sub(gone).ok_or(())
        });
        Some(match cut.ok()? {
            Cut::Last(n) | Cut::From(n) => n,
            Cut::Turns(n) => self.in_turns(n),
        })
    }

    /// The message at a position.
    pub(crate) fn at(&self, position: Position) -> Option<&Message> {
        let line = self.lines.get(self.index(position)?);
        line.map(|line| &line.message)
    }

    fn index(&self, position: Position) -> Option<usize> {
        let is_own = position.history() == self.history;
        let nth = position.at().checked_sub(self.first).filter(|_| is_own)?;
        usize::try_from(nth).ok()
    }

    /// Replaces the line at a position, or removes it for `None`. Earlier positions become invalid.
    pub(crate) fn amend(&mut self, position: Position, line: Option<StoredMessage>) {
        let Some(nth) = self.index(position).filter(|nth| *nth < self.lines.len()) else {
            return;
        };
        let old = match line {
            Some(line) => {
                self.held += line.size;
                Some(std::mem::replace(&mut self.lines[nth], line))
            }
            None => self.lines.remove(nth),
        };
        self.held -= old.map_or(0, |old| old.size);
        self.history = 0;
    }

    /// The number of messages: at least the newest `n`, and the rest of their turn.
    fn in_turns(&self, n: usize) -> usize {
        if n == 0 {
            return 0;
        }
        let newest_first = (1..).zip(self.lines.iter().rev().map(|line| &line.message));
        let (begin, _) = turn_begins_at(newest_first, n);
        begin.map_or(self.lines.len(), |many| many as usize)
    }

    /// True if it took this id once.
    pub(crate) fn has_taken(&self, id: &str) -> bool {
        self.taken.iter().any(|taken| taken == id)
    }

    /// Records a taken id; forgets the oldest ids beyond `most`, or beyond `bytes` together.
    pub(crate) fn take_once(&mut self, id: String, most: usize, bytes: usize) {
        self.taken.push_back(id);
        while self.taken.len() > most || self.taken.len() > 1 && self.ids() > bytes {
            self.taken.pop_front();
        }
    }

    /// Bytes of the ids.
    pub(crate) fn ids(&self) -> usize {
        self.taken.iter().map(String::len).sum()
    }

    /// Its entry in a list.
    pub(crate) fn info(&self, key: &str) -> SessionInfo {
        let scope = self.scope.as_ref();
        let scope = scope.and_then(|scope| SessionScope::from_json(scope.get()).ok());
        let scope = scope.unwrap_or_default();
        let shown = |line: Option<&StoredMessage>| -> String {
            let text = line.map(|line| line.message.text()).unwrap_or_default();
            text.chars().take(SHOWN).collect()
        };
        let (title, labels, pinned) = self.tags.shown();
        SessionInfo {
            key: key.to_owned(),
            summary: self.summary.clone(),
            first_text: shown(self.lines.front()),
            last_text: shown(self.lines.back()),
            lines: self.lines.len() as u64,
            bytes: self.held as u64,
            created_at: self.created.clone(),
            updated_at: self.updated.clone(),
            agent: scope.agent_id,
            channel: scope.channel,
            aliases: self.aliases.clone(),
            title: title.to_owned(),
            labels: labels.to_vec(),
            pinned,
            deleted: None,
        }
    }

    /// Puts the history of an older session before its own.
    pub(crate) fn follow(&mut self, key: &str, (old, older): (&str, Self)) {
        let older_text = older.text(old);
        let mut text = self.text(key);
        text.follow(&older_text);
        let MetaText {
            summary,
            created_at,
            scope,
            aliases,
            tags,
            ..
        } = text;
        (self.summary, self.created, self.scope) = (summary, created_at, scope);
        (self.aliases, self.tags) = (aliases, tags);
        if self.updated.is_empty() {
            self.updated = older.updated;
        }
        if self.lines.is_empty() {
            // Its positions are those of the older one, and stay valid.
            (self.history, self.first) = (older.history, older.first);
        } else {
            self.history = 0;
        }
        let own = std::mem::replace(&mut self.lines, older.lines);
        self.lines.extend(own);
        self.held += older.held;
        let own = std::mem::replace(&mut self.taken, older.taken);
        self.taken.extend(own);
    }

    /// Its metadata.
    fn text(&self, key: &str) -> MetaText {
        MetaText {
            key: key.into(),
            summary: self.summary.clone(),
            created_at: self.created.clone(),
            scope: self.scope.clone(),
            aliases: self.aliases.clone(),
            tags: self.tags.clone(),
        }
    }

    /// Bytes of the messages.
    pub(crate) fn messages_size(&self) -> usize {
        self.held
    }

    /// Takes over the messages of another session, and its summary if it has one.
    pub(crate) fn inherit(&mut self, from: Self) {
        (self.lines, self.held, self.history) = (from.lines, from.held, 0);
        if !from.summary.trim().is_empty() {
            from.summary.trim().clone_into(&mut self.summary);
        }
    }

    pub(crate) fn bytes(&self) -> usize {
        self.held + self.identity() + self.summary.len() + self.ids() + self.tags.size()
    }

    /// Bytes of the scope and the aliases.
    pub(crate) fn identity(&self) -> usize {
        identity(self.scope.as_deref(), &self.aliases)
    }

    /// True if it has exactly this scope and these aliases.
    pub(crate) fn is_known_as(&self, scope: Option<&RawValue>, aliases: &[String]) -> bool {
        identity::is_same_text(self.scope.as_deref(), scope) && self.aliases == aliases
    }

    pub(crate) fn is_blank(&self) -> bool {
        self.lines.is_empty() && self.summary.trim().is_empty()
    }

    /// Keeps the newest messages, at most `newest`.
    pub(crate) fn keep(&mut self, newest: usize) {
        while self.lines.len() > newest {
            self.drop_oldest();
        }
    }

    /// Drops the oldest messages until the session has at most `bytes`, or no message is left.
    pub(crate) fn fit(&mut self, bytes: usize) {
        let rest = self.bytes() - self.held;
        while self.held > bytes.saturating_sub(rest) {
            self.drop_oldest();
        }
    }

    fn drop_oldest(&mut self) {
        if let Some(line) = self.lines.pop_front() {
            self.held -= line.size;
            self.first += 1;
        }
    }
}

/// Bytes of a scope and of aliases.
pub(crate) fn identity(scope: Option<&RawValue>, aliases: &[String]) -> usize {
    let aliases: usize = aliases.iter().map(String::len).sum();
    scope.map_or(0, |scope| scope.get().len()) + aliases
}
