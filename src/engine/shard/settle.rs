//! Settling: what the journal holds becomes what readers see.
//!
//! A durable change settles when its record is synced; a buffered one is shown
//! as soon as its record is written, and reaches the session file only once it
//! is synced too.

use crate::disk::files;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::Shard;
use super::command::{Answer, Verb};
use super::context::{Context, Turn};
use super::job::Job;
use super::rewrite::Prepared;
use super::session::Session;
use super::stage;
use super::stage::Rebasing;
use super::staging::{Change, Op, SwapAnswer};
use crate::disk::files::backup::Stored;
use crate::disk::files::sidecar::Sidecar;
use crate::disk::session_file;
use crate::disk::session_file::Meta;
use crate::engine::snapshot::{Tail, View};
use crate::engine::stats::Counters;
use crate::error::{Error, Result};

impl Shard {
    /// Shows a buffered change to readers, and answers.
    pub(super) fn show(&mut self, op: &mut Op, turn: &mut Turn<'_>) {
        let id = op.session;
        match &mut op.change {
            Change::Append {
                len,
                lines,
                meta,
                answer,
            } => {
                self.append(id, *len, *lines, meta);
                if let Some(answer) = answer.take() {
                    turn.out.answer(answer, Ok(()));
                }
            }
            Change::Meta {
                meta,
                answer,
                shown,
            } => {
                *shown = true;
                self.replace_meta(id, meta.clone(), turn);
                if let Some(answer) = answer.take() {
                    answer.settle(Ok(()), turn.out);
                }
            }
            Change::Truncate { .. } | Change::Swap { .. } | Change::Delete { .. } => {}
        }
    }

    /// The record of a change is on disk.
    pub(super) fn settle(&mut self, op: Op, turn: &mut Turn<'_>) {
        let id = op.session;
        let session = self.session(id);
        session.inflight -= 1;
        session.exists = true;
        session.imaged = session.imaged.max(op.imaged);
        if let Some(meta) = op.change.meta() {
            session.synced_meta.clone_from(meta);
        }
        match op.change {
            Change::Append {
                len,
                lines,
                meta,
                answer,
            } => self.settle_append(id, (len, lines), &meta, answer, turn),
            Change::Meta {
                meta,
                answer,
                shown,
            } => {
                if shown {
                    self.sidecar_changed(id);
                } else {
                    self.replace_meta(id, meta, turn);
                }
                if let Some(answer) = answer {
                    answer.settle(Ok(()), turn.out);
                }
            }
            Change::Truncate {
                meta,
                start,
                answer,
            } => self.settle_truncate(id, meta, start, answer, turn),
            Change::Swap {
                prepared,
                tail,
                tail_lines,
                meta,
                answer,
            } => self.settle_swap(id, *prepared, (&tail, tail_lines), meta, answer, turn),
            Change::Delete { answer } => self.settle_delete(id, answer, turn),
        }
        if self.session(id).inflight == 0 {
            self.pump(id, turn);
        }
    }

    /// The record of a change was refused, or nothing is known of it. Its
    /// session must be [restaged](Self::restage) before anything else.
    pub(super) fn fail(&mut self, op: Op, error: &Error, turn: &mut Turn<'_>) {
        let session = self.session(op.session);
        session.inflight -= 1;
        session.busy = false;
        let result = Err(error.clone());
        match op.change {
            Change::Append { answer, .. } => {
                if let Some(answer) = answer {
                    turn.out.answer(answer, result);
                }
            }
            Change::Meta { answer, .. } => {
                if let Some(answer) = answer {
                    answer.settle(result, turn.out);
                }
            }
            Change::Truncate { answer, .. } | Change::Delete { answer } => {
                turn.out.answer(answer, result);
            }
            Change::Swap {
                prepared, answer, ..
            } => {
                // After a failed sync the record may be on disk all the same;
                // recovery would then look for this file.
                if !matches!(error, Error::Poisoned { .. }) {
                    stage::discard(Some(*prepared), turn);
                    if let SwapAnswer::Rebase(rebasing) = &answer {
                        rebasing.discard(turn);
                    }
                }
                answer.settle(&result, turn.out);
            }
        }
    }

