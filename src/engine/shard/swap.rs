//! Replaces a session's file: the new one is written in the background, journalled as a swap, and
//! takes the old one's name once its record holds.

use std::path::Path;
use std::sync::Arc;

use sessionlog_core::error::{Error, Result};
use sessionlog_core::session_file::Meta;
use sessionlog_wal::journal::record::Record;
use sessionlog_wal::storage::StorageFile;

use super::Shard;
use super::answer::Ack;
use super::change::{Op, Origin, SessionChange, Swap};
use super::job::Job;
use super::rebase::Rebasing;
use super::rewrite::PreparedFile;
use super::session::{Pending, Session};
use super::source::FileSource;
use super::turn::Turn;
use crate::Durability;
use crate::disk::files;
use crate::disk::files::backup::BackupFile;
use crate::engine::feed::ChangeKind;
use crate::engine::numbering::Numbering;
use crate::engine::snapshot::Tail;

impl Shard {
    /// Has a new file written; the session's later commands wait for it. The new sidecar is staged
    /// already, except for what only the file shows.
    pub(super) fn start_rewrite(
        &mut self,
        id: usize,
        source: FileSource,
        origin: Origin,
        ack: Ack,
        turn: &mut Turn<'_>,
    ) {
        let owner = self.owner(id);
        let session = self.session(id);
        session.busy = true;
        let temp = turn.shared.next_temp();
        session.pending = Some(Pending::Swap {
            temp: temp.clone(),
            origin,
            ack,
        });
        turn.out.start(Job::Rewrite {
            owner,
            temp,
            source,
        });
    }

    /// Takes in a new file that is ready: the one that commands wait for, or a compaction's copy,
    /// for both may be under way at once.
    pub(super) fn rewritten(
        &mut self,
        id: usize,
        temp: &str,
        prepared: Result<PreparedFile>,
        turn: &mut Turn<'_>,
    ) {
        if let Err(error @ Error::Poisoned { .. }) = &prepared {
            turn.out.stop_store(error);
        }
        let session = self.session(id);
        let awaited = |pending: &mut Pending| pending.awaits(temp);
        if let Some(Pending::Swap { origin, ack, .. }) = session.pending.take_if(awaited) {
            session.busy = false;
            return self.replacement_ready(id, prepared, origin, ack, turn);
        }
        let caught_up = |pending: &mut Pending| matches!(pending, Pending::CatchUp);
        if session.pending.take_if(caught_up).is_some() {
            session.busy = false;
        }
        let Some(compaction) = &mut session.compaction else {
            if let Ok(prepared) = prepared {
                prepared.discard(turn.shared);
            }
            return;
        };
        match prepared {
            Ok(prepared) => compaction.prepared = Some(prepared),
            Err(error) => {
                let compaction = session.compaction.take();
                let answers = compaction.map(|c| c.answers).unwrap_or_default();
                Self::fail_compaction(answers, error, turn);
            }
        }
    }

    fn replacement_ready(
        &mut self,
        id: usize,
        prepared: Result<PreparedFile>,
        origin: Origin,
        ack: Ack,
        turn: &mut Turn<'_>,
    ) {
        let session = self.session(id);
        match prepared {
            Ok(prepared) => {
                let lines = i64::try_from(prepared.lines).unwrap_or(i64::MAX);
                let meta = &mut session.staged.meta;
                if let Origin::Moved(_) = &origin {
                    meta.skip = i64::try_from(prepared.hidden.skip).unwrap_or(i64::MAX);
                }
                meta.skip = meta.skip.min(lines);
                meta.count = lines;
                if let Origin::Moved(moving) = &origin {
                    self.settle_aliases(id, moving, turn);
                }
                let swap = Swap {
                    tail: 0,
                    tail_lines: 0,
                    crc: prepared.crc,
                    prepared,
                    origin,
                };
                match &swap.origin {
                    Origin::Moved(moving) => {
                        let moving = moving.clone();
                        self.push_move(id, &moving, swap, ack, turn);
                    }
                    _ => self.push_swap(id, swap, &[], ack, turn),
                }
            }
            Err(error) => {
                session.unstage();
                self.renumber(id, &origin);
                turn.out.settle(ack, &Err(error));
                match origin {
                    Origin::Rebase(_) => turn.shared.names_changed(),
                    Origin::Moved(moving) => self.call_back(&moving, turn),
                    Origin::Compaction { .. } | Origin::Lines | Origin::Amended => {}
                }
            }
        }
    }

