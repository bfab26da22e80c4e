//! What is to change in one commit, and what came of it.

use crate::Message;
use crate::disk::session_file::TagChange;
use crate::engine::position::{Keep, Position};
use crate::engine::shard::verbs::update::Updated;
use crate::error::Version;
use crate::front::context::Messages;

/// What an [`Update`] says, for stores of one's own.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct UpdateParts {
    /// The version that the session must be at.
    pub expect: Option<Version>,
    /// What is appended.
    pub messages: Vec<Message>,
    /// What replaces the summary.
    pub summary: Option<String>,
    /// How much stays of what was there before.
    pub keep: Option<Keep>,
    /// How many tokens the conversation has.
    pub tokens: Option<i64>,
    /// What replaces the title; an empty one takes it away.
    pub title: Option<String>,
    /// What replaces the labels.
    pub labels: Option<Vec<String>>,
    /// Whether the session is pinned from then on.
    pub pinned: Option<bool>,
    /// A position of the history that the session must still have.
    pub after: Option<Position>,
    /// Whether the messages take the place of all that was there before, whatever `keep` says.
    pub replaces: bool,
}

/// Several changes of one session, for [`StoreHandle::update`](crate::StoreHandle::update):
/// after a crash all of them are there, or none, and no reader sees some without the others.
#[derive(Clone, Debug, Default)]
#[must_use = "it does nothing until it is given to StoreHandle::update"]
pub struct Update {
    pub(super) messages: Messages,
    pub(super) summary: Option<String>,
    pub(super) keep: Option<Keep>,
    pub(super) tokens: Option<i64>,
    pub(super) expect: Option<Version>,
    pub(super) tags: TagChange,
    pub(super) after: Option<Position>,
    pub(super) replaces: bool,
}

impl Update {
    /// One that changes nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Only if the session is at this version, as
    /// [`SessionSnapshot::version`](crate::SessionSnapshot::version) or an earlier update
    /// told it. [`Version::ABSENT`] expects that there is none.
    pub fn expect(mut self, version: Version) -> Self {
        self.expect = Some(version);
        self
    }

    /// Only if the session still has the history that this position is of, whatever was
    /// appended or truncated since: not if it was deleted, cleared or replaced.
    pub fn after(mut self, position: Position) -> Self {
        self.after = Some(position);
        self
    }

    /// Puts messages in the place of the whole history, as
    /// [`set_history`](crate::StoreHandle::set_history): what this update appends comes after
    /// them, and nothing is left to be [kept](Self::keep).
    pub fn replace(mut self, messages: impl Into<Messages>) -> Self {
        let appended = std::mem::replace(&mut self.messages, messages.into());
        self.replaces = true;
        self.messages.0.extend(appended.0);
        self
    }

    /// Appends messages, after those of earlier calls.
    pub fn append(mut self, messages: impl Into<Messages>) -> Self {
        self.messages.0.extend(messages.into().0);
        self
    }

    /// Replaces the summary.
    pub fn summary(mut self, text: impl Into<String>) -> Self {
        self.summary = Some(text.into());
        self
    }

    /// Hides messages that were there before: those that this update appends stay in any
    /// case.
    pub fn keep(mut self, keep: Keep) -> Self {
        self.keep = Some(keep);
        self
    }

    /// Records how many tokens the conversation has, with what this update appends: as
    /// [`Context::update_token_count`](crate::Context::update_token_count), a control
    /// record.
    pub fn tokens(mut self, count: i64) -> Self {
        self.tokens = Some(count);
        self
    }

    /// Replaces the title; an empty one takes it away. White space around it is left out.
    pub fn title(mut self, title: impl AsRef<str>) -> Self {
        self.tags.title = Some(title.as_ref().trim().to_owned());
        self
    }

    /// Replaces the labels: none takes them away. White space around each is left out, and
    /// what is blank or stands there already.
    pub fn labels<L: Into<String>>(mut self, labels: impl IntoIterator<Item = L>) -> Self {
        let labels = labels.into_iter().map(Into::into);
        self.tags.labels = Some(TagChange::labels(labels));
        self
    }

    /// Pins the session, or unpins it: [`SessionQuery::pinned`](crate::SessionQuery::pinned)
    /// finds those that are.
    pub fn pinned(mut self, pinned: bool) -> Self {
        self.tags.pinned = Some(pinned);
        self
    }

    /// What it says.
    #[must_use]
    pub fn into_parts(self) -> UpdateParts {
        UpdateParts {
            expect: self.expect,
            messages: self.messages.0,
            summary: self.summary,
            keep: self.keep,
            tokens: self.tokens,
            title: self.tags.title,
            labels: self.tags.labels,
            pinned: self.tags.pinned,
            after: self.after,
            replaces: self.replaces,
        }
    }
}

/// What came of [`StoreHandle::append_once`](crate::StoreHandle::append_once), and the
/// version that the session is at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Appended {
    /// The messages are appended.
    New(Version),
    /// They were before, and are not again.
    Duplicate(Version),
}

impl From<Updated> for Appended {
    fn from(Updated { version, is_new }: Updated) -> Self {
        if is_new {
            Self::New(version)
        } else {
            Self::Duplicate(version)
        }
    }
}
