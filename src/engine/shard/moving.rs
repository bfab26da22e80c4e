//! A session that goes on under another key.
//!
//! The owner of the new key asks, in one turn with the old one's. The session holds still, and its
//! lines are copied to a new file in the background. Its backups and its archive are copied beside
//! that file under hidden names. Then one batch records the new state of both keys.
//!
//! # What a crash leaves
//!
//! * *Backups and archive copied, file written, all synced*. No record names them: they
//!   are removed at open. Until the batch, the session has its old key.
//! * *Batch synced*. Its records say of each backup that the session with the new key once had that
//!   content and that it became a backup; then that the session is the new file; which messages it
//!   took once; and that the old key's session is deleted. Recovery carries that out like any other
//!   batch. It finds the parts of the archive by their hidden names, which begin as the new file's.
//! * *Backups and parts named, the archive's directory synced, file renamed*. After: as
//!   after any swap and deletion, until the next checkpoint.

use std::sync::Arc;
use std::time::Duration;

use sessionlog_core::error::{Error, Result};
use sessionlog_core::session_file::{self, Meta, MetaText};
use sessionlog_wal::journal::record::{MetaState, Record};

use super::along::Move;
use super::answer::Ack;
use super::change::{Origin, Swap};
use super::job::Owner;
use super::request::{Command, Manner, Request};
use super::rewrite::PreparedFile;
use super::session::{Pending, Session};
use super::shared::SharedState;
use super::source::{FileLines, FileSource, MovedFile};
use super::turn::Turn;
use super::{Resident, Shard};
use crate::Durability;
use crate::disk::files::once;
use crate::engine::catalog::Entry;
use crate::engine::numbering::Numbering;
use crate::engine::shard::number::shard_of;

/// A session that holds still, with all its data.
#[derive(Debug)]
pub(super) struct Leaving {
    pub(super) owner: Owner,
    pub(super) entry: Arc<Entry>,
    pub(super) lines: FileLines,
    pub(super) meta: Meta,
    pub(super) numbering: Numbering,
    pub(super) versions: u64,
    /// The ids of the messages that it took once, the oldest first.
    pub(super) ids: Vec<String>,
}

impl Leaving {
    /// Returns the sidecar's text for the session that it becomes: a deleted one, one that is no
    /// longer deleted, or the same session under another key, to which the old key leads.
    fn text_as(&self, key: &str, shared: &SharedState) -> MetaText {
        let text = self.meta.text.undeleted();
        if session_file::is_deleted_key(key) {
            return text.deleted(key, |alias| shared.catalog.has_files(alias));
        }
        let mut text = text.into_owned();
        if self.is_kept() {
            // The key that it had in the trash leads nowhere.
            key.clone_into(&mut text.key);
        }
        text
    }

    /// True if it is in the trash.
    fn is_kept(&self) -> bool {
        session_file::is_deleted_key(&self.entry.key)
    }

    /// Returns the data that goes along to the session `entry`. The message ids that the files of
    /// `entry` already hold are written again after the moved ones: otherwise the ids of older
    /// messages would push out the newest.
    pub(super) fn moving(
        &self,
        entry: &Arc<Entry>,
        [newest, old]: &[Vec<u8>; 2],
        merges: bool,
        shared: &SharedState,
    ) -> Move {
        let own = [old, newest].map(|ids| once::ids(&entry.key, ids));
        let ids = self.ids.iter().cloned().chain(own.into_iter().flatten());
        let from = (self.owner.shard, self.owner.session);
        let numbering = (!merges).then_some(self.numbering);
        let mut moving = Move::new(from, (&self.entry, entry), ids, numbering, shared);
        moving.aliases_over_keys = self.is_kept().then(|| self.meta.text.aliases_over_keys());
        moving
    }
}

