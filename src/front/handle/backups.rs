//! Backups: what sessions were before they were taken back.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::{Side, StoreHandle, blocking};
use crate::disk::files::backup::{Backup, Name, Stored};
use crate::disk::files::read_whole;
use crate::engine::Engine;
use crate::engine::shard::rebase::make_directory;
use crate::engine::shard::shared::Shared;
use crate::engine::shard::verbs::forget::{Forget, Forgotten};
use crate::engine::shard::verbs::keep::Keep;
use crate::engine::shard::verbs::restore::Restore;
use crate::engine::supervisor::Request;
use crate::error::{Error, Result};
use crate::front::reply::Reply;
use crate::ground::storage::OpenMode;

/// Which backups [`StoreHandle::prune_backups`] leaves; without a limit, all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BackupLimits {
    count: Option<usize>,
    age: Option<Duration>,
    bytes: Option<u64>,
}

impl BackupLimits {
    /// No limit.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// At most so many, the newest.
    #[must_use]
    pub fn count(self, count: usize) -> Self {
        Self {
            count: Some(count),
            ..self
        }
    }

    /// None made longer ago than this.
    #[must_use]
    pub fn age(self, age: Duration) -> Self {
        Self {
            age: Some(age),
            ..self
        }
    }

    /// At most so many bytes together, the newest. By this limit alone the newest of
    /// all is not removed, however large it is.
    #[must_use]
    pub fn bytes(self, bytes: u64) -> Self {
        Self {
            bytes: Some(bytes),
            ..self
        }
    }

    /// Those of `backups`, oldest first, that are over a limit at `now`,
    /// milliseconds since 1970.
    pub(crate) fn over(self, backups: Vec<Stored>, now: i64) -> Vec<Stored> {
        let (mut count, mut bytes) = (0, 0_u64);
        let age = self
            .age
            .map(|age| i64::try_from(age.as_millis()).unwrap_or(i64::MAX));
        let over = |stored: &Stored| {
            count += 1;
            bytes = bytes.saturating_add(stored.size);
            let old = now.saturating_sub(stored.name.millis);
            self.count.is_some_and(|limit| count > limit)
                || self.bytes.is_some_and(|limit| bytes > limit && count > 1)
                || age.is_some_and(|limit| old > limit)
        };
        let mut over: Vec<_> = backups.into_iter().rev().filter(over).collect();
        over.reverse();
        over
    }
}

/// Backups. Reverting and clearing a conversation, and restoring a backup, keep
/// what the session's file was. Backups are no sessions: they are not listed
/// with them, and no verb but these finds them. Deleting a session deletes its
/// backups.
///
/// If another program changes a session's files after a crash, before the next open, what
/// the journal held and is not in them becomes a backup too, often of the newest lines only
/// ([`BackupReason::Conflict`](crate::BackupReason::Conflict)); its session may be gone
/// then, and is there again when the backup is restored. Other backups of a session whose
/// files were removed by hand are moved to `.sessionlog/quarantine` when the store is
/// opened, and [reported](crate::RecoveryReport::findings): their names do not say whose
/// they are beyond the name of the files, which another key may get next.
impl StoreHandle {
    /// A session's backups, oldest first.
    ///
    /// # Errors
    /// Those all verbs share.
    pub fn list_backups(&self, key: &str) -> Reply<Vec<Backup>> {
        match &self.side {
            Side::Writer(engine) => Reply::known(self.stored_backups(engine, key).map(|stored| {
                let described = stored.iter().map(|s| s.name.describe(s.size));
                described.collect()
            })),
            Side::Reader(view) => {
                if let Err(error) = crate::disk::session_file::validate_key(key) {
                    return Reply::known(Err(error));
                }
                let (view, key, resolve) = (view.clone(), key.to_owned(), self.resolve);
                Reply::lookup(move |place| {
                    Box::pin(blocking(place, move || view.backups(&key, resolve)))
                })
            }
        }
    }

    /// Makes backup `number` the session's file. What it
    /// is now becomes a backup, unless it is empty; the restored one stays.
    /// Summary, scope and aliases are left alone; a session that another program removed
    /// gets those back that it had. Readers that hold a snapshot
    /// finish with it. Always durable.
    ///
    /// # Errors
    /// [`Error::BackupNotFound`], also if its file was removed by hand: it is
    /// not listed any more then; and those all verbs share.
    pub fn restore_backup(&self, key: &str, number: u64) -> Reply<()> {
        self.ask(key, Restore { number })
    }

