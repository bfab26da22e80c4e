//! Replaces a session's scope and aliases.

use std::sync::Arc;

use sessionlog_core::session_file::Meta;

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
    const MANNER: Manner = Manner::Names;
    const READS_CONTROLS: bool = false;
    const TOUCHES_FILES: bool = false;
    const LETS_GO: bool = false;

    fn bytes(&self) -> usize {
        self.identity.bytes()
    }

    fn if_absent(&self, _: &Arc<str>, _: &mut Shard) -> Absent<()> {
        Absent::Create
    }

    fn waits(&self, session: &Session) -> bool {
        session.busy
    }

    fn stage(self, answer: Answer<()>, shard: &mut Shard, id: usize, turn: &mut Turn<'_>) {
        let session = shard.session(id);
        let admitted = session.admits(&self.identity);
        let change = |meta: &mut Meta| self.identity.replace_in(meta);
        match admitted.and_then(|()| session.changed(change, turn)) {
            Ok(meta) => shard.push_text(id, meta, self.level, Ack::Done(answer), turn),
            Err(error) => turn.out.answer(answer, Err(error)),
        }
    }
}

impl Shard {
    /// Stages a sidecar with a [changed](Session::changed) text.
    pub(super) fn push_text(
        &mut self,
        id: usize,
        changed: Meta,
        level: Durability,
        ack: Ack,
        turn: &mut Turn<'_>,
    ) {
        let session = self.reclaim(id, turn);
        session.staged.meta = changed;
        session.created(turn.now);
        session.touch(turn.now);
        self.push_meta(id, level, ack, turn);
    }
}
