//! Choosing a store for a directory.

use std::collections::HashSet;
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
                || !is_legacy_only(&*storage, dir, &[])?;
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
    let known = chats.list_sessions().wait()?;
    let legacy_only = is_legacy_only(storage, dir, &known)?;
    let Err(error) = migrate::migrate_together(dir, &chats) else {
        return Ok(None);
    };
    // The files may not all have their names back: then they are not all there.
    if !legacy_only || !take_out(&chats, storage, dir)? {
        return Err(error);
    }
    Ok(Some(error))
}

/// Removes what was imported; `false` where some of it is in no file.
fn take_out(chats: &StoreHandle, storage: &dyn Storage, dir: &Path) -> Result<bool> {
    let imported = chats.list_sessions().wait()?;
    if !is_legacy_only(storage, dir, &imported)? {
        return Ok(false);
    }
    for key in imported {
        chats.delete_session(&key).wait()?;
    }
    Ok(true)
}

/// Whether every session there is, `known` ones included, is in a file that is
/// still to be imported. What stands in the store's files besides is a copy.
fn is_legacy_only(storage: &dyn Storage, dir: &Path, known: &[String]) -> Result<bool> {
    let keys = migrate::keys_to_import(storage, dir)?;
    let keys: HashSet<&str> = keys.iter().map(String::as_str).collect();
    let entries = match storage.read_dir(dir) {
        Ok(entries) => entries,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Vec::new(),
        Err(e) => return Err(Error::io("list", dir, e)),
    };
    let names: Vec<_> = entries
        .into_iter()
        .filter(|entry| entry.kind == FileKind::File)
        .map(|entry| entry.name)
        .collect();
    let copied = |stem: &str| {
        let name = session_file::sidecar_name(stem);
        let bytes = load::read_whole(storage, &dir.join(&name)).ok();
        bytes.is_some_and(|bytes| {
            let meta = session_file::decode_sidecar(&bytes);
            meta.is_ok_and(|meta| keys.contains(&*meta.key))
        })
    };
    let is_copy = |name: &String| {
        let stem = name.strip_suffix(LOG).or(name.strip_suffix(SIDECAR));
        stem.is_none_or(copied)
    };
    Ok(names.iter().all(is_copy) && known.iter().all(|key| keys.contains(&**key)))
}
