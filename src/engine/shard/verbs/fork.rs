//! Begins a session with a copy of another.

use std::sync::Arc;

use sessionlog_core::error::Error;
use sessionlog_core::session_file::SessionTags;
use sessionlog_wal::storage::StorageFile;

use crate::engine::shard::Shard;
use crate::engine::shard::answer::{Ack, Answer};
use crate::engine::shard::change::Origin;
use crate::engine::shard::request::{Absent, Manner, Verb};
use crate::engine::shard::session::Session;
use crate::engine::shard::source::FileSource;
use crate::engine::shard::turn::Turn;

/// Become a copy, if there is no such session.
#[derive(Debug)]
pub(crate) struct Fork {
    pub(crate) copy: ForkedLines,
}

/// The lines that a fork begins with.
#[derive(Debug)]
pub(crate) struct ForkedLines {
    /// The first `len` bytes of `file`, and what comes after them.
    pub(crate) file: Option<Arc<dyn StorageFile>>,
    pub(crate) len: u64,
    pub(crate) rest: Vec<u8>,
    /// Number of lines to hide, from the start.
    pub(crate) skip: u64,
    pub(crate) summary: String,
    /// The title and labels of the original.
    pub(crate) tags: SessionTags,
}

impl Verb for Fork {
    type Output = ();
    const MANNER: Manner = Manner::Writes;
    const READS_CONTROLS: bool = false;
    const TOUCHES_FILES: bool = true;
    const LETS_GO: bool = false;

    fn bytes(&self) -> usize {
        self.copy.rest.len() + self.copy.summary.len() + self.copy.tags.size()
    }

    fn if_absent(&self, _: &Arc<str>, _: &mut Shard) -> Absent<()> {
        Absent::Create
    }

    fn waits(&self, session: &Session) -> bool {
        !session.is_still()
    }

    fn stage(self, answer: Answer<()>, shard: &mut Shard, id: usize, turn: &mut Turn<'_>) {
        if shard.session(id).exists {
            let key = shard.session(id).entry.key.to_string();
            return turn.out.answer(answer, Err(Error::SessionExists { key }));
        }
        let ForkedLines {
            file,
            len,
            rest,
            skip,
            summary,
            tags,
        } = self.copy;
        let session = shard.reclaim(id, turn);
        session.created(turn.now);
        session.touch(turn.now);
        let meta = &mut session.staged.meta;
        meta.skip = i64::try_from(skip).unwrap_or(i64::MAX);
        let text = meta.text_mut();
        (text.summary, text.tags) = (summary, tags);
        let source = FileSource::Bytes {
            file,
            len,
            rest,
            skip,
        };
        shard.start_rewrite(id, source, Origin::Lines, Ack::Done(answer), turn);
    }
}
