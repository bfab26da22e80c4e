//! The layout of a copy.

use std::io;
use std::path::Path;

use sessionlog_core::error::{Error, Result};
use sessionlog_core::session_file::{LOG, SIDECAR};
use sessionlog_wal::storage::{DirEntry, FileKind, OpenMode, Storage, StorageFile};

use crate::disk::files;
use crate::engine::home::{self, Home};

/// The directories of a copy, each after its parent.
pub(super) const SITES: [&str; 5] = [
    "",
    home::NAME,
    ".sessionlog/backups",
    ".sessionlog/once",
    ".sessionlog/archive",
];

/// The lock of the process that puts the copy together.
pub(super) const LOCK: &str = ".sessionlog/lock";

/// The file that names the store of the copy. It is durable before any other file, so that none is
/// taken for another program's after a crash.
pub(super) const MARKER: &str = ".sessionlog/copy";

pub(super) fn is_store(storage: &dyn Storage, dir: &Path) -> Result<bool> {
    match storage.info(&Home::identity_in(dir)) {
        Ok(_) => Ok(true),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(e) => Err(Error::io("open", dir, e)),
    }
}

/// Returns the names in a directory; none if it does not exist.
pub(super) fn list(storage: &dyn Storage, dir: &Path) -> Result<Vec<DirEntry>> {
    match storage.read_dir(dir) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        listed => listed.map_err(|e| Error::io("list", dir, e)),
    }
}

/// The kind of mark that a directory must have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DirectoryMark {
    /// It must have the marker if it has files.
    Always,
    /// It may be one of which a part was removed.
    Perhaps,
}

/// Checks that nothing is at `dir`, or only files of a copy with one of those notes: all of it will
/// be removed.
///
/// # Errors
/// `Io` if it is not so.
pub(super) fn check(
    storage: &dyn Storage,
    dir: &Path,
    notes: &[String],
    marked: DirectoryMark,
) -> Result<()> {
    match storage.info(dir) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
        Ok(info) if info.kind == FileKind::Directory => {}
        _ => return refuse(dir, "it is no directory"),
    }
    let mut any = false;
    for site in SITES {
        for entry in list(storage, &dir.join(site))? {
            let name = Path::new(site).join(&entry.name);
            let name = name.to_string_lossy();
            let is_own = [LOCK, MARKER].contains(&&*name);
            let is_ours = match entry.kind {
                FileKind::Directory => SITES.contains(&&*name),
                FileKind::File => is_own || is_copys(site, &entry.name),
                _ => false,
            };
            if !is_ours {
                let reason = format!("{name:?} in it is of no copy; give a new directory");
                return refuse(dir, &reason);
            }
            any |= entry.kind == FileKind::File && !is_own;
        }
    }
    if !any {
        return Ok(());
    }
    match files::read_whole(storage, &dir.join(MARKER)) {
        Ok(found) if notes.iter().any(|note| found == note.as_bytes()) => Ok(()),
        Ok(found) => {
            let found = String::from_utf8_lossy(&found);
            refuse(dir, &format!("it is a {found:?}, not of this store"))
        }
        Err(_) if marked == DirectoryMark::Perhaps => Ok(()),
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            refuse(dir, "its files are of no copy; give a new directory")
        }
        Err(e) => Err(Error::io("read", &dir.join(MARKER), e)),
    }
}

fn refuse(dir: &Path, reason: &str) -> Result<()> {
    let reason = io::Error::new(io::ErrorKind::AlreadyExists, reason);
    Err(Error::io("back up to", dir, reason))
}

/// Returns true if a copy may have a file of that name.
fn is_copys(site: &str, name: &str) -> bool {
    match site {
        "" => name.ends_with(LOG) || name.ends_with(SIDECAR),
        home::NAME => false,
        _ => true,
    }
}

/// Writes the marker, durably.
///
/// # Errors
/// `Io` if it cannot be written.
pub(super) fn mark(storage: &dyn Storage, dir: &Path, note: &str) -> Result<()> {
    let path = dir.join(MARKER);
    let wrap = |e| Error::io("write", &path, e);
    let open = || match storage.open(&path, OpenMode::CreateNew) {
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
            storage.open(&path, OpenMode::ReadWrite)
        }
        opened => opened,
    };
    let file = open().map_err(wrap)?;
    // A crash may have left part of it, and then nothing else.
    if file.info().map_err(wrap)?.len != note.len() as u64 || !reads(&*file, note) {
        file.set_len(0).map_err(wrap)?;
        file.write_all_at(note.as_bytes(), 0).map_err(wrap)?;
    }
    file.sync_data().map_err(wrap)?;
    storage.sync_dir(&dir.join(home::NAME)).map_err(wrap)
}

fn reads(file: &dyn StorageFile, note: &str) -> bool {
    let mut found = vec![0; note.len()];
    file.read_exact_at(&mut found, 0).is_ok() && found == note.as_bytes()
}

/// Removes a copy, or the part of one that exists.
///
/// # Errors
/// `Io` if it cannot be removed.
pub(super) fn remove(storage: &dyn Storage, copy: &Path) -> Result<()> {
    for site in SITES.iter().rev() {
        let site = copy.join(site);
        for entry in list(storage, &site)? {
            let path = site.join(&entry.name);
            let removed = storage.remove_file(&path);
            removed.map_err(|e| Error::io("remove", &path, e))?;
        }
        match storage.remove_dir(&site) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => {
                return Err(Error::io("remove", &site, e));
            }
            _ => {}
        }
    }
    Ok(())
}
