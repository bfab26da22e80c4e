//! Searches a session's lines in the background, for a request that needs the result.

use std::sync::Arc;

use sessionlog_core::error::Result;
use sessionlog_wal::storage::StorageFile;

use super::Shard;
use super::job::Job;
use super::locate::{CutPlace, Query};
use super::request::Request;
use super::session::Pending;
use super::turn::Turn;

impl Shard {
    /// Searches a session's lines, and then stages `request`; the session's later commands wait.
    pub(super) fn start_search(
        &mut self,
        id: usize,
        file: Arc<dyn StorageFile>,
        query: Query,
        request: Box<dyn Request>,
        turn: &mut Turn<'_>,
    ) {
        let owner = self.owner(id);
        let session = self.session(id);
        session.busy = true;
        session.pending = Some(Pending::Search(query, request));
        turn.out.start(Job::Locate { owner, file, query });
    }

    /// Takes in the result of a search in the background.
    pub(super) fn located(&mut self, id: usize, found: Result<CutPlace>, turn: &mut Turn<'_>) {
        let session = self.session(id);
        session.busy = false;
        match (session.pending.take(), found) {
            (Some(Pending::Search(query, request)), Ok(located)) => {
                session.found = Some((query, located));
                request.stage(self, id, turn);
            }
            (Some(Pending::Search(_, request)), Err(error)) => request.refuse(&error, turn.out),
            (other, _) => session.pending = other,
        }
    }
}
