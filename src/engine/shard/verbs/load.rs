//! Makes a session ready to be read.

use std::sync::Arc;

use crate::engine::shard::Shard;
use crate::engine::shard::answer::Answer;
use crate::engine::shard::request::{Absent, Manner, Verb};
use crate::engine::shard::session::Session;
use crate::engine::shard::turn::Turn;
use crate::engine::snapshot::Snapshot;

/// Publish a snapshot that can be read.
#[derive(Debug)]
pub(crate) struct Load;

impl Verb for Load {
    type Output = Arc<Snapshot>;
    const MANNER: Manner = Manner::Looks;
    const READS_CONTROLS: bool = false;
    const TOUCHES_FILES: bool = true;
    const LETS_GO: bool = false;

    fn bytes(&self) -> usize {
        0
    }

    fn if_absent(&self, key: &Arc<str>, _: &mut Shard) -> Absent<Arc<Snapshot>> {
        Absent::Answer(Ok(Arc::new(Snapshot::empty(key))))
    }

    fn waits(&self, _: &Session) -> bool {
        false
    }

    fn stage(
        self,
        answer: Answer<Arc<Snapshot>>,
        shard: &mut Shard,
        id: usize,
        turn: &mut Turn<'_>,
    ) {
        let opened = shard.file(id, turn);
        let snapshot = shard.session(id).live().snapshot();
        turn.out.answer(answer, opened.map(|_| Arc::new(snapshot)));
    }
}
