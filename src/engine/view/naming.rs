//! Finds the session that a key means.

use std::sync::Arc;

use sessionlog_core::error::Result;
use sessionlog_core::session_file;

use super::DirectoryView;

impl DirectoryView {
    /// See [`Catalog::resolve`](crate::engine::catalog::Catalog::resolve).
    ///
    /// # Errors
    /// If the directory cannot be read.
    pub(crate) fn resolve(&self, key: &str) -> Result<Option<String>> {
        Ok(self.look_again()?.catalog.resolve(key))
    }

    /// Returns the key of the session that `key` means, literally or not, if there is one.
    ///
    /// # Errors
    /// If the directory cannot be read, or for an invalid key.
    pub(crate) fn existing(&self, key: &str, resolve: bool) -> Result<Option<Arc<str>>> {
        let mut moment = self.current(key)?;
        let (_, stem) = moment.find(key, resolve);
        // The journal does not show that others remove files.
        let has_log = |stem: &str| {
            let log = self.dir.join(session_file::log_name(stem));
            self.storage.info(&log).is_ok()
        };
        if stem.is_some_and(|stem| !has_log(&stem)) {
            moment = self.look_again()?;
        }
        let (key, stem) = moment.find(key, resolve);
        session_file::validate_key(&key)?;
        Ok(stem.map(|_| key))
    }

    /// Returns the key that `key` means, literally or not, and its session's file name.
    ///
    /// # Errors
    /// If the directory cannot be read, or for an invalid key.
    pub(crate) fn named(&self, key: &str, resolve: bool) -> Result<(Arc<str>, Option<String>)> {
        let (key, stem) = self.look_again()?.find(key, resolve);
        session_file::validate_key(&key)?;
        Ok((key, stem.map(|stem| stem.to_string())))
    }
}