    /// Gives new version numbers to a session that does not exist after a failed move: the other
    /// session goes on with its own, and two must not give the same.
    pub(super) fn renumber(&mut self, id: usize, origin: &Origin) {
        if matches!(origin, Origin::Moved(_)) && !self.session(id).exists {
            self.session(id).versions = self.fresh_versions();
        }
    }

    /// Stages a swap; `tail` are the lines added to the prepared file since.
    pub(super) fn push_swap(
        &mut self,
        id: usize,
        mut swap: Swap,
        tail: &[u8],
        ack: Ack,
        turn: &mut Turn<'_>,
    ) {
        let small = std::mem::take(&mut swap.prepared.small);
        let (base_len, base_crc, tail) = match &*small {
            [] => (swap.prepared.len, swap.prepared.crc, tail),
            all => (0, 0, all),
        };
        let shard = self.id;
        let session = self.session(id);
        let sidecar = session.recorded_sidecar();
        let image = session.image(turn.epoch);
        session.recorded.clone_from(&session.staged.meta);
        session.hold();
        let names = match &swap.origin {
            Origin::Rebase(rebasing) => Some(rebasing.names()),
            Origin::Compaction { .. } | Origin::Lines | Origin::Amended | Origin::Moved(_) => None,
        };
        let before = session.before(&sidecar);
        let (stem, generation) = (&*session.entry.stem, session.generation + 1);
        let record = match &names {
            Some(names) => {
                let new = (swap.prepared.len, swap.prepared.crc);
                names.record(stem, generation, (before, &image), new)
            }
            None => Record::Swap {
                stem,
                generation,
                before,
                image: &image,
                temp: &swap.prepared.temp,
                base_len,
                base_crc,
                tail,
            },
        };
        turn.staging.encode(&record, Durability::Durable);
        let change = SessionChange::Swap {
            meta: session.staged.meta.clone(),
            swap: Box::new(swap),
        };
        turn.staging.ops.push_back(Op {
            shard,
            session: id,
            imaged: turn.epoch,
            shown: false,
            ack,
            change,
        });
    }

    /// Puts the new file in the old one's place.
    ///
    /// # Errors
    /// `Poisoned`, and the store stops: the journal says that the swap happened, the directory that
    /// it did not. Only recovery can bring them together.
    pub(super) fn settle_swap(
        &mut self,
        id: usize,
        swap: Swap,
        meta: Meta,
        turn: &mut Turn<'_>,
    ) -> Result<()> {
        let stem = self.session(id).entry.stem.clone();
        let path = files::log_path(&turn.shared.dir, &stem);
        let kept = match &swap.origin {
            Origin::Rebase(rebasing) => keep_backup(rebasing, self.session(id), turn),
            Origin::Moved(moving) => self.settle_move(id, moving, &swap.prepared, turn),
            Origin::Compaction { .. } | Origin::Lines | Origin::Amended => Ok(()),
        };
        self.show_more_first(id, &meta, turn);
        kept.and_then(|()| swap_in(&swap.prepared, &path, turn))
            .map_err(|error| turn.out.stop_store(&error))?;
        // A compaction that this swap overtook drops the same lines again.
        let drops = !matches!(swap.origin, Origin::Amended | Origin::Moved(_));
        self.count_swap(id, &swap, turn);
        self.forget_unwritten(id, turn);
        let len = self.session(id).settled.end;
        let replaced = self.session(id).take_over_file(swap, meta.clone());
        if let Some(file) = replaced {
            turn.out.close(file, len);
        }
        let shared = turn.shared;
        // After the new file is published: otherwise a search would find lines in the archive that
        // are hidden in the old file, too.
        if drops && let Err(error) = shared.archive.settle(&*shared.storage, &stem) {
            let error = Error::io("rename in", &shared.archive.dir, error);
            shared.warn(&error, "an archive's name is out of date");
        }
        self.replace_meta(id, meta, ChangeKind::Replaced, turn);
        self.used(id);
        Ok(())
    }
}

