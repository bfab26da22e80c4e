//! Staging what replaces a whole file: new histories, promotions, and swaps.

use super::identity::replace_identity;
use super::{Pending, Rebasing, answer_all, discard};
use crate::disk::files;
use crate::disk::files::lines;
use crate::disk::journal::record::Record;
use crate::disk::session_file::{self, Kind, Meta};
use crate::engine::shard::Shard;
use crate::engine::shard::command::{Answer, Candidate, Identity, Verb};
use crate::engine::shard::context::Turn;
use crate::engine::shard::job::Job;
use crate::engine::shard::locate::{self, Located, Query};
use crate::engine::shard::rewrite::{Prepared, Source};
use crate::engine::shard::staging::{Change, Op, SwapAnswer};
use crate::error::{Error, Result};

impl Shard {
    pub(super) fn stage_set_history(
        &mut self,
        id: usize,
        lines: Vec<u8>,
        count: u32,
        answer: Answer<()>,
        turn: &mut Turn<'_>,
    ) {
        let session = self.reclaim(id, turn);
        session.created(turn);
        let meta = &mut session.staged.meta;
        meta.skip = 0;
        meta.count = i64::from(count);
        meta.updated_at = turn.now.clone();
        let answer = SwapAnswer::SetHistory(answer);
        self.start_rewrite(id, Source::Lines(lines), answer, turn);
    }

    pub(super) fn stage_promote(
        &mut self,
        id: usize,
        identity: Option<Identity>,
        candidate: Candidate,
        answer: Answer<bool>,
        turn: &mut Turn<'_>,
    ) {
        let blank = match &identity {
            Some(identity) => {
                let admitted = self.session(id).admits(identity);
                admitted.and_then(|()| self.is_blank(id, turn))
            }
            None => Ok(self.session(id).shows_nothing()),
        };
        match blank {
            Ok(true) => {}
            Ok(false) => return turn.out.answer(answer, Ok(false)),
            Err(error) => return turn.out.answer(answer, Err(error)),
        }
        self.take_over(id, identity, candidate, SwapAnswer::Promote(answer), turn);
    }

    /// Puts a candidate's lines and summary in the place of a history that shows
    /// nothing.
    pub(super) fn take_over(
        &mut self,
        id: usize,
        identity: Option<Identity>,
        candidate: Candidate,
        answer: SwapAnswer,
        turn: &mut Turn<'_>,
    ) {
        let opened = self.write_out(id, turn).and_then(|()| self.file(id, turn));
        let file = match opened {
            Ok(file) => file,
            Err(error) => return answer.settle(&Err(error), turn.out),
        };
        let (start, end) = (self.session(id).start, self.session(id).settled.end);
        let change = |meta: &mut Meta| {
            if let Some(identity) = identity {
                replace_identity(meta, identity);
            }
            let summary = candidate.summary.trim();
            if !summary.is_empty() {
                meta.text_mut().summary = summary.into();
            }
        };
        let changed = match self.session(id).changed(change, turn) {
            Ok(changed) => changed,
            Err(error) => return answer.settle(&Err(error), turn.out),
        };
        let session = self.reclaim(id, turn);
        session.staged.meta = changed;
        session.created(turn);
        let meta = &mut session.staged.meta;
        meta.skip = 0;
        meta.updated_at = turn.now.clone();
        let source = Source::Promoted {
            file,
            start,
            end,
            lines: candidate.lines,
        };
        self.start_rewrite(id, source, answer, turn);
    }

    /// A new file is ready: the one that commands wait for, or a compaction's
    /// copy, for both may be under way at once.
    pub(in crate::engine::shard) fn rewritten(
        &mut self,
        id: usize,
        temp: &str,
        prepared: Result<Prepared>,
        turn: &mut Turn<'_>,
    ) {
        if let Err(error @ Error::Poisoned { .. }) = &prepared {
            turn.out.stop_store(error);
        }
        let session = self.session(id);
        let awaited = |pending: &mut Pending| pending.awaits(temp);
        if let Some(Pending::Swap { answer, .. }) = session.pending.take_if(awaited) {
            session.busy = false;
            match prepared {
                Ok(prepared) => {
                    answer.count(&prepared, session, turn);
                    self.push_swap(id, prepared, Vec::new(), 0, answer, turn);
                }
                Err(error) => {
                    if matches!(answer, SwapAnswer::Rebase(_)) {
                        turn.context.names_changed();
                    }
                    session.staged = session.settled.clone();
                    session.dated = false;
                    answer.settle(&Err(error), turn.out);
                }
            }
            return;
        }
        let Some(compaction) = &mut session.compaction else {
            return discard(prepared.ok(), turn);
        };
        match prepared {
            Ok(prepared) => {
                compaction.prepared = Some(prepared);
                // Ahead of what waits: the copy only gets older.
                session.waiting.push_front(Verb::FinishCompaction);
            }
            Err(error) => {
                let compaction = session.compaction.take();
                let answers = compaction.map(|c| c.answers).unwrap_or_default();
                answer_all(answers, &Err(error), turn.out);
            }
        }
    }

