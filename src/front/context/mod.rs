//! Conversations: kimi-cli's `Context`, which it keeps in one file, for a session of a store.

mod session;

use std::path::Path;
use std::sync::Arc;

use sessionlog_core::error::{Error, Result};
use sessionlog_core::messages::Messages;
use sessionlog_wal::storage::{DiskStorage, Storage};

use self::session::SessionContext;
use crate::compat::context_file::{self, FileContext};
use crate::front::reply::Reply;
use crate::{CheckpointId, Message, StoreHandle};

/// A conversation: its messages, checkpoints that it can be reverted to, token usage, and a system
/// prompt.
///
/// [`StoreHandle::context`] gives the conversation of a session. It holds no state of its own:
/// everything is in the session, so that two contexts on one session, and contexts beside the
/// handle's other verbs, always agree.
///
/// Cheap to clone. Its verbs return a lazy [`Reply`]; none blocks when called. Keys resolve, and
/// errors are shared, as with every verb of a [`StoreHandle`].
///
/// ```
/// # use sessionlog::{Message, Store};
/// # fn main() -> sessionlog::Result<()> {
/// # let scratch = tempfile::tempdir().unwrap();
/// # let store = Store::open(scratch.path())?;
/// let chat = store.handle().context("telegram:123");
/// chat.write_system_prompt("You are kind.").wait()?;
/// chat.append_message([Message::user("hi"), Message::assistant("hello")]).wait()?;
/// chat.update_token_count(12).wait()?;
/// let checkpoint = chat.checkpoint(true).wait()?;
/// chat.append_message(Message::user("12345678")).wait()?;
/// assert_eq!(chat.token_count().wait()?, 12);
/// assert_eq!(chat.token_count_with_pending().wait()?, 12 + (29 + 8) / 4);
///
/// chat.revert_to(checkpoint).wait()?;
/// assert_eq!(chat.history().wait()?.len(), 2);
/// assert_eq!(chat.n_checkpoints().wait()?, checkpoint);
/// # store.close()
/// # }
/// ```
///
/// # On disk
///
/// Prompts, checkpoints and token counts are lines of the session's file, as kimi-cli writes them:
/// `{"role": "_checkpoint", "id": 0}`. They count as lines, but are in no history, and no limit on
/// messages counts them. PicoClaw would show them as empty messages: compact sessions that have
/// them with this crate only.
///
/// Truncating and compacting a session keep prompt, token count and the number of the next
/// checkpoint. Checkpoints among the hidden lines are lost: they cannot be reverted to. Replacing
/// the history starts all of it anew.
///
/// # A file without a store
///
/// [`Context::open`] gives the conversation of a single file of kimi-cli's, and documents the
/// differences.
#[derive(Clone, Debug)]
pub struct Context {
    inner: Inner,
}

/// The session or file behind a context.
#[derive(Clone, Debug)]
enum Inner {
    Session(SessionContext),
    File(FileContext),
}

/// The place where [`StoreHandle::fork_session`] ends the fork.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fork {
    /// At the end of the session.
    End,
    /// Before this checkpoint: the fork is what [`Context::revert_to`] would leave.
    Checkpoint(CheckpointId),
    /// After this many messages of the session's history; at the end if there are fewer. For 0, the
    /// prompts and checkpoints before the first message stay. A compaction does not change which
    /// messages these are.
    Message(u64),
}

/// The number of characters of `message` that count for the estimate of its tokens: those of its
/// text, or its text parts.
pub(crate) fn characters(message: &Message) -> i64 {
    i64::try_from(message.text().chars().count()).unwrap_or(i64::MAX)
}

/// The estimated tokens of this many characters of text.
pub(crate) fn tokens(characters: i64) -> i64 {
    characters / 4
}

impl Context {
    pub(crate) fn of_session(handle: StoreHandle, key: &str) -> Self {
        Self {
            inner: Inner::Session(SessionContext::new(handle, key)),
        }
    }

