//! Directories of a store: made, synced by name, and checked for their owner.

use std::io;
use std::path::Path;

use sessionlog_core::error::{Error, Result};
use sessionlog_core::session_file::NameRule;
use sessionlog_wal::storage::{FileKind, Storage};

use super::NAME;

/// Creates a directory and its parents, each durably: a power loss must not
/// take the directory from under a file that was synced.
pub(crate) fn create_all(storage: &dyn Storage, path: &Path) -> Result<()> {
    match storage.info(path) {
        Ok(_) => return Ok(()),
        Err(e) if e.kind() == io::ErrorKind::NotFound => {}
        Err(e) => return Err(Error::io("open", path, e)),
    }
    let above = parent(path);
    if above != path {
        create_all(storage, above)?;
    }
    match storage.create_dir(path) {
        Err(e) if e.kind() != io::ErrorKind::AlreadyExists => {
            return Err(Error::io("create", path, e));
        }
        _ => {}
    }
    storage
        .sync_dir(above)
        .map_err(|e| Error::io("sync", above, e))
}

/// Syncs the names of `path` and of every directory above it. Some file systems and some
/// directories above ours cannot be synced; names that existed before us do not depend on it.
///
/// # Errors
/// If only a descriptor is lacking, which tells nothing about the directory.
pub(super) fn sync_names(storage: &dyn Storage, path: &Path) -> Result<()> {
    let above = parent(path);
    if above == path {
        return Ok(());
    }
    sync_names(storage, above)?;
    if let Err(error) = storage.sync_dir(above) {
        let error = Error::io("sync", above, error);
        if error.out_of_descriptors() {
            return Err(error);
        }
        tracing::debug!(path = %above.display(), %error, "names not synced");
    }
    Ok(())
}

pub(super) fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        Some(_) => Path::new("."),
        None => path,
    }
}

/// Refuses a thing that is no directory, or not ours: another user could read our files, or change
/// them under us.
pub(super) fn check_dir(storage: &dyn Storage, path: &Path, any_owner: bool) -> Result<()> {
    let refuse = |kind, why: &str| Err(Error::io("open", path, io::Error::new(kind, why)));
    let info = storage.info(path).map_err(|e| Error::io("open", path, e))?;
    match info.kind {
        FileKind::Directory => {}
        FileKind::Symlink => {
            return refuse(
                io::ErrorKind::NotADirectory,
                "it is a symbolic link; give the directory it leads to",
            );
        }
        FileKind::File | FileKind::Other => {
            return refuse(io::ErrorKind::NotADirectory, "it is not a directory");
        }
    }
    if !any_owner && info.owner != storage.current_user() {
        return refuse(
            io::ErrorKind::PermissionDenied,
            "the directory belongs to another user, who could read and change everything in it; \
             `allow_other_owner` accepts that",
        );
    }
    Ok(())
}

/// Finds out which names are one in `dir`, by the name of the engine's directory in capitals. Asked
/// at each open: a copy of the store may be on another file system. Where the engine has no
/// directory yet, nothing is known.
pub(crate) fn name_rule(storage: &dyn Storage, dir: &Path) -> NameRule {
    let [own, other] = [NAME, &NAME.to_uppercase()].map(|name| storage.info(&dir.join(name)));
    match (own, other) {
        (Ok(_), Err(e)) if e.kind() == io::ErrorKind::NotFound => NameRule::TellsCase,
        _ => NameRule::Folds,
    }
}
