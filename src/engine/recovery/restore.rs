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
use crate::disk::session_file::{self, SessionMeta};
use crate::error::{Error, Result};
use crate::ground::storage::{OpenMode, Storage};

/// Writes sidecars that were made again of their copies, and sets damaged ones in their place
/// aside; replaces those that lack what another program dropped. Interrupted, it begins anew
/// with the next open.
///
/// # Errors
/// As the operating system reports them, of those that are missing. Served without its
/// sidecar, a session would show what was truncated, and its copy would be replaced with that.
pub(crate) fn write(storage: &dyn Storage, places: Places<'_>, found: &Surveyed) -> Result<()> {
    let restored = found.restored.iter();
    let lost: Vec<_> = restored
        .map(|(stem, it)| (stem.as_str(), &it.meta))
        .collect();
    put(storage, places, &lost, true)?;
    let tagged = found.tagged.iter();
    let tagged: Vec<_> = tagged.map(|(stem, meta)| (stem.as_str(), meta)).collect();
    // A full disk keeps no store shut for the sake of titles: the next open puts them back.
    if let Err(error) = put(storage, places, &tagged, false) {
        tracing::warn!(%error, "titles and labels that were dropped are not put back");
    }
    Ok(())
}

/// Puts sidecars where they belong; what stands there is set `aside`, or replaced.
fn put(
    storage: &dyn Storage,
    places: Places<'_>,
    sidecars: &[(&str, &SessionMeta)],
    aside: bool,
) -> Result<()> {
    if sidecars.is_empty() {
        return Ok(());
    }
    let dir = places.dir;
    let mut written = Vec::new();
    for (nth, (stem, meta)) in sidecars.iter().enumerate() {
        let temp = dir.join(format!("{SCRATCH_PREFIX}{nth:016x}"));
        let bytes = session_file::encode_sidecar(meta);
        let file = storage.open(&temp, OpenMode::CreateNew);
        let wrote = file.and_then(|file| file.write_all_at(&bytes, 0));
        if let Err(e) = wrote {
            let _ = storage.remove_file(&temp);
            return Err(Error::io("restore", &temp, e));
        }
        written.push((*stem, temp));
    }
    let sync = || storage.sync_all(dir).map_err(|e| Error::io("sync", dir, e));
    sync()?;
    for (stem, temp) in written {
        let name = session_file::sidecar_name(stem);
        let path = dir.join(&name);
        let cleared = if aside {
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
