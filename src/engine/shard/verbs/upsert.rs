//! Replacing a session's scope and aliases.

use std::sync::Arc;

use super::identity::Identity;
use crate::Durability;
use crate::engine::shard::Shard;
use crate::engine::shard::answer::{Ack, Answer};
use crate::engine::shard::request::{Absent, Manner, Verb};
use crate::engine::shard::session::Session;
use crate::engine::shard::turn::Turn;

/// Replace scope and aliases.
#[derive(Debug)]
pub(crate) struct UpsertMeta {
    pub(crate) identity: Identity,
    pub(crate) level: Durability,
}

impl Verb for UpsertMeta {
    type Output = ();
    const MANNER: Manner = Manner::Writes;
    const READS_CONTROLS: bool = false;
    const TOUCHES_FILES: bool = false;

    fn bytes(&self) -> usize {
        0
    }

    fn if_absent(&self, _: &Arc<str>, _: &mut Shard) -> Absent<()> {
        Absent::Create
    }

    fn waits(&self, session: &Session) -> bool {
        session.busy
    }

    fn stage(self, answer: Answer<()>, shard: &mut Shard, id: usize, turn: &mut Turn<'_>) {
        if let Err(error) = shard.session(id).admits(&self.identity) {
            return turn.out.answer(answer, Err(error));
        }
        shard.push_identity(id, self.identity, self.level, Ack::Done(answer), turn);
    }
}

impl Shard {
    /// Stages an identity that the session [admits](Session::admits).
    pub(super) fn push_identity(
        &mut self,
        id: usize,
        identity: Identity,
        level: Durability,
        ack: Ack,
        turn: &mut Turn<'_>,
    ) {
        let session = self.reclaim(id, turn);
        session.created(turn.now);
        identity.replace_in(&mut session.staged.meta);
        session.staged.meta.updated_at = turn.now.clone();
        self.push_meta(id, level, ack, turn);
    }
}
