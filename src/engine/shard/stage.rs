//! Staging: from a command to a journal record.
//!
//! Appends and sidecar changes stage on top of each other without waiting.
//! Whatever looks at lines already written (truncate, rewrite, delete) waits
//! until nothing of its session is in flight, and later commands wait for it.

mod compact;
mod converse;
mod identity;
mod rebase;
mod replace;
mod truncate;

pub(crate) use self::rebase::Rebasing;

use std::sync::Arc;

use super::command::{Answer, Ensure, Verb};
use super::context::{Outbox, Turn};
use super::converse::Converse;
use super::rewrite::Prepared;
use super::session::Session;
use super::staging::{Change, MetaAnswer, Op, SwapAnswer};
use super::{Shard, Slot};
use crate::Durability;
use crate::disk::journal::record::{MetaState, Record};
use crate::disk::session_file;
use crate::disk::session_file::Meta;
use crate::engine::snapshot::Snapshot;
use crate::error::{Error, Result};
use crate::ground::clock::ZERO_TIME;

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
                identity,
                level,
                answer,
            } => self.stage_upsert(id, *identity, level, answer, turn),
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
                identity,
                candidate,
                answer,
            } => self.stage_promote(id, identity.map(|own| *own), *candidate, answer, turn),
            Verb::Ensure(ensure) => self.stage_ensure(id, *ensure, turn),
            Verb::Load { answer } => self.load_snapshot(id, answer, turn),
            Verb::FinishCompaction => self.finish_compaction(id, turn),
            Verb::Converse(verb) => self.stage_converse(id, *verb, turn),
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
                    skip: session.staged.meta.skip,
                    count: session.staged.meta.count,
                    updated_at: session.staged.meta.updated_at.as_str(),
                },
            },
            bytes: &lines,
        };
        session.tail.stage(&lines, || turn.buffers.take());
        let op = Op {
            shard,
            session: id,
            imaged: if image.is_some() { turn.epoch } else { 0 },
            change: Change::Append {
                len: lines.len(),
                lines: u64::from(count),
                meta,
                answer: Some(answer),
            },
        };
        turn.staging.push(op, &record, level);
    }

    fn stage_meta(
        &mut self,
        id: usize,
        level: Durability,
        answer: Answer<()>,
        turn: &mut Turn<'_>,
        change: impl FnOnce(&mut Meta),
    ) {
        let changed = match self.session(id).changed(change, turn) {
            Ok(changed) => changed,
            Err(error) => return turn.out.answer(answer, Err(error)),
        };
        let session = self.reclaim(id, turn);
        session.staged.meta = changed;
        session.created(turn);
        session.staged.meta.updated_at = turn.now.clone();
        self.push_meta(id, level, Some(MetaAnswer::Plain(answer)), turn);
    }

    /// Stages the session's whole sidecar as it stands.
    pub(super) fn push_meta(
        &mut self,
        id: usize,
        level: Durability,
        answer: Option<MetaAnswer>,
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
        let reads = match verb {
            Verb::Load { .. } => true,
            Verb::Converse(verb) => verb.reads() && !self.blocks_converse(verb),
            _ => false,
        };
        !reads && (!self.waiting.is_empty() || self.blocks(verb))
    }

    /// Whether `verb` would be staged at once.
    pub(super) fn may_stage(&self, verb: &Verb) -> bool {
        !self.must_wait(verb)
    }

    /// Whether it waits for something that nobody will tell it of: a swap or
    /// deletion that the journal holds and the directory refused.
    pub(super) fn is_stuck(&self) -> bool {
        self.busy && self.inflight == 0 && self.pending.is_none()
    }

    /// Whether what is under way keeps `verb` from being staged.
    fn blocks(&self, verb: &Verb) -> bool {
        match verb {
            Verb::Load { .. } => false,
            Verb::Converse(verb) => self.blocks_converse(verb),
            Verb::Append { .. } | Verb::SetSummary { .. } | Verb::UpsertMeta { .. } => self.busy,
            // Callers see what is settled: one who found something that is on its
            // way out would find it again, and again.
            Verb::Ensure(ensure) => {
                let looks_again = ensure.was_needless() && self.shows_nothing();
                self.busy || self.inflight > 0 && (ensure.takes_over() || looks_again)
            }
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
        if !self.dated && self.staged.meta.text.created_at == ZERO_TIME {
            self.staged.meta.text_mut().created_at = turn.now.to_string();
        }
        self.dated = true;
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
    Fold(Converse),
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
            Self::SetHistory(answer) | Self::Fork(answer) => out.answer(answer, result.clone()),
            Self::Rebase(rebasing) => out.answer(rebasing.answer, result.clone()),
            Self::Promote(answer) => out.answer(answer, result.clone().map(|()| true)),
            Self::Ensure(answer) => out.answer(answer, result.clone().map(|()| Some(true))),
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
        Verb::Converse(verb) => verb.answer_without_session(key, out),
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
        Verb::Ensure(ensure) => {
            let Ensure { answer, .. } = *ensure;
            out.answer(answer, Err(error.clone()));
        }
        Verb::Load { answer } => out.answer(answer, Err(error.clone())),
        Verb::Converse(verb) => verb.refuse(error, out),
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