    /// Works out anew what is staged for a session, from what is settled and
    /// what is still in flight for it.
    pub(super) fn restage<'a>(&mut self, id: usize, inflight: impl Iterator<Item = &'a Op>) {
        let session = self.session(id);
        session.staged = session.settled.clone();
        session.dated = false;
        session.imaged_staged = session.imaged;
        for op in inflight {
            session.imaged_staged = session.imaged_staged.max(op.imaged);
            match &op.change {
                Change::Append {
                    len,
                    lines,
                    meta,
                    answer: Some(_),
                } => {
                    session.staged.end += *len as u64;
                    session.staged.lines += lines;
                    session.staged.torn = false;
                    session.staged.meta.clone_from(meta);
                }
                Change::Meta {
                    meta, shown: false, ..
                } => session.staged.meta.clone_from(meta),
                _ => {}
            }
        }
        session.forget_refused();
    }

    fn settle_append(
        &mut self,
        id: usize,
        (len, lines): (usize, u64),
        meta: &Meta,
        answer: Option<Answer<()>>,
        turn: &mut Turn<'_>,
    ) {
        // Without an answer it was shown already.
        if let Some(answer) = answer {
            self.append(id, len, lines, meta);
            turn.out.answer(answer, Ok(()));
        } else {
            self.sidecar_changed(id);
        }
        let session = self.session(id);
        session.synced += len as u64;
        self.note_unwritten(id, len, turn);
    }

    fn append(&mut self, id: usize, len: usize, lines: u64, meta: &Meta) {
        let session = self.session(id);
        session.tail.show(len, meta);
        session.settled.end += len as u64;
        session.settled.lines += lines;
        session.settled.torn = false;
        session.settled.meta.clone_from(meta);
        session.notify();
        self.sidecar_changed(id);
    }

    fn replace_meta(&mut self, id: usize, meta: Meta, turn: &Turn<'_>) {
        let session = self.session(id);
        let old = std::mem::replace(&mut session.settled.meta, meta);
        let new = &session.settled.meta.text;
        turn.context
            .catalog
            .set_aliases(&session.entry, &old.text.aliases, &new.aliases);
        session.tail.set_meta(session.settled.meta.clone());
        session.notify();
        self.sidecar_changed(id);
    }

    fn settle_truncate(
        &mut self,
        id: usize,
        meta: Meta,
        start: u64,
        answer: Answer<()>,
        turn: &mut Turn<'_>,
    ) {
        let session = self.session(id);
        session.busy = false;
        session.start = start;
        // A tail of its own: what the old one says goes with the old range.
        session.tail = Tail::new(meta.clone());
        session.publish();
        self.replace_meta(id, meta, turn);
        turn.out.answer(answer, Ok(()));
        if turn.context.auto_compact && self.session(id).mostly_dead() {
            self.submit(id, Verb::Compact { answer: None }, turn);
        }
    }

    fn settle_swap(
        &mut self,
        id: usize,
        prepared: Prepared,
        tail: (&[u8], u64),
        meta: Meta,
        answer: SwapAnswer,
        turn: &mut Turn<'_>,
    ) {
        let stem = self.session(id).entry.stem.clone();
        let path = files::log_path(&turn.context.dir, &stem);
        let kept = match &answer {
            SwapAnswer::Rebase(rebasing) => keep_backup(rebasing, self.session(id), turn),
            _ => Ok(()),
        };
        if let Err(error) = kept.and_then(|()| swap_in(&prepared, &path, turn)) {
            // The journal says that the swap happened, the directory that it
            // did not: only recovery can bring them together.
            let error = turn.out.stop_store(&error);
            return answer.settle(&Err(error), turn.out);
        }
        answer.count_in(&turn.context.counters, prepared.lines);
        let end = prepared.len + tail.0.len() as u64;
        self.forget_unwritten(id);
        let session = self.session(id);
        session.busy = false;
        session.generation += 1;
        session.start = prepared.start;
        session.settled.end = end;
        session.settled.lines = prepared.lines + tail.1;
        session.settled.torn = prepared.torn && tail.0.is_empty();
        session.conversation = match &answer {
            SwapAnswer::Rebase(rebasing) => rebasing.conversation.clone(),
            _ => None,
        };
        (session.written, session.synced) = (end, end);
        session.tail = Tail::new(meta.clone());
        let replaced = session.file.replace(prepared.file);
        session.publish();
        session.staged.end = end;
        session.staged.lines = session.settled.lines;
        session.staged.torn = session.settled.torn;
        if let Some(file) = replaced {
            turn.out.start(Job::Close(file));
        }
        self.replace_meta(id, meta, turn);
        self.used(id);
        let overdue = self.session(id).mostly_dead() && turn.context.auto_compact;
        if overdue && matches!(answer, SwapAnswer::Rebase(_)) {
            self.submit(id, Verb::Compact { answer: None }, turn);
        }
        answer.settle(&Ok(()), turn.out);
    }

    fn settle_delete(&mut self, id: usize, answer: Answer<()>, turn: &mut Turn<'_>) {
        let entry = self.session(id).entry.clone();
        if let Err(error) = remove_files(&entry.stem, turn) {
            let error = turn.out.stop_store(&error);
            return turn.out.answer(answer, Err(error));
        }
        self.forget_unwritten(id);
        self.handles.forget(id);
        let session = self.session(id);
        let aliases = session.settled.meta.text.aliases.clone();
        let generation = session.generation + 1;
        let listed_dirty = session.listed_dirty;
        let waiting = std::mem::take(&mut session.waiting);
        let compaction = session.compaction.take();
        let watch = session.watch.take();
        if let Some(file) = session.file.take() {
            turn.out.start(Job::Close(file));
        }
        *session = Session {
            generation,
            waiting,
            compaction,
            watch,
            listed_dirty,
            deleted: true,
            ..Session::vacant(entry.clone())
        };
        entry.view.store(Arc::new(View::Gone));
        turn.context.catalog.remove(&entry, &aliases);
        self.session(id).notify();
        // The removed names must reach the disk with the next flush.
        self.mark_dirty(id);
        turn.out.answer(answer, Ok(()));
    }

    fn sidecar_changed(&mut self, id: usize) {
        let session = self.session(id);
        session.sidecar_dirty = true;
        session.entry.list();
        self.mark_dirty(id);
    }
}

