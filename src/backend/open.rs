//! Choosing a store for a directory.

use std::collections::HashSet;
use std::io;
use std::path::Path;
use std::sync::Arc;

use super::{JsonlBackend, LegacyJsonStore, SessionStore};
use crate::engine::home::Home;
use crate::error::{Error, Result};
use crate::session_file::{self, LOG, SIDECAR};
use crate::shard::load;
use crate::storage::{DiskStorage, FileKind, Storage};
use crate::{Store, StoreHandle, StoreOptions, migrate};

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

/// Opens a directory of sessions: as a [`Store`], into which it first imports
/// the files of PicoClaw's older manager; or where one of the two fails, as a
/// [`LegacyJsonStore`] over those files, with the reason logged as an error.
/// [`SessionStore::kind`] says which it is.
///
/// Everything is in one of the two, before, after, and if the process dies in
/// between. Files are imported all or none: they keep their names until every
/// session is in the [`Store`], and what it took in of them is taken out again
/// before falling back. The next open begins anew. A file that does not decode,
/// or holds what the [`Store`] does not accept, stays where it is and is no
/// failure.
///
/// It does not fall back, but returns the error,
/// - where another process writes to the directory ([`Error::Locked`]): it has
///   the sessions;
/// - where some session is, or may be, in the [`Store`]'s files or its journal
///   and not in the older ones: its history would be hidden, and what is added to
///   it meanwhile would replace it at the next import;
/// - where what was imported could not be taken out again.
///
/// Blocks for as long as opening and importing takes.
///
/// # Errors
/// Those of [`Store::open`], [`migrate_from_json`](crate::migrate_from_json) and
/// [`LegacyJsonStore::open`]. Nothing acknowledged is lost, and the next open
/// tries again.
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
    open_on(Arc::new(DiskStorage), &dir, &options)
}

/// Opens a directory of any file system. `dir` is absolute.
///
/// # Errors
/// As [`open_session_store_with`].
pub(crate) fn open_on(
    storage: Arc<dyn Storage>,
    dir: &Path,
    options: &StoreOptions,
) -> Result<Arc<dyn SessionStore>> {
    let reason = match Store::open_on(storage.clone(), dir, options) {
        Err(error) => {
            let elsewhere = matches!(error, Error::Locked { .. })
                || Home::of(dir).may_have_journal(&*storage)
                || !Older::of(&*storage, dir)?.has_all_files(&*storage, dir)?;
            if elsewhere {
                return Err(error);
            }
            error
        }
        Ok(store) => match import(&store, &*storage, dir)? {
            None => return Ok(Arc::new(JsonlBackend::new(store))),
            Some(reason) => {
                store.close()?;
                reason
            }
        },
    };
    let dir_shown = dir.display();
    tracing::error!(dir = %dir_shown, %reason, "falling back to the older JSON session files");
    Ok(Arc::new(LegacyJsonStore::open_on(storage, dir)?))
}

/// Imports the older files; why not, where all sessions are in them after all.
fn import(store: &Store, storage: &dyn Storage, dir: &Path) -> Result<Option<Error>> {
    let chats = store.handle().exact_keys();
    let older = Older::of(storage, dir)?;
    let legacy_only = older.has_all_files(storage, dir)? && older.has_all(&chats)?;
    let Err(error) = migrate::migrate_together(dir, &chats) else {
        return Ok(None);
    };
    // The files may not all have their names back: then they are not all there.
    if !legacy_only || !take_out(&chats, storage, dir)? {
        return Err(error);
    }
    Ok(Some(error))
}

/// Removes what was imported; `false` where some of it is in no older file.
fn take_out(chats: &StoreHandle, storage: &dyn Storage, dir: &Path) -> Result<bool> {
    if !Older::of(storage, dir)?.has_all(chats)? {
        return Ok(false);
    }
    for key in chats.list_sessions().wait()? {
        chats.delete_session(&key).wait()?;
    }
    Ok(true)
}

/// The keys of the sessions in files that are still to be imported. What the
/// store has of them is a copy.
struct Older(HashSet<String>);

impl Older {
    fn of(storage: &dyn Storage, dir: &Path) -> Result<Self> {
        let keys = migrate::keys_to_import(storage, dir)?;
        Ok(Self(keys.into_iter().collect()))
    }

    /// Whether every session of the store is among them.
    fn has_all(&self, chats: &StoreHandle) -> Result<bool> {
        let keys = chats.list_sessions().wait()?;
        Ok(keys.iter().all(|key| self.0.contains(key)))
    }

    /// Whether every file of the store is of a session among them.
    fn has_all_files(&self, storage: &dyn Storage, dir: &Path) -> Result<bool> {
        let entries = match storage.read_dir(dir) {
            Ok(entries) => entries,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(true),
            Err(e) => return Err(Error::io("list", dir, e)),
        };
        let has = |stem: &str| {
            let path = dir.join(session_file::sidecar_name(stem));
            let bytes = load::read_whole(storage, &path).unwrap_or_default();
            let meta = session_file::decode_sidecar(&bytes);
            meta.is_ok_and(|meta| self.0.contains(&meta.key))
        };
        Ok(entries
            .iter()
            .filter(|entry| entry.kind == FileKind::File)
            .filter_map(|entry| {
                entry
                    .name
                    .strip_suffix(LOG)
                    .or(entry.name.strip_suffix(SIDECAR))
            })
            .all(has))
    }
}