    /// Removes a session's backups that are over any of the limits, the oldest
    /// first; how many that were. [Flushes](Self::flush) the store before, and
    /// takes as long. Their numbers are not given again. A reply that is dropped
    /// before it arrives removes all of them or none.
    ///
    /// ```
    /// # use sessionlog::{BackupLimits, Store};
    /// # fn main() -> sessionlog::Result<()> {
    /// # let scratch = tempfile::tempdir().unwrap();
    /// # let store = Store::open(scratch.path())?;
    /// # let chats = store.handle();
    /// # chats.add_message("cli", "user", "hi").wait()?;
    /// # chats.context("cli").clear().wait()?;
    /// let limits = BackupLimits::new().count(10).bytes(64 << 20);
    /// chats.prune_backups("cli", limits).wait()?;
    /// # assert_eq!(chats.prune_backups("cli", limits.count(0)).wait()?, 1);
    /// # store.close()
    /// # }
    /// ```
    ///
    /// # Errors
    /// Those all verbs share, and [`Error::Io`] if a file cannot be removed.
    pub fn prune_backups(&self, key: &str, limits: BackupLimits) -> Reply<usize> {
        self.remove_backups(key, move |stored, now| limits.over(stored, now))
    }

    /// As [`prune_backups`](Self::prune_backups), those that are `chosen` of all, oldest first,
    /// and of the time of now, milliseconds since 1970.
    pub(crate) fn remove_backups(
        &self,
        key: &str,
        chosen: impl FnOnce(Vec<Stored>, i64) -> Vec<Stored> + Send + 'static,
    ) -> Reply<usize> {
        let Side::Writer(engine) = &self.side else {
            return Reply::known(Err(Error::ReadOnly));
        };
        let (this, engine, key) = (self.clone(), engine.clone(), key.to_owned());
        Reply::lookup(move |place| {
            Box::pin(async move {
                let now = engine.shared.clock.now().unix_timestamp_nanos() / 1_000_000;
                let now = i64::try_from(now).unwrap_or(i64::MAX);
                let chosen = chosen(this.stored_backups(&engine, &key)?, now);
                if chosen.is_empty() {
                    return Ok(0);
                }
                let names = chosen.into_iter().map(|stored| stored.name).collect();
                let shared = engine.shared.clone();
                let forgotten = this.ask(&key, Forget { names, shared }).await?;
                blocking(place, move || remove(&engine, forgotten)).await
            })
        })
    }

    /// A backup's file as it is, and what its name says; nothing if there is none.
    pub(crate) fn backup_file(&self, key: &str, number: u64) -> Result<Option<(Name, Vec<u8>)>> {
        let Side::Writer(engine) = &self.side else {
            return Err(Error::ReadOnly);
        };
        let stored = self.stored_backups(engine, key)?.into_iter();
        let Some(stored) = { stored }.find(|stored| stored.name.number == number) else {
            return Ok(None);
        };
        let path = engine.shared.backups.path(&stored.name);
        let lines = read_whole(&*engine.shared.storage, &path);
        Ok(Some((
            stored.name,
            lines.map_err(|e| Error::io("read", &path, e))?,
        )))
    }

    /// Takes in a backup that was made elsewhere; `name` is without the session's stem.
    pub(crate) fn keep_backup(&self, key: &str, name: Name, lines: Vec<u8>) -> Reply<()> {
        let Side::Writer(engine) = &self.side else {
            return Reply::known(Err(Error::ReadOnly));
        };
        let (this, engine, key) = (self.clone(), engine.clone(), key.to_owned());
        Reply::lookup(move |place| {
            Box::pin(async move {
                let shared = engine.shared.clone();
                let size = lines.len() as u64;
                let write = move || write_new(&shared, &lines);
                let temp = blocking(place, write).await?;
                let shared = engine.shared.clone();
                let mut unfinished = Unfinished {
                    path: Some(shared.backups.dir.join(&temp)),
                    shared,
                };
                this.ask(&key, Keep { temp, name, size }).await?;
                unfinished.path = None;
                let shared = engine.shared.clone();
                let dir = move || {
                    let synced = shared.storage.sync_dir(&shared.backups.dir);
                    synced.map_err(|e| Error::io("sync", &shared.backups.dir, e))
                };
                blocking(place, dir).await
            })
        })
    }

