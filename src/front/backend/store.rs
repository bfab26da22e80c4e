//! The interface of every session store.

use sessionlog_core::scope::SessionScope;

use crate::{
    Appended, Budget, Error, Keep, Merged, Message, MigrationReport, Position, Reply, SessionPage,
    SessionQuery, Update, Version, Window,
};

/// The kind of store behind a [`SessionStore`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StoreKind {
    /// A directory of JSONL files with a journal.
    Jsonl,
    /// Memory, gone with the process.
    Ephemeral,
    /// A directory of PicoClaw's older JSON files.
    LegacyJson,
    /// A store that is not in this crate.
    Other,
}

/// A store of conversations of any kind. Object-safe: hold it as an `Arc<dyn SessionStore>`. Every
/// verb returns a lazy [`Reply`], to be awaited or waited for.
///
/// A key of 1 to 1,024 bytes without NUL means the session that claims it as an
/// alias, if one does, else the session of that key. Leading and trailing white
/// space is ignored, unless a session's key contains it. No session is created by
/// reading, by truncating, by saving, or by adding nothing.
///
/// When a write's reply has arrived, every later read sees it. The write is durable at the latest
/// when [`save`](Self::save) has returned; each store documents whether it is earlier.
///
/// # Errors
/// Every verb: [`Error::InvalidKey`](crate::Error::InvalidKey) for text that is not a key,
/// [`Error::Closed`](crate::Error::Closed) after [`close`](Self::close), and errors of the store's
/// medium. Writes: [`Error::InvalidMessage`](crate::Error::InvalidMessage) for a message whose role
/// starts with `_` and that has no time, [`Error::MessageTooLarge`](crate::Error::MessageTooLarge)
/// above the store's limit. After an error the store is as it was.
pub trait SessionStore: Send + Sync + std::fmt::Debug {
    /// The kind of this store. Default: [`StoreKind::Other`].
    fn kind(&self) -> StoreKind {
        StoreKind::Other
    }

    /// The report of the import at open: what was imported from older files, which files were left,
    /// and why. The contents of a file that was left are in no session. Default: nothing.
    fn migration_report(&self) -> MigrationReport {
        MigrationReport::default()
    }

    /// Appends a text message, stamped with the time of the call.
    fn add_message(&self, key: &str, role: &str, content: &str) -> Reply<()> {
        self.add_full_message(key, Message::new(role, content))
    }

    /// Appends a message. A missing `created_at` becomes the time of the call; a message of an
    /// assistant's reasoning and nothing else is accepted and not stored.
    fn add_full_message(&self, key: &str, message: Message) -> Reply<()> {
        self.append_all(key, vec![message])
    }

    /// Appends several messages, all or none.
    fn append_all(&self, key: &str, messages: Vec<Message>) -> Reply<()>;

    /// Every visible message, oldest first; none for a session that does not
    /// exist.
    fn history(&self, key: &str) -> Reply<Vec<Message>>;

    /// The newest `n` messages, oldest first. Default: the end of
    /// [`history`](Self::history).
    fn tail(&self, key: &str, n: usize) -> Reply<Vec<Message>> {
        let history = self.history(key);
        history.and_then(move |mut all| Ok(all.split_off(all.len().saturating_sub(n))))
    }

    /// The number of messages that [`history`](Self::history) returns. Default: reads all of them.
    fn count(&self, key: &str) -> Reply<usize> {
        self.history(key).and_then(|all| Ok(all.len()))
    }

    /// Returns `true` if `key` means a session. Default: `true` if it
    /// [resolves](Self::resolve_session_key).
    fn exists(&self, key: &str) -> Reply<bool> {
        let resolved = self.resolve_session_key(key);
        resolved.and_then(|session| Ok(session.is_some()))
    }

    /// The newest whole turns that fit a budget, as
    /// [`StoreHandle::window`](crate::StoreHandle::window). Default: [`Error::Unsupported`];
    /// [`Window::fit`] makes a window from messages in memory.
    fn window(&self, key: &str, budget: Budget) -> Reply<Window> {
        let _ = (key, budget);
        unsupported("to choose a window for a model")
    }

    /// Appends, replaces the summary and the tags, and hides old messages, as far as the [`Update`]
    /// says so: all of it or nothing, and only at the version it expects. Returns the session's new
    /// version; an update that names nothing returns the current one. In a session that is gone, a
    /// position is not found, unless there is nothing to append. Stores in memory keep no token
    /// counts, and return [`Error::Unsupported`] if one is named. Default: [`Error::Unsupported`].
    fn update(&self, key: &str, update: Update) -> Reply<Version> {
        let _ = (key, update);
        unsupported("to change several things at once")
    }

    /// Appends messages unless the session took some under this id before, as
    /// [`StoreHandle::append_once`](crate::StoreHandle::append_once). An
    /// [`EphemeralStore`](super::EphemeralStore) remembers 256 ids of each session, and fewer if
    /// they take more than an eighth of its bytes. Default: [`Error::Unsupported`], also for a
    /// [`LegacyJsonStore`](super::LegacyJsonStore): its files have no place for ids.
    fn append_once(&self, key: &str, id: &str, messages: Vec<Message>) -> Reply<Appended> {
        let _ = (key, id, messages);
        unsupported("to remember the ids of messages")
    }

    /// Appends messages, but only if the session still has the history that `position` is of: not
    /// if it was deleted or replaced since. Default: an [`update`](Self::update).
    fn append_after(
        &self,
        key: &str,
        position: Position,
        messages: Vec<Message>,
    ) -> Reply<Version> {
        self.update(key, Update::new().after(position).append(messages))
    }

