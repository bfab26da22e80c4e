//! Sessions that a worker brought up to date.

use std::sync::Arc;

use sessionlog_core::error::Error;
use sessionlog_wal::storage::StorageFile;

use super::owed::{SYNC_EACH, UnsyncedFile};
use crate::disk::copies::Copy;

/// The sessions that a worker brought up to date, for the supervisor to sync.
#[derive(Debug, Default)]
pub(crate) struct FlushPart {
    pub(crate) sessions: Vec<FlushedSession>,
    /// Copies of the sidecars that changed.
    pub(crate) copies: Vec<Copy>,
    /// The error that kept the worker from the rest.
    pub(crate) error: Option<Error>,
}

impl FlushPart {
    /// Adds a session. A flush of many sessions is synced without their files: files held open
    /// until then would bypass the limit of open files.
    pub(super) fn add(&mut self, (mut flushed, copy): (FlushedSession, Option<Copy>)) {
        self.copies.extend(copy);
        if self.sessions.len() >= SYNC_EACH {
            flushed.unheld |= flushed.log.take().is_some();
        }
        self.sessions.push(flushed);
    }
}

/// A session with files that are up to date and not synced.
#[derive(Debug)]
pub(crate) struct FlushedSession {
    pub(crate) stem: Arc<str>,
    /// Its log, if that is open.
    pub(crate) log: Option<Arc<dyn StorageFile>>,
    /// Its sidecar, if that was written.
    pub(crate) sidecar: Option<UnsyncedFile>,
    /// True if something was written through a descriptor that is closed.
    pub(crate) unheld: bool,
}
