//! Appends lines.

use std::borrow::Cow;
use std::sync::Arc;

use sessionlog_core::session_file::Meta;
use sessionlog_core::stamp::Stamp;
use sessionlog_wal::journal::record::{MetaState, Record};

use crate::Durability;
use crate::engine::shard::answer::{Ack, Answer};
use crate::engine::shard::change::{AddedLines, Op, SessionChange};
use crate::engine::shard::inbox;
use crate::engine::shard::request::{Absent, Manner, Verb};
use crate::engine::shard::session::Session;
use crate::engine::shard::turn::Turn;
use crate::engine::shard::{Resident, Shard};

/// Append whole lines, each ended by LF.
#[derive(Debug)]
pub(crate) struct Append {
    pub(crate) lines: Vec<u8>,
    pub(crate) count: u32,
    /// For a message that is to be there only once: the line that names it.
    pub(crate) once: Option<String>,
    pub(crate) level: Durability,
}

impl Verb for Append {
    type Output = ();
    const MANNER: Manner = Manner::Writes;
    const READS_CONTROLS: bool = false;
    const TOUCHES_FILES: bool = false;
    const LETS_GO: bool = false;

    fn bytes(&self) -> usize {
        self.lines.len()
    }

    fn if_absent(&self, _: &Arc<str>, _: &mut Shard) -> Absent<()> {
        Absent::Create
    }

    fn waits(&self, session: &Session) -> bool {
        session.busy
    }

    fn stage(self, answer: Answer<()>, shard: &mut Shard, id: usize, turn: &mut Turn<'_>) {
        match shard.make_room(turn) {
            Ok(()) => shard.push_append(id, self.into(), Ack::Done(answer), turn),
            Err(error) => turn.out.answer(answer, Err(error)),
        }
    }
}

/// Whole lines to stage, each ended by LF.
#[derive(Debug)]
pub(in crate::engine::shard) struct NewLines<'a> {
    lines: Cow<'a, [u8]>,
    count: u32,
    once: Option<String>,
    level: Durability,
}

impl<'a> NewLines<'a> {
    /// Returns the lines that were queued.
    pub(in crate::engine::shard) fn queued(append: &inbox::QueuedAppend, lines: &'a [u8]) -> Self {
        Self {
            lines: lines.into(),
            count: append.count,
            once: None,
            level: append.level,
        }
    }
}

impl From<Append> for NewLines<'_> {
    fn from(append: Append) -> Self {
        Self {
            lines: append.lines.into(),
            count: append.count,
            once: append.once,
            level: append.level,
        }
    }
}

/// The changes that go along with appended lines.
#[derive(Debug, Default)]
pub(super) struct AppendBesides {
    /// The sidecar, with another text.
    pub(super) meta: Option<Meta>,
    /// The time of the change, if not now; only with another text.
    pub(super) updated: Option<Stamp>,
    /// The new number of hidden lines, and the offset of the first that is not hidden.
    pub(super) cut: Option<(i64, u64)>,
}

impl Shard {
    /// Stages queued lines, if that certainly touches no file and nothing of the session waits;
    /// returns true if it did.
    pub(in crate::engine::shard) fn append_queued(
        &mut self,
        append: &inbox::QueuedAppend,
        lines: &[u8],
        number: u64,
        turn: &mut Turn<'_>,
    ) -> bool {
        let id = append.session as usize;
        if self.full || turn.no_room.is_some() {
            return false;
        }
        let Resident::Ready(session) = &self.sessions[id] else {
            return false;
        };
        if session.busy
            || session.moved
            || session.kept
            || !session.waiting.is_empty()
            || session.compaction_ready()
        {
            return false;
        }
        let (shard, lines) = (self.id, NewLines::queued(append, lines));
        self.push_append(id, lines, Ack::Numbered { shard, number }, turn);
        true
    }

    /// Stages lines, for which [room was made](Self::make_room).
    pub(in crate::engine::shard) fn push_append(
        &mut self,
        id: usize,
        append: NewLines<'_>,
        ack: Ack,
        turn: &mut Turn<'_>,
    ) {
        self.push_lines(id, append, &AppendBesides::default(), ack, turn);
    }

