//! Searching the messages of all sessions: the query and the hits.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use sessionlog_core::error::{Error, Result};
use sessionlog_core::position::Position;
use sessionlog_core::session_file;
use sessionlog_wal::sync::atomic::{AtomicBool, Ordering};
use sessionlog_wal::sync::thread;
use time::OffsetDateTime;

use crate::Message;
use crate::engine::search::{FoundIn, Match, Pattern};
use crate::front::handle::searching::Hunt;
use crate::front::reply::Reply;
use crate::front::sessions::SessionQuery;

/// Selects messages, for [`StoreHandle::search`](crate::StoreHandle::search).
#[derive(Clone, Debug, Default)]
#[must_use = "it does nothing until it is given to StoreHandle::search"]
pub struct SearchQuery {
    pub(super) pattern: Pattern,
    pub(super) sessions: SessionQuery,
    pub(super) archived: bool,
    pub(super) summaries: bool,
}

impl SearchQuery {
    /// All messages.
    pub fn new() -> Self {
        Self::default()
    }

    /// Only messages that contain this in their [text](Message::text), literally.
    pub fn text(mut self, text: impl Into<String>) -> Self {
        self.pattern.text = text.into();
        self.pattern.is_regex = false;
        self
    }

    /// Only messages whose [text](Message::text) has a match of this regular expression, in the
    /// syntax of the [`regex`](https://docs.rs/regex) crate: search time grows no faster than the
    /// text. Replaces a text.
    pub fn regex(mut self, pattern: impl Into<String>) -> Self {
        self.pattern.text = pattern.into();
        self.pattern.is_regex = true;
        self
    }

    /// Ignores case if `true`; the default is `false`.
    pub fn ignore_case(mut self, ignores: bool) -> Self {
        self.pattern.ignores_case = ignores;
        self
    }

    /// Only messages of this role, or of any of several if called more than once.
    pub fn role(mut self, role: impl Into<String>) -> Self {
        self.pattern.roles.push(role.into());
        self
    }

    /// Only messages said at that time or later, as [`Message::created_at`] says. Messages without
    /// a time are not found. A [`SystemTime`](std::time::SystemTime) will do.
    pub fn since(mut self, time: impl Into<OffsetDateTime>) -> Self {
        self.pattern.since = Some(time.into());
        self
    }

    /// Only messages said before that time.
    pub fn until(mut self, time: impl Into<OffsetDateTime>) -> Self {
        self.pattern.until = Some(time.into());
        self
    }

    /// Also searches the hidden messages of each session, before the rest: those that truncations
    /// hid and that are still in its file, and those that compactions dropped, if the store
    /// archives them. Off by default. See [`StoreOptions::archive`](crate::StoreOptions::archive).
    pub fn archived(mut self, with: bool) -> Self {
        self.archived = with;
        self
    }

    /// Also searches the names and arguments of tool calls. Off by default. [`SearchHit::found_in`]
    /// says where a match is.
    pub fn tool_calls(mut self, with: bool) -> Self {
        self.pattern.in_calls = with;
        self
    }

    /// Also searches the title and the summary of each session, before its messages. Off by
    /// default. They have no role and no time: a query for either skips them.
    ///
    /// ```
    /// use sessionlog::{FoundIn, SearchQuery, Store};
    ///
    /// # fn main() -> sessionlog::Result<()> {
    /// # let scratch = tempfile::tempdir().unwrap();
    /// # let store = Store::open(scratch.path())?;
    /// let chats = store.handle();
    /// chats.add_message("cli", "user", "hi").wait()?;
    /// chats.set_summary("cli", "They planned a week in Oslo.").wait()?;
    /// let query = SearchQuery::new().text("Oslo").summaries(true);
    /// let hit = chats.search(query).wait_next().unwrap()?;
    /// assert_eq!(hit.found_in, FoundIn::Summary);
    /// assert_eq!(hit.excerpt(3), "in Oslo.");
    /// # store.close()
    /// # }
    /// ```
    pub fn summaries(mut self, with: bool) -> Self {
        self.summaries = with;
        self
    }

    /// Only in the sessions that this query selects, and in its order. Its limit and start of page
    /// do not count.
    pub fn among(mut self, sessions: SessionQuery) -> Self {
        self.sessions = sessions;
        self
    }
}

/// A message that was found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SearchHit {
    /// The session's key.
    pub key: String,
    /// The message's position: [`SessionSnapshot::before`](crate::SessionSnapshot::before) reads
    /// what was said before. The position of an archived message, a summary or a title leads
    /// nowhere.
    pub position: Position,
    /// The month in which it was archived, if it was.
    #[serde(default)]
    pub archived: Option<String>,
    /// True if it was truncated and is still in the session's file.
    #[serde(default)]
    pub hidden: bool,
    /// The message; a summary or a title is given as a message of the role `system`.
    pub message: Message,
    /// The kind of text that has the match.
    #[serde(default)]
    pub found_in: FoundIn,
    /// The range of the first match in [that text](Self::text), in bytes.
    pub matched: Range<usize>,
}

impl SearchHit {
    /// A hit in a session's current messages, at a position.
    pub(crate) fn of(key: &str, position: Position, found: Match) -> Self {
        Self {
            key: key.to_owned(),
            position,
            archived: None,
            hidden: false,
            message: found.message,
            found_in: found.found_in,
            matched: found.matched,
        }
    }

