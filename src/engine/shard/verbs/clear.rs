//! Starts a conversation anew.

use std::sync::Arc;

use crate::disk::files::backup::BackupReason;
use crate::engine::shard::Shard;
use crate::engine::shard::answer::Answer;
use crate::engine::shard::going_back::Beginning;
use crate::engine::shard::request::{Absent, Manner, Verb};
use crate::engine::shard::session::Session;
use crate::engine::shard::turn::Turn;

/// Start anew; the conversation so far becomes a backup, made for `reason`.
#[derive(Debug)]
pub(crate) struct Clear {
    pub(crate) reason: BackupReason,
}

impl Verb for Clear {
    type Output = ();
    const MANNER: Manner = Manner::Writes;
    const READS_CONTROLS: bool = false;
    const TOUCHES_FILES: bool = true;
    const LETS_GO: bool = false;

    fn bytes(&self) -> usize {
        0
    }

    fn if_absent(&self, _: &Arc<str>, _: &mut Shard) -> Absent<()> {
        Absent::Answer(Ok(()))
    }

    fn waits(&self, session: &Session) -> bool {
        !session.is_still()
    }

    fn stage(self, answer: Answer<()>, shard: &mut Shard, id: usize, turn: &mut Turn<'_>) {
        if shard.session(id).settled.end == 0 {
            return turn.out.answer(answer, Ok(()));
        }
        shard.keep_first(id, Beginning::default(), self.reason, answer, turn);
    }
}
