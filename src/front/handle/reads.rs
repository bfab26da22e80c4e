//! The verbs that read sessions and change none.

use std::io;
use std::sync::Arc;

use sessionlog_core::error::{Error, Result};

use super::{Side, StoreHandle, blocking};
use crate::engine::Engine;
use crate::engine::reader::{self, NewestMessages};
use crate::engine::shard::verbs::load::Load;
use crate::engine::snapshot::{Snapshot, View};
use crate::engine::stats::Counters;
use crate::front::reply::{LookupPlace, Reply};
use crate::front::snapshot::SessionSnapshot;
use crate::{Message, SessionMeta, StoreStats, StoreStatus, Version};

/// Reading. Reads go to the files on the reader's own thread. When awaited inside a tokio runtime,
/// they run on its blocking pool, unless the result is in memory: a summary, a sidecar, or messages
/// among at most 16 KiB of lines that are not in the file yet and, on Linux, the last 16 KiB of the
/// file, if the operating system has them in memory. Reads do not queue after writes, except if a
/// session's files are not open: at its first use, and after they were closed for the limit on open
/// files, its owner opens them.
impl StoreHandle {
    /// Every visible message of a session, oldest first; none for a session that does not exist.
    /// All of them are in memory at once. Lines that do not decode are left out, and counted in
    /// [`StoreStats::corrupt_lines`].
    ///
    /// # Errors
    /// The errors all verbs share, and [`Error::Io`].
    pub fn history(&self, key: &str) -> Reply<Vec<Message>> {
        self.newest(key, usize::MAX, reader::history)
    }

    /// The newest `n` messages, oldest first. Reads backwards from the end: the cost depends on
    /// what is returned, not on the length of the session.
    ///
    /// # Errors
    /// As [`history`](Self::history).
    pub fn tail(&self, key: &str, n: usize) -> Reply<Vec<Message>> {
        self.newest(key, n, move |snapshot, counters| {
            reader::tail(snapshot, n, counters)
        })
    }

