//! Appending lines.

use std::sync::Arc;

use crate::Durability;
use crate::disk::journal::record::{MetaState, Record};
use crate::engine::shard::Shard;
use crate::engine::shard::answer::{Ack, Answer};
use crate::engine::shard::change::{Change, Op};
use crate::engine::shard::request::{Absent, Manner, Verb};
use crate::engine::shard::session::Session;
use crate::engine::shard::turn::Turn;

/// Append whole lines, each ended by LF.
#[derive(Debug)]
pub(crate) struct Append {
    pub(crate) lines: Vec<u8>,
    pub(crate) count: u32,
    pub(crate) level: Durability,
}

impl Verb for Append {
    type Output = ();
    const MANNER: Manner = Manner::Writes;
    const READS_CONTROLS: bool = false;
    const TOUCHES_FILES: bool = false;

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
            Ok(()) => shard.push_append(id, self, Ack::Done(answer), turn),
            Err(error) => turn.out.answer(answer, Err(error)),
        }
    }
}

impl Shard {
    /// Stages lines, for which [room was made](Self::make_room).
    pub(super) fn push_append(&mut self, id: usize, append: Append, ack: Ack, turn: &mut Turn<'_>) {
        let shard = self.id;
        let Append {
            mut lines,
            count,
            level,
        } = append;
        let session = self.reclaim(id, turn);
        session.end_torn_line(&mut lines);
        let (offset, crc) = (session.staged.end, session.staged.crc);
        let first = session.has_no_sidecar();
        session.count_lines(&lines, count, turn);
        let image = session.image_due(turn.epoch);
        session.inflight += 1;
        let record = Record::Append {
            stem: &session.entry.stem,
            generation: session.generation,
            offset,
            crc,
            meta: match &image {
                Some(image) if first => MetaState::First(image),
                Some(image) => MetaState::Image {
                    image,
                    skip: session.recorded.skip,
                    updated_at: session.recorded.updated_at.as_str(),
                },
                None => MetaState::Patch {
                    skip: session.staged.meta.skip,
                    count: session.staged.meta.count,
                    updated_at: session.staged.meta.updated_at.as_str(),
                },
            },
            bytes: &lines,
        };
        session.tail.stage(&lines, || turn.buffers.take());
        let op = Op {
            shard,
            session: id,
            imaged: if image.is_some() { turn.epoch } else { 0 },
            shown: false,
            ack,
            change: Change::Append {
                len: lines.len(),
                lines: u64::from(count),
                crc: session.staged.crc,
                meta: session.staged.meta.clone(),
            },
        };
        turn.staging.push(op, &record, level);
        session.recorded.clone_from(&session.staged.meta);
    }
}

impl Session {
    /// Puts the LF in front that the last line lacks: two records would be one.
    fn end_torn_line(&mut self, lines: &mut Vec<u8>) {
        if std::mem::take(&mut self.staged.torn) {
            lines.insert(0, b'\n');
        }
    }

    fn count_lines(&mut self, lines: &[u8], count: u32, turn: &Turn<'_>) {
        let before = i64::try_from(self.staged.lines).unwrap_or(i64::MAX);
        let mut crc = crc32fast::Hasher::new_with_initial(self.staged.crc);
        crc.update(lines);
        self.staged.crc = crc.finalize();
        self.staged.end += lines.len() as u64;
        self.staged.lines += u64::from(count);
        self.created(turn.now);
        let meta = &mut self.staged.meta;
        // A skip beyond the file would hide the lines that come now.
        meta.skip = meta.skip.min(before);
        // The count comes from a sidecar, which may say anything.
        meta.count = meta.count.saturating_add(i64::from(count));
        meta.updated_at = turn.now.clone();
    }
}
