//! Takes in a backup that was made elsewhere.

use std::sync::Arc;

use sessionlog_core::error::{Error, Result};

use crate::disk::files::backup::{BackupFile, BackupName};
use crate::engine::shard::Shard;
use crate::engine::shard::answer::Answer;
use crate::engine::shard::request::{Absent, Manner, Verb};
use crate::engine::shard::session::Session;
use crate::engine::shard::turn::Turn;

/// A number from here on is not kept: later numbers must fit after it.
const HIGHEST: u64 = 1 << 62;

/// Give a file among the backups, written and synced, the name of a backup of the session. It keeps
/// its number if that is above all numbers given so far and far from the last possible one;
/// otherwise it gets the next number. The caller syncs the directory.
#[derive(Debug)]
pub(crate) struct Keep {
    pub(crate) temp: String,
    /// Without the session's stem.
    pub(crate) name: BackupName,
    pub(crate) size: u64,
}

impl Verb for Keep {
    type Output = ();
    const MANNER: Manner = Manner::Writes;
    const READS_CONTROLS: bool = false;
    const TOUCHES_FILES: bool = true;
    const LETS_GO: bool = false;

    fn bytes(&self) -> usize {
        0
    }

    fn if_absent(&self, key: &Arc<str>, _: &mut Shard) -> Absent<()> {
        Absent::Answer(Err(Error::SessionNotFound {
            key: key.to_string(),
        }))
    }

    /// A verb that takes a session back allots a number when it begins.
    fn waits(&self, session: &Session) -> bool {
        !session.is_still()
    }

    fn stage(self, answer: Answer<()>, shard: &mut Shard, id: usize, turn: &mut Turn<'_>) {
        let session = shard.session(id);
        // A deleted session's file name may be another session's by now.
        let named = if session.exists && !session.deleted {
            self.name(&session.entry.stem.clone(), turn)
        } else {
            let key = session.entry.key.to_string();
            Err(Error::SessionNotFound { key })
        };
        turn.out.answer(answer, named);
    }
}

impl Keep {
    fn name(self, stem: &str, turn: &Turn<'_>) -> Result<()> {
        let shared = turn.shared;
        let mut name = self.name;
        name.stem = stem.into();
        let next = shared.backups.next_number(stem);
        if !(next..HIGHEST).contains(&name.number) {
            name.number = next;
        }
        shared.names_changed();
        let (from, to) = (
            shared.backups.dir.join(self.temp),
            shared.backups.path(&name),
        );
        let renamed = shared.storage.rename(&from, &to);
        renamed.map_err(|e| Error::io("rename", &from, e))?;
        let size = self.size;
        shared.backups.enter(BackupFile { name, size });
        Ok(())
    }
}
