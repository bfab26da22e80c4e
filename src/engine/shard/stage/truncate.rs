//! Staging a truncation: where the lines begin that stay.

use super::Pending;
use crate::Durability;
use crate::disk::files;
use crate::disk::journal::record::Record;
use crate::engine::shard::Shard;
use crate::engine::shard::command::Answer;
use crate::engine::shard::context::Turn;
use crate::engine::shard::job::Job;
use crate::engine::shard::locate::{self, Located, Query};
use crate::engine::shard::staging::{Change, Op};
use crate::error::{Error, Result};

/// Truncations that keep more messages than this are located in the background.
const LOCATE_INLINE: usize = 256;

impl Shard {
    pub(super) fn stage_truncate(
        &mut self,
        id: usize,
        keep: usize,
        answer: Answer<()>,
        turn: &mut Turn<'_>,
    ) {
        let session = self.session(id);
        if !session.exists {
            // Nothing to truncate, and nothing to create: PicoClaw would list a
            // session here that never was.
            turn.out.answer(answer, Ok(()));
            return;
        }
        if let Err(error) = self.write_out(id, turn) {
            return turn.out.answer(answer, Err(error));
        }
        let session = self.session(id);
        let query = Query {
            start: session.start,
            end: session.settled.end,
            lines: session.settled.lines,
            keep,
        };
        if keep == 0 || query.start == query.end {
            return self.push_truncate(id, Located::Nothing, answer, turn);
        }
        let file = match self.file(id, turn) {
            Ok(Some(file)) => file,
            Ok(None) => return self.push_truncate(id, Located::Nothing, answer, turn),
            Err(error) => return turn.out.answer(answer, Err(error)),
        };
        if keep > LOCATE_INLINE {
            let owner = self.owner(id, turn);
            let session = self.session(id);
            session.busy = true;
            session.pending = Some(Pending::Truncate(answer));
            return turn.out.start(Job::Locate { owner, file, query });
        }
        match locate::locate(&*file, &query) {
            Ok(located) => self.push_truncate(id, located, answer, turn),
            Err(e) => {
                let path = files::log_path(&turn.context.dir, &self.session(id).entry.stem);
                turn.out.answer(answer, Err(Error::io("read", &path, e)));
            }
        }
    }

    pub(in crate::engine::shard) fn located(
        &mut self,
        id: usize,
        found: Result<Located>,
        turn: &mut Turn<'_>,
    ) {
        let session = self.session(id);
        session.busy = false;
        let Some(Pending::Truncate(answer)) = session.pending.take() else {
            return;
        };
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
        let shard = self.id;
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
        let image = session.image(turn.epoch);
        session.hold();
        let record = Record::Meta {
            stem: &session.entry.stem,
            generation: session.generation,
            image: &image,
        };
        let op = Op {
            shard,
            session: id,
            imaged: turn.epoch,
            change: Change::Truncate {
                meta: session.staged.meta.clone(),
                start,
                answer,
            },
        };
        turn.staging.push(op, &record, Durability::Durable);
    }
}
