//! The store's face: one cloneable handle with every verb.

// The documentation shows the verbs in the order of these modules. The blank
// lines keep them from being sorted by name.
mod writes;

pub(crate) mod updates;

pub(crate) mod reads;

mod finding;

pub(crate) mod searching;

pub(crate) mod editing;
mod exchanging;

pub(crate) mod retaining;

mod erasing;

mod archiving;

mod identity;

pub(crate) mod moving;

mod trash;

mod conversation;

mod backups;

pub(crate) mod copying;

mod inheritance;
mod lines;

pub use backups::BackupLimits;
use std::sync::Arc;

use lines::CommandLimits;
use sessionlog_core::error::{Error, Result};
use sessionlog_core::session_file;
use sessionlog_wal::storage::Storage;
use sessionlog_wal::sync::Mutex;

use crate::engine::Engine;
use crate::engine::catalog::Catalog;
use crate::engine::shard::request::Verb;
use crate::engine::stats::Counters;
use crate::engine::view::DirectoryView;
use crate::front::reply::{LookupPlace, Reply};
use crate::{Durability, StoreOptions};

/// Every verb of a store, for any number of callers at once.
///
/// Cheap to clone. A handle may outlive its [`Store`](crate::Store); its verbs
/// then return [`Error::Closed`].
///
/// # Keys
///
/// A key is any text of 1 to 1,024 bytes without NUL. Verbs first resolve it as PicoClaw's session
/// layer does: a key that is an [alias](Self::upsert_session_meta) of another session means that
/// session. An alias may be of any length. White space around a key is ignored if resolving finds a
/// session without it, unless a session has it in its key. [`exact_keys`](Self::exact_keys) gives a
/// handle that takes keys literally.
///
/// A key is resolved when its reply is first polled or waited for, for reads and writes alike; for
/// a write, at the moment it is submitted. (A write that is submitted just before its key becomes
/// an alias, and carried out after, still goes to the key's own session. If that session was
/// [renamed](Self::rename_session), the write goes along.)
///
/// # Errors all verbs share
///
/// [`Error::InvalidKey`] for text that is not a key, [`Error::Closed`] after the store was closed,
/// [`Error::Poisoned`] (writes only) once a sync or a journal write failed, [`Error::ReadOnly`]
/// (writes only) on a store opened read-only, [`Error::StorageFull`] (writes only) while the disk
/// is full: the command then took no effect. [`Error::Io`] if a session's files cannot be opened or
/// read, at its first use or for a verb that looks at its lines.
///
/// # Blocking
///
/// Calling a verb does not block: it encodes the data to be written and returns a [`Reply`]. A
/// command waits while its shard's inbox holds 1,024 others: an awaited reply then yields,
/// [`Reply::wait`] blocks.
#[derive(Clone, Debug)]
pub struct StoreHandle {
    side: Side,
    level: Durability,
    resolve: bool,
    limits: CommandLimits,
}

/// The store behind a handle.
#[derive(Clone, Debug)]
pub(crate) enum Side {
    Writer(Arc<Engine>),
    Reader(Arc<DirectoryView>),
}

/// Changing how a handle behaves.
impl StoreHandle {
    pub(crate) fn new(side: Side, options: &StoreOptions) -> Self {
        Self {
            side,
            level: options.durability,
            resolve: options.resolve_aliases,
            limits: CommandLimits::of(options),
        }
    }

    /// A handle to the same store with another level of durability for its appends and sidecar
    /// changes. Truncations, rewrites and deletions are always durable.
    ///
    /// ```
    /// # use sessionlog::{Durability, Store};
    /// # fn main() -> sessionlog::Result<()> {
    /// # let scratch = tempfile::tempdir().unwrap();
    /// # let store = Store::open(scratch.path())?;
    /// let quick = store.handle().with_durability(Durability::Buffered);
    /// quick.add_message("cli", "user", "typing").wait()?;
    /// # store.close()
    /// # }
    /// ```
    #[must_use]
    pub fn with_durability(&self, level: Durability) -> Self {
        Self {
            level,
            ..self.clone()
        }
    }

