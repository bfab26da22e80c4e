//! Forgetting backups that are about to be removed.

use std::sync::Arc;

use crate::disk::files::backup::Name;
use crate::engine::shard::Shard;
use crate::engine::shard::answer::Answer;
use crate::engine::shard::request::{Absent, Manner, Verb};
use crate::engine::shard::session::Session;
use crate::engine::shard::turn::Turn;

/// Know nothing any more of backups that are about to be removed: until then no
/// session is taken back to one. Answers which of them were there still.
#[derive(Debug)]
pub(crate) struct Forget {
    pub(crate) names: Vec<Name>,
}

impl Verb for Forget {
    type Output = Vec<Name>;
    const MANNER: Manner = Manner::Writes;
    const READS_CONTROLS: bool = false;
    const TOUCHES_FILES: bool = true;

    fn bytes(&self) -> usize {
        0
    }

    fn if_absent(&self, _: &Arc<str>, _: &mut Shard) -> Absent<Vec<Name>> {
        Absent::Answer(Ok(Vec::new()))
    }

    fn waits(&self, session: &Session) -> bool {
        !session.is_still()
    }

    fn stage(self, answer: Answer<Vec<Name>>, _: &mut Shard, _: usize, turn: &mut Turn<'_>) {
        let mut names = self.names;
        names.retain(|name| turn.shared.backups.forget(name));
        turn.out.answer(answer, Ok(names));
    }
}
