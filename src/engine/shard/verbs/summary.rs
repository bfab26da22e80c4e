//! Replaces a summary.

use std::sync::Arc;

use sessionlog_core::session_file::Meta;

use crate::Durability;
use crate::engine::shard::Shard;
use crate::engine::shard::answer::{Ack, Answer};
use crate::engine::shard::request::{Absent, Manner, Verb};
use crate::engine::shard::session::Session;
use crate::engine::shard::turn::Turn;

/// Replace the summary.
#[derive(Debug)]
pub(crate) struct SetSummary {
    pub(crate) summary: String,
    pub(crate) level: Durability,
}

impl Verb for SetSummary {
    type Output = ();
    const MANNER: Manner = Manner::Writes;
    const READS_CONTROLS: bool = false;
    const TOUCHES_FILES: bool = false;
    const LETS_GO: bool = false;

    fn bytes(&self) -> usize {
        self.summary.len()
    }

    fn if_absent(&self, _: &Arc<str>, _: &mut Shard) -> Absent<()> {
        Absent::Create
    }

    fn waits(&self, session: &Session) -> bool {
        session.busy
    }

    fn stage(self, answer: Answer<()>, shard: &mut Shard, id: usize, turn: &mut Turn<'_>) {
        let change = |meta: &mut Meta| meta.text_mut().summary = self.summary;
        match shard.session(id).changed(change, turn) {
            Ok(meta) => shard.push_text(id, meta, self.level, Ack::Done(answer), turn),
            Err(error) => turn.out.answer(answer, Err(error)),
        }
    }
}