    /// The text that has the match.
    #[must_use]
    pub fn text(&self) -> Cow<'_, str> {
        let call = |nth: usize| self.message.tool_calls().get(nth)?.function.as_ref();
        match self.found_in {
            FoundIn::Text | FoundIn::Summary | FoundIn::Title => self.message.text(),
            FoundIn::ToolName(nth) => Cow::Borrowed(call(nth).map_or("", |call| &call.name)),
            FoundIn::ToolArguments(nth) => {
                session_file::legible(call(nth).map_or("", |call| &call.arguments))
            }
        }
    }

    /// The first match, with about this many characters of the text before and after it.
    #[must_use]
    pub fn excerpt(&self, around: usize) -> String {
        let text = self.text();
        let before = text.get(..self.matched.start).unwrap_or_default();
        let begin = before.char_indices().rev().take(around).last();
        let begin = begin.map_or(before.len(), |(at, _)| at);
        let after = text.get(self.matched.end..).unwrap_or_default();
        let end = after
            .char_indices()
            .nth(around)
            .map_or(after.len(), |(at, _)| at);
        let found = text.get(begin..text.len() - after.len() + end);
        found.unwrap_or_default().to_owned()
    }
}

/// The messages found, one after the other; see
/// [`StoreHandle::search`](crate::StoreHandle::search). When dropped, the search goes no further
/// than the sessions at hand, one on each thread.
pub struct Search {
    found: VecDeque<Result<SearchHit>>,
    goes_on: GoesOn,
    given_up: Arc<AtomicBool>,
}

impl std::fmt::Debug for Search {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Search")
            .field("found", &self.found.len())
            .finish_non_exhaustive()
    }
}

impl Drop for Search {
    fn drop(&mut self) {
        self.given_up.store(true, Ordering::Relaxed);
    }
}

/// A source of further hits, found bit by bit.
pub trait MoreHits: Send {
    /// Looks further.
    fn more(self: Box<Self>) -> Reply<Went>;

    /// True if nothing is left to search; `false` if that is not known.
    fn is_over(&self) -> bool {
        false
    }
}

/// The source of further hits, if there may be more, and the hits found, perhaps none yet.
pub type Went = (Option<Box<dyn MoreHits>>, Vec<Result<SearchHit>>);

impl MoreHits for Hunt {
    fn more(self: Box<Self>) -> Reply<Went> {
        let further = (*self).further();
        further.and_then(|(hunt, found)| Ok((Some(Box::new(hunt) as Box<dyn MoreHits>), found)))
    }

    fn is_over(&self) -> bool {
        Self::is_over(self)
    }
}

enum GoesOn {
    With(Box<dyn MoreHits>),
    Under(Reply<Went>),
    No,
}

impl Search {
    pub(crate) fn of(hunt: Result<Hunt>) -> Self {
        let given_up = hunt.as_ref().map(Hunt::given_up).unwrap_or_default();
        let hits = hunt.map(|hunt| Box::new(hunt) as Box<dyn MoreHits>);
        let mut search = Self::over(hits);
        search.given_up = given_up;
        search
    }

    /// The search of a custom store.
    pub(crate) fn over(hits: Result<Box<dyn MoreHits>>) -> Self {
        let mut found = VecDeque::new();
        let goes_on = match hits {
            Ok(hits) => GoesOn::With(hits),
            Err(error) => {
                found.push_back(Err(error));
                GoesOn::No
            }
        };
        Self {
            found,
            goes_on,
            given_up: Arc::default(),
        }
    }

    /// Returns the next hit; `None` after the last. Works under any async runtime, inside tokio on
    /// its blocking pool; dropping the future loses nothing.
    ///
    /// # Errors
    /// [`Error::Io`] if the files of a session cannot be read: the next call goes on with the next
    /// session. [`Error::InvalidPattern`], [`Error::Closed`], and errors from reading the
    /// directory: after these there is no more.
    pub async fn next(&mut self) -> Option<Result<SearchHit>> {
        loop {
            if let Some(found) = self.found.pop_front() {
                return Some(found);
            }
            if let GoesOn::Under(reply) = &mut self.goes_on {
                let went = reply.await;
                self.take(went);
            } else if !self.start() {
                return None;
            }
        }
    }

    /// As [`next`](Self::next), blocking this thread.
    ///
    /// # Errors
    /// As [`next`](Self::next); [`Error::WouldDeadlock`] on a thread that works for a
    /// store, as in a waker.
    pub fn wait_next(&mut self) -> Option<Result<SearchHit>> {
        if thread::is_serving() {
            return Some(Err(Error::WouldDeadlock));
        }
        loop {
            if let Some(found) = self.found.pop_front() {
                return Some(found);
            }
            match std::mem::replace(&mut self.goes_on, GoesOn::No) {
                GoesOn::Under(reply) => self.take(reply.wait()),
                other => {
                    self.goes_on = other;
                    if !self.start() {
                        return None;
                    }
                }
            }
        }
    }

    /// Starts to look for more; `false` if there is no more.
    fn start(&mut self) -> bool {
        if let GoesOn::With(hunt) = std::mem::replace(&mut self.goes_on, GoesOn::No)
            && !hunt.is_over()
        {
            self.goes_on = GoesOn::Under(hunt.more());
            return true;
        }
        false
    }

    fn take(&mut self, went: Result<Went>) {
        self.goes_on = GoesOn::No;
        match went {
            Ok((hunt, found)) => {
                self.found = found.into();
                self.goes_on = hunt.map_or(GoesOn::No, GoesOn::With);
            }
            Err(error) => self.found.push_back(Err(error)),
        }
    }
}
