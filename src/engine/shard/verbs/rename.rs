//! Continues a session under another key.

use std::sync::Arc;

use sessionlog_core::error::Result;
use sessionlog_core::rules::moving::{self, Move};
use sessionlog_wal::storage::StorageFile;

use super::promote::Blank;
use crate::engine::catalog::Catalog;
use crate::engine::shard::Shard;
use crate::engine::shard::answer::{Ack, Answer};
use crate::engine::shard::locate::Query;
use crate::engine::shard::moving::Leaving;
use crate::engine::shard::number::shard_of;
use crate::engine::shard::request::{Absent, Manner, Verb, asked};
use crate::engine::shard::session::Session;
use crate::engine::shard::turn::Turn;

/// Become the session `from`, which is gone then; with `merge`, this session's lines follow it.
/// Answers true if this session had a history; `None` if the other one must be made
/// [ready](super::leave::Leave) first.
#[derive(Clone, Debug)]
pub(crate) struct Rename {
    pub(crate) from: Arc<str>,
    pub(crate) merge: bool,
    /// True if this key may be an alias of a third session; it then means this session.
    pub(crate) may_be_alias: bool,
}

impl Verb for Rename {
    type Output = Option<bool>;
    const MANNER: Manner = Manner::Names;
    const READS_CONTROLS: bool = false;
    const TOUCHES_FILES: bool = true;
    const LETS_GO: bool = false;

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
                shard.take_in(id, &ready.leaving, ack, turn);
            }
            Err(error) => turn.out.answer(answer, Err(error)),
        }
    }
}

/// The result of the preparation.
enum Readiness {
    /// The lines of this session must be searched first, and that takes long.
    Search(Arc<dyn StorageFile>, Query),
    /// The other session is not loaded, or something is under way for it.
    NotReady,
    Ready(Box<RenameStart>),
}

/// The session that leaves, and whether this one has a history.
struct RenameStart {
    leaving: Leaving,
    has_said: bool,
}

impl Rename {
    /// Refuses keys between which a session may not move, to the key `to`.
    pub(crate) fn check(&self, to: &str, catalog: &Catalog) -> Result<()> {
        let old_claimant = catalog.claimant(&self.from);
        let new_owner = catalog.resolve_other(to).filter(|_| !self.may_be_alias);
        let moved = Move {
            old: &self.from,
            new: to,
            is_there: catalog.has_files(&self.from),
            old_claimant: old_claimant.as_deref(),
            new_owner: new_owner.as_deref(),
        };
        moved.check()
    }

    fn prepare(&self, shard: &mut Shard, id: usize, turn: &mut Turn<'_>) -> Result<Readiness> {
        let has_said = match shard.is_blank(id, turn)? {
            Blank::Search(file, query) => return Ok(Readiness::Search(file, query)),
            Blank::Known(blank) => !blank,
        };
        let key = shard.session(id).entry.key.clone();
        self.check(&key, &turn.shared.catalog)?;
        moving::check_history(&key, has_said, self.merge)?;
        let number = shard_of(&self.from);
        let leaving = turn.beside(shard, number, |old, turn| {
            old.look_at_leaving(&self.from, turn)
        });
        let Some(leaving) = leaving.transpose()?.flatten() else {
            return Ok(Readiness::NotReady);
        };
        Ok(Readiness::Ready(Box::new(RenameStart {
            leaving,
            has_said,
        })))
    }
}
