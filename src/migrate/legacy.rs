//! placeholder
use crate::{Result, StoreHandle};
use std::path::{Path, PathBuf};
/// What a migration did.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct MigrationReport {
    /// Sessions imported.
    pub migrated: usize,
    /// Files left in place, and why.
    pub skipped: Vec<(PathBuf, String)>,
}
/// Imports legacy `*.json` sessions; blocks.
///
/// # Errors
/// x
pub fn migrate_from_json(dir: impl AsRef<Path>, store: &StoreHandle) -> Result<usize> {
    Ok(migrate_from_json_report(dir, store)?.migrated)
}
/// Like [`migrate_from_json`], and says which files were left.
///
/// # Errors
/// x
pub fn migrate_from_json_report(
    _dir: impl AsRef<Path>,
    store: &StoreHandle,
) -> Result<MigrationReport> {
    let _ = store.storage();
    Ok(MigrationReport::default())
}
