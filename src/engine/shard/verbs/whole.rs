//! Reads a session as a whole, for a copy.

use std::sync::Arc;

use sessionlog_core::error::{Error, Result};

use crate::disk::files::once;
use crate::engine::shard::Shard;
use crate::engine::shard::answer::Answer;
use crate::engine::shard::request::{Absent, Manner, Verb};
use crate::engine::shard::session::Session;
use crate::engine::shard::shared::SharedState;
use crate::engine::shard::turn::Turn;
use crate::engine::snapshot::Snapshot;

/// Read one moment of a session, with the ids of the messages that it took once, as its two files
/// have them now or will after the next flush. The id of a message that came later would have that
/// message refused when it is delivered again to the copy, which lacks it.
#[derive(Debug)]
pub(crate) struct Whole;

/// A session and the ids of the messages it took once.
pub(crate) type WithIds = (Snapshot, [Vec<u8>; 2]);

impl Verb for Whole {
    type Output = WithIds;
    const MANNER: Manner = Manner::Looks;
    const READS_CONTROLS: bool = false;
    const TOUCHES_FILES: bool = true;
    const LETS_GO: bool = false;

    fn bytes(&self) -> usize {
        0
    }

    fn if_absent(&self, key: &Arc<str>, _: &mut Shard) -> Absent<WithIds> {
        Absent::Answer(Ok((Snapshot::empty(key), Default::default())))
    }

    fn waits(&self, _: &Session) -> bool {
        false
    }

    fn stage(self, answer: Answer<WithIds>, shard: &mut Shard, id: usize, turn: &mut Turn<'_>) {
        let opened = shard.file(id, turn);
        let ids = opened.and_then(|_| shard.ids(id, turn));
        let snapshot = shard.session(id).live().snapshot();
        turn.out.answer(answer, ids.map(|ids| (snapshot, ids)));
    }
}

impl Shard {
    /// Returns the ids of the messages that a session took once, as its files have them now or will
    /// after the next flush.
    ///
    /// # Errors
    /// If they cannot be read.
    pub(in crate::engine::shard) fn ids(
        &mut self,
        id: usize,
        turn: &Turn<'_>,
    ) -> Result<[Vec<u8>; 2]> {
        let SharedState {
            storage,
            once,
            keeper,
            ..
        } = turn.shared;
        let session = self.session(id);
        let paths = once::paths(once, &session.entry.stem);
        let unwritten = session.once.as_ref().map(|once| once.unwritten.concat());
        let read = || {
            let [newest, old] = paths.each_ref().map(|path| {
                let read = once::read_file(&**storage, path);
                read.map_err(|e| Error::io("read", path, e))
            });
            Ok([newest?, old?])
        };
        let [mut newest, old] = self.with_descriptor(keeper, read)?;
        if let Some(unwritten) = unwritten.filter(|lines| !lines.is_empty()) {
            // Part of a line, from a write cut short, would spoil the next.
            if newest.last().is_some_and(|last| *last != b'\n') {
                newest.push(b'\n');
            }
            newest.extend_from_slice(unwritten.as_bytes());
        }
        Ok([newest, old])
    }
}
