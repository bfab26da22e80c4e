//! Verbs that give a session another key.

use std::sync::Arc;

use sessionlog_core::error::{Error, Result};
use sessionlog_core::rules::names;
use sessionlog_core::session_file;

use super::{Side, StoreHandle};
use crate::engine::Engine;
use crate::engine::shard::verbs::leave::Leave;
use crate::engine::shard::verbs::rename::Rename;
use crate::front::reply::Reply;

/// The outcome of [merging](StoreHandle::merge_session) two sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Merged {
    /// The newer session had no visible message and no summary; it was replaced by the older one.
    Renamed,
    /// The newer session has the messages of both, the older one's first.
    Joined,
}

/// Renaming and merging.
impl StoreHandle {
    /// Gives a session another key. It keeps its lines, hidden ones included, summary, scope,
    /// title, labels and pin, unknown fields, times and version, the ids of messages taken
    /// [once](Self::append_once), backups and archive. All of it or nothing, in one commit; always
    /// durable. Positions in it stay valid. Copies the session's file.
    ///
    /// The old key becomes an alias of the new one, and so do the old key's aliases: reads and
    /// writes under one of them reach the session. So does a write that was on its way to the old
    /// key, even with [exact keys](Self::exact_keys), as long as the store is open and that key is
    /// an alias. Readers may see both keys for a moment. Followers of changes are told that the new
    /// key's session was replaced and the old one's deleted.
    ///
    /// It waits until no write to either session and no compaction is under way; writes that arrive
    /// meanwhile wait for the compaction, too. If a caller writes to the old key all the time
    /// without awaiting answers, it may wait long.
    ///
    /// Both keys are taken literally; white space around them is ignored, unless a session has it
    /// in its key. If the new key already has a session with neither messages nor a summary, its
    /// metadata is kept: see [`merge_session`](Self::merge_session).
    ///
    /// ```
    /// # use sessionlog::Store;
    /// # fn main() -> sessionlog::Result<()> {
    /// # let scratch = tempfile::tempdir().unwrap();
    /// # let store = Store::open(scratch.path())?;
    /// let chats = store.handle();
    /// chats.add_message("telegram:-123", "user", "hi").wait()?;
    /// chats.rename_session("telegram:-123", "telegram:-100123").wait()?;
    /// assert_eq!(chats.list_sessions().wait()?, ["telegram:-100123"]);
    /// chats.add_message("telegram:-123", "user", "late").wait()?;
    /// assert_eq!(chats.count("telegram:-100123").wait()?, 2);
    /// # store.close()
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::HasHistory`] if the new key's session has a visible message or a summary;
    /// [`Error::SessionNotFound`] if the old key has no session; [`Error::IsAlias`] if the old key
    /// has no session and is an alias, or if either key leads to a third session;
    /// [`Error::InvalidKey`] if both keys are the same, or one is not a key;
    /// [`Error::MessageTooLarge`], without messages, if the sidecar would be over [its
    /// limit](crate::StoreOptions::max_line_bytes); the errors all verbs share. Nothing is changed
    /// then.
    pub fn rename_session(&self, old: &str, new: &str) -> Reply<()> {
        self.go_on_as(old, new, false).and_then(|_| Ok(()))
    }

    /// Puts the history of the session `old` before that of the session `new`, which then has the
    /// messages of both. For a chat whose id changed, and that was already written to under the new
    /// id. In all else as [`rename_session`](Self::rename_session): in one commit, with ids,
    /// backups and archive; the old key and its aliases lead to the new one.
    ///
    /// Lines that either of them hides come first, and stay hidden. The summary is the older one's
    /// and, after an empty line, the newer one's. The newer session keeps its scope, its title and
    /// its unknown fields, and gets from the older one those that it lacks. It has the labels of
    /// both. It is pinned if either is. Its time of creation is the earlier one. The older one's
    /// checkpoints can no longer be reverted to. If the newer one has backups, the older one's come
    /// after them, with new numbers; archived lines of the older one likewise come after, within a
    /// month. Positions in either become invalid.
    ///
    /// ```
    /// # use sessionlog::{Merged, Store};
    /// # fn main() -> sessionlog::Result<()> {
    /// # let scratch = tempfile::tempdir().unwrap();
    /// # let store = Store::open(scratch.path())?;
    /// let chats = store.handle();
    /// chats.add_message("telegram:-123", "user", "in the group").wait()?;
    /// chats.add_message("telegram:-100123", "user", "in the supergroup").wait()?;
    /// let merged = chats.merge_session("telegram:-123", "telegram:-100123").wait()?;
    /// assert_eq!(merged, Merged::Joined);
    /// let history = chats.history("telegram:-100123").wait()?;
    /// assert_eq!(history[0].text(), "in the group");
    /// assert_eq!(history[1].text(), "in the supergroup");
    /// # store.close()
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`rename_session`](Self::rename_session), except [`Error::HasHistory`].
    pub fn merge_session(&self, old: &str, new: &str) -> Reply<Merged> {
        self.go_on_as(old, new, true)
    }

    fn go_on_as(&self, old: &str, new: &str, merge: bool) -> Reply<Merged> {
        let engine = match self.ready_to_move([old, new]) {
            Ok(engine) => engine.clone(),
            Err(error) => return Reply::known(Err(error)),
        };
        let catalog = &engine.shared.catalog;
        let literal = |key| names::literal(key, |key| catalog.has_files(key));
        let [old, new] = [old, new].map(|key| Arc::<str>::from(literal(key)));
        let rename = Rename {
            from: old,
            merge,
            may_be_alias: false,
        };
        Reply::lookup(move |_| Box::pin(moved(engine, rename, new)))
    }

    fn ready_to_move(&self, keys: [&str; 2]) -> Result<&Arc<Engine>> {
        let Side::Writer(engine) = &self.side else {
            return Err(Error::ReadOnly);
        };
        for key in keys {
            session_file::validate_key(key.trim())?;
            session_file::validate_key(key)?;
        }
        if engine.is_closed() {
            return Err(engine.failure());
        }
        Ok(engine)
    }
}

/// Renames a session, and waits for it.
pub(super) async fn moved(engine: Arc<Engine>, rename: Rename, new: Arc<str>) -> Result<Merged> {
    let old = &rename.from;
    loop {
        rename.check(&new, &engine.shared.catalog)?;
        Reply::command(engine.clone(), old.clone(), Leave).await?;
        let moved = Reply::command(engine.clone(), new.clone(), rename.clone()).await?;
        if let Some(has_said) = moved {
            return Ok(if has_said {
                Merged::Joined
            } else {
                Merged::Renamed
            });
        }
    }
}