    /// Replaces the title; an empty one removes it. Default: an [`update`](Self::update).
    fn set_title(&self, key: &str, title: &str) -> Reply<()> {
        let update = self.update(key, Update::new().title(title));
        update.and_then(|_| Ok(()))
    }

    /// Replaces the labels. Default: an [`update`](Self::update).
    fn set_labels(&self, key: &str, labels: Vec<String>) -> Reply<()> {
        let update = self.update(key, Update::new().labels(labels));
        update.and_then(|_| Ok(()))
    }

    /// Pins or unpins a session. Default: an [`update`](Self::update).
    fn set_pinned(&self, key: &str, pinned: bool) -> Reply<()> {
        let update = self.update(key, Update::new().pinned(pinned));
        update.and_then(|_| Ok(()))
    }

    /// Replaces the message at a position, which comes from a [`window`](Self::window) or the
    /// store's own reads; returns the session's new version. Earlier positions become invalid. As
    /// [`StoreHandle::edit`](crate::StoreHandle::edit); stores in memory keep nothing of the old
    /// message. Default: [`Error::Unsupported`].
    fn edit(&self, key: &str, position: Position, message: Message) -> Reply<Version> {
        let _ = (key, position, message);
        unsupported("to change one message")
    }

    /// Removes the message at a position, as [`edit`](Self::edit) replaces one. Default:
    /// [`Error::Unsupported`].
    fn remove(&self, key: &str, position: Position) -> Reply<Version> {
        let _ = (key, position);
        unsupported("to remove one message")
    }

    /// Replaces the history as [`set_history`](Self::set_history) does, but only if the session is
    /// at this version; returns the session's new version. Default: [`Error::Unsupported`].
    fn set_history_at(
        &self,
        key: &str,
        version: Version,
        messages: Vec<Message>,
    ) -> Reply<Version> {
        let _ = (key, version, messages);
        unsupported("to replace a history at a version")
    }

    /// Hides all messages except those that `keep` selects. Default: an [`update`](Self::update).
    fn truncate_to(&self, key: &str, keep: Keep) -> Reply<()> {
        let update = self.update(key, Update::new().keep(keep));
        update.and_then(|_| Ok(()))
    }

    /// The sessions that match a query, in pages, as
    /// [`StoreHandle::sessions`](crate::StoreHandle::sessions). Default: [`Error::Unsupported`];
    /// [`SessionPage::of`] makes a page from sessions in memory.
    fn sessions(&self, query: SessionQuery) -> Reply<SessionPage> {
        let _ = query;
        unsupported("to find sessions")
    }

    /// Replaces the history, creating the session if needed; summary, scope and
    /// aliases stay.
    fn set_history(&self, key: &str, messages: Vec<Message>) -> Reply<()>;

    /// Keeps the newest `keep_last` messages.
    fn truncate_history(&self, key: &str, keep_last: usize) -> Reply<()>;

    /// The summary; empty if there is none.
    fn summary(&self, key: &str) -> Reply<String>;

    /// Replaces the summary, creating the session if needed.
    fn set_summary(&self, key: &str, summary: &str) -> Reply<()>;

    /// Makes the session's writes durable, and reduces the space they take if the store can.
    fn save(&self, key: &str) -> Reply<()>;

    /// Deletes a session; its aliases are free again.
    fn delete_session(&self, key: &str) -> Reply<()>;

    /// The keys of all sessions.
    fn list_sessions(&self) -> Reply<Vec<String>>;

    /// Replaces a session's scope and aliases, creating it if needed. If the session shows nothing
    /// yet, also copies the history and summary of the first alias that has either and that the
    /// session does not claim already; never those of an agent's main session. Returns whether it
    /// copied something. All of it or nothing; if nothing changes, nothing is written. The key is
    /// taken literally; white space around it is ignored, unless a session has it in its key.
    ///
    /// In addition to the errors all verbs share:
    /// [`Error::ScopeConflict`](crate::Error::ScopeConflict) if the session has the scope of
    /// another conversation, or has no scope that names its conversation and this one could be a
    /// forgery.
    fn ensure_session_metadata(
        &self,
        key: &str,
        scope: Option<&SessionScope>,
        aliases: Vec<String>,
    ) -> Reply<bool>;

    /// The key of the session that `key` means, if there is one: the key itself if it has a session
    /// and holds no `:`, `/` or `\`; else the session that claims it as an alias, the first by file
    /// name if several do; else the key itself if it has a session.
    fn resolve_session_key(&self, key: &str) -> Reply<Option<String>>;

    /// The scope that a session was given, if any.
    ///
    /// In addition to the errors all verbs share:
    /// [`Error::InvalidScope`](crate::Error::InvalidScope) if the stored text is not a scope.
    fn session_scope(&self, key: &str) -> Reply<Option<SessionScope>>;

    /// Gives a session another key, as
    /// [`StoreHandle::rename_session`](crate::StoreHandle::rename_session). Default:
    /// [`Error::Unsupported`].
    fn rename_session(&self, old: &str, new: &str) -> Reply<()> {
        let _ = (old, new);
        unsupported("to rename a session")
    }

    /// Puts the history of a session before that of another, as
    /// [`StoreHandle::merge_session`](crate::StoreHandle::merge_session). Default:
    /// [`Error::Unsupported`].
    fn merge_session(&self, old: &str, new: &str) -> Reply<Merged> {
        let _ = (old, new);
        unsupported("to merge sessions")
    }

    /// Saves everything and releases the store's resources. Every later verb fails. Closing again
    /// does nothing after a success; after a failure it tries again, or returns that error again.
    fn close(&self) -> Reply<()>;
}

fn unsupported<T: Send + 'static>(verb: &'static str) -> Reply<T> {
    Reply::known(Err(Error::Unsupported { verb }))
}
