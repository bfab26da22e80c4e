//! Reads a session's control records, for the verbs that need them.

use std::sync::Arc;

use sessionlog_core::error::{Error, Result};
use sessionlog_core::session_file::Conversation;

use super::job::Job;
use super::request::Request;
use super::session::Pending;
use super::turn::Turn;
use super::{MEASURE_INLINE, Shard};
use crate::disk::files;
use crate::disk::files::conversation;

impl Shard {
    /// Reads the session's control records, and then stages `request`.
    pub(super) fn read_controls(
        &mut self,
        id: usize,
        request: Box<dyn Request>,
        turn: &mut Turn<'_>,
    ) {
        let file = match self.file(id, turn) {
            Ok(file) => file,
            Err(error) => return request.refuse(&error, turn.out),
        };
        let owner = self.owner(id);
        let session = self.session(id);
        let len = session.written;
        let rest = session.tail.copy(0..(session.settled.end - len) as usize);
        session.pending = Some(Pending::Controls(request));
        if len <= MEASURE_INLINE {
            let read = conversation::read(file.as_deref(), len, &rest).map_err(|e| {
                let path = files::log_path(&turn.shared.dir, &session.entry.stem);
                Error::io("read", &path, e)
            });
            return self.controls_read(id, read, turn);
        }
        session.busy = true;
        turn.out.start(Job::Controls {
            owner,
            file,
            len,
            rest,
        });
    }

    /// Takes in the control records that were read.
    pub(super) fn controls_read(
        &mut self,
        id: usize,
        read: Result<Conversation>,
        turn: &mut Turn<'_>,
    ) {
        let session = self.session(id);
        let Some(Pending::Controls(request)) = session.pending.take_if(|p| p.reads_controls())
        else {
            return;
        };
        session.busy = false;
        match read {
            Ok(conversation) => {
                session.conversation = Some(Arc::new(conversation));
                request.stage(self, id, turn);
            }
            Err(error) => request.refuse(&error, turn.out),
        }
    }
}
