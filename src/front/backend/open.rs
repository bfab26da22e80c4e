//! Choosing a store for a directory.

use std::collections::HashSet;
use std::io;
use std::path::Path;
use std::sync::Arc;

use serde_json::value::RawValue;
use sessionlog_core::error::{Error, Result};
use sessionlog_core::scope::SessionScope;
use sessionlog_core::session_file::{self, LOG, SIDECAR};
use sessionlog_core::stamp::ZERO_TIME;
use sessionlog_wal::storage::{DiskStorage, FileKind, Storage};

use super::{JsonlBackend, LegacyJsonStore, SessionStore};
use crate::disk::files::sidecar::read_bytes;
use crate::engine::home::{self, Home};
use crate::maintenance::migrate;
use crate::maintenance::migrate::LegacyContent;
use crate::{Message, MigrationReport, Store, StoreHandle, StoreOptions};

/// Opens a directory of sessions with the default options; see
/// [`open_session_store_with`].
///
/// ```
/// use sessionlog::backend::{StoreKind, open_session_store};
///
/// # fn main() -> sessionlog::Result<()> {
/// # let scratch = tempfile::tempdir().unwrap();
/// # let dir = scratch.path();
/// std::fs::write(
///     dir.join("telegram_123.json"),
///     r#"{"key":"telegram:123","messages":[{"role":"user","content":"hi"}]}"#,
/// ).unwrap();
///
/// let chats = open_session_store(dir)?;
/// assert_eq!(chats.kind(), StoreKind::Jsonl);
/// assert_eq!(chats.history("telegram:123").wait()?[0].text(), "hi");
/// chats.close().wait()
/// # }
/// ```
///
/// # Errors
/// As [`open_session_store_with`].
pub fn open_session_store(dir: impl AsRef<Path>) -> Result<Arc<dyn SessionStore>> {
    open_session_store_with(dir, StoreOptions::new())
}

/// Opens a directory of sessions. It is opened as a [`Store`], into which the files of PicoClaw's
/// older manager are imported first. If one of the two fails, it is opened as a [`LegacyJsonStore`]
/// over those files, and the reason is logged as an error. [`SessionStore::kind`] tells which it
/// is.
///
/// Everything is in one of the two, before, after, and if the process dies in between. Files are
/// imported all or none: they keep their names until every session is in the [`Store`], and before
/// falling back the imported sessions are taken out again. The next open begins anew. A file that
/// does not decode, or holds something that the [`Store`] does not accept, stays where it is and is
/// no failure. It is logged as a warning and listed in [`SessionStore::migration_report`]; its chat
/// begins anew.
///
/// Instead of falling back, the error is returned
/// - if another process writes to the directory ([`Error::Locked`]): it has the sessions;
/// - if the [`Store`] cannot be opened, and there is a journal, a session file or a sidecar: a
///   session in it would be hidden, and anything added to it meanwhile would replace it at the next
///   import;
/// - if importing fails, and some session of the [`Store`] is not in an older file in exactly that
///   form: it has something that the file does not have, or the file is one that stays where it is;
/// - if importing fails, and a session of the [`Store`] has backups, which the older files do not
///   hold and which would be deleted with it: data replaced by the import, or cleared or reverted
///   before;
/// - if the imported sessions could not be taken out again, or nothing keeps a second writer out.
///
/// Blocks for as long as opening and importing takes.
///
/// # Errors
/// The errors of [`Store::open`], [`migrate_from_json`](crate::migrate_from_json) and
/// [`LegacyJsonStore::open`]. Nothing acknowledged is lost, and the next open tries again.
#[expect(
    clippy::needless_pass_by_value,
    reason = "a chain of option setters ends in a value"
)]
pub fn open_session_store_with(
    dir: impl AsRef<Path>,
    options: StoreOptions,
) -> Result<Arc<dyn SessionStore>> {
    let dir = dir.as_ref();
    let dir = std::path::absolute(dir).map_err(|e| Error::io("open", dir, e))?;
    let storage: Arc<dyn Storage> = Arc::new(DiskStorage::default());
    open_on(&storage, &dir, &options)
}