    fn stored_backups(&self, engine: &Arc<Engine>, key: &str) -> Result<Vec<Stored>> {
        let shared = &engine.shared;
        let key = self.canonical(&shared.catalog, key)?;
        if engine.is_closed() {
            return Err(engine.failure());
        }
        let entry = shared.catalog.get(&key).map(|entry| entry.stem.clone());
        let stem = entry.or_else(|| shared.catalog.orphan_of(&key));
        Ok(stem.map_or_else(Vec::new, |stem| shared.backups.of(&stem)))
    }
}

/// A file among the backups that is no backup yet: dropped, it goes. An erasure would
/// otherwise find text in it, of nobody knows whom.
struct Unfinished {
    shared: Arc<Shared>,
    /// `None` once it is a backup.
    path: Option<PathBuf>,
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        if let Some(path) = &self.path {
            // What cannot be removed is removed by the next open.
            let _ = self.shared.storage.remove_file(path);
        }
    }
}

/// Writes a file among the backups under a name that the next open removes.
fn write_new(shared: &Shared, lines: &[u8]) -> Result<String> {
    let (storage, backups) = (&*shared.storage, &shared.backups);
    make_directory(storage, &backups.dir, &backups.synced)?;
    let temp = shared.next_temp();
    let path = backups.dir.join(&temp);
    let write = || {
        let file = storage.open(&path, OpenMode::CreateNew)?;
        file.write_all_at(lines, 0)?;
        file.sync_data()
    };
    shared.names_changed();
    write().map_err(|e| {
        let _ = storage.remove_file(&path);
        Error::io("write", &path, e)
    })?;
    Ok(temp)
}

/// Removes backups that nobody can ask for any more, oldest first; what is left of
/// them after a failure can be asked for again.
fn remove(engine: &Engine, mut forgotten: Forgotten) -> Result<usize> {
    let shared = &engine.shared;
    let Some(newest) = forgotten.names.last().cloned() else {
        return Ok(0);
    };
    // Sessions taken back since the last flush would be made again from them.
    engine.ask(Request::Flush)?;
    shared
        .backups
        .keep_number(&*shared.storage, &newest)
        .map_err(|e| Error::io("number", &shared.backups.dir, e))?;
    forgotten.names.reverse();
    let mut removed = 0;
    while let Some(name) = forgotten.names.last() {
        for file in name.files().iter().rev() {
            let path = shared.backups.dir.join(file);
            match shared.storage.remove_file(&path) {
                Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
                    return Err(Error::io("remove", &path, e));
                }
                _ => {}
            }
        }
        shared.backups.gone(name);
        forgotten.names.pop();
        removed += 1;
    }
    Ok(removed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::files::backup::{BackupReason, Name};

    fn stored(number: u64, millis: i64, size: u64) -> Stored {
        Stored {
            name: Name {
                stem: String::from("cli"),
                number,
                reason: BackupReason::Clear,
                millis,
                skip: 0,
            },
            size,
        }
    }

    #[test]
    fn limits_leave_the_newest() {
        let over = |limits: BackupLimits| -> Vec<u64> {
            let all = vec![
                stored(1, 1_000, 10),
                stored(2, 2_000, 10),
                stored(5, 3_000, 10),
            ];
            let over = limits.over(all, 4_000);
            over.into_iter().map(|stored| stored.name.number).collect()
        };
        let none = BackupLimits::new();
        assert!(over(none).is_empty());
        assert_eq!(over(none.count(2)), [1]);
        assert_eq!(over(none.bytes(15)), [1, 2]);
        assert_eq!(over(none.bytes(1)), [1, 2]);
        assert_eq!(over(none.age(Duration::from_secs(2))), [1]);
        assert_eq!(over(none.count(2).bytes(10)), [1, 2]);
        assert_eq!(over(none.count(0)), [1, 2, 5]);
    }
}
