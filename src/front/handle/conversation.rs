//! Conversations, forks of them, and watching one for changes.

use std::sync::Arc;

use sessionlog_core::error::{CheckpointId, Error, Result};
use sessionlog_core::session_file::{self, Kind};

use super::{Side, StoreHandle, blocking};
use crate::disk::files::lines::for_each_line;
use crate::engine::shard::verbs::fork::{Fork as ForkVerb, ForkedLines};
use crate::engine::shard::verbs::look::Look;
use crate::engine::shard::verbs::subscribe::Subscribe;
use crate::engine::snapshot::ConversationMoment;
use crate::front::context::Fork;
use crate::front::reply::{LookupPlace, Reply};
use crate::front::session::Session;
use crate::front::window::{Budget, Window, window};
use crate::{Context, Watch};

/// Conversations.
impl StoreHandle {
    /// One session: the verbs of this handle without the key. Does no I/O itself, and creates
    /// nothing before its first write.
    #[must_use]
    pub fn session(&self, key: &str) -> Session {
        Session::of(self.clone(), key)
    }

    /// A session's conversation: its messages with checkpoints, token usage and system prompt. Does
    /// no I/O itself, and creates nothing before its first write.
    ///
    /// ```
    /// # use sessionlog::{Message, Store};
    /// # fn main() -> sessionlog::Result<()> {
    /// # let scratch = tempfile::tempdir().unwrap();
    /// # let store = Store::open(scratch.path())?;
    /// let chat = store.handle().context("telegram:123");
    /// chat.append_message(Message::user("hi")).wait()?;
    /// let before = chat.checkpoint(false).wait()?;
    /// chat.append_message(Message::assistant("wrong answer")).wait()?;
    /// chat.revert_to(before).wait()?;
    /// assert_eq!(chat.history().wait()?.len(), 1);
    /// # store.close()
    /// # }
    /// ```
    #[must_use]
    pub fn context(&self, key: &str) -> Context {
        Context::of_session(self.clone(), key)
    }

    /// Makes a new session from another one. It gets the lines up to `at`, as bytes, including
    /// hidden ones and control records, and the summary, but not scope and aliases. The original is
    /// not changed, and may be written to meanwhile: the fork has the lines that were there when it
    /// was asked for. Always durable.
    ///
    /// ```
    /// # use sessionlog::{Fork, Store};
    /// # fn main() -> sessionlog::Result<()> {
    /// # let scratch = tempfile::tempdir().unwrap();
    /// # let store = Store::open(scratch.path())?;
    /// # let chats = store.handle();
    /// chats.add_message("cli", "user", "hi").wait()?;
    /// chats.fork_session("cli", "cli-2", Fork::End).wait()?;
    /// assert_eq!(chats.history("cli-2").wait()?, chats.history("cli").wait()?);
    /// # store.close()
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::SessionExists`] if `to` is a session, or an alias of one;
    /// [`Error::SessionNotFound`] if `from` is not a session; [`Error::CheckpointNotFound`]; and
    /// the errors all verbs share.
    pub fn fork_session(&self, from: &str, to: &str, at: Fork) -> Reply<()> {
        let Side::Writer(engine) = &self.side else {
            return Reply::known(Err(Error::ReadOnly));
        };
        let (this, engine) = (self.clone(), engine.clone());
        let (from, to) = (from.to_owned(), to.to_owned());
        Reply::lookup(move |place| {
            Box::pin(async move {
                let to = this.canonical(&engine.shared.catalog, &to)?;
                let looked = this.look(&from, place).await?;
                let source = this.canonical(&engine.shared.catalog, &from)?;
                if !engine.shared.catalog.has_files(&source) {
                    return Err(Error::SessionNotFound { key: from });
                }
                let copy = blocking(place, move || copied(&looked, at)).await?;
                Reply::command(engine, to, ForkVerb { copy }).await
            })
        })
    }

    /// The newest part of a session's conversation that fits `budget`, for a model. It consists of
    /// whole turns, has no tool result without its call, leaves room for summary and system prompt,
    /// and says how much was left out. All of it is of one moment. Reads backwards from the end.
    /// The messages left out are read too, to be counted. The whole file is read if the session was
    /// not asked for its system prompt since the store was opened or the file rewritten.
    ///
    /// ```
    /// use sessionlog::{Budget, Keep, Message, Store};
    ///
    /// # fn main() -> sessionlog::Result<()> {
    /// # let scratch = tempfile::tempdir().unwrap();
    /// # let store = Store::open(scratch.path())?;
    /// let chats = store.handle();
    /// chats.append_all("cli", vec![
    ///     Message::user("hi"),
    ///     Message::assistant("hello"),
    ///     Message::user("weather?"),
    ///     Message::assistant("").with_tool_call("call_1", "weather", "{}"),
    ///     Message::tool("call_1", "4 degrees, rain"),
    /// ]).wait()?;
    /// // Four would fit; the fourth belongs to the turn before.
    /// let window = chats.window("cli", Budget::unlimited().messages(4)).wait()?;
    /// assert_eq!((window.messages.len(), window.omitted), (3, 2));
    /// chats.truncate_to("cli", Keep::From(window.start)).wait()?;
    /// assert_eq!(chats.count("cli").wait()?, 3);
    /// # store.close()
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`history`](Self::history), and [`Error::ToolCallUnpaired`].
    pub fn window(&self, key: &str, budget: Budget) -> Reply<Window> {
        let counters = self.counters();
        self.looking(key, move |key, looked| {
            window(key, looked, &budget, &counters)
        })
    }

    /// The checkpoints of a session's conversation that it can be
    /// [reverted](crate::Context::revert_to) to, in the order of their lines.
    ///
    /// # Errors
    /// As [`history`](Self::history).
    pub fn checkpoints(&self, key: &str) -> Reply<Vec<CheckpointId>> {
        self.looking(key, |_, looked| {
            let ids = looked.now().checkpoints(looked.start);
            Ok(ids.map(CheckpointId::new).collect())
        })
    }

    /// Reads the state of a conversation.
    pub(crate) fn looking<T: Send + 'static>(
        &self,
        key: &str,
        read: impl FnOnce(&str, &ConversationMoment) -> Result<T> + Send + 'static,
    ) -> Reply<T> {
        let (this, key) = (self.clone(), key.to_owned());
        Reply::lookup(move |place| {
            Box::pin(async move {
                let looked = this.look(&key, place).await?;
                blocking(place, move || read(&key, &looked)).await
            })
        })
    }

    /// Watches every change to a session from now on; the session need not exist yet. Sessions that
    /// are not watched cost nothing. Not available on a store opened read-only. An alias is
    /// resolved now: messages written under a key before it becomes an alias of the session belong
    /// to another session.
    ///
    /// ```
    /// # use sessionlog::Store;
    /// # fn main() -> sessionlog::Result<()> {
    /// # let scratch = tempfile::tempdir().unwrap();
    /// # let store = Store::open(scratch.path())?;
    /// # let chats = store.handle();
    /// let mut watch = chats.subscribe("cli").wait()?;
    /// chats.add_message("cli", "user", "hi").wait()?;
    /// assert_eq!(watch.wait_changed()?.lines, 1); // or `watch.changed().await`
    /// # store.close()
    /// # }
    /// ```
    ///
    /// # Errors
    /// The errors all verbs share, and [`Error::ReadOnly`].
    pub fn subscribe(&self, key: &str) -> Reply<Watch> {
        let Side::Writer(engine) = &self.side else {
            return Reply::known(Err(Error::ReadOnly));
        };
        let (engine, reply) = (engine.clone(), self.ask(key, Subscribe));
        Reply::lookup(move |_| {
            Box::pin(async move {
                let states = reply.await?;
                Ok(Watch::until(states, move || engine.failure()))
            })
        })
    }

    /// The state of a session's conversation. Its owner answers once it knows; it does not wait for
    /// writes.
    pub(crate) async fn look(
        &self,
        key: &str,
        place: LookupPlace,
    ) -> Result<Arc<ConversationMoment>> {
        let engine = match &self.side {
            Side::Writer(engine) => engine,
            Side::Reader(view) => {
                let (view, key, resolve) = (view.clone(), key.to_owned(), self.resolve);
                return blocking(place, move || view.looked(&key, resolve).map(Arc::new)).await;
            }
        };
        if engine.is_closed() {
            return Err(engine.failure());
        }
        let catalog = &engine.shared.catalog;
        let canonical = self.canonical(catalog, key)?;
        if catalog.get(&canonical).is_some() {
            return self.ask(key, Look).await;
        }
        // As in any read: files without an owner are read as they are.
        let Some(stem) = catalog.orphan_of(&canonical) else {
            return Ok(Arc::new(ConversationMoment::empty(&canonical)));
        };
        let engine = engine.clone();
        blocking(place, move || {
            let shared = &engine.shared;
            let pieces =
                crate::engine::view::load(&*shared.storage, &shared.dir, &stem, &canonical)?;
            let looked = pieces.looked();
            let looked = looked.map_err(|e| Error::io("read", &shared.dir, e))?;
            Ok(Arc::new(looked))
        })
        .await
    }
}

