//! Takes over another session's history.

use std::sync::Arc;

use sessionlog_core::error::{Error, Result};
use sessionlog_core::session_file::Meta;
use sessionlog_wal::storage::StorageFile;

use super::identity::Identity;
use crate::disk::files;
use crate::engine::shard::Shard;
use crate::engine::shard::answer::{Ack, Answer};
use crate::engine::shard::change::Origin;
use crate::engine::shard::locate::{self, Cut, CutPlace, Query};
use crate::engine::shard::request::{Absent, Manner, Verb, asked};
use crate::engine::shard::session::Session;
use crate::engine::shard::source::FileSource;
use crate::engine::shard::turn::Turn;

/// Take over `candidate`, unless the session has something to lose. Without an identity the session
/// keeps its own, and any live line is something to lose. Answers true if it did.
#[derive(Debug)]
pub(crate) struct Promote {
    pub(crate) identity: Option<Identity>,
    pub(crate) candidate: Candidate,
}

/// The history that an alias session offers for promotion.
#[derive(Debug)]
pub(crate) struct Candidate {
    pub(crate) lines: Vec<u8>,
    pub(crate) summary: String,
}

impl Candidate {
    pub(super) fn bytes(&self) -> usize {
        self.lines.len() + self.summary.len()
    }
}

impl Verb for Promote {
    type Output = bool;
    const MANNER: Manner = Manner::Names;
    const READS_CONTROLS: bool = false;
    const TOUCHES_FILES: bool = true;
    const LETS_GO: bool = false;

    fn bytes(&self) -> usize {
        self.candidate.bytes() + self.identity.as_ref().map_or(0, Identity::bytes)
    }

    fn if_absent(&self, _: &Arc<str>, _: &mut Shard) -> Absent<bool> {
        Absent::Create
    }

    fn waits(&self, session: &Session) -> bool {
        !session.is_still()
    }

    fn stage(self, answer: Answer<bool>, shard: &mut Shard, id: usize, turn: &mut Turn<'_>) {
        match self.finds_blank(shard, id, turn) {
            Ok(Blank::Known(true)) => {
                let ack = Ack::with(answer, true);
                shard.take_over(id, self.identity, self.candidate, ack, turn);
            }
            Ok(Blank::Known(false)) => turn.out.answer(answer, Ok(false)),
            Ok(Blank::Search(file, query)) => {
                let pending = asked(self, answer);
                shard.start_search(id, file, query, pending, turn);
            }
            Err(error) => turn.out.answer(answer, Err(error)),
        }
    }
}

impl Promote {
    fn finds_blank(&self, shard: &mut Shard, id: usize, turn: &mut Turn<'_>) -> Result<Blank> {
        let Some(identity) = &self.identity else {
            return Ok(Blank::Known(shard.session(id).shows_nothing()));
        };
        shard.session(id).admits(identity)?;
        shard.is_blank(id, turn)
    }
}

/// The answer to whether a session has neither summary nor visible message.
pub(super) enum Blank {
    Known(bool),
    /// Its lines must be searched first, and that takes long.
    Search(Arc<dyn StorageFile>, Query),
}

impl Shard {
    /// Puts a candidate's lines and summary in the place of a history that shows nothing.
    pub(super) fn take_over(
        &mut self,
        id: usize,
        identity: Option<Identity>,
        candidate: Candidate,
        ack: Ack,
        turn: &mut Turn<'_>,
    ) {
        let opened = self.write_out(id, turn).and_then(|()| self.file(id, turn));
        let file = match opened {
            Ok(file) => file,
            Err(error) => return turn.out.settle(ack, &Err(error)),
        };
        let session = self.session(id);
        let source = FileSource::Promoted {
            file,
            start: session.start,
            end: session.settled.end,
            lines: candidate.lines,
        };
        let change = |meta: &mut Meta| {
            if let Some(identity) = identity {
                identity.replace_in(meta);
            }
            let summary = candidate.summary.trim();
            if !summary.is_empty() {
                meta.text_mut().summary = summary.into();
            }
        };
        let changed = match session.changed(change, turn) {
            Ok(changed) => changed,
            Err(error) => return turn.out.settle(ack, &Err(error)),
        };
        let session = self.reclaim(id, turn);
        session.staged.meta = changed;
        session.created(turn.now);
        session.touch(turn.now);
        session.staged.meta.skip = 0;
        self.start_rewrite(id, source, Origin::Lines, ack, turn);
    }

    /// Finds out whether the session has neither summary nor visible message.
    pub(super) fn is_blank(&mut self, id: usize, turn: &mut Turn<'_>) -> Result<Blank> {
        if !self.session(id).settled.meta.text.summary.trim().is_empty() {
            return Ok(Blank::Known(false));
        }
        self.write_out(id, turn)?;
        let session = self.session(id);
        let range = session.range();
        let query = Query {
            start: range.start,
            end: range.end,
            lines: session.settled.lines,
            keep: Cut::Last(0),
        };
        if let Some((known, located)) = session.found
            && known == query
        {
            return Ok(Blank::Known(located == CutPlace::Nothing));
        }
        let path = files::log_path(&turn.shared.dir, &session.entry.stem);
        let Some(file) = self.file(id, turn)? else {
            return Ok(Blank::Known(true));
        };
        let found = locate::locate_nearby(&*file, &query);
        Ok(match found.map_err(|e| Error::io("read", &path, e))? {
            Some(located) => Blank::Known(located == CutPlace::Nothing),
            None => Blank::Search(file, query),
        })
    }
}
