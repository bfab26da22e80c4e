//! Putting lost sidecars back, and noting what recovered ones say.

use crate::disk::files;
use crate::disk::files::sidecar::read_bytes;
use std::io;
use std::path::Path;

use super::plan::Plans;
use super::redo::{Places, SCRATCH_PREFIX};
use super::survey::Surveyed;
use crate::disk::copies::copy_file::CopyFile;
use crate::disk::copies::{Copy, Said};
use crate::disk::session_file;
use crate::error::{Error, Result};
use crate::ground::storage::{OpenMode, Storage};

/// Writes sidecars that were made again of their copies; damaged ones in their
/// place are set aside, those that lack tags are replaced. Interrupted, it begins anew with
/// the next open.
///
/// # Errors
/// As the operating system reports them. Served without its sidecar, a session
/// would show what was truncated, and its copy would be replaced with that.
pub(crate) fn write(storage: &dyn Storage, places: Places<'_>, found: &Surveyed) -> Result<()> {
    if found.restored.is_empty() && found.tagged.is_empty() {
        return Ok(());
    }
    let dir = places.dir;
    let mut written = Vec::new();
    let lost = found.restored.iter();
    let lost = lost.map(|(stem, restored)| (stem, &restored.meta, true));
    let tagged = found.tagged.iter().map(|(stem, meta)| (stem, meta, false));
    for (nth, (stem, meta, is_lost)) in lost.chain(tagged).enumerate() {
        let temp = dir.join(format!("{SCRATCH_PREFIX}{nth:016x}"));
        let bytes = session_file::encode_sidecar(meta);
        storage
            .open(&temp, OpenMode::CreateNew)
            .and_then(|file| file.write_all_at(&bytes, 0))
            .map_err(|e| Error::io("restore", &temp, e))?;
        written.push((stem, temp, is_lost));
    }
    let sync = || storage.sync_all(dir).map_err(|e| Error::io("sync", dir, e));
    sync()?;
    for (stem, temp, is_lost) in written {
        let name = session_file::sidecar_name(stem);
        let path = dir.join(&name);
        let cleared = if is_lost {
            let aside = files::free_path(storage, places.quarantine, &name)?;
            storage.rename(&path, &aside)
        } else {
            Ok(())
        };
        match cleared {
            Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
            _ => storage.rename(&temp, &path),
        }
        .map_err(|e| Error::io("restore", &path, e))?;
    }
    sync()
}

/// Copies what the sidecars say that recovery brought up to the journal: the
/// checkpoint that comes takes from the journal what it said of them.
///
/// # Errors
/// If a sync fails. What cannot be read is not copied, and what cannot be
/// written is left to the next flush.
pub(crate) fn copy(
    storage: &dyn Storage,
    dir: &Path,
    plans: &Plans,
    copies: &mut CopyFile,
) -> Result<()> {
    copies.clear_temp();
    for (stem, plan) in &plans.sessions {
        if !plan.exists() {
            copies.add(Copy::gone(stem.as_str().into(), 0));
        } else if let Some(said) = said(storage, dir, stem) {
            copies.add(Copy::new(stem.as_str().into(), 0, &said));
        }
    }
    copies.write();
    copies.sync()
}

fn said(storage: &dyn Storage, dir: &Path, stem: &str) -> Option<Said> {
    let path = dir.join(session_file::sidecar_name(stem));
    let meta = session_file::decode_sidecar(&read_bytes(storage, &path).ok()?).ok()?;
    let log = files::open_log(storage, dir, stem, OpenMode::Read).ok()?;
    let len = match &log {
        Some(log) => log.info().ok()?.len,
        None => 0,
    };
    Said::beside(log.as_deref(), len, meta).ok()
}
