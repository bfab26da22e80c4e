//! The ids of messages taken once, from a damaged journal.

use std::path::PathBuf;

use sessionlog_core::error::{Error, Result};

use super::repair::Repair;
use super::salvage::Salvage;
use crate::disk::files::{kind_of, once};
use crate::engine::home;

impl Repair<'_> {
    /// Adds the journal's ids to their files. Doing it again changes nothing.
    pub(super) fn salvage_once(&mut self, salvage: &Salvage) -> Result<()> {
        let dir = &self.home.once;
        for (stem, plan) in &salvage.plans.once {
            let paths = once::paths(dir, stem);
            self.back_up(&paths)?;
            if plan.anew {
                let is_there = |path: &&PathBuf| kind_of(&**self.storage, path).is_some();
                self.remove(paths.iter().filter(is_there))?;
            }
            let storage = &**self.storage;
            let wrap = |e| Error::io("write", &paths[0], e);
            let taken = once::read(storage, &paths).map_err(wrap)?;
            let missing = plan.missing(&taken);
            if !missing.is_empty() {
                home::create_all(storage, dir)?;
                once::add(storage, &paths[0], &missing).map_err(wrap)?;
            }
        }
        if salvage.plans.once.is_empty() {
            return Ok(());
        }
        let synced = self.storage.sync_all(self.dir);
        synced.map_err(|e| Error::io("sync", self.dir, e))
    }
}
