//! Hiding all but the newest messages.

use std::sync::Arc;

use crate::Durability;
use crate::disk::files;
use crate::disk::session_file::Meta;
use crate::engine::shard::Shard;
use crate::engine::shard::answer::{Ack, Answer};
use crate::engine::shard::change::Change;
use crate::engine::shard::job::Job;
use crate::engine::shard::locate::{self, Located, Query};
use crate::engine::shard::request::{Absent, Manner, Verb};
use crate::engine::shard::session::Pending;
use crate::engine::shard::session::Session;
use crate::engine::shard::turn::Turn;
use crate::engine::snapshot::Tail;
use crate::error::{Error, Result};
use crate::ground::storage::StorageFile;

/// Keep the newest messages.
#[derive(Debug)]
pub(crate) struct Truncate {
    pub(crate) keep_last: usize,
}

impl Verb for Truncate {
    type Output = ();
    const MANNER: Manner = Manner::Writes;
    const READS_CONTROLS: bool = false;
    const TOUCHES_FILES: bool = true;

    fn bytes(&self) -> usize {
        0
    }

    fn if_absent(&self, _: &Arc<str>, _: &mut Shard) -> Absent<()> {
        // Nothing to truncate, and nothing to create: PicoClaw would list a session
        // here that never was.
        Absent::Answer(Ok(()))
    }

    fn waits(&self, session: &Session) -> bool {
        !session.is_still()
    }

    fn stage(self, answer: Answer<()>, shard: &mut Shard, id: usize, turn: &mut Turn<'_>) {
        if !shard.session(id).exists {
            return turn.out.answer(answer, Ok(()));
        }
        if let Err(error) = shard.write_out(id, turn) {
            return turn.out.answer(answer, Err(error));
        }
        let session = shard.session(id);
        let query = Query {
            start: session.start,
            end: session.settled.end,
            lines: session.settled.lines,
            keep: self.keep_last,
        };
        if query.keep == 0 || query.start == query.end {
            return shard.push_truncate(id, Located::Nothing, answer, turn);
        }
        match shard.file(id, turn) {
            Ok(Some(file)) => shard.find_cut(id, file, query, answer, turn),
            Ok(None) => shard.push_truncate(id, Located::Nothing, answer, turn),
            Err(error) => turn.out.answer(answer, Err(error)),
        }
    }
}

impl Shard {
    /// Finds where the lines begin that stay: here if they are near the end, else in
    /// the background.
    fn find_cut(
        &mut self,
        id: usize,
        file: Arc<dyn StorageFile>,
        query: Query,
        answer: Answer<()>,
        turn: &mut Turn<'_>,
    ) {
        let located = locate::locate_nearby(&*file, &query).map_err(|e| {
            let path = files::log_path(&turn.shared.dir, &self.session(id).entry.stem);
            Error::io("read", &path, e)
        });
        let Some(located) = located.transpose() else {
            let pending = Pending::Truncate(answer);
            return self.start_search(id, file, query, pending, turn);
        };
        self.cut_found(id, located, answer, turn);
    }

    /// Searches a session's lines in the background; its later commands wait.
    pub(super) fn start_search(
        &mut self,
        id: usize,
        file: Arc<dyn StorageFile>,
        query: Query,
        pending: Pending,
        turn: &mut Turn<'_>,
    ) {
        let owner = self.owner(id, turn);
        let session = self.session(id);
        session.busy = true;
        session.pending = Some(pending);
        turn.out.start(Job::Locate { owner, file, query });
    }

    /// The background found what was searched for.
    pub(in crate::engine::shard) fn located(
        &mut self,
        id: usize,
        found: Result<Located>,
        turn: &mut Turn<'_>,
    ) {
        let session = self.session(id);
        session.busy = false;
        match session.pending.take() {
            Some(Pending::Truncate(answer)) => self.cut_found(id, found, answer, turn),
            Some(Pending::Blank(request)) => match found {
                Ok(located) => {
                    session.blank = Some((session.range(), located == Located::Nothing));
                    request.stage(self, id, turn);
                }
                Err(error) => request.refuse(&error, turn.out),
            },
            other => session.pending = other,
        }
    }

    fn cut_found(
        &mut self,
        id: usize,
        found: Result<Located>,
        answer: Answer<()>,
        turn: &mut Turn<'_>,
    ) {
        match found {
            Ok(located) => self.push_truncate(id, located, answer, turn),
            Err(error) => turn.out.answer(answer, Err(error)),
        }
    }

    fn push_truncate(
        &mut self,
        id: usize,
        located: Located,
        answer: Answer<()>,
        turn: &mut Turn<'_>,
    ) {
        let session = self.session(id);
        let lines = i64::try_from(session.settled.lines).unwrap_or(i64::MAX);
        let (skip, start) = match located {
            Located::Nothing => (lines, session.settled.end),
            Located::All => (session.settled.meta.skip.min(lines), session.start),
            Located::Cut { skip, start } => (i64::try_from(skip).unwrap_or(lines), start),
        };
        let meta = &mut session.staged.meta;
        meta.skip = skip;
        meta.count = lines;
        meta.updated_at = turn.now.clone();
        session.busy = true;
        let meta = session.staged.meta.clone();
        let change = Change::Truncate { meta, start };
        self.push_image(id, change, Durability::Durable, Ack::Done(answer), turn);
    }

    /// Hides the lines before `start`.
    pub(in crate::engine::shard) fn settle_truncate(
        &mut self,
        id: usize,
        meta: Meta,
        start: u64,
        turn: &mut Turn<'_>,
    ) {
        let session = self.session(id);
        session.busy = false;
        session.start = start;
        // A tail of its own: what the old one says goes with the old range.
        session.tail = Tail::new(meta.clone());
        session.publish();
        self.replace_meta(id, meta, turn);
    }
}
