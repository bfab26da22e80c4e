//! One session in memory, and how many bytes of it count.

use std::collections::VecDeque;

use serde_json::value::RawValue;

use crate::Message;
use crate::disk::session_file::{self, LegacySession};

/// One session.
#[derive(Clone, Debug, Default)]
pub(crate) struct Page {
    lines: VecDeque<Line>,
    pub(crate) summary: String,
    created: String,
    pub(crate) updated: String,
    /// As it was given or found, which may be no scope.
    pub(crate) scope: Option<Box<RawValue>>,
    pub(crate) aliases: Vec<String>,
    /// Bytes of all lines.
    held: usize,
    /// When it was last written to, as a number that grows.
    pub(crate) turn: u64,
    /// Whether it differs from what was last saved.
    pub(crate) unsaved: bool,
}

/// A message, and its bytes, encoded.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    message: Message,
    pub(crate) size: usize,
}

impl Line {
    pub(crate) fn of(message: Message) -> Self {
        let size = session_file::encode(&message, None).len();
        Self { message, size }
    }
}

impl Page {
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
            ..Self::default()
        };
        page.extend(visible.map(Line::of));
        page
    }

    /// The session as its file is to hold it.
    pub(crate) fn to_file(&self, key: &str) -> LegacySession {
        LegacySession {
            key: key.into(),
            messages: self.messages(),
            summary: self.summary.clone(),
            created: self.created.clone(),
            updated: self.updated.clone(),
            scope: self.scope.clone(),
            aliases: self.aliases.clone(),
        }
    }

    pub(crate) fn messages(&self) -> Vec<Message> {
        self.lines.iter().map(|line| line.message.clone()).collect()
    }

    pub(crate) fn extend(&mut self, lines: impl IntoIterator<Item = Line>) {
        for line in lines {
            self.held += line.size;
            self.lines.push_back(line);
        }
    }

    pub(crate) fn replace(&mut self, lines: impl IntoIterator<Item = Line>) {
        self.keep(0);
        self.extend(lines);
    }

    /// Takes over the messages of another, and its summary if it has one.
    pub(crate) fn inherit(&mut self, from: Self) {
        (self.lines, self.held) = (from.lines, from.held);
        if !from.summary.trim().is_empty() {
            from.summary.trim().clone_into(&mut self.summary);
        }
    }

    pub(crate) fn bytes(&self) -> usize {
        self.held + self.identity() + self.summary.len()
    }

    /// Bytes of the scope and the aliases.
    pub(crate) fn identity(&self) -> usize {
        identity(self.scope.as_deref(), &self.aliases)
    }

    /// Whether it has just this scope and these aliases.
    pub(crate) fn is_known_as(&self, scope: Option<&RawValue>, aliases: &[String]) -> bool {
        self.scope.as_deref().map(RawValue::get) == scope.map(RawValue::get)
            && self.aliases == aliases
    }

    pub(crate) fn is_blank(&self) -> bool {
        self.lines.is_empty() && self.summary.trim().is_empty()
    }

    /// Keeps the newest messages, at most so many.
    pub(crate) fn keep(&mut self, newest: usize) {
        while self.lines.len() > newest {
            self.drop_oldest();
        }
    }

    /// Gives up the oldest messages until it has no more bytes than these, or no
    /// message is left.
    pub(crate) fn fit(&mut self, bytes: usize) {
        let rest = self.bytes() - self.held;
        while self.held > bytes.saturating_sub(rest) {
            self.drop_oldest();
        }
    }

    fn drop_oldest(&mut self) {
        if let Some(line) = self.lines.pop_front() {
            self.held -= line.size;
        }
    }
}

/// Bytes of a scope and of aliases.
pub(crate) fn identity(scope: Option<&RawValue>, aliases: &[String]) -> usize {
    let aliases: usize = aliases.iter().map(String::len).sum();
    scope.map_or(0, |scope| scope.get().len()) + aliases
}