/// The session that leaves.
impl Shard {
    /// Returns all data of a session that is about to go on under another key; `None` if it is not
    /// ready for that.
    ///
    /// # Errors
    /// `SessionNotFound`, and if its files cannot be read.
    pub(super) fn look_at_leaving(
        &mut self,
        key: &Arc<str>,
        turn: &mut Turn<'_>,
    ) -> Result<Option<Leaving>> {
        let Some(id) = self.find(key).filter(|&id| self.loaded(id).is_some()) else {
            return Ok(None);
        };
        let session = self.session(id);
        if !session.exists || session.deleted {
            let key = key.to_string();
            return Err(Error::SessionNotFound { key });
        }
        if !session.may_leave() {
            return Ok(None);
        }
        self.leaving(id, turn).map(Some)
    }

    /// Returns all data of a session that holds still.
    fn leaving(&mut self, id: usize, turn: &mut Turn<'_>) -> Result<Leaving> {
        let [newest, old] = self.ids(id, turn)?;
        let ids = [old, newest].concat();
        let lines = self.file_lines(id, turn)?;
        let owner = self.owner(id);
        let session = self.session(id);
        Ok(Leaving {
            owner,
            entry: session.entry.clone(),
            lines,
            meta: session.settled.meta.clone(),
            numbering: session.numbering,
            versions: session.versions,
            ids: once::ids(&session.entry.key, &ids).collect(),
        })
    }

    /// Moves a session that holds still into the trash, under a key of this shard.
    pub(super) fn put_into_trash(&mut self, id: usize, ack: Ack, turn: &mut Turn<'_>) {
        let key = self.session(id).entry.key.clone();
        let kept = loop {
            let kept = self.key_in_trash(&key, turn);
            let kept = self.admit(&kept, turn);
            match &self.sessions[kept] {
                Resident::Ready(_) => break kept,
                Resident::Failed(failed) => {
                    let error = failed.error.clone();
                    return turn.out.settle(ack, &Err(error));
                }
                // Another program put a large file there.
                Resident::Loading(_) => {}
            }
        };
        match self.leaving(id, turn) {
            Ok(leaving) => self.take_in(kept, &leaving, ack, turn),
            Err(error) => turn.out.settle(ack, &Err(error)),
        }
    }

    /// Returns a key for a session that is deleted now. It belongs to this shard, so that it can be
    /// reached in any shard's turn.
    fn key_in_trash(&self, key: &str, turn: &Turn<'_>) -> Arc<str> {
        let mut at = turn.shared.clock.now();
        loop {
            let kept = session_file::deleted_key(key, at);
            let is_own = shard_of(&kept) == self.id;
            if is_own && self.find(&kept).is_none() && !turn.shared.catalog.knows(&kept) {
                return kept.into();
            }
            at += Duration::from_nanos(1);
        }
    }

    /// Returns all lines of a session that has none in flight.
    ///
    /// # Errors
    /// If its file cannot be written to or opened.
    pub(super) fn file_lines(&mut self, id: usize, turn: &mut Turn<'_>) -> Result<FileLines> {
        self.write_out(id, turn)?;
        let file = self.file(id, turn)?;
        let session = self.session(id);
        Ok(FileLines {
            file,
            start: session.start,
            end: session.settled.end,
            skip: u64::try_from(session.settled.meta.skip).unwrap_or(0),
            lines: session.settled.lines,
            torn: session.settled.torn,
        })
    }

    /// Stages nothing more for a session until it [left](Self::send_after).
    pub(super) fn hold_to_leave(&mut self, id: usize, to_trash: bool) {
        let session = self.session(id);
        session.busy = true;
        session.pending = Some(Pending::Leaving { to_trash });
    }

    /// Sends the requests that waited for a session after it, unless it went into the trash.
    pub(super) fn send_after(&mut self, id: usize, to_trash: bool, turn: &mut Turn<'_>) {
        // Its old numbers go on with it.
        let versions = self.fresh_versions();
        let session = self.session(id);
        session.moved = !to_trash;
        session.versions = versions;
        session.numbering = Numbering::new(versions);
        let waiting = &mut session.waiting;
        let requests = waiting.drain_but(|request| request.manner() != Manner::Writes);
        for request in requests {
            match self.goes_on_as(id, &*request, turn) {
                Some(to) => self.send_on(to, request, turn),
                None => self.submit(id, request, turn),
            }
        }
    }

