//! Deletes a session.

use std::io::ErrorKind;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use sessionlog_core::error::{Error, Result, Version};
use sessionlog_core::session_file;
use sessionlog_wal::journal::record::Record;
use sessionlog_wal::storage::FileKind;

use crate::Durability;
use crate::disk::files::{is_impostor, is_taken, once};
use crate::engine::feed::ChangeKind;
use crate::engine::numbering::Numbering;
use crate::engine::shard::Shard;
use crate::engine::shard::answer::{Ack, Answer};
use crate::engine::shard::change::{Op, SessionChange};
use crate::engine::shard::flush::set_aside;
use crate::engine::shard::request::{Absent, Manner, Verb};
use crate::engine::shard::session::{Pending, Session};
use crate::engine::shard::turn::Turn;
use crate::engine::snapshot::View;

/// Delete the session: its files, its backups and its aliases; or put all of that into the trash.
#[derive(Debug, Default)]
pub(crate) struct Delete {
    /// The version that the session must be at.
    pub(crate) expect: Option<Version>,
    pub(crate) to_trash: bool,
}

impl Verb for Delete {
    type Output = ();
    const MANNER: Manner = Manner::Writes;
    const READS_CONTROLS: bool = false;
    const TOUCHES_FILES: bool = true;
    const LETS_GO: bool = true;

    fn bytes(&self) -> usize {
        0
    }

    fn if_absent(&self, key: &Arc<str>, _: &mut Shard) -> Absent<()> {
        Absent::Answer(Version::ABSENT.require(key, self.expect))
    }

    fn waits(&self, session: &Session) -> bool {
        !session.is_still() || self.to_trash && !session.may_leave()
    }

    fn stage(self, answer: Answer<()>, shard: &mut Shard, id: usize, turn: &mut Turn<'_>) {
        let session = shard.session(id);
        let found = session.settled.meta.version;
        if let Err(error) = found.require(&session.entry.key, self.expect) {
            return turn.out.answer(answer, Err(error));
        }
        let has_backups = || !turn.shared.backups.of(&session.entry.stem).is_empty();
        let has_archived = || turn.shared.archive.has(&session.entry.stem);
        let has_taken = || has_taken(&session.entry.stem, turn);
        let has_more = || has_backups() || has_archived() || has_taken();
        if !session.exists && (session.deleted || !has_more()) {
            return turn.out.answer(answer, Ok(()));
        }
        if self.to_trash && session.exists && !session.kept {
            return shard.put_into_trash(id, Ack::Done(answer), turn);
        }
        shard.push_delete(id, Ack::Done(answer), turn);
    }
}

impl Shard {
    /// Stages the deletion of the session.
    pub(in crate::engine::shard) fn push_delete(
        &mut self,
        id: usize,
        ack: Ack,
        turn: &mut Turn<'_>,
    ) {
        let number = self.id();
        let session = self.session(id);
        let sidecar = session.recorded_sidecar();
        let record = Record::Delete {
            stem: &session.entry.stem,
            generation: session.generation + 1,
            before: session.before(&sidecar),
        };
        session.inflight += 1;
        session.busy = true;
        let op = Op {
            shard: number,
            session: id,
            imaged: 0,
            shown: false,
            ack,
            change: SessionChange::Delete,
        };
        turn.staging.push(op, &record, Durability::Durable);
    }

    /// Removes the session's files and its entry.
    ///
    /// # Errors
    /// `Poisoned`, and the store stops: the journal says that the session is gone, and the
    /// directory that it is not.
    pub(in crate::engine::shard) fn settle_delete(
        &mut self,
        id: usize,
        turn: &mut Turn<'_>,
    ) -> Result<()> {
        // Before its archive is removed: lines that a compaction archives later are then removed by
        // it.
        if let Some(compaction) = &self.session(id).compaction {
            compaction.deleted.store(true, Ordering::Release);
        }
        let entry = self.session(id).entry.clone();
        remove_files(&entry.stem, turn).map_err(|error| turn.out.stop_store(&error))?;
        self.forget_unwritten(id, turn);
        self.handles.forget(id);
        let session = self.session(id);
        let told = session.told(ChangeKind::Deleted, turn);
        let aliases = session.settled.meta.text.aliases.clone();
        let len = session.settled.end;
        if let Some(file) = session.file.take() {
            turn.out.close(file, len);
        }
        let leaves = session.pending.take_if(|pending| pending.leaves());
        session.make_vacant();
        // In this order: a caller that finds the session gone resolves the key again, and must not
        // be led here once more by the aliases of a session that has another key now.
        turn.shared.catalog.remove(&entry, &aliases);
        entry.view.store(Arc::new(View::Gone));
        self.session(id).notify();
        if let Some(told) = told {
            turn.shared.feed.tell(told);
        }
        // The removed names must reach the disk with the next flush.
        self.mark_dirty(id);
        if let Some(Pending::Leaving { to_trash }) = leaves {
            self.send_after(id, to_trash, turn);
        }
        Ok(())
    }
}

impl Session {
    /// Forgets everything but the waiting requests, the compaction and the watchers.
    fn make_vacant(&mut self) {
        let vacant = Session::vacant(self.entry.clone());
        *self = Session {
            generation: self.generation + 1,
            versions: self.versions + 1,
            numbering: Numbering::new(self.versions + 1),
            waiting: std::mem::take(&mut self.waiting),
            compaction: self.compaction.take(),
            watch: self.watch.take(),
            listed_dirty: self.listed_dirty,
            deleted: true,
            ..vacant
        };
    }
}

/// True if the files of messages taken once may name the session: left there, they would count for
/// the next session of that name.
fn has_taken(stem: &str, turn: &Turn<'_>) -> bool {
    let shared = turn.shared;
    let storage = &*shared.storage;
    let mut paths = once::paths(&shared.once, stem).into_iter();
    paths.any(|path| !matches!(storage.info(&path), Err(e) if e.kind() == ErrorKind::NotFound))
        // Files behind a link are another program's.
        && !is_impostor(storage, &shared.once, FileKind::Directory)
}

/// Removes both files of a session, its backups, its archive, and the ids of the messages that it
/// took once.
fn remove_files(stem: &str, turn: &Turn<'_>) -> Result<()> {
    let shared = turn.shared;
    let kept = shared.backups.take(stem);
    let any = !kept.is_empty();
    let own = [
        session_file::log_name(stem),
        session_file::sidecar_name(stem),
    ];
    let own = own.iter().map(|name| shared.dir.join(name));
    let has_taken = has_taken(stem, turn);
    let once = once::paths(&shared.once, stem).into_iter();
    let once = once.filter(|_| has_taken);
    let any = any || has_taken;
    let paths: Vec<PathBuf> = own.chain(kept).chain(once).collect();
    if any {
        shared.names_changed();
    }
    for path in paths {
        let removed = match shared.storage.remove_file(&path) {
            // Another program put a directory or the like there: it must not cost the store.
            Err(e) if is_taken(&e) => set_aside(&path, shared),
            // The directory is no directory any more, so nothing is there.
            Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Ok(()),
            removed => removed,
        };
        removed.map_err(|e| Error::io("remove", &path, e))?;
    }
    if any {
        shared.names_changed();
    }
    shared.archive.remove(&*shared.storage, stem)
}
