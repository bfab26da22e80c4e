//! Replaces or removes one message.

use std::sync::Arc;

use sessionlog_core::error::{Error, Result, Version};
use sessionlog_core::position::Position;

use crate::engine::numbering::Place;
use crate::engine::shard::Shard;
use crate::engine::shard::answer::{Ack, Answer};
use crate::engine::shard::change::Origin;
use crate::engine::shard::request::{Absent, Manner, Verb};
use crate::engine::shard::session::Session;
use crate::engine::shard::source::{AmendedFile, FileSource};
use crate::engine::shard::turn::Turn;

/// Replace one line by another, or by none. The old line is hidden then, before the lines that are
/// shown: it is found and archived like a truncated one.
#[derive(Debug)]
pub(crate) struct Edit {
    pub(crate) position: Position,
    /// Length of the line at the position, without its LF. A valid position always names the same
    /// line, so the length that was read still holds.
    pub(crate) len: u64,
    /// The new line, ended by LF; empty if there is none.
    pub(crate) line: Vec<u8>,
}

impl Verb for Edit {
    type Output = Version;
    const MANNER: Manner = Manner::Writes;
    const READS_CONTROLS: bool = false;
    const TOUCHES_FILES: bool = true;
    const LETS_GO: bool = false;

    fn bytes(&self) -> usize {
        self.line.len()
    }

    fn if_absent(&self, key: &Arc<str>, _: &mut Shard) -> Absent<Version> {
        Absent::Answer(Err(Error::no_position(key)))
    }

    fn waits(&self, session: &Session) -> bool {
        !session.is_still()
    }

    fn stage(self, answer: Answer<Version>, shard: &mut Shard, id: usize, turn: &mut Turn<'_>) {
        let amended = match self.amended(shard, id, turn) {
            Ok(amended) => amended,
            Err(error) => return turn.out.answer(answer, Err(error)),
        };
        let session = shard.reclaim(id, turn);
        let meta = &mut session.staged.meta;
        let lines = i64::try_from(amended.lines).unwrap_or(i64::MAX);
        meta.skip = meta.skip.clamp(0, lines) + 1;
        let version = session.next_version();
        session.touch(turn.now);
        let ack = Ack::with(answer, version);
        shard.start_rewrite(id, FileSource::Amended(amended), Origin::Amended, ack, turn);
    }
}

impl Edit {
    /// Returns the source of the new file.
    ///
    /// # Errors
    /// `PositionNotFound`, and if the file cannot be written to or opened.
    fn amended(self, shard: &mut Shard, id: usize, turn: &mut Turn<'_>) -> Result<AmendedFile> {
        shard.write_out(id, turn)?;
        let file = shard.file(id, turn)?;
        let session = shard.session(id);
        let lines = session.range();
        let found = match session.numbering.find(self.position) {
            Place::Here(at) if at >= lines.start && at + self.len <= lines.end => {
                file.zip(Some(at))
            }
            Place::Here(_) | Place::Gone | Place::Elsewhere => None,
        };
        let Some((file, at)) = found else {
            return Err(Error::no_position(&session.entry.key));
        };
        Ok(AmendedFile {
            file,
            start: lines.start,
            old: at..(at + self.len + 1).min(lines.end),
            end: lines.end,
            line: self.line,
            lines: session.settled.lines,
            torn: session.settled.torn,
        })
    }
}
