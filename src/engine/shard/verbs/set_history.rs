//! Replacing a history.

use std::sync::Arc;

use crate::engine::shard::Shard;
use crate::engine::shard::answer::{Ack, Answer};
use crate::engine::shard::change::Origin;
use crate::engine::shard::request::{Absent, Manner, Verb};
use crate::engine::shard::session::Session;
use crate::engine::shard::source::Source;
use crate::engine::shard::turn::Turn;

/// Replace the history by whole lines, each ended by LF.
#[derive(Debug)]
pub(crate) struct SetHistory {
    pub(crate) lines: Vec<u8>,
}

impl Verb for SetHistory {
    type Output = ();
    const MANNER: Manner = Manner::Writes;
    const READS_CONTROLS: bool = false;
    const TOUCHES_FILES: bool = true;

    fn bytes(&self) -> usize {
        self.lines.len()
    }

    fn if_absent(&self, _: &Arc<str>, _: &mut Shard) -> Absent<()> {
        Absent::Create
    }

    fn waits(&self, session: &Session) -> bool {
        !session.is_still()
    }

    fn stage(self, answer: Answer<()>, shard: &mut Shard, id: usize, turn: &mut Turn<'_>) {
        let session = shard.reclaim(id, turn);
        session.created(turn.now);
        session.touch(turn.now);
        session.staged.meta.skip = 0;
        let source = Source::Lines(self.lines);
        shard.start_rewrite(id, source, Origin::Lines, Ack::Done(answer), turn);
    }
}
