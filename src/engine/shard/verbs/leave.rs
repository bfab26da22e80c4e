//! Makes a session ready to go on under another key.

use std::sync::Arc;

use crate::engine::shard::Shard;
use crate::engine::shard::answer::Answer;
use crate::engine::shard::request::{Absent, Manner, Verb};
use crate::engine::shard::session::Session;
use crate::engine::shard::turn::Turn;

/// Wait until nothing is under way for the session.
#[derive(Debug)]
pub(crate) struct Leave;

impl Verb for Leave {
    type Output = ();
    const MANNER: Manner = Manner::Names;
    const READS_CONTROLS: bool = false;
    const TOUCHES_FILES: bool = true;
    const LETS_GO: bool = true;

    fn bytes(&self) -> usize {
        0
    }

    fn if_absent(&self, _: &Arc<str>, _: &mut Shard) -> Absent<()> {
        Absent::Answer(Ok(()))
    }

    fn waits(&self, session: &Session) -> bool {
        !session.may_leave()
    }

    fn stage(self, answer: Answer<()>, _: &mut Shard, _: usize, turn: &mut Turn<'_>) {
        turn.out.answer(answer, Ok(()));
    }
}