/// What was a session's file becomes a backup.
fn keep_backup(rebasing: &Rebasing, session: &Session, turn: &Turn<'_>) -> Result<()> {
    let context = turn.context;
    // Before any name changes: a flush that finds the new file by its name must
    // find this too, and sync the old one.
    context.names_changed();
    let Some((link, name)) = &rebasing.keep else {
        return Ok(());
    };
    let path = context.backups.path(name);
    context
        .storage
        .rename(&context.backups.dir.join(link), &path)
        .map_err(|e| Error::io("keep", &path, e))?;
    // And after: a flush that synced between the two did not reach the new name.
    context.names_changed();
    context.backups.enter(Stored {
        name: name.clone(),
        size: session.settled.end,
    });
    Ok(())
}

fn swap_in(prepared: &Prepared, path: &std::path::Path, turn: &Turn<'_>) -> Result<()> {
    let temp = turn.context.dir.join(&prepared.temp);
    let storage = &turn.context.storage;
    storage
        .rename(&temp, path)
        .map_err(|e| Error::io("replace", path, e))
}

/// Removes both files of a session, and its backups.
fn remove_files(stem: &str, turn: &Turn<'_>) -> Result<()> {
    let Context { dir, backups, .. } = turn.context;
    let own = [
        session_file::log_name(stem),
        session_file::sidecar_name(stem),
    ];
    let mut paths: Vec<_> = own.iter().map(|name| dir.join(name)).collect();
    let kept = backups.take(stem);
    let any = !kept.is_empty();
    if any {
        turn.context.names_changed();
    }
    paths.extend(kept.iter().map(|name| backups.path(name)));
    for path in paths {
        match turn.context.storage.remove_file(&path) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
                return Err(Error::io("remove", &path, e));
            }
            _ => {}
        }
    }
    if any {
        turn.context.names_changed();
    }
    Ok(())
}

impl SwapAnswer {
    fn count_in(&self, counters: &Counters, lines: u64) {
        let (counter, by) = match self {
            Self::Compaction(_) => (&counters.compactions, 1),
            // Its lines were counted when they were written.
            Self::Rebase(_) => return,
            Self::SetHistory(_) | Self::Promote(_) | Self::Ensure(_) | Self::Fork(_) => {
                (&counters.messages, lines)
            }
        };
        counter.fetch_add(by, Ordering::Relaxed);
    }
}

impl Session {
    /// Forgets the lines that were staged and are not any more.
    fn forget_refused(&mut self) {
        let end = self.staged.end;
        self.tail.unstage((end - self.written) as usize);
        if let Some(conversation) = &mut self.conversation {
            Arc::make_mut(conversation).cut(end);
        }
    }

    /// Whether the sidecar on disk can be set right from the journal if writing
    /// over it tears it.
    pub(super) fn image_in_journal(&self, epoch: u64) -> bool {
        self.imaged >= epoch && self.sidecar == Sidecar::Present
    }
}
