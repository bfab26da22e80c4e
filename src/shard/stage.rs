//! Staging: from a command to a journal record.
//!
//! Appends and sidecar changes stage on top of each other without waiting.
//! Whatever looks at lines already written (truncate, rewrite, delete) waits
//! until nothing of its session is in flight, and later commands wait for it.

use std::sync::Arc;

use serde_json::value::RawValue;

use super::command::{Answer, Candidate, Verb};
use super::context::{Outbox, Turn};
use super::job::Job;
use super::locate::{self, Located, Query};
use super::rewrite::{self, Prepared, Source};
use super::session::{Compaction, Session};
use super::staging::{Change, Op, SwapAnswer};
use super::{Shard, Slot};
use crate::Durability;
use crate::clock::ZERO_TIME;
use crate::error::{Error, Result};
use crate::journal::record::{MetaState, Record};
use crate::session_file::{self, Kind};
use crate::snapshot::{Meta, Snapshot};

/// Truncations that keep more messages than this are located in the background.
const LOCATE_INLINE: usize = 256;

/// Lines appended while a compaction copied are journalled with the swap up to
/// this many bytes; beyond, another copy round comes first.
const MAX_TAIL: u64 = 4 << 20;

impl Shard {
    /// Stages a verb, or lets it wait behind what it must come after.
    pub(super) fn submit(&mut self, id: usize, verb: Verb, turn: &mut Turn<'_>) {
        let session = self.session(id);
        if session.must_wait(&verb) {
            session.waiting.push_back(verb);
        } else {
            self.stage(id, verb, turn);
        }
    }

    /// Stages what waited, as far as it may go on.
    pub(super) fn pump(&mut self, id: usize, turn: &mut Turn<'_>) {
        loop {
            let Slot::Ready(session) = &mut self.sessions[id] else {
                return;
            };
            match session.waiting.pop_front() {
                Some(verb) if session.blocks(&verb) => {
                    session.waiting.push_front(verb);
                    return;
                }
                Some(verb) => self.stage(id, verb, turn),
                None => return,
            }
        }
    }

    fn stage(&mut self, id: usize, verb: Verb, turn: &mut Turn<'_>) {
        match verb {
            Verb::Append {
                lines,
                count,
                level,
                answer,
            } => self.stage_append(id, lines, count, level, answer, turn),
            Verb::SetSummary {
                summary,
                level,
                answer,
            } => self.stage_meta(id, level, answer, turn, |meta| {
                meta.text_mut().summary = summary;
            }),
            Verb::UpsertMeta {
                scope,
                aliases,
                level,
                answer,
            } => self.stage_meta(id, level, answer, turn, |meta| {
                replace_identity(meta, scope, &aliases);
            }),
            Verb::Truncate { keep_last, answer } => {
                self.stage_truncate(id, keep_last, answer, turn);
            }
            Verb::SetHistory {
                lines,
                count,
                answer,
            } => self.stage_set_history(id, lines, count, answer, turn),
            Verb::Compact { answer } => self.stage_compact(id, answer, turn),
            Verb::Delete { answer } => self.stage_delete(id, answer, turn),
            Verb::Promote {
                scope,
                aliases,
                candidate,
                answer,
            } => self.stage_promote(id, (scope, aliases), &candidate, answer, turn),
            Verb::Load { answer } => self.load_snapshot(id, answer, turn),
            Verb::FinishCompaction => self.finish_compaction(id, turn),
        }
    }

