//! Files that were prepared to take a session file's name.

use std::io;
use std::path::Path;

use crate::disk::files::log_path;
use crate::engine::recovery::plan::{Base, Kept, Swap};
use crate::error::{Error, Result};
use crate::ground::storage::{OpenMode, Storage, StorageFile};

/// A rewritten file that is neither under its hidden nor under its own name.
pub(crate) fn gone(path: &Path) -> Error {
    Error::Corrupt {
        path: path.into(),
        detail: String::from("the rewritten session file is missing"),
    }
}

/// Whether a rewritten file that became a backup is what the journal says.
///
/// # Errors
/// `Corrupt` if not; else as the operating system reports them.
pub(crate) fn backup_fault(storage: &dyn Storage, backups: &Path, kept: &Kept) -> Result<()> {
    let Base::Swapped(swap) = &kept.plan.base else {
        return Ok(());
    };
    for name in [&kept.link, &kept.name] {
        let path = backups.join(name);
        match storage.open(&path, OpenMode::Read) {
            Ok(file) => return check(&*file, swap, &path),
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            Err(e) => return Err(Error::io("read", &path, e)),
        }
    }
    Ok(())
}

/// Why a rewrite cannot be carried out, if it cannot.
///
/// # Errors
/// As the operating system reports them.
pub(crate) fn rewrite_fault(
    storage: &dyn Storage,
    dir: &Path,
    stem: &str,
    swap: &Swap,
) -> Result<Option<String>> {
    let fault = |e: Error| match e {
        Error::Corrupt { detail, .. } => Ok(Some(detail)),
        other => Err(other),
    };
    let temp = dir.join(&swap.temp);
    match storage.open(&temp, OpenMode::Read) {
        Ok(file) => return check(&*file, swap, &temp).map_or_else(fault, |()| Ok(None)),
        Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(Error::io("read", &temp, e)),
        Err(_) => {}
    }
    // Renamed already, perhaps over something else's bytes: that is a finding
    // of recovery's, and nothing stops.
    let path = log_path(dir, stem);
    match storage.open(&path, OpenMode::Read) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => fault(gone(&path)),
        Err(e) => Err(Error::io("read", &path, e)),
        Ok(_) => Ok(None),
    }
}

/// Whether a file begins with what was prepared.
pub(super) fn check(file: &dyn StorageFile, swap: &Swap, path: &Path) -> Result<()> {
    let wrap = |e| Error::io("read", path, e);
    let mut crc = crc32fast::Hasher::new();
    let mut chunk = vec![0; (1 << 20).min(swap.len as usize)];
    let mut at = 0;
    let damaged = || Error::Corrupt {
        path: path.into(),
        detail: String::from("a rewritten session file is not what the journal says it is"),
    };
    if file.info().map_err(wrap)?.len < swap.len {
        return Err(damaged());
    }
    while at < swap.len {
        let want = (swap.len - at).min(chunk.len() as u64) as usize;
        file.read_exact_at(&mut chunk[..want], at).map_err(wrap)?;
        crc.update(&chunk[..want]);
        at += want as u64;
    }
    if crc.finalize() == swap.crc {
        Ok(())
    } else {
        Err(damaged())
    }
}
