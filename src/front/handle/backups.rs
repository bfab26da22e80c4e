//! Backups: earlier states of sessions, kept when they are reverted, cleared or restored.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use sessionlog_core::error::{Error, Result};
use sessionlog_wal::storage::OpenMode;

use super::{Side, StoreHandle, blocking};
use crate::disk::files::backup::{Backup, BackupFile, BackupName};
use crate::disk::files::read_whole;
use crate::engine::Engine;
use crate::engine::shard::rebase::make_directory;
use crate::engine::shard::shared::SharedState;
use crate::engine::shard::verbs::forget::{Forget, Forgotten};
use crate::engine::shard::verbs::keep::Keep;
use crate::engine::shard::verbs::restore::Restore;
use crate::engine::supervisor::SupervisorRequest;
use crate::front::reply::Reply;

/// The limits of [`StoreHandle::prune_backups`]; without a limit, all backups stay.
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

    /// Keeps at most this many, the newest.
    #[must_use]
    pub fn count(self, count: usize) -> Self {
        Self {
            count: Some(count),
            ..self
        }
    }

    /// Keeps only backups made within this time.
    #[must_use]
    pub fn age(self, age: Duration) -> Self {
        Self {
            age: Some(age),
            ..self
        }
    }

    /// Keeps at most this many bytes together, the newest. By this limit alone the newest backup of
    /// all is not removed, however large it is.
    #[must_use]
    pub fn bytes(self, bytes: u64) -> Self {
        Self {
            bytes: Some(bytes),
            ..self
        }
    }

    /// The backups of `backups`, oldest first, that are over a limit at `now`, in milliseconds
    /// since 1970.
    pub(crate) fn over(self, backups: Vec<BackupFile>, now: i64) -> Vec<BackupFile> {
        let (mut count, mut bytes) = (0, 0_u64);
        let age = self
            .age
            .map(|age| i64::try_from(age.as_millis()).unwrap_or(i64::MAX));
        let over = |stored: &BackupFile| {
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

/// Backups. Reverting and clearing a conversation, and restoring a backup, keep the session's file
/// as it was. Backups are not sessions: they are not listed with sessions, and only these verbs
/// find them. Deleting a session deletes its backups.
///
/// If another program changes a session's files after a crash, before the next open, then journal
/// records that are not in the files become a backup too, often of the newest lines only
/// ([`BackupReason::Conflict`](crate::BackupReason::Conflict)). The session may then be gone; it is
/// there again once the backup is restored. Other backups of a session with files removed by
/// hand are moved to `.sessionlog/quarantine` when the store is opened, and
/// [reported](crate::RecoveryReport::findings): their names say only the name of the session's
/// files, which another key may get next.
impl StoreHandle {
    /// A session's backups, oldest first.
    ///
    /// # Errors
    /// The errors all verbs share.
    pub fn list_backups(&self, key: &str) -> Reply<Vec<Backup>> {
        match &self.side {
            Side::Writer(engine) => Reply::known(self.stored_backups(engine, key).map(|stored| {
                let described = stored.iter().map(|s| s.name.describe(s.size));
                described.collect()
            })),
            Side::Reader(view) => {
                if let Err(error) = sessionlog_core::session_file::validate_key(key) {
                    return Reply::known(Err(error));
                }
                let (view, key, resolve) = (view.clone(), key.to_owned(), self.resolve);
                Reply::lookup(move |place| {
                    Box::pin(blocking(place, move || view.backups(&key, resolve)))
                })
            }
        }
    }

    /// Makes backup `number` the session's file. The current file becomes a backup, unless it is
    /// empty; the restored backup stays. Summary, scope and aliases are left alone; a session that
    /// another program removed gets its former ones back. Readers that hold a snapshot finish with
    /// it. Always durable.
    ///
    /// # Errors
    /// [`Error::BackupNotFound`], also if the backup's file was removed by hand: it is then no
    /// longer listed. The errors all verbs share.
    pub fn restore_backup(&self, key: &str, number: u64) -> Reply<()> {
        self.ask(key, Restore { number })
    }

    /// Removes a session's backups that are over any of the limits, oldest first; returns their
    /// number. [Flushes](Self::flush) the store before, and takes as long. Their numbers are not
    /// given again. If the reply is dropped before it arrives, all of them are removed or none.
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
    /// The errors all verbs share, and [`Error::Io`] if a file cannot be removed.
    pub fn prune_backups(&self, key: &str, limits: BackupLimits) -> Reply<usize> {
        self.remove_backups(key, move |stored, now| limits.over(stored, now))
    }

    /// As [`prune_backups`](Self::prune_backups), but removes the backups that `chosen` picks. It
    /// gets all of them, oldest first, and the current time in milliseconds since 1970.
    pub(crate) fn remove_backups(
        &self,
        key: &str,
        chosen: impl FnOnce(Vec<BackupFile>, i64) -> Vec<BackupFile> + Send + 'static,
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

    /// A backup's file as it is, with its parsed name; `None` if there is no such backup.
    pub(crate) fn backup_file(
        &self,
        key: &str,
        number: u64,
    ) -> Result<Option<(BackupName, Vec<u8>)>> {
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

    /// Adds a backup that was made elsewhere; `name` is without the session's stem.
    pub(crate) fn keep_backup(&self, key: &str, name: BackupName, lines: Vec<u8>) -> Reply<()> {
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
                let mut unfinished = UnfinishedBackup {
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

    fn stored_backups(&self, engine: &Arc<Engine>, key: &str) -> Result<Vec<BackupFile>> {
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

/// A file among the backups that is not a backup yet; dropping this removes it. Otherwise an
/// erasure would find text in it that cannot be told to belong to any session.
struct UnfinishedBackup {
    shared: Arc<SharedState>,
    /// `None` once it is a backup.
    path: Option<PathBuf>,
}

impl Drop for UnfinishedBackup {
    fn drop(&mut self) {
        if let Some(path) = &self.path {
            // If it cannot be removed now, the next open removes it.
            let _ = self.shared.storage.remove_file(path);
        }
    }
}

/// Writes a file among the backups under a name that the next open removes.
fn write_new(shared: &SharedState, lines: &[u8]) -> Result<String> {
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

/// Removes backups that can no longer be asked for, oldest first. If this fails, the remaining ones
/// can be asked for again.
fn remove(engine: &Engine, mut forgotten: Forgotten) -> Result<usize> {
    let shared = &engine.shared;
    let Some(newest) = forgotten.names.last().cloned() else {
        return Ok(0);
    };
    // Sessions reverted or cleared since the last flush would be rebuilt from them.
    engine.ask(SupervisorRequest::Flush)?;
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
    use crate::disk::files::backup::{BackupName, BackupReason};

    fn stored(number: u64, millis: i64, size: u64) -> BackupFile {
        BackupFile {
            name: BackupName {
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
