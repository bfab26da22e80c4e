//! Staging: from a request to a journal record, in the order of a session's
//! commands.
//!
//! Appends and sidecar changes stage on top of each other without waiting. Commands that look at
//! lines already written (truncate, rewrite, delete) wait until nothing of their session is in
//! flight, and later commands wait for them.

use sessionlog_wal::journal::record::Record;

use super::answer::Ack;
use super::change::{Op, SessionChange};
use super::request::{Request, unasked};
use super::session::Session;
use super::turn::Turn;
use super::verbs::compact::Compact;
use super::{Resident, Shard, refuse_overload};
use crate::Durability;

impl Shard {
    /// Stages a request, or queues it behind the work that it must follow.
    pub(super) fn submit(&mut self, id: usize, request: Box<dyn Request>, turn: &mut Turn<'_>) {
        let session = self.session(id);
        if !session.must_wait(&*request) {
            return request.stage(self, id, turn);
        }
        session.hurry(turn);
        if let Some(request) = session.waiting.push(request) {
            refuse_overload(request, &session.entry.key, &session.waiting, turn.out);
        }
    }

    /// Stages waiting requests, as far as they may go on.
    pub(super) fn pump(&mut self, id: usize, turn: &mut Turn<'_>) {
        loop {
            let Resident::Ready(session) = &mut self.sessions[id] else {
                return;
            };
            if session.compaction_ready() {
                if !session.is_still() {
                    return session.hurry(turn);
                }
                self.finish_compaction(id, turn);
                continue;
            }
            let mut waiting = std::mem::take(&mut session.waiting);
            let next = waiting.pop_if(|request| !request.waits(session));
            session.waiting = waiting;
            match next {
                Some(request) => request.stage(self, id, turn),
                None if session.waiting.is_empty() => return,
                None => return session.hurry(turn),
            }
        }
    }

    /// Starts a compaction if one is [due](Session::mostly_dead) and the store compacts by itself.
    /// Called when a session was loaded, and when a change that hides lines has settled.
    pub(super) fn compact_if_due(&mut self, id: usize, turn: &mut Turn<'_>) {
        if turn.shared.auto_compact && self.session(id).mostly_dead() {
            self.submit(id, unasked(Compact), turn);
        }
    }

    /// Stages the session's whole sidecar as it stands.
    pub(super) fn push_meta(
        &mut self,
        id: usize,
        level: Durability,
        ack: Ack,
        turn: &mut Turn<'_>,
    ) {
        let meta = self.session(id).staged.meta.clone();
        self.push_image(id, SessionChange::Meta { meta }, level, ack, turn);
    }

    /// Stages the session's whole sidecar once more, for later records to build on.
    pub(super) fn push_image_again(&mut self, id: usize, turn: &mut Turn<'_>) {
        let meta = self.session(id).staged.meta.clone();
        let image = SessionChange::Image { meta };
        self.push_image(id, image, Durability::Buffered, Ack::Nobody, turn);
    }

    /// Stages a change that is recorded as the whole sidecar.
    pub(super) fn push_image(
        &mut self,
        id: usize,
        change: SessionChange,
        level: Durability,
        ack: Ack,
        turn: &mut Turn<'_>,
    ) {
        let shard = self.id;
        let session = self.session(id);
        let sidecar = session.recorded_sidecar();
        let image = session.image(turn.epoch);
        session.recorded.clone_from(&session.staged.meta);
        session.inflight += 1;
        let record = Record::Meta {
            stem: &session.stem,
            generation: session.generation,
            before: session.before(&sidecar),
            image: &image,
        };
        let op = Op {
            shard,
            session: id,
            imaged: turn.epoch,
            shown: false,
            ack,
            change,
        };
        turn.staging.push(op, &record, level);
    }

    /// Returns the session; if it was deleted, it gets a file name of its own again.
    pub(super) fn reclaim(&mut self, id: usize, turn: &mut Turn<'_>) -> &mut Session {
        let session = self.session(id);
        if std::mem::take(&mut session.deleted) {
            let key = session.entry.key.clone();
            session.take_name(turn.shared.catalog.claim(&key));
            // Unpublished, the session would pass for one that was not written to since the open:
            // lists, searches, backups and erasures would read files that lack acknowledged lines.
            session.publish();
        }
        session
    }
}