/// Opens a directory of any file system. `dir` is absolute.
///
/// # Errors
/// As [`open_session_store_with`].
pub(crate) fn open_on(
    storage: &Arc<dyn Storage>,
    dir: &Path,
    options: &StoreOptions,
) -> Result<Arc<dyn SessionStore>> {
    let (reason, lock, storage) = match Store::open_on(storage.clone(), dir, options) {
        Err(error @ Error::Locked { .. }) => return Err(error),
        Err(error) => {
            // The store gave its lock back, so another process may have used the directory since.
            // What is found stays unchanged only under this lock.
            let home = Home::of(dir)
                .of_any_owner(options.allow_other_owner)
                .allow_missing_lock(options.allow_missing_lock);
            home.create_site(&**storage, dir)?;
            let storage = home::root(storage, dir)?;
            let lock = home.lock_only(&*storage, dir)?;
            if may_have_sessions(&*storage, dir)? {
                return Err(error);
            }
            (error, lock, storage)
        }
        Ok(store) => {
            let storage = store.handle().storage();
            match import(&store, &*storage, dir)? {
                Ok(report) => return Ok(Arc::new(JsonlBackend::migrated(store, report))),
                Err(reason) => match store.close_but_keep_lock()? {
                    Some(lock) => (reason, lock, storage),
                    None => return Err(reason),
                },
            }
        }
    };
    let dir_shown = dir.display();
    tracing::error!(dir = %dir_shown, %reason, "falling back to the older JSON session files");
    Ok(Arc::new(LegacyJsonStore::under(storage, dir, lock)?))
}

/// True if the files of a store that cannot be opened may hold a session. Only the store could tell
/// which of them are copies of older files.
fn may_have_sessions(storage: &dyn Storage, dir: &Path) -> Result<bool> {
    Ok(Home::of(dir).may_have_journal(storage) || !stems(storage, dir)?.is_empty())
}

/// Imports the older files; returns the reason why not, if all sessions are still in them.
///
/// # Errors
/// If the import failed and the store must not be given up for the older files.
fn import(
    store: &Store,
    storage: &dyn Storage,
    dir: &Path,
) -> Result<std::result::Result<MigrationReport, Error>> {
    let chats = store.handle().exact_keys();
    let copies = ImportCopies {
        chats: &chats,
        storage,
        dir,
    };
    let legacy_only = copies.are_all()?;
    let error = match migrate::migrate_together(dir, &chats) {
        Ok(report) => return Ok(Ok(report)),
        Err(error) => error,
    };
    if !legacy_only {
        return Err(error);
    }
    if let Some(key) = copies.backed_up()? {
        let reason = format!("session {key:?} has backups that they do not hold, after: {error}");
        let reason = io::Error::other(reason);
        return Err(Error::io("fall back to the older files of", dir, reason));
    }
    if !copies.take_out()? {
        return Err(error);
    }
    Ok(Err(error))
}

/// The store's sessions that an import took in, or will replace by identical ones.
struct ImportCopies<'a> {
    chats: &'a StoreHandle,
    storage: &'a dyn Storage,
    dir: &'a Path,
}

