//! Staging what a conversation is asked: control records, and where it stands.

use crate::disk::files;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::Pending;
use crate::Durability;
use crate::disk::files::conversation::fold;
use crate::disk::session_file::{self, Conversation, What};
use crate::engine::shard::command::{Answer, Verb};
use crate::engine::shard::context::Turn;
use crate::engine::shard::converse::{Converse, Note};
use crate::engine::shard::job::Job;
use crate::engine::shard::session::Session;
use crate::engine::shard::{MEASURE_INLINE, Shard};
use crate::engine::snapshot::{Looked, Standing};
use crate::error::{Error, Result};
use crate::ground::sync::watch::{WatchReceiver, WatchSender};

impl Shard {
    pub(super) fn stage_converse(&mut self, id: usize, verb: Converse, turn: &mut Turn<'_>) {
        if verb.needs_conversation() && self.session(id).conversation.is_none() {
            return self.find_conversation(id, verb, turn);
        }
        match verb {
            Converse::Look { answer } => {
                let looked = self.look(id, turn);
                turn.out.answer(answer, looked);
            }
            Converse::Note {
                note,
                level,
                answer,
            } => self.stage_note(id, &note, level, answer, turn),
            Converse::Revert {
                id: checkpoint,
                answer,
            } => self.stage_revert(id, checkpoint, answer, turn),
            Converse::Clear { reason, answer } => self.stage_clear(id, reason, answer, turn),
            Converse::Restore { number, answer } => self.stage_restore(id, number, answer, turn),
            Converse::Fork { copy, answer } => self.stage_fork(id, copy, answer, turn),
            Converse::Forget { mut names, answer } => {
                names.retain(|name| turn.context.backups.forget(name));
                turn.out.answer(answer, Ok(names));
            }
            Converse::Subscribe { answer } => {
                let watch = self.session(id).subscribe();
                turn.out.answer(answer, Ok(watch));
            }
        }
    }

    /// What the control records say is known.
    pub(in crate::engine::shard) fn folded(
        &mut self,
        id: usize,
        folded: Result<Conversation>,
        turn: &mut Turn<'_>,
    ) {
        let session = self.session(id);
        let Some(Pending::Fold(verb)) = session.pending.take_if(|pending| pending.is_fold()) else {
            return;
        };
        session.busy = false;
        match folded {
            Ok(conversation) => {
                session.conversation = Some(Arc::new(conversation));
                self.stage_converse(id, verb, turn);
            }
            Err(error) => verb.refuse(&error, turn.out),
        }
    }

    /// Finds out what the session's control records say, and then stages `verb`.
    fn find_conversation(&mut self, id: usize, verb: Converse, turn: &mut Turn<'_>) {
        let file = match self.file(id, turn) {
            Ok(file) => file,
            Err(error) => return verb.refuse(&error, turn.out),
        };
        let owner = self.owner(id, turn);
        let session = self.session(id);
        let len = session.written;
        let behind = session.tail.copy(0..(session.settled.end - len) as usize);
        if len <= MEASURE_INLINE {
            let folded = fold(file.as_deref(), len, &behind).map_err(|e| {
                let path = files::log_path(&turn.context.dir, &session.entry.stem);
                Error::io("read", &path, e)
            });
            session.pending = Some(Pending::Fold(verb));
            return self.folded(id, folded, turn);
        }
        session.busy = true;
        session.pending = Some(Pending::Fold(verb));
        turn.out.start(Job::Fold {
            owner,
            file,
            len,
            behind,
        });
    }

    fn look(&mut self, id: usize, turn: &mut Turn<'_>) -> Result<Arc<Looked>> {
        self.file(id, turn)?;
        let session = self.session(id);
        let mut snapshot = session.live().snapshot();
        snapshot.live.start = 0;
        Ok(Arc::new(Looked {
            conversation: session.conversation.clone().unwrap_or_default(),
            start: session.start,
            end: session.settled.end,
            lines: session.settled.lines,
            snapshot,
        }))
    }

    fn stage_note(
        &mut self,
        id: usize,
        note: &Note,
        level: Durability,
        answer: Answer<()>,
        turn: &mut Turn<'_>,
    ) {
        if let Err(error) = self.make_room(turn) {
            return turn.out.answer(answer, Err(error));
        }
        let session = self.reclaim(id, turn);
        let (mut offset, before) = (session.staged.end, session.staged.lines);
        // The LF that ends a torn line goes in front.
        offset += u64::from(session.staged.torn);
        let conversation = Arc::make_mut(session.conversation.get_or_insert_default());
        let (text, count, what) = match note {
            Note::Usage(tokens) => {
                let line = session_file::encode_usage(*tokens);
                (line + "\n", 1, What::Usage(*tokens))
            }
            Note::SystemPrompt(content) => {
                let line = session_file::encode_system_prompt(content);
                (line + "\n", 1, What::SystemPrompt(content.as_str().into()))
            }
            Note::Checkpoint { message, id } => {
                let next = conversation.before(u64::MAX).next_checkpoint();
                id.store(next, Ordering::Release);
                let mut text = session_file::encode_checkpoint(next) + "\n";
                if *message {
                    text += &session_file::encode_checkpoint_message(next);
                    text.push('\n');
                }
                let what = What::Checkpoint {
                    id: next,
                    lost: false,
                };
                (text, 1 + u32::from(*message), what)
            }
        };
        conversation.push(offset, before, what);
        self.stage_append(id, text.into_bytes(), count, level, answer, turn);
    }

    /// Someone wants to know of a session that is not there yet.
    pub(in crate::engine::shard) fn subscribe_early(
        &mut self,
        key: &Arc<str>,
        verb: Verb,
        turn: &mut Turn<'_>,
    ) {
        let Verb::Converse(verb) = verb else { return };
        if let Converse::Subscribe { answer } = *verb {
            // Those who gave up on a session that never came go now and then: the
            // list stays in proportion to who listens.
            if self.early.len().is_power_of_two() && !self.early.contains_key(key) {
                self.early.retain(|_, watch| !watch.is_unheard());
            }
            let early = self.early.entry(key.clone());
            let watch = early.or_insert_with(|| WatchSender::new(Standing::default()));
            turn.out.answer(answer, Ok(watch.subscribe()));
        }
    }
}

impl Session {
    /// Whether what is under way keeps `verb` from being staged.
    pub(super) fn blocks_converse(&self, verb: &Converse) -> bool {
        let unknown = self.conversation.is_none();
        match verb {
            Converse::Subscribe { .. } => false,
            Converse::Look { .. } => unknown && (self.busy || self.inflight > 0),
            Converse::Note { .. } => self.busy || (unknown && self.inflight > 0),
            Converse::Revert { .. }
            | Converse::Clear { .. }
            | Converse::Restore { .. }
            | Converse::Forget { .. }
            | Converse::Fork { .. } => self.busy || self.inflight > 0,
        }
    }

    fn subscribe(&mut self) -> WatchReceiver<Standing> {
        let standing = self.standing();
        let watch = self.watch.get_or_insert_with(|| WatchSender::new(standing));
        watch.subscribe()
    }

    /// Tells those who watch.
    pub(in crate::engine::shard) fn notify(&mut self) {
        let Some(watch) = &self.watch else { return };
        if watch.is_unheard() {
            self.watch = None;
        } else {
            watch.send(self.standing());
        }
    }

    fn standing(&self) -> Standing {
        Standing {
            generation: self.generation,
            lines: self.settled.lines,
            skip: u64::try_from(self.settled.meta.skip).unwrap_or(0),
        }
    }
}
