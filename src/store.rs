//! Store (skeleton).
use std::path::Path;
use crate::{RecoveryReport, Result, StoreHandle, StoreOptions};

/// An open directory of sessions.
#[derive(Debug)]
pub struct Store {}

#[allow(unused_variables, missing_docs)]
impl Store {
    pub fn open(dir: impl AsRef<Path>) -> Result<Store> { unimplemented!() }
    pub fn open_with(dir: impl AsRef<Path>, options: StoreOptions) -> Result<Store> { unimplemented!() }
    pub fn open_read_only(dir: impl AsRef<Path>) -> Result<Store> { unimplemented!() }
    pub fn handle(&self) -> StoreHandle { unimplemented!() }
    pub fn recovery_report(&self) -> &RecoveryReport { unimplemented!() }
    pub fn close(self) -> Result<()> { unimplemented!() }
}
