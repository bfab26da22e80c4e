//! Going on with a session under another key.

use std::sync::Arc;

use super::promote::Blank;
use crate::disk::session_file::{self, Meta};
use crate::engine::shard::Shard;
use crate::engine::shard::answer::{Ack, Answer};
use crate::engine::shard::change::Origin;
use crate::engine::shard::locate::Query;
use crate::engine::shard::moving::Leaving;
use crate::engine::shard::request::{Absent, Manner, Verb, asked};
use crate::engine::shard::session::Session;
use crate::engine::shard::source::{Moved, Source};
use crate::engine::shard::turn::Turn;
use crate::error::{Error, Result};
use crate::ground::storage::StorageFile;

/// Become the session `from`, which is gone then; with what this one says after it, if `merge`.
/// Answers whether this one said something; `None` if the other one must be made
/// [ready](super::leave::Leave) first.
#[derive(Debug)]
pub(crate) struct Rename {
    pub(crate) from: Arc<str>,
    pub(crate) merge: bool,
}

impl Verb for Rename {
    type Output = Option<bool>;
    const MANNER: Manner = Manner::Names;
    const READS_CONTROLS: bool = false;
    const TOUCHES_FILES: bool = true;

    fn bytes(&self) -> usize {
        self.from.len()
    }

    fn if_absent(&self, _: &Arc<str>, _: &mut Shard) -> Absent<Option<bool>> {
        Absent::Create
    }

    fn waits(&self, session: &Session) -> bool {
        !session.may_leave()
    }

    fn stage(
        self,
        answer: Answer<Option<bool>>,
        shard: &mut Shard,
        id: usize,
        turn: &mut Turn<'_>,
    ) {
        match self.prepare(shard, id, turn) {
            Ok(Readiness::Search(file, query)) => {
                shard.start_search(id, file, query, asked(self, answer), turn);
            }
            Ok(Readiness::NotReady) => turn.out.answer(answer, Ok(None)),
            Ok(Readiness::Ready(ready)) => {
                let ack = Ack::with(answer, Some(ready.has_said));
                ready.push(shard, id, ack, turn);
            }
            Err(error) => turn.out.answer(answer, Err(error)),
        }
    }
}

/// What it comes to.
enum Readiness {
    /// The lines of this session must be searched first, and that takes long.
    Search(Arc<dyn StorageFile>, Query),
    /// The other session is not loaded, or something is under way for it.
    NotReady,
    Ready(Box<Ready>),
}

/// All that is needed of both sessions.
struct Ready {
    leaving: Leaving,
    /// Whether this session says something.
    has_said: bool,
    moved: Moved,
    meta: Meta,
}

impl Rename {
    fn prepare(&self, shard: &mut Shard, id: usize, turn: &mut Turn<'_>) -> Result<Readiness> {
        let has_said = match shard.is_blank(id, turn)? {
            Blank::Search(file, query) => return Ok(Readiness::Search(file, query)),
            Blank::Known(blank) => !blank,
        };
        let key = shard.session(id).entry.key.clone();
        if has_said && !self.merge {
            let key = key.to_string();
            return Err(Error::HasHistory { key });
        }
        // What waits for the old key, and what comes for it late, would go to a third session;
        // and what the new key means would be that one's.
        let catalog = &turn.shared.catalog;
        let third = catalog.claimant(&self.from).filter(|third| *third != key);
        // Of a deleted session, nothing leads to where it went.
        if let Some(third) = third.filter(|_| !session_file::is_deleted_key(&key)) {
            return Err(Error::is_alias(&self.from, &third));
        }
        let third = catalog.resolve_other(&key);
        if let Some(third) = third.filter(|third| *third != self.from) {
            return Err(Error::is_alias(&key, &third));
        }
        let number = session_file::shard_of(&self.from);
        let leaving = turn.beside(shard, number, |old, turn| {
            old.look_at_leaving(&self.from, turn)
        });
        let Some(leaving) = leaving.transpose()?.flatten() else {
            return Ok(Readiness::NotReady);
        };
        let own_ids = shard.ids(id, turn)?;
        let own = shard.file_lines(id, turn)?;
        let session = shard.session(id);
        let own = (own.end > 0).then_some(own);
        let older = leaving.text_as(&key, turn.shared);
        let meta = session.changed(|meta| meta.text_mut().follow(&older), turn)?;
        let entry = shard.reclaim(id, turn).entry.clone();
        let moving = leaving.moving(&entry, &own_ids, own.is_some(), turn.shared);
        let moving = Arc::new(moving);
        let older = leaving.lines.clone();
        Ok(Readiness::Ready(Box::new(Ready {
            has_said,
            moved: Moved { older, own, moving },
            meta,
            leaving,
        })))
    }
}

impl Ready {
    fn push(self, shard: &mut Shard, id: usize, ack: Ack, turn: &mut Turn<'_>) {
        let Self {
            leaving,
            moved,
            meta,
            ..
        } = self;
        let from = leaving.owner;
        turn.beside(shard, from.shard, |old, _| old.hold_to_leave(from.session));
        let session = shard.session(id);
        session.staged.meta = meta;
        if session.exists {
            session.touch(turn.now);
        } else {
            // It is the other session, and none other than that.
            session.versions = leaving.versions;
            session.staged.meta.version = leaving.meta.version;
            session.staged.meta.updated_at = leaving.meta.updated_at.clone();
        }
        session.created(turn.now);
        let origin = Origin::Moved(moved.moving.clone());
        shard.start_rewrite(id, Source::Moved(moved), origin, ack, turn);
    }
}