impl Shard {
    /// Counts a new file that took the old one's place.
    fn count_swap(&mut self, id: usize, swap: &Swap, turn: &Turn<'_>) {
        let counters = &turn.shared.counters;
        match swap.origin {
            Origin::Compaction { began } => {
                let session = self.session(id);
                let bytes = swap.prepared.len + swap.tail;
                let dropped = session.settled.end.saturating_sub(bytes);
                let took = turn.shared.clock.monotonic().saturating_sub(began);
                counters.compactions.add(1);
                counters.compaction_dropped_bytes.add(dropped);
                counters.compaction_nanos.record_time(took);
                let key = &*session.entry.key;
                tracing::debug!(key, bytes, dropped, ?took, "a session is compacted");
            }
            Origin::Lines => counters.add((swap.prepared.lines, swap.prepared.len), 0),
            // Its lines were counted when they were written.
            Origin::Rebase(_) | Origin::Amended | Origin::Moved(_) => {}
        }
    }

    /// Brings the sidecar up to date before the new file gets the name, if it hides more lines than
    /// the new file does. Other programs meanwhile read the old file with lines that were
    /// truncated; after the rename they would lack lines that are not. The swap's record has the
    /// image, so the sidecar is not ahead of the journal.
    fn show_more_first(&mut self, id: usize, meta: &Meta, turn: &mut Turn<'_>) {
        let session = self.session(id);
        if meta.skip >= session.settled.meta.skip.min(session.hides) {
            return;
        }
        session.sidecar_dirty = true;
        if let Err(error) = self.write_sidecar(id, turn) {
            // It is written again with the next flush.
            turn.shared
                .warn(&error, "a sidecar stays behind its session file");
        }
    }
}

impl Session {
    /// Publishes the new file; returns the old one, if it was open.
    fn take_over_file(&mut self, swap: Swap, meta: Meta) -> Option<Arc<dyn StorageFile>> {
        let Swap {
            prepared,
            tail,
            tail_lines,
            crc,
            origin,
        } = swap;
        let end = prepared.len + tail;
        self.busy = false;
        self.generation += 1;
        // The same offsets may be other lines'.
        self.found = None;
        self.number_anew(&origin, prepared.hidden.shown_from(), end);
        self.start = prepared.start;
        self.settled.end = end;
        self.settled.crc = crc;
        self.settled.lines = prepared.lines + tail_lines;
        self.settled.torn = prepared.torn && tail == 0;
        self.conversation = match origin {
            Origin::Rebase(rebasing) => rebasing.conversation,
            Origin::Compaction { .. } | Origin::Lines | Origin::Amended | Origin::Moved(_) => None,
        };
        (self.written, self.synced) = (end, end);
        self.tail = Tail::new(meta);
        let replaced = self.file.replace(prepared.file);
        self.publish();
        self.staged.end = end;
        self.staged.crc = crc;
        self.staged.lines = self.settled.lines;
        self.staged.torn = self.settled.torn;
        replaced
    }
}

impl Session {
    /// Keeps the positions of lines that were copied unchanged. `shown` is the offset of the first
    /// of them in a compaction's copy, `end` that of the copy's end. If lines are missing in
    /// between, later positions would be other lines'.
    fn number_anew(&mut self, origin: &Origin, shown: u64, end: u64) {
        let whole = end.checked_sub(shown) == self.settled.end.checked_sub(self.start);
        self.numbering = if whole && matches!(origin, Origin::Compaction { .. }) {
            self.numbering.moved(self.start, shown)
        } else if let Origin::Moved(moving) = origin
            && let Some(numbering) = moving.numbering
        {
            numbering
        } else {
            self.versions += 1;
            Numbering::new(self.versions)
        };
    }
}

/// Turns a session's old file into a backup.
fn keep_backup(rebasing: &Rebasing, session: &Session, turn: &Turn<'_>) -> Result<()> {
    let shared = turn.shared;
    // Before any name changes: a flush that finds the new file by its name must see this change
    // too, and sync the old one.
    shared.names_changed();
    let Some((link, name)) = &rebasing.keep else {
        return Ok(());
    };
    let path = shared.backups.path(name);
    shared
        .storage
        .rename(&shared.backups.dir.join(link), &path)
        .map_err(|e| Error::io("keep", &path, e))?;
    // And after: a flush that synced between the two did not reach the new name.
    shared.names_changed();
    shared.backups.enter(BackupFile {
        name: name.clone(),
        size: session.settled.end,
    });
    Ok(())
}

fn swap_in(prepared: &PreparedFile, path: &Path, turn: &Turn<'_>) -> Result<()> {
    let temp = turn.shared.dir.join(&prepared.temp);
    let storage = &turn.shared.storage;
    storage
        .rename(&temp, path)
        .map_err(|e| Error::io("replace", path, e))
}
