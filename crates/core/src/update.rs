//! A change of one session in one commit, and its outcome.

use crate::error::Version;
use crate::messages::Messages;
use crate::position::{Keep, Position};
use crate::session_file::{Message, TagChange};

/// The contents of an [`Update`], for custom stores.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct UpdateParts {
    /// The version that the session must be at.
    pub expect: Option<Version>,
    /// The messages to append.
    pub messages: Vec<Message>,
    /// The new summary.
    pub summary: Option<String>,
    /// The part of the earlier messages that stays.
    pub keep: Option<Keep>,
    /// The number of tokens of the conversation.
    pub tokens: Option<i64>,
    /// The new title; an empty one removes it.
    pub title: Option<String>,
    /// The new labels.
    pub labels: Option<Vec<String>>,
    /// True to pin the session, false to unpin it.
    pub pinned: Option<bool>,
    /// A position of the history that the session must still have.
    pub after: Option<Position>,
    /// True if the messages replace everything that was there before, whatever `keep` says.
    pub replaces: bool,
}

/// The contents of an [`Update`], for the stores of `sessionlog`: every field is named where it is
/// taken apart.
#[doc(hidden)]
#[derive(Clone, Debug, Default)]
pub struct UpdateContent {
    pub messages: Messages,
    pub summary: Option<String>,
    pub keep: Option<Keep>,
    pub tokens: Option<i64>,
    pub expect: Option<Version>,
    pub tags: TagChange,
    pub after: Option<Position>,
    pub replaces: bool,
}

/// Several changes of one session, for `StoreHandle::update`: after a crash all of them are there, or
/// none, and no reader sees some without the others.
#[derive(Clone, Debug, Default)]
#[must_use = "it does nothing until it is given to StoreHandle::update"]
pub struct Update {
    content: UpdateContent,
}

impl Update {
    /// An update that changes nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Applies only if the session is at this version, as returned by
    /// `SessionSnapshot::version` or an earlier update.
    /// [`Version::ABSENT`] expects that there is no session.
    pub fn expect(mut self, version: Version) -> Self {
        self.content.expect = Some(version);
        self
    }

    /// Applies only if the session still has the history that this position is of. Appends and
    /// truncations since do not matter; a deletion, clear or replacement does.
    pub fn after(mut self, position: Position) -> Self {
        self.content.after = Some(position);
        self
    }

    /// Replaces the whole history with these messages, as
    /// `set_history` does. Messages that this update appends
    /// come after them, and there is nothing left to [keep](Self::keep).
    pub fn replace(mut self, messages: impl Into<Messages>) -> Self {
        let appended = std::mem::replace(&mut self.content.messages, messages.into());
        self.content.replaces = true;
        self.content.messages.extend(appended);
        self
    }

    /// Appends messages, after those of earlier calls.
    pub fn append(mut self, messages: impl Into<Messages>) -> Self {
        self.content.messages.extend(messages.into());
        self
    }

    /// Replaces the summary.
    pub fn summary(mut self, text: impl Into<String>) -> Self {
        self.content.summary = Some(text.into());
        self
    }

    /// Hides messages that were there before. Those that this update appends always stay.
    pub fn keep(mut self, keep: Keep) -> Self {
        self.content.keep = Some(keep);
        self
    }

    /// Records the number of tokens of the conversation, including what this update appends. Writes
    /// a control record, as `Context::update_token_count`
    /// does.
    pub fn tokens(mut self, count: i64) -> Self {
        self.content.tokens = Some(count);
        self
    }

    /// Replaces the title; an empty one removes it. White space around it is trimmed.
    pub fn title(mut self, title: impl AsRef<str>) -> Self {
        self.content.tags.title = Some(title.as_ref().trim().to_owned());
        self
    }

    /// Replaces the labels; an empty list removes them. White space around each is trimmed; blank
    /// and repeated labels are left out.
    pub fn labels<L: Into<String>>(mut self, labels: impl IntoIterator<Item = L>) -> Self {
        let labels = labels.into_iter().map(Into::into);
        self.content.tags.labels = Some(TagChange::labels(labels));
        self
    }

    /// Pins or unpins the session: `SessionQuery::pinned` finds
    /// pinned ones.
    pub fn pinned(mut self, pinned: bool) -> Self {
        self.content.tags.pinned = Some(pinned);
        self
    }

    /// The contents of the update, to be taken apart field by field.
    #[doc(hidden)]
    #[must_use]
    pub fn into_content(self) -> UpdateContent {
        self.content
    }

    /// The contents of the update.
    #[must_use]
    pub fn into_parts(self) -> UpdateParts {
        let UpdateContent {
            messages,
            summary,
            keep,
            tokens,
            expect,
            tags,
            after,
            replaces,
        } = self.content;
        let (title, labels, pinned) = tags.into_named();
        UpdateParts {
            expect,
            messages: messages.into(),
            summary,
            keep,
            tokens,
            title,
            labels,
            pinned,
            after,
            replaces,
        }
    }
}

/// The outcome of `StoreHandle::append_once`, and the version
/// that the session is at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Appended {
    /// The messages are appended.
    New(Version),
    /// The messages had been appended before, and are not appended again.
    Duplicate(Version),
}
