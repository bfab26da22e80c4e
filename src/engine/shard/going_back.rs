//! Takes a session back to its first lines or to a backup. Its state until then becomes a backup.

use std::sync::Arc;

use sessionlog_core::session_file::Conversation;

use super::Shard;
use super::answer::{Ack, Answer};
use super::change::Origin;
use super::rebase::{Rebase, Rebasing, Target};
use super::source::FileSource;
use super::turn::Turn;
use crate::disk::files;
use crate::disk::files::backup::{BackupName, BackupReason};

/// The part of a session that stays.
#[derive(Debug, Default)]
pub(super) struct Beginning {
    pub(super) len: u64,
    /// Number of lines that are hidden then.
    pub(super) skip: u64,
    /// The content of its control records.
    pub(super) conversation: Arc<Conversation>,
}

impl Shard {
    /// Takes a session back to its first lines.
    pub(super) fn keep_first(
        &mut self,
        id: usize,
        beginning: Beginning,
        reason: BackupReason,
        answer: Answer<()>,
        turn: &mut Turn<'_>,
    ) {
        let opened = self.write_out(id, turn).and_then(|()| self.file(id, turn));
        let file = match opened {
            Ok(Some(file)) => file,
            Ok(None) => return turn.out.answer(answer, Ok(())),
            Err(error) => return turn.out.answer(answer, Err(error)),
        };
        let Some((link, of)) = self.names_to_keep(id, reason, turn) else {
            return turn.out.answer(answer, Ok(()));
        };
        let rebasing = Rebasing {
            keep: Some((link, of.clone())),
            of,
            conversation: Some(beginning.conversation),
        };
        let target = Target::Prefix {
            file,
            len: beginning.len,
        };
        self.start_rebase(id, rebasing, (target, beginning.skip), answer, turn);
    }

    /// Returns the names that a session's file gets as a backup, unless it is empty.
    pub(super) fn names_to_keep(
        &mut self,
        id: usize,
        reason: BackupReason,
        turn: &Turn<'_>,
    ) -> Option<(String, BackupName)> {
        let session = self.session(id);
        if session.settled.end == 0 {
            return None;
        }
        let stem = &session.entry.stem;
        let millis = turn.shared.clock.now().unix_timestamp_nanos() / 1_000_000;
        let name = BackupName {
            stem: stem.to_string(),
            number: turn.shared.backups.next_number(stem),
            reason,
            // A name with a sign would not parse as a backup's.
            millis: i64::try_from(millis).unwrap_or(0).max(0),
            skip: u64::try_from(session.settled.meta.skip).unwrap_or(0),
        };
        Some((turn.shared.next_temp(), name))
    }

    /// Takes a session back to `target`, of which `skip` lines are hidden.
    pub(super) fn start_rebase(
        &mut self,
        id: usize,
        rebasing: Rebasing,
        (target, skip): (Target, u64),
        answer: Answer<()>,
        turn: &mut Turn<'_>,
    ) {
        let shared = turn.shared;
        let session = self.session(id);
        session.staged.meta.skip = i64::try_from(skip).unwrap_or(i64::MAX);
        session.touch(turn.now);
        let log = files::log_path(&shared.dir, &session.entry.stem);
        let backups = shared.backups.dir.clone();
        let keep = rebasing
            .keep
            .as_ref()
            .map(|(link, _)| (log, backups.join(link)));
        let source = FileSource::Rebase(Rebase {
            backups,
            synced: shared.backups.synced.clone(),
            keep,
            target,
            skip,
        });
        let origin = Origin::Rebase(Box::new(rebasing));
        self.start_rewrite(id, source, origin, Ack::Done(answer), turn);
    }
}
