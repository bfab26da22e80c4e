//! Goes back to a checkpoint.

use std::sync::Arc;

use sessionlog_core::error::Error;

use crate::disk::files::backup::BackupReason;
use crate::engine::shard::Shard;
use crate::engine::shard::answer::Answer;
use crate::engine::shard::going_back::Beginning;
use crate::engine::shard::request::{Absent, Manner, Verb};
use crate::engine::shard::session::Session;
use crate::engine::shard::turn::Turn;

/// Go back to before a checkpoint.
#[derive(Debug)]
pub(crate) struct Revert {
    pub(crate) checkpoint: i64,
}

impl Verb for Revert {
    type Output = ();
    const MANNER: Manner = Manner::Writes;
    const READS_CONTROLS: bool = true;
    const TOUCHES_FILES: bool = true;
    const LETS_GO: bool = false;

    fn bytes(&self) -> usize {
        0
    }

    fn if_absent(&self, _: &Arc<str>, _: &mut Shard) -> Absent<()> {
        Absent::Answer(Err(Error::CheckpointNotFound {
            id: self.checkpoint.into(),
            existing: Vec::new(),
            lost: false,
        }))
    }

    fn waits(&self, session: &Session) -> bool {
        !session.is_still()
    }

    fn stage(self, answer: Answer<()>, shard: &mut Shard, id: usize, turn: &mut Turn<'_>) {
        let session = shard.session(id);
        let mut conversation = session.conversation.clone().unwrap_or_default();
        let now = conversation.before(session.settled.end);
        let len = match now.existing(self.checkpoint, session.start) {
            Ok(mark) => mark.offset,
            Err(error) => return turn.out.answer(answer, Err(error)),
        };
        Arc::make_mut(&mut conversation).cut(len);
        let beginning = Beginning {
            len,
            skip: u64::try_from(session.settled.meta.skip).unwrap_or(0),
            conversation,
        };
        shard.keep_first(id, beginning, BackupReason::Revert, answer, turn);
    }
}
