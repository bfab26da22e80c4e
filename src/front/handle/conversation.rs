//! Conversations, forks of them, and learning that one changed.

use crate::disk::files::extent;
use std::sync::Arc;

use super::{Side, StoreHandle, blocking};
use crate::engine::Engine;
use crate::engine::shard::command::{Answer, Command, Verb};
use crate::engine::shard::converse::{Converse, Copied};
use crate::engine::snapshot::Looked;
use crate::error::{Error, Result};
use crate::front::context::Fork;
use crate::front::reply::{Place, Reply};
use crate::ground::sync::slot::slot;
use crate::{Context, Watch};

/// Conversations.
impl StoreHandle {
    /// A session's conversation: its messages with checkpoints, token usage and
    /// system prompt. Touches nothing by itself, and creates nothing before its
    /// first write.
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

    /// Makes a session of another: its lines up to `at`, as bytes, hidden ones
    /// and control records included, and its summary; not its scope and aliases.
    /// The other one is not touched, and may be written to meanwhile: the fork
    /// has what was there when this was asked for. Always durable.
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
    /// [`Error::SessionExists`] where `to` is a session, or an alias of one;
    /// [`Error::SessionNotFound`] where `from` is none;
    /// [`Error::CheckpointNotFound`]; and those all verbs share.
    pub fn fork_session(&self, from: &str, to: &str, at: Fork) -> Reply<()> {
        let Side::Writer(engine) = &self.side else {
            return Reply::known(Err(Error::ReadOnly));
        };
        let (this, engine) = (self.clone(), engine.clone());
        let (from, to) = (from.to_owned(), to.to_owned());
        Reply::lookup(move |place| {
            Box::pin(async move {
                let to = this.canonical(&engine.context.catalog, &to)?;
                let looked = this.look(&from, place).await?;
                let source = this.canonical(&engine.context.catalog, &from)?;
                if !engine.context.catalog.has_files(&source) {
                    return Err(Error::SessionNotFound { key: from });
                }
                let copy = blocking(place, move || copied(&looked, at)).await?;
                let (promise, slot) = slot();
                let verb = Verb::Converse(Box::new(Converse::Fork {
                    copy,
                    answer: promise,
                }));
                Reply::command(Command { key: to, verb }, slot, engine).await
            })
        })
    }

    /// Learns of every change to a session from now on, one that does not exist
    /// yet included. What nobody watches costs nothing. Not on a store opened
    /// read-only.
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
    /// Those all verbs share, and [`Error::ReadOnly`].
    pub fn subscribe(&self, key: &str) -> Reply<Watch> {
        let Side::Writer(engine) = &self.side else {
            return Reply::known(Err(Error::ReadOnly));
        };
        let (engine, reply) = (
            engine.clone(),
            self.converse(key, |answer| Ok(Converse::Subscribe { answer })),
        );
        Reply::lookup(move |_| {
            Box::pin(async move {
                let states = reply.await?;
                Ok(Watch::new(states, engine))
            })
        })
    }

    /// Asks the owner of a session something about its conversation.
    pub(crate) fn converse<T: Send + 'static>(
        &self,
        key: &str,
        verb: impl FnOnce(Answer<T>) -> Result<Converse>,
    ) -> Reply<T> {
        let ask = |engine: &Arc<Engine>| {
            let key = self.addressed(&engine.context.catalog, key)?;
            if engine.is_closed() {
                return Err(engine.failure());
            }
            let (promise, slot) = slot();
            let verb = Verb::Converse(Box::new(verb(promise)?));
            Ok(self.command(key, verb, slot, engine))
        };
        match &self.side {
            Side::Reader(_) => Reply::known(Err(Error::ReadOnly)),
            Side::Writer(engine) => ask(engine).unwrap_or_else(|error| Reply::known(Err(error))),
        }
    }

    /// Where a session's conversation stands. Its owner says so, once it knows;
    /// it does not wait for writes.
    pub(crate) async fn look(&self, key: &str, place: Place) -> Result<Arc<Looked>> {
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
        let catalog = &engine.context.catalog;
        let canonical = self.canonical(catalog, key)?;
        if catalog.get(&canonical).is_some() {
            let look = self.converse(key, |answer| Ok(Converse::Look { answer }));
            return look.await;
        }
        // As in any read: what nobody owns is read as it is.
        let Some(stem) = catalog.orphan_of(&canonical) else {
            return Ok(Arc::new(Looked::empty(&canonical)));
        };
        let engine = engine.clone();
        blocking(place, move || {
            let context = &engine.context;
            let pieces =
                crate::engine::view::load(&*context.storage, &context.dir, &stem, &canonical)?;
            let looked = pieces.looked();
            let looked = looked.map_err(|e| Error::io("read", &context.dir, e))?;
            Ok(Arc::new(looked))
        })
        .await
    }
}

/// The lines up to `at`.
fn copied(looked: &Looked, at: Fork) -> Result<Copied> {
    let live = &looked.snapshot.live;
    let tail = looked.snapshot.tail();
    let cut = match at {
        Fork::End => looked.end,
        Fork::Checkpoint(id) => looked.checkpoint(id)?.offset,
        Fork::Line(n) => {
            let n = i64::try_from(n).unwrap_or(i64::MAX);
            let extent = extent::measure(live.file.as_deref(), live.end, &tail, n);
            let key = &looked.snapshot.meta.text.key;
            extent
                .map_err(|e| Error::io("read", std::path::Path::new(key), e))?
                .start
        }
    };
    let len = cut.min(live.end);
    Ok(Copied {
        file: live.file.clone(),
        len,
        behind: tail[..(cut - len) as usize].to_vec(),
        skip: u64::try_from(looked.snapshot.meta.skip).unwrap_or(0),
        summary: looked.snapshot.meta.text.summary.clone(),
    })
}