    /// A handle to the same store that takes keys literally: no alias is resolved. This is
    /// PicoClaw's store layer, below its session layer.
    #[must_use]
    pub fn exact_keys(&self) -> Self {
        Self {
            resolve: false,
            ..self.clone()
        }
    }
}

impl StoreHandle {
    /// Asks the owner of the session that `key` means at the time of submission.
    pub(crate) fn ask<V: Verb>(&self, key: &str, verb: V) -> Reply<V::Output> {
        match self.ready_to_ask(key) {
            Ok((engine, key)) => self.submit(engine, key, verb),
            Err(error) => Reply::known(Err(error)),
        }
    }

    fn submit<V: Verb>(&self, engine: &Arc<Engine>, key: Arc<str>, verb: V) -> Reply<V::Output> {
        let reply = Reply::command(engine.clone(), key, verb);
        if self.resolve {
            reply.resolving()
        } else {
            reply
        }
    }

    /// # Errors
    /// `ReadOnly`, `InvalidKey`, or the reason why the store takes no commands.
    fn ready_to_ask(&self, key: &str) -> Result<(&Arc<Engine>, Arc<str>)> {
        Ok((self.open_for(key)?, key.into()))
    }

    /// The engine that takes commands for a key. A key that no session can have may still be the
    /// alias of a session.
    ///
    /// # Errors
    /// `ReadOnly`, `InvalidKey`, or the reason why the store takes no commands.
    fn open_for(&self, key: &str) -> Result<&Arc<Engine>> {
        let Side::Writer(engine) = &self.side else {
            return Err(Error::ReadOnly);
        };
        if session_file::validate_key(key).is_err() {
            self.canonical(&engine.shared.catalog, key)?;
        }
        if engine.is_closed() {
            return Err(engine.failure());
        }
        Ok(engine)
    }

    fn canonical(&self, catalog: &Catalog, key: &str) -> Result<Arc<str>> {
        if self.resolve
            && let Some(resolved) = catalog.resolve_other(key)
        {
            return Ok(resolved);
        }
        session_file::validate_key(key)?;
        Ok(key.into())
    }

    pub(crate) fn counters(&self) -> Arc<Counters> {
        match &self.side {
            Side::Writer(engine) => engine.shared.counters.clone(),
            Side::Reader(view) => view.counters(),
        }
    }

    pub(crate) fn storage(&self) -> Arc<dyn Storage> {
        match &self.side {
            Side::Writer(engine) => engine.shared.storage.clone(),
            Side::Reader(view) => view.storage(),
        }
    }

    /// The engine, if the store is open for writing.
    ///
    /// # Errors
    /// `ReadOnly` if it is not.
    pub(crate) fn engine(&self) -> Result<&Engine> {
        match &self.side {
            Side::Writer(engine) => Ok(engine),
            Side::Reader(_) => Err(Error::ReadOnly),
        }
    }

    pub(crate) fn level(&self) -> Durability {
        self.level
    }

    pub(crate) fn close_reader(&self) {
        if let Side::Reader(view) = &self.side {
            view.close();
        }
    }
}

/// Runs `work` on a thread where it may block.
pub(crate) async fn blocking<T: Send + 'static>(
    place: LookupPlace,
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    if place == LookupPlace::Here {
        return work();
    }
    let answer = Arc::new(Mutex::new(None));
    let told = Arc::clone(&answer);
    on_the_pool(Box::new(move || *told.lock() = Some(work()))).await;
    // Without an answer the runtime shuts down; nobody is left to be told.
    answer.lock().take().unwrap_or(Err(Error::Closed))
}

/// Runs `work` on tokio's pool for what blocks, or here under another executor, which has no
/// pool that we know of. Tokio's part is compiled once, not for each verb.
async fn on_the_pool(work: Box<dyn FnOnce() + Send>) {
    let Ok(runtime) = tokio::runtime::Handle::try_current() else {
        return work();
    };
    if let Err(error) = runtime.spawn_blocking(work).await
        && let Ok(panic) = error.try_into_panic()
    {
        std::panic::resume_unwind(panic);
    }
}