impl ImportCopies<'_> {
    /// True if they are everything the store has, in its files too.
    fn are_all(&self) -> Result<bool> {
        let Some(keys) = self.keys()? else {
            return Ok(false);
        };
        let stems = stems(self.storage, self.dir)?;
        Ok(stems.iter().all(|stem| self.is_of_any(stem, &keys)))
    }

    /// The keys of all sessions of the store, if each is a copy of an older file
    /// that is still to be imported.
    fn keys(&self) -> Result<Option<HashSet<String>>> {
        let keys = self.chats.list_sessions().wait()?;
        if keys.is_empty() {
            return Ok(Some(HashSet::new()));
        }
        let older = migrate::keys_to_import(self.dir, self.chats)?;
        for key in &keys {
            match older.get(key) {
                Some(file) if self.is_copy(key, file)? => {}
                _ => return Ok(None),
            }
        }
        Ok(Some(keys.into_iter().collect()))
    }

    /// A session that has backups. They are deleted with it, and may be all that is left of data
    /// replaced by an import, this one or one that was cut short.
    fn backed_up(&self) -> Result<Option<String>> {
        for key in self.chats.list_sessions().wait()? {
            if !self.chats.list_backups(&key).wait()?.is_empty() {
                return Ok(Some(key));
            }
        }
        Ok(None)
    }

    /// Removes the copies from the store; returns `false`, with nothing removed, if a session is
    /// not a copy. Files that did not get their names back count as missing.
    fn take_out(&self) -> Result<bool> {
        let Some(keys) = self.keys()? else {
            return Ok(false);
        };
        for key in keys {
            self.chats.delete_for_good(&key).wait()?;
        }
        Ok(true)
    }

    /// True if a session file belongs to one of these sessions.
    fn is_of_any(&self, stem: &str, keys: &HashSet<String>) -> bool {
        let path = self.dir.join(session_file::sidecar_name(stem));
        let bytes = read_bytes(self.storage, &path).unwrap_or_default();
        let meta = session_file::decode_sidecar(&bytes);
        meta.is_ok_and(|meta| keys.contains(&meta.key))
    }

    /// True if the store has nothing of a session that its older file does not have.
    fn is_copy(&self, key: &str, file: &str) -> Result<bool> {
        let LegacyContent::Session(older) = migrate::read(self.storage, self.dir, file)? else {
            return Ok(false);
        };
        let meta = self.chats.session_meta(key).wait()?;
        let scope = meta.scope.filter(|scope| scope.get() != "null");
        let aliases = || session_file::normalize_aliases(key, &older.aliases);
        Ok((meta.summary.is_empty() || meta.summary == older.summary)
            && scope.is_none_or(|scope| same_scope(&scope, older.scope.as_deref()))
            && (meta.aliases.is_empty() || meta.aliases == aliases())
            && same_lines(&self.chats.history(key).wait()?, &older.messages))
    }
}

fn same_scope(stored: &RawValue, older: Option<&RawValue>) -> bool {
    let read = |scope: &RawValue| SessionScope::from_json(scope.get()).ok();
    older.is_some_and(|older| read(stored).is_some() && read(stored) == read(older))
}

/// Times do not count: a message without a time in the file got one in the store.
fn same_lines(stored: &[Message], older: &[Message]) -> bool {
    let line = |message: &Message| {
        let message = message.clone().with_created_at(ZERO_TIME);
        message
            .map(|message| session_file::encode(&message, None))
            .ok()
    };
    let visible = older.iter().filter(|message| !message.is_transient());
    stored.iter().map(line).eq(visible.map(line))
}

/// The names of session files and sidecars without their extensions, twice if a session has both.
/// Older files that are named like sidecars are not included.
fn stems(storage: &dyn Storage, dir: &Path) -> Result<Vec<String>> {
    let entries = match storage.read_dir(dir) {
        Ok(entries) => entries,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => return Err(Error::io("list", dir, e)),
    };
    let mut stems = Vec::new();
    for entry in entries.iter().filter(|entry| entry.kind == FileKind::File) {
        if let Some(stem) = entry.name.strip_suffix(LOG) {
            stems.push(stem.to_owned());
        } else if let Some(stem) = entry.name.strip_suffix(SIDECAR)
            && matches!(
                migrate::read(storage, dir, &entry.name)?,
                LegacyContent::Sidecar
            )
        {
            stems.push(stem.to_owned());
        }
    }
    Ok(stems)
}
