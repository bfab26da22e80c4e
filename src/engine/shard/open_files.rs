//! The open session files of a shard: opened when they are needed, closed when there are too many.

use std::sync::Arc;

use sessionlog_core::error::Result;
use sessionlog_wal::storage::{OpenMode, StorageFile};

use super::owed::Keeper;
use super::shared::SharedState;
use super::turn::Turn;
use super::{Resident, Shard};
use crate::disk::files;

impl Shard {
    /// Returns the session's open file, opened if need be; `None` if it has none.
    pub(super) fn file(
        &mut self,
        id: usize,
        turn: &mut Turn<'_>,
    ) -> Result<Option<Arc<dyn StorageFile>>> {
        let session = self.session(id);
        if session.file.is_none() && session.exists {
            let stem = session.entry.stem.clone();
            let file = self.open_log(&stem, turn)?;
            let session = self.session(id);
            session.file = file;
            session.publish();
        }
        let file = self.session(id).file.clone();
        if file.is_some() {
            self.used(id);
        }
        Ok(file)
    }

    pub(super) fn used(&mut self, id: usize) {
        if let Some(evicted) = self.handles.used(id) {
            self.close(evicted);
        }
    }

    /// Closes a session's file, also in its published view: snapshots that kept it would keep
    /// descriptors open without bound.
    fn close(&mut self, id: usize) {
        if let Resident::Ready(session) = &mut self.sessions[id] {
            session.file = None;
            session.owed.closed();
            session.forget_once();
            session.publish();
        }
    }

    /// Opens a session file.
    pub(super) fn open_log(
        &mut self,
        stem: &str,
        turn: &Turn<'_>,
    ) -> Result<Option<Arc<dyn StorageFile>>> {
        let SharedState { storage, dir, .. } = turn.shared;
        self.with_descriptor(&turn.shared.keeper, || {
            files::open_log(&**storage, dir, stem, OpenMode::ReadWrite)
        })
    }

    /// Tries again while the process has no descriptor left: first without the sidecars that are
    /// kept open, then with one session file less open each time.
    pub(super) fn with_descriptor<T>(
        &mut self,
        keeper: &Keeper,
        mut attempt: impl FnMut() -> Result<T>,
    ) -> Result<T> {
        loop {
            match attempt() {
                Err(error) if error.out_of_descriptors() => {
                    if keeper.release() {
                        continue;
                    }
                    match self.handles.evict() {
                        Some(evicted) => self.close(evicted),
                        None => return Err(error),
                    }
                }
                other => return other,
            }
        }
    }
}