    /// Stages lines, and the changes that go along, as one record. For a cut the session must be
    /// still, and all its lines in the file.
    pub(super) fn push_lines(
        &mut self,
        id: usize,
        append: NewLines<'_>,
        besides: &AppendBesides,
        ack: Ack,
        turn: &mut Turn<'_>,
    ) {
        let shard = self.id;
        let NewLines {
            mut lines,
            count,
            once,
            level,
        } = append;
        let session = self.reclaim(id, turn);
        session.end_torn_line(&mut lines);
        let (offset, crc) = (session.staged.end, session.staged.crc);
        let first = session.has_no_sidecar();
        let more = besides.meta.is_some() || besides.cut.is_some();
        let before = more.then(|| session.recorded_sidecar());
        session.change_besides(besides);
        if count > 0 || once.is_some() || besides.meta.is_some() {
            session.created(turn.now);
        }
        session.count_lines(&lines, count, turn);
        if let Some(updated) = &besides.updated {
            session.staged.meta.updated_at = updated.clone();
        }
        let image = match &before {
            Some(_) => Some(session.image(turn.epoch)),
            None => session.image_due(turn.epoch),
        };
        session.inflight += 1;
        session.busy |= besides.cut.is_some();
        let updated_at = match (&image, &before) {
            (Some(_), None) => &session.recorded.updated_at,
            _ => &session.staged.meta.updated_at,
        };
        let meta = match (&image, &before) {
            (Some(image), Some(before)) => MetaState::Changed { image, before },
            (Some(image), None) if first => MetaState::First(image),
            (Some(image), None) => MetaState::Image {
                image,
                skip: session.recorded.skip,
                updated_at: updated_at.into(),
            },
            (None, _) => MetaState::Patch {
                skip: session.staged.meta.skip,
                count: session.staged.meta.count,
                updated_at: updated_at.into(),
            },
        };
        let record = Record::Append {
            stem: &session.stem,
            generation: session.generation,
            offset,
            crc,
            meta,
            once: once.as_deref().unwrap_or_default(),
            bytes: &lines,
        };
        let end = turn.staging.encode(&record, level);
        let added = AddedLines {
            // The lines are the last part of their record.
            at: end - lines.len(),
            len: lines.len(),
            lines: u64::from(count),
            crc: session.staged.crc,
            once: once.as_deref().map(Into::into),
        };
        let meta = &session.staged.meta;
        let change = match besides.cut {
            Some((_, start)) => SessionChange::Truncate {
                added,
                meta: meta.clone(),
                start,
            },
            None => SessionChange::Append {
                added,
                meta: meta.step_from(&session.recorded),
            },
        };
        let op = Op {
            shard,
            session: id,
            imaged: if image.is_some() { turn.epoch } else { 0 },
            shown: false,
            ack,
            change,
        };
        turn.staging.ops.push_back(op);
        if let Some(line) = &once {
            session.takes(line);
        }
        session.recorded.clone_from(&session.staged.meta);
    }
}

impl Session {
    /// Puts the LF in front that the last line lacks: otherwise two records would be one.
    fn end_torn_line(&mut self, lines: &mut Cow<'_, [u8]>) {
        if !lines.is_empty() && std::mem::take(&mut self.staged.torn) {
            lines.to_mut().insert(0, b'\n');
        }
    }

    fn change_besides(&mut self, besides: &AppendBesides) {
        if let Some(meta) = &besides.meta {
            self.staged.meta.clone_from(meta);
        }
        if let Some((skip, _)) = besides.cut {
            self.staged.meta.skip = skip;
            self.staged.meta.count = i64::try_from(self.staged.lines).unwrap_or(i64::MAX);
        }
    }

    fn count_lines(&mut self, lines: &[u8], count: u32, turn: &Turn<'_>) {
        let before = i64::try_from(self.staged.lines).unwrap_or(i64::MAX);
        let mut crc = crc32fast::Hasher::new_with_initial(self.staged.crc);
        crc.update(lines);
        self.staged.crc = crc.finalize();
        self.staged.end += lines.len() as u64;
        self.staged.lines += u64::from(count);
        let meta = &mut self.staged.meta;
        // A skip beyond the file would hide the lines that come now.
        meta.skip = meta.skip.min(before);
        // The count comes from a sidecar, and may be any number.
        meta.count = meta.count.saturating_add(i64::from(count));
        self.touch(turn.now);
    }
}