    fn stage_append(
        &mut self,
        id: usize,
        mut lines: Vec<u8>,
        count: u32,
        level: Durability,
        answer: Answer<()>,
        turn: &mut Turn<'_>,
    ) {
        if let Err(error) = self.make_room(turn) {
            return turn.out.answer(answer, Err(error));
        }
        let shard = self.id;
        let session = self.reclaim(id, turn);
        if session.staged.torn {
            lines.insert(0, b'\n');
            session.staged.torn = false;
        }
        let offset = session.staged.end;
        let before = i64::try_from(session.staged.lines).unwrap_or(i64::MAX);
        session.staged.end += lines.len() as u64;
        session.staged.lines += u64::from(count);
        session.created(turn);
        let meta = &mut session.staged.meta;
        // A skip beyond the file would hide the lines that come now.
        meta.skip = meta.skip.min(before);
        // The count comes from a sidecar, which may say anything.
        meta.count = meta.count.saturating_add(i64::from(count));
        meta.updated_at = turn.now.clone();
        let image = session.image_due(turn.epoch);
        let meta = session.staged.meta.clone();
        session.inflight += 1;
        let record = Record::Append {
            stem: &session.entry.stem,
            generation: session.generation,
            offset,
            meta: match &image {
                Some(image) => MetaState::Image(image),
                None => MetaState::Patch {
                    skip: meta.skip,
                    count: meta.count,
                    updated_at: &meta.updated_at,
                },
            },
            bytes: &lines,
        };
        crate::journal::record::encode(&mut turn.staging.records, &record);
        turn.staging.durable |= level == Durability::Durable;
        turn.staging.ops.push_back(Op {
            shard,
            session: id,
            imaged: if image.is_some() { turn.epoch } else { 0 },
            change: Change::Append {
                bytes: lines,
                lines: u64::from(count),
                meta,
                answer: Some(answer),
            },
        });
    }

    fn stage_meta(
        &mut self,
        id: usize,
        level: Durability,
        answer: Answer<()>,
        turn: &mut Turn<'_>,
        change: impl FnOnce(&mut Meta),
    ) {
        let session = self.reclaim(id, turn);
        session.created(turn);
        change(&mut session.staged.meta);
        session.staged.meta.updated_at = turn.now.clone();
        self.push_meta(id, level, Some(answer), turn);
    }

    /// Stages the session's whole sidecar as it stands.
    pub(super) fn push_meta(
        &mut self,
        id: usize,
        level: Durability,
        answer: Option<Answer<()>>,
        turn: &mut Turn<'_>,
    ) {
        let shard = self.id;
        let session = self.session(id);
        let image = session.image(turn.epoch);
        let meta = session.staged.meta.clone();
        session.inflight += 1;
        let record = Record::Meta {
            stem: &session.entry.stem,
            generation: session.generation,
            image: &image,
        };
        let op = Op {
            shard,
            session: id,
            imaged: turn.epoch,
            change: Change::Meta {
                meta,
                answer,
                shown: false,
            },
        };
        turn.staging.push(op, &record, level);
    }

