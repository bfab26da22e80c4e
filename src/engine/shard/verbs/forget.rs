//! Forgets backups that are about to be removed.

use std::sync::Arc;

use crate::disk::files::backup::BackupName;
use crate::engine::shard::Shard;
use crate::engine::shard::answer::Answer;
use crate::engine::shard::request::{Absent, Manner, Verb};
use crate::engine::shard::session::Session;
use crate::engine::shard::shared::SharedState;
use crate::engine::shard::turn::Turn;

/// Forget backups that are about to be removed: from then on no session is taken back to one.
/// Answers the backups that were still there.
#[derive(Debug)]
pub(crate) struct Forget {
    pub(crate) names: Vec<BackupName>,
    pub(crate) shared: Arc<SharedState>,
}

/// Backups that were forgotten. Those left in it when it is dropped are remembered again: a caller
/// that gave up must not hide files that stay.
#[derive(Debug)]
pub(crate) struct Forgotten {
    pub(crate) names: Vec<BackupName>,
    shared: Arc<SharedState>,
}

impl Drop for Forgotten {
    fn drop(&mut self) {
        for name in &self.names {
            self.shared.backups.recall(name);
        }
    }
}

impl Verb for Forget {
    type Output = Forgotten;
    const MANNER: Manner = Manner::Writes;
    const READS_CONTROLS: bool = false;
    const TOUCHES_FILES: bool = true;
    const LETS_GO: bool = false;

    fn bytes(&self) -> usize {
        0
    }

    fn if_absent(&self, _: &Arc<str>, _: &mut Shard) -> Absent<Forgotten> {
        Absent::Answer(Ok(Forgotten {
            names: Vec::new(),
            shared: self.shared.clone(),
        }))
    }

    fn waits(&self, session: &Session) -> bool {
        !session.is_still()
    }

    fn stage(self, answer: Answer<Forgotten>, _: &mut Shard, _: usize, turn: &mut Turn<'_>) {
        let Self { mut names, shared } = self;
        names.retain(|name| shared.backups.forget(name));
        turn.out.answer(answer, Ok(Forgotten { names, shared }));
    }
}
