//! Settles changes: readers see what the journal holds.
//!
//! A durable change settles when its record is synced. A buffered one is shown as soon as its
//! record is written, and reaches the session file only once it is synced too.

use std::sync::Arc;

use bytes::Bytes;
use sessionlog_core::error::Error;
use sessionlog_core::session_file::{Meta, MetaStep, SessionScope};

use super::Shard;
use super::change::{AddedLines, Op, Origin, SessionChange};
use super::session::Session;
use super::turn::Turn;
use crate::engine::feed::{ChangeKind, ChangeNotice};
use crate::engine::snapshot::Standing;

impl Shard {
    /// Shows a buffered change to readers, and answers.
    pub(super) fn show(&mut self, op: &mut Op, batch: &Bytes, turn: &mut Turn<'_>) {
        let id = op.session;
        match &op.change {
            // Readers may have seen later changes by now, and showing this one would take those
            // back.
            SessionChange::Image { .. } => {}
            // The changes it stands on come first.
            _ if self.session(id).deferred > 0 => return,
            SessionChange::Append { added, meta } => {
                self.show_append(id, (added, batch), meta, turn);
            }
            SessionChange::Meta { meta } => {
                self.replace_meta(id, meta.clone(), ChangeKind::Updated, turn);
            }
            // These hold their session: nothing of it may be staged on top of unsynced state.
            SessionChange::Truncate { .. } | SessionChange::Swap { .. } | SessionChange::Delete => {
                return;
            }
        }
        op.shown = true;
        if op.is_command() {
            turn.out.settle(std::mem::take(&mut op.ack), &Ok(()));
        }
    }

    /// Settles a change, with its record on disk, in `batch`. Returns true if something waited for
    /// that, which must then be [pumped](Self::pump).
    pub(super) fn settle(&mut self, mut op: Op, batch: &Bytes, turn: &mut Turn<'_>) -> bool {
        let id = op.session;
        let session = self.session(id);
        session.inflight -= 1;
        session.exists = true;
        session.imaged = session.imaged.max(op.imaged);
        op.change.change(&mut session.synced_meta);
        if let Some(line) = op.change.added().and_then(|added| added.once.as_deref()) {
            session.took(line, true);
        }
        if op.shown {
            self.sidecar_changed(id);
        } else {
            self.show(&mut op, batch, turn);
        }
        let hides = matches!(
            op.change,
            SessionChange::Truncate { .. } | SessionChange::Swap { .. }
        );
        let result = match op.change {
            SessionChange::Append { added, .. } => {
                self.lines_synced(id, &added, turn);
                Ok(())
            }
            // The sidecar may be written now.
            SessionChange::Meta { .. } | SessionChange::Image { .. } => Ok(()),
            SessionChange::Truncate { added, meta, start } => {
                self.settle_truncate(id, (&added, batch), (meta, start), turn);
                Ok(())
            }
            SessionChange::Swap { swap, meta } => self.settle_swap(id, *swap, meta, turn),
            SessionChange::Delete => self.settle_delete(id, turn),
        };
        turn.out.settle(op.ack, &result);
        if hides && result.is_ok() {
            self.compact_if_due(id, turn);
        }
        let session = self.session(id);
        session.inflight == 0 && (!session.waiting.is_empty() || session.compaction_ready())
    }

    /// Takes a change back, because its record was refused or nothing is known of it. Its session
    /// must be [restaged](Self::restage) before anything else.
    pub(super) fn fail(&mut self, op: Op, error: &Error, turn: &mut Turn<'_>) {
        let session = self.session(op.session);
        session.inflight -= 1;
        // A session whose change the directory refused holds still: an image that a flush staged on
        // top must not let other changes go past it.
        session.busy &= op.change.is_plain();
        session.pending.take_if(|pending| pending.leaves());
        if let Some(line) = op.change.added().and_then(|added| added.once.as_deref()) {
            session.took(line, false);
        }
        // After a failed sync the record may be on disk all the same; recovery would then look for
        // the new file.
        if let SessionChange::Swap { swap, .. } = op.change
            && !matches!(error, Error::Poisoned { .. })
        {
            swap.prepared.discard(turn.shared);
            self.renumber(op.session, &swap.origin);
            match &swap.origin {
                Origin::Rebase(rebasing) => rebasing.discard(turn.shared),
                Origin::Moved(moving) => moving.discard(turn.shared, &swap.prepared.temp),
                Origin::Compaction { .. } => turn.shared.compaction_failed(error),
                Origin::Lines | Origin::Amended => {}
            }
        }
        turn.out.settle(op.ack, &Err(error.clone()));
    }