/// The lines up to `at`, for a fork.
fn copied(looked: &ConversationMoment, at: Fork) -> Result<ForkedLines> {
    let live = &looked.snapshot.live;
    let tail = looked.snapshot.tail();
    let cut = match at {
        Fork::End => looked.end,
        Fork::Checkpoint(id) => looked.checkpoint(id.number())?.offset,
        Fork::Message(n) => after_message(looked, &tail, n).map_err(|e| {
            Error::io(
                "read",
                std::path::Path::new(&looked.snapshot.meta.text.key),
                e,
            )
        })?,
    };
    let len = cut.min(live.end);
    Ok(ForkedLines {
        file: live.file.clone(),
        len,
        rest: tail[..(cut - len) as usize].to_vec(),
        skip: u64::try_from(looked.snapshot.meta.skip).unwrap_or(0),
        summary: looked.snapshot.meta.text.summary.clone(),
        tags: looked.snapshot.meta.text.tags.of_a_fork(),
    })
}

/// The offset where the `n`th live message ends; for `n` = 0, where the first one begins. Control
/// records before the first message always stay: hidden ones become visible lines when they are
/// compacted.
fn after_message(looked: &ConversationMoment, tail: &[u8], n: u64) -> std::io::Result<u64> {
    let live = &looked.snapshot.live;
    let (mut left, mut cut) = (n, None);
    let mut take = |text: &[u8], at: u64, next: u64| {
        let is_sought = next > looked.start && (left > 0 || cut.is_none());
        if is_sought && session_file::classify(text) == Kind::Message {
            let end = if n == 0 { at } else { next };
            cut = Some(end.min(looked.end));
            left = left.saturating_sub(1);
        }
    };
    if let Some(file) = &live.file {
        for_each_line(&**file, looked.start.min(live.end), live.end, &mut |raw| {
            take(raw.text, raw.begin, raw.next());
            Ok(())
        })?;
    }
    for (offset, text) in session_file::lines(tail) {
        let at = live.end + offset as u64;
        take(text, at, at + text.len() as u64 + 1);
    }
    Ok(cut.filter(|_| left == 0).unwrap_or(looked.end))
}
