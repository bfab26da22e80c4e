//! Reports the state of a conversation.

use std::sync::Arc;

use crate::engine::shard::Shard;
use crate::engine::shard::answer::Answer;
use crate::engine::shard::request::{Absent, Manner, Verb};
use crate::engine::shard::session::Session;
use crate::engine::shard::turn::Turn;
use crate::engine::snapshot::ConversationMoment;

/// Report the state of the conversation, from settled lines.
#[derive(Debug)]
pub(crate) struct Look;

impl Verb for Look {
    type Output = Arc<ConversationMoment>;
    const MANNER: Manner = Manner::Looks;
    const READS_CONTROLS: bool = true;
    const TOUCHES_FILES: bool = true;
    const LETS_GO: bool = false;

    fn bytes(&self) -> usize {
        0
    }

    fn if_absent(&self, key: &Arc<str>, _: &mut Shard) -> Absent<Arc<ConversationMoment>> {
        Absent::Answer(Ok(Arc::new(ConversationMoment::empty(key))))
    }

    /// The control records are read from settled lines, and all of them must be known before the
    /// next is staged.
    fn waits(&self, session: &Session) -> bool {
        session.conversation.is_none() && !session.is_still()
    }

    fn stage(
        self,
        answer: Answer<Arc<ConversationMoment>>,
        shard: &mut Shard,
        id: usize,
        turn: &mut Turn<'_>,
    ) {
        let opened = shard.file(id, turn);
        let looked = shard.session(id).looked();
        turn.out.answer(answer, opened.map(|_| Arc::new(looked)));
    }
}

impl Session {
    fn looked(&self) -> ConversationMoment {
        let mut snapshot = self.live().snapshot();
        snapshot.live.start = 0;
        ConversationMoment {
            conversation: self.conversation.clone().unwrap_or_default(),
            start: self.start,
            end: self.settled.end,
            lines: self.settled.lines,
            snapshot,
        }
    }
}