    /// Recomputes a session's staged state from the settled state and the changes still in flight
    /// for it.
    pub(super) fn restage<'a>(&mut self, id: usize, inflight: impl Iterator<Item = &'a Op>) {
        let session = self.session(id);
        session.unstage();
        session.imaged_staged = session.imaged;
        for op in inflight {
            session.imaged_staged = session.imaged_staged.max(op.imaged);
            // The settled state has it already.
            if op.shown {
                continue;
            }
            if let Some(added) = op.change.added().filter(|added| added.len > 0) {
                session.staged.add(added);
            }
            op.change.change(&mut session.staged.meta);
        }
        session.recorded.clone_from(&session.staged.meta);
        session.forget_refused();
    }

    fn show_append(
        &mut self,
        id: usize,
        (added, batch): (&AddedLines, &Bytes),
        meta: &MetaStep,
        turn: &Turn<'_>,
    ) {
        let session = self.session(id);
        let is_same = session.settled.meta.keeps_its_text(meta);
        session.tail.show(added.lines(batch), meta);
        session.settled.add(added);
        session.settled.meta.take(meta);
        session.notify();
        let kind = if is_same {
            ChangeKind::Appended
        } else {
            ChangeKind::Updated
        };
        session.tell(kind, turn);
        self.sidecar_changed(id);
    }

    /// Notes that lines may be written to the session file now.
    pub(super) fn lines_synced(&mut self, id: usize, added: &AddedLines, turn: &Turn<'_>) {
        self.session(id).synced += added.len as u64;
        if added.len > 0 {
            self.note_unwritten(id, added.len, turn);
        }
    }

    /// Shows another sidecar, after a change of that kind.
    pub(super) fn replace_meta(
        &mut self,
        id: usize,
        meta: Meta,
        kind: ChangeKind,
        turn: &Turn<'_>,
    ) {
        let session = self.session(id);
        let old = std::mem::replace(&mut session.settled.meta, meta);
        let new = &session.settled.meta.text;
        turn.shared
            .catalog
            .set_aliases(&session.entry, &old.text.aliases, &new.aliases);
        session.tail.set_meta(session.settled.meta.clone());
        session.notify();
        if session.settled.meta.version != old.version {
            session.tell(kind, turn);
        }
        self.sidecar_changed(id);
    }

    fn sidecar_changed(&mut self, id: usize) {
        let session = self.session(id);
        session.sidecar_dirty = true;
        if !std::mem::replace(&mut session.listed, true) {
            session.entry.mark_listed();
        }
        self.mark_dirty(id);
    }
}

impl Session {
    /// Forgets the lines that were staged and are not any more.
    fn forget_refused(&mut self) {
        let end = self.staged.end;
        if let Some(conversation) = &mut self.conversation {
            Arc::make_mut(conversation).cut(end);
        }
    }

    /// Notifies the followers of all sessions.
    pub(super) fn tell(&self, kind: ChangeKind, turn: &Turn<'_>) {
        let told = self.told(kind, turn);
        if let Some(told) = told {
            turn.shared.feed.tell(told);
        }
    }

    /// Returns the notification for the followers of all sessions, if there are any.
    pub(super) fn told(&self, kind: ChangeKind, turn: &Turn<'_>) -> Option<ChangeNotice> {
        if !turn.shared.feed.is_followed() {
            return None;
        }
        let meta = &self.settled.meta;
        let scope = meta.text.scope.as_ref();
        let agent = scope.and_then(|scope| SessionScope::from_json(scope.get()).ok());
        Some(ChangeNotice {
            key: self.entry.key.clone(),
            agent: agent.map(|scope| scope.agent_id).unwrap_or_default().into(),
            version: match kind {
                // A deleted session has no version.
                ChangeKind::Deleted => self.next_version(),
                _ => meta.version,
            },
            kind,
        })
    }

    /// Notifies the session's watchers.
    pub(super) fn notify(&mut self) {
        let Some(watch) = &self.watch else { return };
        if watch.is_unheard() {
            self.watch = None;
        } else {
            watch.send(self.standing());
        }
    }

    pub(super) fn standing(&self) -> Standing {
        Standing {
            generation: self.generation,
            lines: self.settled.lines,
            skip: u64::try_from(self.settled.meta.skip).unwrap_or(0),
        }
    }
}
