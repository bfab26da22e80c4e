//! Staging what takes a session back: reverting, clearing, restoring a backup;
//! and forking, which makes one of another.

use crate::disk::files;
use std::io;
use std::sync::Arc;

use super::Pending;
use crate::disk::files::backup::{BackupReason, Name};
use crate::disk::journal::record::Record;
use crate::disk::session_file::Conversation;
use crate::engine::shard::Shard;
use crate::engine::shard::command::Answer;
use crate::engine::shard::context::Turn;
use crate::engine::shard::converse::Copied;
use crate::engine::shard::rebase::{Rebase, Target};
use crate::engine::shard::rewrite::{Prepared, Source};
use crate::engine::shard::session::Session;
use crate::engine::shard::staging::SwapAnswer;
use crate::error::Error;

/// A session on its way back.
#[derive(Debug)]
pub(crate) struct Rebasing {
    /// What the session's file becomes: its second name, and what that is to be.
    pub(crate) keep: Option<(String, Name)>,
    /// The backup whose first bytes the session becomes.
    of: Name,
    /// Lines that are hidden then.
    skip: u64,
    /// What the control records that stay say, if that is known.
    pub(crate) conversation: Option<Arc<Conversation>>,
    pub(crate) answer: Answer<()>,
}

impl Shard {
    pub(super) fn stage_revert(
        &mut self,
        id: usize,
        checkpoint: i64,
        answer: Answer<()>,
        turn: &mut Turn<'_>,
    ) {
        let session = self.session(id);
        let mut conversation = session.conversation.clone().unwrap_or_default();
        let now = conversation.before(session.settled.end);
        let (len, lines) = match now.existing(checkpoint, session.start) {
            Ok(mark) => (mark.offset, mark.lines),
            Err(error) => return turn.out.answer(answer, Err(error)),
        };
        Arc::make_mut(&mut conversation).cut(len);
        let skip = u64::try_from(session.settled.meta.skip).unwrap_or(0);
        self.keep_first(
            id,
            (len, lines, skip),
            BackupReason::Revert,
            Some(conversation),
            answer,
            turn,
        );
    }

    pub(super) fn stage_clear(
        &mut self,
        id: usize,
        reason: BackupReason,
        answer: Answer<()>,
        turn: &mut Turn<'_>,
    ) {
        let session = self.session(id);
        if session.settled.end == 0 {
            return turn.out.answer(answer, Ok(()));
        }
        let conversation = Some(Arc::default());
        self.keep_first(id, (0, 0, 0), reason, conversation, answer, turn);
    }

    pub(super) fn stage_restore(
        &mut self,
        id: usize,
        number: u64,
        answer: Answer<()>,
        turn: &mut Turn<'_>,
    ) {
        let entry = self.session(id).entry.clone();
        let backups = &turn.context.backups;
        let found = backups.get(&entry.stem, number).map(|stored| stored.name);
        let Some(of) = found.filter(|of| is_there(of, turn)) else {
            let key = entry.key.to_string();
            return turn
                .out
                .answer(answer, Err(Error::BackupNotFound { key, number }));
        };
        if let Err(error) = self.write_out(id, turn) {
            return turn.out.answer(answer, Err(error));
        }
        let keep = self.names_to_keep(id, BackupReason::Restore, turn);
        let rebasing = Rebasing {
            skip: of.skip,
            keep,
            conversation: None,
            answer,
            of: of.clone(),
        };
        let target = Target::Backup {
            path: turn.context.backups.path(&of),
            skip: of.skip,
        };
        self.start_rebase(id, rebasing, target, turn);
    }

    pub(super) fn stage_fork(
        &mut self,
        id: usize,
        copy: Copied,
        answer: Answer<()>,
        turn: &mut Turn<'_>,
    ) {
        if self.session(id).exists {
            let key = self.session(id).entry.key.to_string();
            return turn.out.answer(answer, Err(Error::SessionExists { key }));
        }
        let session = self.reclaim(id, turn);
        session.created(turn);
        let meta = &mut session.staged.meta;
        meta.skip = i64::try_from(copy.skip).unwrap_or(i64::MAX);
        meta.updated_at = turn.now.clone();
        meta.text_mut().summary = copy.summary;
        let source = Source::Bytes {
            file: copy.file,
            len: copy.len,
            behind: copy.behind,
            skip: copy.skip,
        };
        self.start_rewrite(id, source, SwapAnswer::Fork(answer), turn);
    }