    /// Returns the key that a session goes on as, if a request goes with it. This holds until
    /// another session has the old key, and as long as the old key is an alias.
    pub(super) fn goes_on_as(
        &self,
        id: usize,
        request: &dyn Request,
        turn: &mut Turn<'_>,
    ) -> Option<Arc<str>> {
        let session = self.loaded(id)?;
        if !session.moved || request.manner() != Manner::Writes {
            return None;
        }
        let to = turn.shared.catalog.resolve_other(&session.entry.key)?;
        turn.reaches(self, shard_of(&to)).then_some(to)
    }

    pub(super) fn send_on(&mut self, to: Arc<str>, request: Box<dyn Request>, turn: &mut Turn<'_>) {
        let shard = shard_of(&to);
        let command = Command { key: to, request };
        turn.beside(self, shard, |shard, turn| shard.accept(command, turn));
    }
}

/// The session that it becomes.
impl Shard {
    /// Turns the session `id` into one that holds still, which is gone then. The lines of `id`
    /// itself follow after.
    pub(super) fn take_in(&mut self, id: usize, leaving: &Leaving, ack: Ack, turn: &mut Turn<'_>) {
        let (moved, meta) = match self.joined(id, leaving, turn) {
            Ok(joined) => joined,
            Err(error) => return turn.out.settle(ack, &Err(error)),
        };
        let to_trash = self.session(id).kept;
        let from = leaving.owner;
        turn.beside(self, from.shard, |old, _| {
            old.hold_to_leave(from.session, to_trash);
        });
        let session = self.session(id);
        session.staged.meta = meta;
        if session.exists {
            session.touch(turn.now);
        } else {
            // It is the other session, and nothing else.
            session.versions = leaving.versions;
            session.staged.meta.version = leaving.meta.version;
            session.staged.meta.updated_at = leaving.meta.updated_at.clone();
        }
        session.created(turn.now);
        let origin = Origin::Moved(moved.moving.clone());
        self.start_rewrite(id, FileSource::Moved(moved), origin, ack, turn);
    }

    /// Returns the lines of both, and the sidecar that describes both.
    fn joined(
        &mut self,
        id: usize,
        leaving: &Leaving,
        turn: &mut Turn<'_>,
    ) -> Result<(MovedFile, Meta)> {
        let own_ids = self.ids(id, turn)?;
        let own = self.file_lines(id, turn)?;
        let session = self.session(id);
        let own = (own.end > 0).then_some(own);
        let older = leaving.text_as(&session.entry.key, turn.shared);
        let follow = |meta: &mut Meta| meta.text_mut().follow(&older);
        let meta = if session.kept {
            // Acknowledged data must not become too large to be deleted.
            let mut meta = session.staged.meta.clone();
            follow(&mut meta);
            meta
        } else {
            session.changed(follow, turn)?
        };
        let entry = self.reclaim(id, turn).entry.clone();
        let moving = leaving.moving(&entry, &own_ids, own.is_some(), turn.shared);
        let moving = Arc::new(moving);
        let older = leaving.lines.clone();
        Ok((MovedFile { older, own, moving }, meta))
    }

    /// Decides which aliases a session from the trash gets back: not those that mean another
    /// session meanwhile. Called when its copy is ready.
    pub(super) fn settle_aliases(&mut self, id: usize, moving: &Move, turn: &Turn<'_>) {
        let Some(over) = &moving.aliases_over_keys else {
            return;
        };
        let catalog = &turn.shared.catalog;
        let session = self.session(id);
        let (key, own) = (session.entry.key.clone(), session.settled.meta.clone());
        let is_free = |alias: &String| {
            // All sessions of the agent have it, and it is no session's history.
            session_file::is_main_alias(&session_file::fold(alias))
                || catalog.claimant(alias).is_none_or(|other| other == key)
                    && (over.contains(alias) || !catalog.has_files(alias))
        };
        let aliases = &mut session.staged.meta.text_mut().aliases;
        aliases.retain(|alias| own.text.aliases.contains(alias) || is_free(alias));
    }

