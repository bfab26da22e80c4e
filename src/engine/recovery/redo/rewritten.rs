//! Files that were prepared to take a session file's name.

use std::io;
use std::path::Path;

use sessionlog_core::error::{Error, Result};
use sessionlog_wal::storage::{OpenMode, Storage, StorageFile};

use crate::engine::recovery::bytes::crc_of;
use crate::engine::recovery::plan::{Base, PlannedBackup, PlannedSwap};

const DAMAGED: &str = "a rewritten session file is not what the journal says it is";

/// Returns the fault of a backup that the journal made, if it has one.
///
/// # Errors
/// As the operating system reports them.
pub(crate) fn backup_fault(
    storage: &dyn Storage,
    backups: &Path,
    kept: &PlannedBackup,
) -> Result<Option<String>> {
    // Any other base makes the file anew.
    let swap = match &kept.plan.base {
        Base::OnDisk => None,
        Base::Swapped(swap) => Some(swap),
        Base::Deleted | Base::Prefix(_) => return Ok(None),
    };
    for name in [&kept.link, &kept.name] {
        let path = backups.join(name);
        let Some(file) = opened(storage, &path)? else {
            continue;
        };
        let sound = swap.map_or(Ok(true), |swap| holds(&*file, swap, &path))?;
        return Ok((!sound).then(|| format!("the backup {}: {DAMAGED}", kept.name)));
    }
    Ok(Some(format!("the backup {} is gone", kept.name)))
}

/// Returns the reason that a rewrite cannot be carried out as it was meant, if there is one.
///
/// # Errors
/// As the operating system reports them.
pub(crate) fn rewrite_fault(
    storage: &dyn Storage,
    dir: &Path,
    swap: &PlannedSwap,
) -> Result<Option<String>> {
    let temp = dir.join(&swap.temp);
    if let Some(file) = opened(storage, &temp)? {
        let sound = holds(&*file, swap, &temp)?;
        return Ok((!sound).then(|| DAMAGED.into()));
    }
    // Renamed already, or removed with its session: the present file decides.
    Ok(None)
}

fn opened(storage: &dyn Storage, path: &Path) -> Result<Option<std::sync::Arc<dyn StorageFile>>> {
    match storage.open(path, OpenMode::Read) {
        Ok(file) => Ok(Some(file)),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(Error::io("read", path, e)),
    }
}

/// Returns true if a file begins with the prepared bytes.
///
/// # Errors
/// As the operating system reports them.
pub(super) fn holds(file: &dyn StorageFile, swap: &PlannedSwap, path: &Path) -> Result<bool> {
    let wrap = |e| Error::io("read", path, e);
    if file.info().map_err(wrap)?.len < swap.len {
        return Ok(false);
    }
    Ok(crc_of(file, swap.len).map_err(wrap)? == swap.crc)
}