    /// Opens the conversation of a single `context.jsonl`, and reads it. The file need not exist:
    /// the first write makes it.
    ///
    /// The format is kimi-cli's. This reads what kimi-cli reads, and continues past lines that it
    /// skips or that make it fail. It writes the same bytes as kimi-cli. Every write is synced.
    /// `revert_to` and `clear` keep the old file under the next free number (`context_1.jsonl`, …),
    /// and put the new one in its place in one step. If there are several system prompts, the last
    /// one counts; a later one is written after the others.
    ///
    /// # Differences from a session's conversation
    ///
    /// * The conversation is kept in memory, as it was when opened and as this context changed it.
    ///   [`restore`](Self::restore) reads the file again, to see what other programs wrote. Once
    ///   the context was restored or written to and holds messages, a restore is refused with
    ///   [`Error::AlreadyRestored`].
    /// * Every write is durable. A batch of messages is one write; a power loss during it can leave
    ///   only the first of them. All other verbs leave the file as it was or as it will be. After a
    ///   failed sync every write is refused with [`Error::Poisoned`] until the file is opened
    ///   again.
    /// * The first write takes the file's lock, which is kept until the last clone of the context
    ///   is dropped. Another context, in this process or another, can read meanwhile, and gets
    ///   [`Error::Locked`] when it writes. A context that takes the lock continues with the
    ///   checkpoints that others wrote to the file since it was opened; it knows their messages
    ///   once it is restored. kimi-cli itself takes no lock.
    /// * A file in the directory of a store, open or not, is read but not written to: the store
    ///   relies on what it wrote there. Every write is refused with [`Error::InStore`]; use
    ///   [`StoreHandle::context`] for a session.
    /// * A checkpoint that a store marked as lost, which [`export_kimi`](crate::export_kimi) may
    ///   leave, numbers the next one but cannot be reverted to.
    /// * A message that kimi-cli would not read back (of another role, or with parts of a type it
    ///   does not know) is refused with [`Error::InvalidMessage`]. But a message with a tool call
    ///   without arguments is written as kimi-cli writes it, and read back here; kimi-cli does not
    ///   show it. Give such a call arguments, `{}`. Fields of a message that kimi-cli does not know
    ///   are written after those it does; of a part only known fields are written.
    /// * A revert keeps the lines that kimi-cli keeps, and the lines of records that another
    ///   version may know; lines that do not decode are only in the backup.
    ///
    /// Opening blocks while it reads the file.
    ///
    /// ```
    /// use sessionlog::{Context, Message};
    ///
    /// # fn main() -> sessionlog::Result<()> {
    /// # let scratch = tempfile::tempdir().unwrap();
    /// # let path = scratch.path().join("context.jsonl");
    /// let context = Context::open(&path)?;
    /// context.write_system_prompt("Be brief.").wait()?;
    /// let before = context.checkpoint(false).wait()?;
    /// context.append_message(Message::user("hi")).wait()?;
    /// context.revert_to(before).wait()?;
    /// assert!(context.history().wait()?.is_empty());
    /// assert!(scratch.path().join("context_1.jsonl").is_file());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::Io`] if the path names no regular file, a symbolic link, or a
    /// file that cannot be read.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let path = std::path::absolute(path).map_err(|e| Error::io("open", path, e))?;
        Self::open_on(Arc::new(DiskStorage::default()), &path)
    }

    /// Opens a file of any file system.
    pub(crate) fn open_on(storage: Arc<dyn Storage>, path: &Path) -> Result<Self> {
        context_file::file_name(path)?;
        Ok(Self {
            inner: Inner::File(FileContext::open(storage, path.to_owned())?),
        })
    }

    /// Loads the conversation; returns `false` if it has no line. No verb needs this before it:
    /// each loads what it needs, and the first one on a session reads its whole file, once.
    ///
    /// # Errors
    /// The errors all verbs share.
    pub fn restore(&self) -> Reply<bool> {
        match &self.inner {
            Inner::Session(session) => session.restore(),
            Inner::File(file) => file.restore(),
        }
    }

    /// Appends one message, or several as one: after a crash all of them are there, or none. For a
    /// session this is [`append_all`](StoreHandle::append_all), at the handle's level of
    /// durability.
    ///
    /// # Errors
    /// As [`append_all`](StoreHandle::append_all).
    pub fn append_message(&self, messages: impl Into<Messages>) -> Reply<()> {
        let messages = messages.into();
        match &self.inner {
            Inner::Session(session) => session.append_message(messages),
            Inner::File(file) => file.append_message(messages),
        }
    }

    /// Records the number of tokens of the conversation, as the model counted them. At the handle's
    /// level of durability.
    ///
    /// # Errors
    /// The errors all verbs share.
    pub fn update_token_count(&self, token_count: i64) -> Reply<()> {
        match &self.inner {
            Inner::Session(session) => session.update_token_count(token_count),
            Inner::File(file) => file.update_token_count(token_count),
        }
    }

    /// Sets a checkpoint that the conversation can be reverted to; returns its id, counted from 0.
    /// With `add_user_message` the model is told of it, by a user message `<system>CHECKPOINT
    /// n</system>` right after it; both are there, or neither. At the handle's level of durability.
    ///
    /// # Errors
    /// The errors all verbs share.
    pub fn checkpoint(&self, add_user_message: bool) -> Reply<CheckpointId> {
        let id = match &self.inner {
            Inner::Session(session) => session.checkpoint(add_user_message),
            Inner::File(file) => file.checkpoint(add_user_message),
        };
        id.and_then(|id| Ok(CheckpointId::new(id)))
    }

    /// Reverts the conversation to its state before checkpoint `id`: that checkpoint and everything
    /// after it are removed, and prompt, token count and the number of the next checkpoint are what
    /// they were. The old file becomes a [backup](StoreHandle::list_backups). One commit, always
    /// durable: a crash leaves the old state or the new one. Messages that other callers append
    /// meanwhile fall wholly before or after it; readers keep the state that they began with. Costs
    /// a copy of the bytes that stay, and space for them.
    ///
    /// # Errors
    /// [`Error::CheckpointNotFound`](crate::Error::CheckpointNotFound), which lists the existing
    /// checkpoints, and tells whether this one was lost with truncated lines; and the errors all
    /// verbs share.
    pub fn revert_to(&self, id: impl Into<CheckpointId>) -> Reply<()> {
        let id = id.into().number();
        match &self.inner {
            Inner::Session(session) => session.revert_to(id),
            Inner::File(file) => file.revert_to(id),
        }
    }

    /// Starts the conversation anew: no message, prompt, count or checkpoint is left, and the old
    /// file becomes a [backup](StoreHandle::list_backups). A session's summary, scope and aliases
    /// stay. Does nothing if there is no line. One commit, as [`revert_to`](Self::revert_to).
    ///
    /// # Errors
    /// The errors all verbs share.
    pub fn clear(&self) -> Reply<()> {
        match &self.inner {
            Inner::Session(session) => session.clear(),
            Inner::File(file) => file.clear(),
        }
    }

    /// Replaces the system prompt. At the handle's level of durability.
    ///
    /// # Errors
    /// [`Error::MessageTooLarge`](crate::Error::MessageTooLarge), without messages, if its line
    /// would be over the limit; and the errors all verbs share.
    pub fn write_system_prompt(&self, prompt: &str) -> Reply<()> {
        match &self.inner {
            Inner::Session(session) => session.write_system_prompt(prompt),
            Inner::File(file) => file.write_system_prompt(prompt),
        }
    }

    /// Every message, oldest first; for a session,
    /// [`history`](StoreHandle::history).
    ///
    /// # Errors
    /// The errors all verbs share.
    pub fn history(&self) -> Reply<Vec<Message>> {
        match &self.inner {
            Inner::Session(session) => session.history(),
            Inner::File(file) => file.history(),
        }
    }

    /// The token count last recorded; 0 if there is none.
    ///
    /// # Errors
    /// The errors all verbs share.
    pub fn token_count(&self) -> Reply<i64> {
        match &self.inner {
            Inner::Session(session) => session.token_count(),
            Inner::File(file) => file.token_count(),
        }
    }

    /// The token count last recorded, plus an estimate for the messages since: the characters of
    /// the texts that are not hidden, divided by four. Reads those messages.
    ///
    /// # Errors
    /// The errors all verbs share.
    pub fn token_count_with_pending(&self) -> Reply<i64> {
        match &self.inner {
            Inner::Session(session) => session.token_count_with_pending(),
            Inner::File(file) => file.token_count_with_pending(),
        }
    }

    /// The id that the next checkpoint gets: one more than the last one's.
    ///
    /// # Errors
    /// The errors all verbs share.
    pub fn n_checkpoints(&self) -> Reply<i64> {
        match &self.inner {
            Inner::Session(session) => session.n_checkpoints(),
            Inner::File(file) => file.n_checkpoints(),
        }
    }

    /// The system prompt, if one was written.
    ///
    /// # Errors
    /// The errors all verbs share.
    pub fn system_prompt(&self) -> Reply<Option<String>> {
        match &self.inner {
            Inner::Session(session) => session.system_prompt(),
            Inner::File(file) => file.system_prompt(),
        }
    }

    /// Every token count recorded, oldest first, for an audit. Of those that a compaction drops, it
    /// keeps only the last.
    ///
    /// # Errors
    /// The errors all verbs share.
    pub fn usage_history(&self) -> Reply<Vec<i64>> {
        match &self.inner {
            Inner::Session(session) => session.usage_history(),
            Inner::File(file) => file.usage_history(),
        }
    }
}