    /// Whether the session has neither summary nor visible message.
    pub(super) fn is_blank(&mut self, id: usize, turn: &mut Turn<'_>) -> Result<bool> {
        if !self.session(id).settled.meta.text.summary.trim().is_empty() {
            return Ok(false);
        }
        self.write_out(id, turn)?;
        let session = self.session(id);
        let query = Query {
            start: session.start,
            end: session.settled.end,
            lines: session.settled.lines,
            keep: 0,
        };
        let path = files::log_path(&turn.context.dir, &session.entry.stem);
        let Some(file) = self.file(id, turn)? else {
            return Ok(true);
        };
        let found = locate::locate(&*file, &query).map_err(|e| Error::io("read", &path, e))?;
        Ok(found == Located::Nothing)
    }

    pub(super) fn start_rewrite(
        &mut self,
        id: usize,
        source: Source,
        answer: SwapAnswer,
        turn: &mut Turn<'_>,
    ) {
        let owner = self.owner(id, turn);
        let session = self.session(id);
        session.busy = true;
        let temp = turn.context.next_temp();
        session.pending = Some(Pending::Swap {
            temp: temp.clone(),
            answer,
        });
        turn.out.start(Job::Rewrite {
            owner,
            temp,
            source,
        });
    }

    /// Whole lines of the session file, without those every rewrite drops, and
    /// how many.
    pub(super) fn read_lines(
        &mut self,
        id: usize,
        from: u64,
        to: u64,
        turn: &mut Turn<'_>,
    ) -> Result<(Vec<u8>, u64)> {
        let mut kept = Vec::new();
        if from == to {
            return Ok((kept, 0));
        }
        let path = files::log_path(&turn.context.dir, &self.session(id).entry.stem);
        let file = self
            .file(id, turn)?
            .ok_or_else(|| Error::io("open", &path, std::io::ErrorKind::NotFound.into()))?;
        let mut lines = 0;
        lines::for_each_line(&*file, from, to, &mut |raw| {
            // The first byte may be the LF that ends a torn line.
            if !matches!(session_file::classify(raw), Kind::Blank | Kind::Transient) {
                kept.extend_from_slice(raw);
                kept.push(b'\n');
                lines += 1;
            }
            Ok(())
        })
        .map_err(|e| Error::io("read", &path, e))?;
        Ok((kept, lines))
    }

    pub(super) fn push_swap(
        &mut self,
        id: usize,
        prepared: Prepared,
        tail: Vec<u8>,
        tail_lines: u64,
        answer: SwapAnswer,
        turn: &mut Turn<'_>,
    ) {
        let shard = self.id;
        let session = self.session(id);
        let image = session.image(turn.epoch);
        session.hold();
        let names = match &answer {
            SwapAnswer::Rebase(rebasing) => Some(rebasing.names()),
            _ => None,
        };
        let record = match &names {
            Some(names) => Rebasing::record(names, session, &image, &prepared),
            None => Record::Swap {
                stem: &session.entry.stem,
                generation: session.generation + 1,
                image: &image,
                temp: &prepared.temp,
                base_len: prepared.len,
                base_crc: prepared.crc,
                tail: &tail,
            },
        };
        crate::disk::journal::record::encode(&mut turn.staging.records, &record);
        turn.staging.durable = true;
        turn.staging.ops.push_back(Op {
            shard,
            session: id,
            imaged: turn.epoch,
            change: Change::Swap {
                prepared: Box::new(prepared),
                tail,
                tail_lines,
                meta: session.staged.meta.clone(),
                answer,
            },
        });
    }
}
