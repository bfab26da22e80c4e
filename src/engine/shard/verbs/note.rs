//! Appends control records: a system prompt, a checkpoint.

use std::sync::Arc;

use sessionlog_core::session_file::{self, ControlContent};

use super::append::Append;
use crate::Durability;
use crate::engine::shard::Shard;
use crate::engine::shard::answer::{Ack, Answer};
use crate::engine::shard::request::{Absent, Manner, Verb};
use crate::engine::shard::session::Session;
use crate::engine::shard::turn::Turn;

/// Replace the system prompt.
#[derive(Debug)]
pub(crate) struct SystemPrompt {
    pub(crate) prompt: String,
    pub(crate) level: Durability,
}

impl Verb for SystemPrompt {
    type Output = ();
    const MANNER: Manner = Manner::Writes;
    const READS_CONTROLS: bool = true;
    const TOUCHES_FILES: bool = true;
    const LETS_GO: bool = false;

    fn bytes(&self) -> usize {
        self.prompt.len()
    }

    fn if_absent(&self, _: &Arc<str>, _: &mut Shard) -> Absent<()> {
        Absent::Create
    }

    fn waits(&self, session: &Session) -> bool {
        session.keeps_from_noting()
    }

    fn stage(self, answer: Answer<()>, shard: &mut Shard, id: usize, turn: &mut Turn<'_>) {
        if let Err(error) = shard.make_room(turn) {
            return turn.out.answer(answer, Err(error));
        }
        let line = session_file::encode_system_prompt(&self.prompt);
        let what = ControlContent::SystemPrompt(self.prompt.as_str().into());
        let append = Append {
            lines: (line + "\n").into_bytes(),
            count: 1,
            once: None,
            level: self.level,
        };
        shard.push_note(id, what, append, Ack::Done(answer), turn);
    }
}

/// Set a checkpoint. Answers its id.
#[derive(Debug)]
pub(crate) struct Checkpoint {
    /// True if a message tells the model about it.
    pub(crate) message: bool,
    pub(crate) level: Durability,
}

impl Verb for Checkpoint {
    type Output = i64;
    const MANNER: Manner = Manner::Writes;
    const READS_CONTROLS: bool = true;
    const TOUCHES_FILES: bool = true;
    const LETS_GO: bool = false;

    fn bytes(&self) -> usize {
        0
    }

    fn if_absent(&self, _: &Arc<str>, _: &mut Shard) -> Absent<i64> {
        Absent::Create
    }

    fn waits(&self, session: &Session) -> bool {
        session.keeps_from_noting()
    }

    fn stage(self, answer: Answer<i64>, shard: &mut Shard, id: usize, turn: &mut Turn<'_>) {
        if let Err(error) = shard.make_room(turn) {
            return turn.out.answer(answer, Err(error));
        }
        let known = shard.session(id).conversation.clone().unwrap_or_default();
        let next = known.before(u64::MAX).next_checkpoint();
        // Held while another is pushed, it would force a copy.
        drop(known);
        let mut text = session_file::encode_checkpoint(next) + "\n";
        if self.message {
            text += &session_file::encode_checkpoint_message(next);
            text.push('\n');
        }
        let append = Append {
            lines: text.into_bytes(),
            count: 1 + u32::from(self.message),
            once: None,
            level: self.level,
        };
        let what = ControlContent::Checkpoint {
            id: next,
            lost: false,
        };
        shard.push_note(id, what, append, Ack::with(answer, next), turn);
    }
}

impl Shard {
    /// Stages lines, the first of which is a control record.
    fn push_note(
        &mut self,
        id: usize,
        what: ControlContent,
        append: Append,
        ack: Ack,
        turn: &mut Turn<'_>,
    ) {
        let session = self.reclaim(id, turn);
        // The LF that ends a torn line goes in front.
        let offset = session.staged.end + u64::from(session.staged.torn);
        let before = session.staged.lines;
        let conversation = Arc::make_mut(session.conversation.get_or_insert_default());
        conversation.push(offset, before, what);
        self.push_append(id, append.into(), ack, turn);
    }
}

impl Session {
    /// True if a control record must wait: until the earlier records are known, none may be in
    /// flight that would be missing among them.
    fn keeps_from_noting(&self) -> bool {
        self.busy || self.conversation.is_none() && self.inflight > 0
    }
}
