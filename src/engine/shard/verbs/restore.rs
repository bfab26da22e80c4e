//! Goes back to a backup.

use std::sync::Arc;

use sessionlog_core::error::Error;
use sessionlog_core::session_file::Meta;

use crate::disk::files::backup::{BackupName, BackupReason};
use crate::engine::shard::Shard;
use crate::engine::shard::answer::Answer;
use crate::engine::shard::rebase::{Rebasing, Target};
use crate::engine::shard::request::{Absent, Manner, Verb};
use crate::engine::shard::session::Session;
use crate::engine::shard::turn::Turn;

/// Go back to the backup of that number.
#[derive(Debug)]
pub(crate) struct Restore {
    pub(crate) number: u64,
}

impl Verb for Restore {
    type Output = ();
    const MANNER: Manner = Manner::Writes;
    const READS_CONTROLS: bool = false;
    const TOUCHES_FILES: bool = true;
    const LETS_GO: bool = false;

    fn bytes(&self) -> usize {
        0
    }

    fn if_absent(&self, key: &Arc<str>, _: &mut Shard) -> Absent<()> {
        Absent::Answer(Err(self.not_found(key)))
    }

    fn waits(&self, session: &Session) -> bool {
        !session.is_still()
    }

    fn stage(self, answer: Answer<()>, shard: &mut Shard, id: usize, turn: &mut Turn<'_>) {
        let entry = shard.session(id).entry.clone();
        // A deleted session's file name may be another session's by now, and so would be the
        // backup.
        if shard.session(id).deleted {
            return turn.out.answer(answer, Err(self.not_found(&entry.key)));
        }
        let backups = &turn.shared.backups;
        let found = backups.get(&entry.stem, self.number);
        let Some(stored) = found.filter(|stored| is_there(&stored.name, turn)) else {
            return turn.out.answer(answer, Err(self.not_found(&entry.key)));
        };
        if let Err(error) = shard.write_out(id, turn) {
            return turn.out.answer(answer, Err(error));
        }
        let (of, len) = (stored.name, stored.size);
        let session = shard.session(id);
        if !session.exists
            && let Some(was) = backups.sidecar(&*turn.shared.storage, &of)
        {
            session.staged.meta = Meta::of(was);
        }
        let skip = of.skip;
        let target = Target::Backup {
            path: backups.path(&of),
            len,
        };
        let rebasing = Rebasing {
            keep: shard.names_to_keep(id, BackupReason::Restore, turn),
            of,
            conversation: None,
        };
        shard.start_rebase(id, rebasing, (target, skip), answer, turn);
    }
}

impl Restore {
    fn not_found(&self, key: &str) -> Error {
        Error::BackupNotFound {
            key: key.into(),
            number: self.number,
        }
    }
}

/// Returns true if the backup was not removed by hand; one that was is forgotten.
fn is_there(name: &BackupName, turn: &Turn<'_>) -> bool {
    let backups = &turn.shared.backups;
    let found = turn.shared.storage.info(&backups.path(name));
    let gone = found.is_err_and(|e| e.kind() == std::io::ErrorKind::NotFound);
    if gone {
        backups.forget(name);
    }
    !gone
}
