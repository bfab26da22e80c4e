//! Puts lost sidecars back, and copies recovered ones.

use std::io;
use std::path::{Path, PathBuf};

use sessionlog_core::error::{Error, Result};
use sessionlog_core::session_file::{self, SessionMeta};
use sessionlog_wal::storage::{OpenMode, Storage};

use super::plan::Plans;
use super::redo::{SCRATCH_PREFIX, StorePlaces};
use super::survey::SurveyResult;
use crate::disk::copies::copy_file::CopyFile;
use crate::disk::copies::{Copy, SidecarCopy};
use crate::disk::files;
use crate::disk::files::sidecar::read_bytes;

/// Writes sidecars that were restored from their copies, and sets damaged ones in their place
/// aside. Also replaces sidecars that lack fields which another program dropped. If interrupted,
/// the next open begins anew. Without space for the dropped fields they are left to a later open:
/// no store stays shut for a title.
///
/// # Errors
/// As the operating system reports them. Served without its sidecar, a session would show truncated
/// lines, and its copy would be replaced with that state.
pub(crate) fn write(
    storage: &dyn Storage,
    places: StorePlaces<'_>,
    found: &SurveyResult,
) -> Result<()> {
    let dir = places.dir;
    let restored = found.restored.iter();
    let restored = restored.map(|(stem, restored)| (stem.as_str(), &restored.meta));
    let lost = write_scratch(storage, dir, "lost", restored)?;
    let tagged = found
        .tagged
        .iter()
        .map(|(stem, meta)| (stem.as_str(), meta));
    let tagged = match write_scratch(storage, dir, "tagged", tagged) {
        Err(error) if error.may_pass() => {
            tracing::warn!(%error, "fields that another program dropped of sidecars are not put back");
            Vec::new()
        }
        written => written?,
    };
    if lost.is_empty() && tagged.is_empty() {
        return Ok(());
    }
    let sync = || storage.sync_all(dir).map_err(|e| Error::io("sync", dir, e));
    sync()?;
    for (stem, temp) in lost {
        let name = session_file::sidecar_name(stem);
        let path = dir.join(&name);
        let aside = files::free_path(storage, places.quarantine, &name)?;
        match storage.rename(&path, &aside) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
            _ => storage.rename(&temp, &path),
        }
        .map_err(|e| Error::io("restore", &path, e))?;
    }
    for (stem, temp) in tagged {
        let path = dir.join(session_file::sidecar_name(stem));
        let replaced = storage.rename(&temp, &path);
        replaced.map_err(|e| Error::io("restore", &path, e))?;
    }
    sync()
}

/// Writes each sidecar to a scratch file of its own. If one of them cannot be written, none stays.
fn write_scratch<'a>(
    storage: &dyn Storage,
    dir: &Path,
    what: &str,
    sidecars: impl Iterator<Item = (&'a str, &'a SessionMeta)>,
) -> Result<Vec<(&'a str, PathBuf)>> {
    let mut written = Vec::new();
    for (nth, (stem, meta)) in sidecars.enumerate() {
        let temp = dir.join(format!("{SCRATCH_PREFIX}{what}-{nth:016x}"));
        let bytes = session_file::encode_sidecar(meta);
        let file = storage.open(&temp, OpenMode::CreateNew);
        let wrote = file.and_then(|file| file.write_all_at(&bytes, 0));
        written.push((stem, temp));
        if let Err(e) = wrote {
            for (_, temp) in &written {
                // The next open removes a file that cannot be removed here.
                let _ = storage.remove_file(temp);
            }
            let temp = written.pop().map(|(_, temp)| temp).unwrap_or_default();
            return Err(Error::io("restore", &temp, e));
        }
    }
    Ok(written)
}

/// Copies the sidecars that recovery brought up to the journal: the next checkpoint takes their
/// content from the journal.
///
/// # Errors
/// If a sync fails. A sidecar that cannot be read is not copied, and a copy that cannot be written
/// is left to the next flush.
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

fn said(storage: &dyn Storage, dir: &Path, stem: &str) -> Option<SidecarCopy> {
    let path = dir.join(session_file::sidecar_name(stem));
    let meta = session_file::decode_sidecar(&read_bytes(storage, &path).ok()?).ok()?;
    let log = files::open_log(storage, dir, stem, OpenMode::Read).ok()?;
    let len = match &log {
        Some(log) => log.info().ok()?.len,
        None => 0,
    };
    SidecarCopy::beside(log.as_deref(), len, meta).ok()
}