    /// Takes a session back to its first bytes.
    fn keep_first(
        &mut self,
        id: usize,
        (len, lines, skip): (u64, u64, u64),
        reason: BackupReason,
        conversation: Option<Arc<Conversation>>,
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
            skip,
            conversation,
            answer,
        };
        let target = Target::Prefix {
            file,
            len,
            lines,
            start: self.session(id).start.min(len),
        };
        self.start_rebase(id, rebasing, target, turn);
    }

    /// The names that a session's file gets as a backup, unless it is empty.
    fn names_to_keep(
        &mut self,
        id: usize,
        reason: BackupReason,
        turn: &Turn<'_>,
    ) -> Option<(String, Name)> {
        let session = self.session(id);
        if session.settled.end == 0 {
            return None;
        }
        let stem = &session.entry.stem;
        let millis = turn.context.clock.now().unix_timestamp_nanos() / 1_000_000;
        let name = Name {
            stem: stem.to_string(),
            number: turn.context.backups.next_number(stem),
            reason,
            millis: i64::try_from(millis).unwrap_or(0),
            skip: u64::try_from(session.settled.meta.skip).unwrap_or(0),
        };
        Some((turn.context.next_temp(), name))
    }

    fn start_rebase(&mut self, id: usize, rebasing: Rebasing, target: Target, turn: &mut Turn<'_>) {
        let context = turn.context;
        let log = files::log_path(&context.dir, &self.session(id).entry.stem);
        let backups = context.backups.dir.clone();
        let keep = rebasing
            .keep
            .as_ref()
            .map(|(link, _)| (log, backups.join(link)));
        let source = Source::Rebase(Rebase {
            backups,
            synced: context.backups.synced.clone(),
            keep,
            target,
        });
        let answer = SwapAnswer::Rebase(Box::new(rebasing));
        self.start_rewrite(id, source, answer, turn);
    }
}

impl SwapAnswer {
    /// Sets what only the finished file shows in the sidecar that goes with it.
    pub(super) fn count(&self, prepared: &Prepared, session: &mut Session, turn: &Turn<'_>) {
        let lines = i64::try_from(prepared.lines).unwrap_or(i64::MAX);
        let meta = &mut session.staged.meta;
        match self {
            Self::Rebase(rebasing) => {
                meta.skip = i64::try_from(rebasing.skip).unwrap_or(lines).min(lines);
                meta.count = lines;
                meta.updated_at = turn.now.clone();
            }
            Self::Fork(_) => {
                meta.skip = meta.skip.min(lines);
                meta.count = lines;
            }
            Self::Promote(_) | Self::Ensure(_) => meta.count = lines,
            Self::SetHistory(_) | Self::Compaction(_) => {}
        }
    }
}

impl Rebasing {
    /// Its journal record.
    pub(super) fn record<'a>(
        names: &'a Names,
        session: &'a Session,
        image: &'a [u8],
        prepared: &Prepared,
    ) -> Record<'a> {
        Record::Rebase {
            stem: &session.entry.stem,
            generation: session.generation + 1,
            image,
            of: &names.of,
            len: prepared.len,
            link: &names.link,
            backup: &names.backup,
        }
    }

    pub(super) fn names(&self) -> Names {
        let (link, backup) = match &self.keep {
            Some((link, name)) => (link.clone(), name.to_text()),
            None => Default::default(),
        };
        Names {
            of: self.of.to_text(),
            link,
            backup,
        }
    }

    /// Removes what was prepared and will not be kept.
    pub(crate) fn discard(&self, turn: &Turn<'_>) {
        let Some((link, _)) = &self.keep else { return };
        turn.context.names_changed();
        let path = turn.context.backups.dir.join(link);
        if let Err(error) = turn.context.storage.remove_file(&path) {
            tracing::warn!(path = %path.display(), %error, "left behind until the next open");
        }
    }
}

/// The file names in a record.
pub(super) struct Names {
    of: String,
    link: String,
    backup: String,
}

/// Whether nobody removed the backup by hand; one that was is forgotten.
fn is_there(name: &Name, turn: &Turn<'_>) -> bool {
    let backups = &turn.context.backups;
    let found = turn.context.storage.info(&backups.path(name));
    let gone = found.is_err_and(|e| e.kind() == io::ErrorKind::NotFound);
    if gone {
        backups.forget(name);
    }
    !gone
}

impl Pending {
    /// Whether this waits for the control records to be read.
    pub(super) fn is_fold(&self) -> bool {
        matches!(self, Self::Fold(_))
    }
}
