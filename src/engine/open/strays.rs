//! Backups of sessions that no longer exist.

use sessionlog_core::error::{Error, Result};
use sessionlog_core::session_file;
use sessionlog_wal::storage::Storage;

use crate::disk::files;
use crate::disk::files::backup::{self, BackupName};
use crate::engine::catalog::Catalog;
use crate::engine::home::Home;
use crate::engine::recovery::RecoveryReport;

/// Sets aside the backups of sessions that were removed by hand. Backups are found by the name of
/// the session's files, and the next session that gets this name, perhaps of another key, would be
/// shown another chat and could be taken back to it. Backups with a sidecar that names their key
/// stay.
pub(super) fn set_aside_strays(
    storage: &dyn Storage,
    home: &Home,
    catalog: &Catalog,
    report: &mut RecoveryReport,
) -> Result<()> {
    let found = backup::list(storage, &home.backups);
    let mut found = found.map_err(|e| Error::io("list", &home.backups, e))?;
    for stored in &found {
        if let Some(key) = owner_of(storage, home, &stored.name) {
            catalog.enter_gone(&key, &stored.name.stem);
        }
    }
    found.retain(|stored| !catalog.has_stem(&stored.name.stem));
    if found.is_empty() {
        return Ok(());
    }
    found.sort_by_cached_key(|stored| (stored.name.stem.clone(), stored.name.number));
    for stored in found {
        let name = stored.name.to_text();
        let from = home.backups.join(&name);
        let aside = files::free_path(storage, &home.quarantine, &name)?;
        storage
            .rename(&from, &aside)
            .map_err(|e| Error::io("set aside", &from, e))?;
        report.findings.push(format!(
            "the backup {name} belongs to no session; it is now {}",
            aside.display()
        ));
    }
    for dir in [&home.quarantine, &home.backups] {
        storage
            .sync_dir(dir)
            .map_err(|e| Error::io("sync", dir, e))?;
    }
    Ok(())
}

/// Returns the key of a backup's session, if a sidecar beside it names it and the key leads to its
/// file name.
fn owner_of(storage: &dyn Storage, home: &Home, name: &BackupName) -> Option<String> {
    let sidecar = home.backups.join(name.sidecar());
    let bytes = files::sidecar::read_bytes(storage, &sidecar).ok()?;
    let key = session_file::decode_sidecar(&bytes).ok()?.key;
    let stems = [
        session_file::plain_stem(&key),
        session_file::hashed_stem(&key),
    ];
    (!key.is_empty() && stems.contains(&name.stem)).then_some(key)
}