    /// One moment of a session, to read several things that belong together: its history, a page of
    /// it, its summary, its version. Empty for a session that does not exist.
    ///
    /// ```
    /// # use sessionlog::{Store, Version};
    /// # fn main() -> sessionlog::Result<()> {
    /// # let scratch = tempfile::tempdir().unwrap();
    /// # let store = Store::open(scratch.path())?;
    /// let chats = store.handle();
    /// assert_eq!(chats.snapshot("cli").wait()?.version(), Version::ABSENT);
    /// chats.add_message("cli", "user", "hi").wait()?;
    /// let then = chats.snapshot("cli").wait()?;
    /// chats.truncate_history("cli", 0).wait()?;
    /// assert_eq!(then.history().wait()?.len(), 1);
    /// assert_ne!(chats.snapshot("cli").wait()?.version(), then.version());
    /// # store.close()
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`history`](Self::history).
    pub fn snapshot(&self, key: &str) -> Reply<SessionSnapshot> {
        let (this, key) = (self.clone(), key.to_owned());
        Reply::lookup(move |place| {
            Box::pin(async move {
                let snapshot = this.moment_of(&key, place).await?;
                Ok(SessionSnapshot::new(&key, snapshot, this.counters()))
            })
        })
    }

    /// The number of messages that [`history`](Self::history) would return; 0 for a session that
    /// does not exist. Reads all of the session; one line at a time is in memory, and the lines
    /// that are not in the file yet. (`count` of a sidecar is PicoClaw's, which counts lines.)
    ///
    /// ```
    /// # use sessionlog::Store;
    /// # fn main() -> sessionlog::Result<()> {
    /// # let scratch = tempfile::tempdir().unwrap();
    /// # let store = Store::open(scratch.path())?;
    /// let chats = store.handle();
    /// chats.add_message("cli", "user", "hi").wait()?;
    /// assert!(chats.exists("cli").wait()?);
    /// assert_eq!(chats.count("cli").wait()?, 1);
    /// assert!(!chats.exists("telegram:123").wait()?);
    /// # store.close()
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`history`](Self::history).
    pub fn count(&self, key: &str) -> Reply<usize> {
        self.read(key, |_, _| MemoryPart::rest(reader::count))
    }

    /// Returns `true` if `key` means a session: one that was written to and not deleted since, even
    /// without visible messages, or one that had a file when the store was opened.
    ///
    /// # Errors
    /// The errors all verbs share.
    pub fn exists(&self, key: &str) -> Reply<bool> {
        let (this, key) = (self.clone(), key.to_owned());
        Reply::lookup(move |place| {
            // A writer knows without reading.
            let place = match &this.side {
                Side::Writer(_) => LookupPlace::Here,
                Side::Reader(_) => place,
            };
            let look = move || Ok(this.existing(&key)?.is_some());
            Box::pin(blocking(place, look))
        })
    }

    /// A session's summary; empty if it has none or does not exist.
    ///
    /// # Errors
    /// As [`history`](Self::history).
    pub fn summary(&self, key: &str) -> Reply<String> {
        self.read(key, |snapshot, _| {
            MemoryPart::All(Ok(snapshot.meta.text.summary.clone()))
        })
    }

    /// A session's sidecar as it stands. For a session that does not exist it is empty, with times
    /// in the year 1.
    ///
    /// # Errors
    /// As [`history`](Self::history).
    pub fn session_meta(&self, key: &str) -> Reply<SessionMeta> {
        self.read(key, |snapshot, _| {
            MemoryPart::All(Ok(snapshot.meta.to_sidecar()))
        })
    }

    /// The keys of all sessions, in the order of their file names. A session whose sidecar was lost
    /// is listed under its file's name (`telegram_123`) until a write shows its key. If a listed
    /// key is another session's alias, read it through [`exact_keys`](Self::exact_keys).
    ///
    /// # Errors
    /// The errors all verbs share.
    pub fn list_sessions(&self) -> Reply<Vec<String>> {
        match &self.side {
            Side::Writer(engine) if engine.is_closed() => Reply::known(Err(engine.failure())),
            Side::Writer(engine) => Reply::known(Ok(engine.shared.catalog.list())),
            Side::Reader(view) => {
                let view = view.clone();
                Reply::lookup(move |place| Box::pin(blocking(place, move || view.list())))
            }
        }
    }

    /// The key of the session that `key` means, as PicoClaw resolves it, if there is one. It is the
    /// key itself if it has files and no `:`, `/` or `\`; else the session that claims it as an
    /// alias, the first by file name if several do; else the key itself if it has files. White
    /// space around it is ignored, case is not.
    ///
    /// # Errors
    /// The errors all verbs share.
    pub fn resolve_session_key(&self, key: &str) -> Reply<Option<String>> {
        match &self.side {
            Side::Writer(engine) if engine.is_closed() => Reply::known(Err(engine.failure())),
            Side::Writer(engine) => Reply::known(Ok(engine.shared.catalog.resolve(key))),
            Side::Reader(view) => {
                let (view, key) = (view.clone(), key.to_owned());
                Reply::lookup(move |place| Box::pin(blocking(place, move || view.resolve(&key))))
            }
        }
    }

    /// The store's counters since it was opened, and what it holds now. On a store opened
    /// read-only, only [`StoreStats::corrupt_lines`] counts. Reads numbers in memory: asks neither
    /// the disk nor the threads of the store, and also answers after the store is closed.
    #[must_use]
    pub fn stats(&self) -> StoreStats {
        match &self.side {
            Side::Writer(engine) => engine.stats(),
            Side::Reader(view) => view.counters().read(0),
        }
    }

    /// The state of the store: whether it takes writes, what waits, and the space that the journal
    /// takes and the file system has left. Also answers for a poisoned or closed store. Asks the
    /// file system, and waits as long as that takes; when awaited inside a tokio runtime, on its
    /// blocking pool.
    ///
    /// ```
    /// use sessionlog::{Health, Store};
    ///
    /// # fn main() -> sessionlog::Result<()> {
    /// # let scratch = tempfile::tempdir().unwrap();
    /// # let store = Store::open(scratch.path())?;
    /// let status = store.handle().status().wait()?;
    /// assert_eq!(status.health, Health::Healthy);
    /// if status.free_space.is_some_and(|bytes| bytes < 1 << 30) {
    ///     println!("{:?} bytes left", status.free_space);
    /// }
    /// # store.close()
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::Closed`] if the tokio runtime that awaits it shuts down.
    pub fn status(&self) -> Reply<StoreStatus> {
        let side = self.side.clone();
        Reply::lookup(move |place| {
            let status = move || {
                Ok(match &side {
                    Side::Writer(engine) => engine.status(),
                    Side::Reader(view) => view.status(),
                })
            };
            Box::pin(blocking(place, status))
        })
    }

    fn newest(
        &self,
        key: &str,
        n: usize,
        all: impl FnOnce(&Snapshot, &Counters) -> io::Result<Vec<Message>> + Send + 'static,
    ) -> Reply<Vec<Message>> {
        self.read(key, move |snapshot, counters| {
            find_newest(snapshot, n, counters, all)
        })
    }

    /// Reads a session; `find` looks at what is in memory, on the thread that polls the reply.
    pub(super) fn read<T: Send + 'static>(
        &self,
        key: &str,
        find: impl FnOnce(&Snapshot, &Counters) -> MemoryPart<T> + Send + 'static,
    ) -> Reply<T> {
        let (this, key) = (self.clone(), key.to_owned());
        Reply::lookup(move |place| {
            Box::pin(async move {
                let snapshot = this.moment_of(&key, place).await?;
                find_in(snapshot, this.counters(), &key, place, find).await
            })
        })
    }

    /// One moment of a session.
    pub(super) async fn moment_of(&self, key: &str, place: LookupPlace) -> Result<Arc<Snapshot>> {
        let engine = match &self.side {
            Side::Writer(engine) => engine,
            Side::Reader(view) => {
                let (view, key, resolve) = (view.clone(), key.to_owned(), self.resolve);
                return blocking(place, move || view.snapshot(&key, resolve)).await;
            }
        };
        if engine.is_closed() {
            return Err(engine.failure());
        }
        let catalog = &engine.shared.catalog;
        let mut means = self.canonical(catalog, key)?;
        loop {
            let moment = self.moment_under(engine, means.clone(), place).await?;
            // A session that got another key since is read under the new key: its history is never
            // empty in between.
            if moment.meta.version != Version::ABSENT {
                return Ok(moment);
            }
            let now = self.canonical(catalog, key)?;
            if now == means {
                return Ok(moment);
            }
            means = now;
        }
    }

    async fn moment_under(
        &self,
        engine: &Arc<Engine>,
        key: Arc<str>,
        place: LookupPlace,
    ) -> Result<Arc<Snapshot>> {
        let Some(entry) = engine.shared.catalog.get(&key) else {
            return self.unowned(engine, key, place).await;
        };
        match &*entry.view.load() {
            View::Live(live) => {
                let snapshot = live.snapshot();
                if !snapshot.lacks_file() {
                    return Ok(Arc::new(snapshot));
                }
            }
            View::Gone => return Ok(Arc::new(Snapshot::empty(&key))),
            View::Cold => {}
        }
        Reply::command(engine.clone(), key, Load).await
    }

    /// Reads files without an owner as they are, and leaves them without one: only a write shows
    /// which key they belong to.
    async fn unowned(
        &self,
        engine: &Arc<Engine>,
        key: Arc<str>,
        place: LookupPlace,
    ) -> Result<Arc<Snapshot>> {
        let Some(stem) = engine.shared.catalog.orphan_of(&key) else {
            return Ok(Arc::new(Snapshot::empty(&key)));
        };
        let engine = engine.clone();
        blocking(place, move || {
            let shared = &engine.shared;
            let pieces = crate::engine::view::load(&*shared.storage, &shared.dir, &stem, &key)?;
            let snapshot = pieces.snapshot();
            let snapshot = snapshot.map_err(|e| Error::io("read", &shared.dir, e))?;
            Ok(Arc::new(snapshot))
        })
        .await
    }

    /// The key of the existing session that `key` means to this handle, which may take keys
    /// literally. Blocks.
    pub(crate) fn existing(&self, key: &str) -> Result<Option<Arc<str>>> {
        match &self.side {
            Side::Writer(engine) if engine.is_closed() => Err(engine.failure()),
            Side::Writer(engine) => {
                let catalog = &engine.shared.catalog;
                let key = self.canonical(catalog, key)?;
                Ok(catalog.has_files(&key).then_some(key))
            }
            Side::Reader(view) => view.existing(key, self.resolve),
        }
    }

    /// The names, without extension, of files that name no session. Such a name, used as a key, has
    /// these files. Blocks.
    pub(crate) fn orphans(&self) -> Result<Vec<String>> {
        match &self.side {
            Side::Writer(engine) => Ok(engine.shared.catalog.orphans()),
            Side::Reader(view) => view.orphans(),
        }
    }

    /// The names among [`orphans`](Self::orphans) that are listed as sessions. Blocks.
    pub(crate) fn nameless(&self) -> Result<Vec<String>> {
        match &self.side {
            Side::Writer(engine) => Ok(engine.shared.catalog.nameless()),
            Side::Reader(view) => view.nameless(),
        }
    }

    /// One moment of a session. Blocks.
    pub(crate) fn moment(&self, key: &str) -> Result<Arc<Snapshot>> {
        pollster::block_on(self.moment_of(key, LookupPlace::Here))
    }

    /// All lines of a session as they are, hidden ones included, and the offset of the first live
    /// line. Blocks.
    pub(crate) fn all_lines(&self, key: &str) -> Result<(Vec<u8>, usize)> {
        let looked = pollster::block_on(self.look(key, LookupPlace::Here))?;
        let lines = reader::raw_lines(&looked.snapshot);
        let lines = lines.map_err(|e| Error::io("read", std::path::Path::new(key), e))?;
        let start = lines.len().min(looked.start as usize);
        Ok((lines, start))
    }
}

/// Looks at what is in memory, and reads the rest on a thread where it may block.
pub(crate) async fn find_in<T: Send + 'static>(
    snapshot: Arc<Snapshot>,
    counters: Arc<Counters>,
    key: &str,
    place: LookupPlace,
    find: impl FnOnce(&Snapshot, &Counters) -> MemoryPart<T>,
) -> Result<T> {
    let found = match find(&snapshot, &counters) {
        MemoryPart::All(found) => found,
        MemoryPart::Rest(read) => blocking(place, move || Ok(read(&snapshot, &counters))).await?,
    };
    found.map_err(|e| Error::io("read", std::path::Path::new(key), e))
}

/// The newest `n` messages; `all` reads them if many lines are only in memory.
pub(crate) fn find_newest(
    snapshot: &Snapshot,
    n: usize,
    counters: &Counters,
    all: impl FnOnce(&Snapshot, &Counters) -> io::Result<Vec<Message>> + Send + 'static,
) -> MemoryPart<Vec<Message>> {
    if !snapshot.is_little() {
        return MemoryPart::rest(all);
    }
    let newest = NewestMessages::at_hand(snapshot, n, counters);
    if newest.is_all(snapshot, n) {
        return MemoryPart::All(newest.completed(snapshot, n, counters));
    }
    MemoryPart::rest(move |snapshot, counters| newest.completed(snapshot, n, counters))
}

/// The part of an answer that memory gives.
pub(crate) enum MemoryPart<T> {
    All(io::Result<T>),
    /// Not enough; this function reads the file.
    Rest(Read<T>),
}

pub(crate) type Read<T> = Box<dyn FnOnce(&Snapshot, &Counters) -> io::Result<T> + Send>;

impl<T> MemoryPart<T> {
    pub(crate) fn rest(
        read: impl FnOnce(&Snapshot, &Counters) -> io::Result<T> + Send + 'static,
    ) -> Self {
        Self::Rest(Box::new(read))
    }
}
