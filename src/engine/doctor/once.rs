//! What a damaged journal says of messages that sessions took once.

use super::repair::Repair;
use super::salvage::Salvage;
use crate::disk::files::once;
use crate::engine::home;
use crate::error::{Error, Result};

impl Repair<'_> {
    /// Adds it to the files that say so. Done again it does the same again.
    pub(super) fn salvage_once(&mut self, salvage: &Salvage) -> Result<()> {
        let (storage, dir) = (&**self.storage, &self.home.once);
        for (stem, plan) in &salvage.plans.once {
            let path = once::path(dir, stem);
            let put = || {
                let old = once::read(storage, &path)?;
                once::replace(storage, &path, &plan.lines(&old))
            };
            home::create_all(storage, dir)?;
            put().map_err(|e| Error::io("write", &path, e))?;
        }
        if salvage.plans.once.is_empty() {
            return Ok(());
        }
        let synced = storage.sync_dir(dir);
        synced.map_err(|e| Error::io("sync", dir, e))
    }
}