    /// Stages, in one batch, that a session has the lines of another, which is gone.
    pub(super) fn push_move(
        &mut self,
        id: usize,
        moving: &Move,
        swap: Swap,
        ack: Ack,
        turn: &mut Turn<'_>,
    ) {
        self.push_backups(id, moving, &swap.prepared, turn);
        let (offset, crc) = (swap.prepared.len, swap.crc);
        self.push_swap(id, swap, &[], Ack::Nobody, turn);
        if !moving.once.is_empty() {
            let session = self.session(id);
            let meta = &session.staged.meta;
            let record = Record::Append {
                stem: &session.stem,
                generation: session.generation + 1,
                offset,
                crc,
                meta: MetaState::Patch {
                    skip: meta.skip,
                    count: meta.count,
                    updated_at: (&meta.updated_at).into(),
                },
                once: &moving.once,
                bytes: b"",
            };
            turn.staging.encode(&record, Durability::Durable);
        }
        let (shard, session) = moving.from;
        turn.beside(self, shard, |old, turn| {
            // A caller that is answered finds nothing under the old key.
            old.push_delete(session, ack, turn);
        });
    }

    /// Records of each backup that the session had that content, and that it became a backup.
    fn push_backups(
        &mut self,
        id: usize,
        moving: &Move,
        prepared: &PreparedFile,
        turn: &mut Turn<'_>,
    ) {
        let session = self.session(id);
        let sidecar = session.recorded_sidecar();
        let image = session_file::encode_sidecar(&session.staged.meta.to_sidecar());
        let (stem, generation) = (&*session.stem, session.generation + 1);
        for (backup, extent) in moving.backups.iter().zip(&prepared.backups) {
            let Some(extent) = extent else { continue };
            let name = backup.name.to_text();
            let swap = Record::Swap {
                stem,
                generation,
                before: session.before(&sidecar),
                image: &image,
                // No file has that name: the content became the backup.
                temp: &turn.shared.next_temp(),
                base_len: extent.end,
                base_crc: extent.crc,
                tail: b"",
            };
            turn.staging.encode(&swap, Durability::Durable);
            let rebase = Record::Rebase {
                stem,
                generation,
                before: session.before(&sidecar),
                image: &image,
                of: &name,
                len: 0,
                crc: 0,
                link: &backup.link,
                backup: &name,
            };
            turn.staging.encode(&rebase, Durability::Durable);
        }
    }

    /// Lets the session stay under its old key.
    pub(super) fn call_back(&mut self, moving: &Move, turn: &mut Turn<'_>) {
        let (shard, session) = moving.from;
        turn.beside(self, shard, |old, turn| {
            let leaving = old.session(session);
            leaving.pending.take_if(|pending| pending.leaves());
            leaving.busy = false;
            old.pump(session, turn);
        });
    }

    /// Gives the moved files their names, and notes which messages the session took once.
    pub(super) fn settle_move(
        &mut self,
        id: usize,
        moving: &Move,
        prepared: &PreparedFile,
        turn: &Turn<'_>,
    ) -> Result<()> {
        let shared = turn.shared;
        let named = moving.name_all(shared, &prepared.temp, &prepared.backups);
        named.map_err(|e| Error::io("rename in", &shared.backups.dir, e))?;
        if let Err(error) = moving.follow_up(shared) {
            shared.warn(
                &error,
                "not all that is known of backups went along with them",
            );
        }
        let session = self.session(id);
        for line in moving.once.split_inclusive('\n') {
            session.took(line, true);
        }
        Ok(())
    }
}

impl Session {
    /// True if nothing is under way for it, nor in the background: lines that a compaction archives
    /// would be in two places.
    pub(super) fn may_leave(&self) -> bool {
        self.is_still() && self.compaction.is_none()
    }
}