    fn stage_truncate(&mut self, id: usize, keep: usize, answer: Answer<()>, turn: &mut Turn<'_>) {
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
                let path = rewrite::log_path(&turn.context.dir, &self.session(id).entry.stem);
                turn.out.answer(answer, Err(Error::io("read", &path, e)));
            }
        }
    }

    pub(super) fn located(&mut self, id: usize, found: Result<Located>, turn: &mut Turn<'_>) {
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

    fn stage_set_history(
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

    fn stage_promote(
        &mut self,
        id: usize,
        (scope, aliases): (Option<Box<RawValue>>, Vec<String>),
        candidate: &Candidate,
        answer: Answer<bool>,
        turn: &mut Turn<'_>,
    ) {
        match self.is_blank(id, turn) {
            Ok(true) => {}
            Ok(false) => return turn.out.answer(answer, Ok(false)),
            Err(error) => return turn.out.answer(answer, Err(error)),
        }
        // Live lines that are no messages stay, ahead of what is taken over.
        let (start, end) = (self.session(id).start, self.session(id).settled.end);
        let (mut lines, own) = match self.read_lines(id, start, end, turn) {
            Ok(own) => own,
            Err(error) => return turn.out.answer(answer, Err(error)),
        };
        lines.extend_from_slice(&candidate.lines);
        let session = self.reclaim(id, turn);
        session.created(turn);
        let meta = &mut session.staged.meta;
        replace_identity(meta, scope, &aliases);
        let summary = candidate.summary.trim();
        if !summary.is_empty() {
            meta.text_mut().summary = summary.into();
        }
        meta.skip = 0;
        meta.count = i64::try_from(own + u64::from(candidate.count)).unwrap_or(i64::MAX);
        meta.updated_at = turn.now.clone();
        let answer = SwapAnswer::Promote(answer);
        self.start_rewrite(id, Source::Lines(lines), answer, turn);
    }

    /// Whether the session has neither summary nor visible message.
    fn is_blank(&mut self, id: usize, turn: &mut Turn<'_>) -> Result<bool> {
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
        let path = rewrite::log_path(&turn.context.dir, &session.entry.stem);
        let Some(file) = self.file(id, turn)? else {
            return Ok(true);
        };
        let found = locate::locate(&*file, &query).map_err(|e| Error::io("read", &path, e))?;
        Ok(found == Located::Nothing)
    }

    fn start_rewrite(
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

    fn stage_compact(&mut self, id: usize, answer: Option<Answer<()>>, turn: &mut Turn<'_>) {
        let session = self.session(id);
        if let Some(compaction) = &mut session.compaction {
            compaction.answers.extend(answer);
            return;
        }
        if session.settled.meta.skip == 0 || !session.exists {
            if let Some(answer) = answer {
                turn.out.answer(answer, Ok(()));
            }
            return;
        }
        self.start_compaction(id, answer.into_iter().collect(), turn);
    }

    fn start_compaction(&mut self, id: usize, answers: Vec<Answer<()>>, turn: &mut Turn<'_>) {
        if let Err(error) = self.write_out(id, turn) {
            return answer_all(answers, &Err(error), turn.out);
        }
        let source = match self.file(id, turn) {
            Ok(Some(file)) => {
                let session = self.session(id);
                Source::Live {
                    file,
                    start: session.start,
                    end: session.settled.end,
                }
            }
            Ok(None) => Source::Lines(Vec::new()),
            Err(error) => return answer_all(answers, &Err(error), turn.out),
        };
        let owner = self.owner(id, turn);
        let session = self.session(id);
        session.compaction = Some(Compaction {
            generation: session.generation,
            start: session.start,
            copied: session.settled.end,
            prepared: None,
            answers,
        });
        let temp = turn.context.next_temp();
        turn.out.start(Job::Rewrite {
            owner,
            temp,
            source,
        });
    }

    /// A new file is ready: the one that commands wait for, or a compaction's
    /// copy, for both may be under way at once.
    pub(super) fn rewritten(
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
                Ok(prepared) => self.push_swap(id, prepared, Vec::new(), 0, answer, turn),
                Err(error) => {
                    session.staged = session.settled.clone();
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

    /// The owner's part of a compaction: catch up with what was appended
    /// meanwhile, and swap.
    fn finish_compaction(&mut self, id: usize, turn: &mut Turn<'_>) {
        let session = self.session(id);
        let Some(mut compaction) = session.compaction.take() else {
            return;
        };
        let prepared = compaction.prepared.take();
        if let Err(error) = self.write_out(id, turn) {
            discard(prepared, turn);
            return answer_all(compaction.answers, &Err(error), turn.out);
        }
        let session = self.session(id);
        let stale = compaction.generation != session.generation
            || compaction.start != session.start
            || session.settled.end - compaction.copied > MAX_TAIL;
        let prepared = match prepared {
            Some(prepared) if !stale => prepared,
            worthless => {
                discard(worthless, turn);
                return self.compact_again(id, compaction, turn);
            }
        };
        let (from, to) = (compaction.copied, session.settled.end);
        let (tail, tail_lines) = match self.read_lines(id, from, to, turn) {
            Ok(tail) => tail,
            Err(error) => {
                discard(Some(prepared), turn);
                return answer_all(compaction.answers, &Err(error), turn.out);
            }
        };
        let session = self.session(id);
        let lines = prepared.lines + tail_lines;
        let meta = &mut session.staged.meta;
        meta.skip = 0;
        meta.count = i64::try_from(lines).unwrap_or(i64::MAX);
        meta.updated_at = turn.now.clone();
        let answer = SwapAnswer::Compaction(compaction.answers);
        self.push_swap(id, prepared, tail, tail_lines, answer, turn);
    }

    fn compact_again(&mut self, id: usize, compaction: Compaction, turn: &mut Turn<'_>) {
        let session = self.session(id);
        if session.exists && session.settled.meta.skip != 0 {
            self.start_compaction(id, compaction.answers, turn);
        } else {
            answer_all(compaction.answers, &Ok(()), turn.out);
        }
    }

    /// Whole lines of the session file, without those every rewrite drops, and
    /// how many.
    fn read_lines(
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
        let path = rewrite::log_path(&turn.context.dir, &self.session(id).entry.stem);
        let file = self
            .file(id, turn)?
            .ok_or_else(|| Error::io("open", &path, std::io::ErrorKind::NotFound.into()))?;
        let mut lines = 0;
        rewrite::for_each_line(&*file, from, to, &mut |raw| {
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

    fn push_swap(
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
        let record = Record::Swap {
            stem: &session.entry.stem,
            generation: session.generation + 1,
            image: &image,
            temp: &prepared.temp,
            base_len: prepared.len,
            base_crc: prepared.crc,
            tail: &tail,
        };
        crate::journal::record::encode(&mut turn.staging.records, &record);
        turn.staging.durable = true;
        turn.staging.ops.push_back(Op {
            shard,
            session: id,
            imaged: turn.epoch,
            change: Change::Swap {
                prepared,
                tail,
                tail_lines,
                meta: session.staged.meta.clone(),
                answer,
            },
        });
    }

    fn stage_delete(&mut self, id: usize, answer: Answer<()>, turn: &mut Turn<'_>) {
        let shard = self.id;
        let session = self.session(id);
        if !session.exists {
            turn.out.answer(answer, Ok(()));
            return;
        }
        let record = Record::Delete {
            stem: &session.entry.stem,
            generation: session.generation + 1,
        };
        session.inflight += 1;
        session.busy = true;
        let op = Op {
            shard,
            session: id,
            imaged: 0,
            change: Change::Delete { answer },
        };
        turn.staging.push(op, &record, Durability::Durable);
    }

    fn load_snapshot(&mut self, id: usize, answer: Answer<Arc<Snapshot>>, turn: &mut Turn<'_>) {
        let result = self.file(id, turn);
        let snapshot = self.session(id).live().snapshot();
        turn.out.answer(answer, result.map(|_| Arc::new(snapshot)));
    }

    /// The session, with a file name of its own again if it was deleted.
    fn reclaim(&mut self, id: usize, turn: &mut Turn<'_>) -> &mut Session {
        let session = self.session(id);
        if std::mem::take(&mut session.deleted) {
            let key = session.entry.key.clone();
            session.entry = turn.context.catalog.claim(&key);
        }
        session
    }
}

impl Session {
    /// Whether `verb` must wait, given what is under way and what waits.
    fn must_wait(&self, verb: &Verb) -> bool {
        let reads = matches!(verb, Verb::Load { .. });
        !reads && (!self.waiting.is_empty() || self.blocks(verb))
    }

    /// Whether what is under way keeps `verb` from being staged.
    fn blocks(&self, verb: &Verb) -> bool {
        match verb {
            Verb::Load { .. } => false,
            Verb::Append { .. } | Verb::SetSummary { .. } | Verb::UpsertMeta { .. } => self.busy,
            Verb::Truncate { .. }
            | Verb::SetHistory { .. }
            | Verb::Compact { .. }
            | Verb::Delete { .. }
            | Verb::Promote { .. }
            | Verb::FinishCompaction => self.busy || self.inflight > 0,
        }
    }

    /// One change in flight that nothing may be staged behind.
    fn hold(&mut self) {
        self.inflight += 1;
        self.busy = true;
    }

    /// A session that is written to for the first time was created now.
    fn created(&mut self, turn: &Turn<'_>) {
        if self.staged.meta.text.created_at == ZERO_TIME {
            self.staged.meta.text_mut().created_at = turn.now.to_string();
        }
    }

    /// The whole sidecar, if this epoch's records do not hold it yet.
    fn image_due(&mut self, epoch: u64) -> Option<Vec<u8>> {
        (self.imaged_staged != epoch).then(|| self.image(epoch))
    }

    fn image(&mut self, epoch: u64) -> Vec<u8> {
        self.imaged_staged = epoch;
        session_file::encode_sidecar(&self.staged.meta.to_sidecar())
    }
}

/// What a session waits for while a job runs for it.
#[derive(Debug)]
pub(crate) enum Pending {
    Truncate(Answer<()>),
    Swap {
        /// The file being written.
        temp: String,
        answer: SwapAnswer,
    },
}

impl Pending {
    /// Whether this is what the file of this name was written for.
    fn awaits(&self, file: &str) -> bool {
        matches!(self, Self::Swap { temp, .. } if temp == file)
    }
}

impl SwapAnswer {
    pub(super) fn settle(self, result: &Result<()>, out: &mut Outbox) {
        match self {
            Self::SetHistory(answer) => out.answer(answer, result.clone()),
            Self::Promote(answer) => out.answer(answer, result.clone().map(|()| true)),
            Self::Compaction(answers) => answer_all(answers, result, out),
        }
    }
}

pub(super) fn answer_all(answers: Vec<Answer<()>>, result: &Result<()>, out: &mut Outbox) {
    for answer in answers {
        out.answer(answer, result.clone());
    }
}

/// Answers a verb that creates nothing, where there is no session.
pub(super) fn answer_without_session(verb: Verb, key: &str, out: &mut Outbox) {
    match verb {
        Verb::Load { answer } => out.answer(answer, Ok(Arc::new(Snapshot::empty(key)))),
        Verb::Truncate { answer, .. }
        | Verb::Delete { answer }
        | Verb::Compact {
            answer: Some(answer),
        } => out.answer(answer, Ok(())),
        _ => {}
    }
}

/// Answers a verb that will not be carried out.
pub(super) fn refuse(verb: Verb, error: &Error, out: &mut Outbox) {
    match verb {
        Verb::Append { answer, .. }
        | Verb::SetSummary { answer, .. }
        | Verb::UpsertMeta { answer, .. }
        | Verb::Truncate { answer, .. }
        | Verb::SetHistory { answer, .. }
        | Verb::Delete { answer }
        | Verb::Compact {
            answer: Some(answer),
        } => out.answer(answer, Err(error.clone())),
        Verb::Promote { answer, .. } => out.answer(answer, Err(error.clone())),
        Verb::Load { answer } => out.answer(answer, Err(error.clone())),
        Verb::Compact { answer: None } | Verb::FinishCompaction => {}
    }
}

/// Removes a prepared file that will not be swapped in.
pub(super) fn discard(prepared: Option<Prepared>, turn: &Turn<'_>) {
    if let Some(prepared) = prepared {
        let path = turn.context.dir.join(&prepared.temp);
        if let Err(error) = turn.context.storage.remove_file(&path) {
            tracing::warn!(path = %path.display(), %error, "left behind until the next open");
        }
    }
}

fn replace_identity(meta: &mut Meta, scope: Option<Box<RawValue>>, aliases: &[String]) {
    let aliases = session_file::normalize_aliases(&meta.text.key, aliases);
    let text = meta.text_mut();
    text.scope = scope;
    text.aliases = aliases;
}
