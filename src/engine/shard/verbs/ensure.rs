//! Gives a session its identity and, if it has nothing to lose, the history of an alias.

use std::sync::Arc;

use sessionlog_core::session_file::Meta;

use super::identity::Identity;
use super::promote::{Blank, Candidate};
use crate::Durability;
use crate::engine::shard::Shard;
use crate::engine::shard::answer::{Ack, Answer};
use crate::engine::shard::request::{Absent, Manner, Verb, asked};
use crate::engine::shard::session::Session;
use crate::engine::shard::turn::Turn;

/// Give a session its identity and, if it has nothing to lose, take over the history of an alias,
/// in one record. Answers true if it took one over, or `None` if the caller must search first.
#[derive(Debug)]
pub(crate) struct Ensure {
    pub(crate) identity: Identity,
    pub(crate) search: HistorySearch,
    pub(crate) level: Durability,
}

/// The result of the search for a history to take over.
#[derive(Debug)]
pub(crate) enum HistorySearch {
    /// The session had something to lose.
    Needless,
    /// No alias has anything.
    Vain,
    /// The history of the alias of that name.
    Found(String, Candidate),
}

impl Verb for Ensure {
    type Output = Option<bool>;
    const MANNER: Manner = Manner::Names;
    const READS_CONTROLS: bool = false;
    const TOUCHES_FILES: bool = true;
    const LETS_GO: bool = false;

    fn bytes(&self) -> usize {
        let found = match &self.search {
            HistorySearch::Found(_, candidate) => candidate.bytes(),
            HistorySearch::Needless | HistorySearch::Vain => 0,
        };
        found + self.identity.bytes()
    }

    fn if_absent(&self, _: &Arc<str>, _: &mut Shard) -> Absent<Option<bool>> {
        Absent::Create
    }

    /// Callers see the settled state: a caller that found a history that is on its way out would
    /// find it again and again.
    fn waits(&self, session: &Session) -> bool {
        let replaces_file = matches!(self.search, HistorySearch::Found(..));
        session.busy || session.inflight > 0 && (replaces_file || self.must_search(session))
    }

    fn stage(
        self,
        answer: Answer<Option<bool>>,
        shard: &mut Shard,
        id: usize,
        turn: &mut Turn<'_>,
    ) {
        let session = shard.session(id);
        if let Err(error) = session.admits(&self.identity) {
            return turn.out.answer(answer, Err(error));
        }
        // It was deleted or emptied since the caller looked.
        if self.must_search(session) {
            return turn.out.answer(answer, Ok(None));
        }
        if self.has_found_for(session) {
            match shard.is_blank(id, turn) {
                Ok(Blank::Known(true)) => return self.take_over(answer, shard, id, turn),
                Ok(Blank::Known(false)) => {}
                Ok(Blank::Search(file, query)) => {
                    let pending = asked(self, answer);
                    return shard.start_search(id, file, query, pending, turn);
                }
                Err(error) => return turn.out.answer(answer, Err(error)),
            }
        }
        if shard.session(id).is_known_as(&self.identity) {
            return turn.out.answer(answer, Ok(Some(false)));
        }
        let change = |meta: &mut Meta| self.identity.replace_in(meta);
        match shard.session(id).changed(change, turn) {
            Ok(meta) => {
                let ack = Ack::with(answer, Some(false));
                shard.push_text(id, meta, self.level, ack, turn);
            }
            Err(error) => turn.out.answer(answer, Err(error)),
        }
    }
}

impl Ensure {
    /// True if there is a history to take over. An alias that the session already claims has had
    /// its turn.
    fn has_found_for(&self, session: &Session) -> bool {
        matches!(&self.search, HistorySearch::Found(alias, _) if !session.claims(alias))
    }

    fn take_over(
        self,
        answer: Answer<Option<bool>>,
        shard: &mut Shard,
        id: usize,
        turn: &mut Turn<'_>,
    ) {
        if let HistorySearch::Found(_, candidate) = self.search {
            let ack = Ack::with(answer, Some(true));
            shard.take_over(id, Some(self.identity), candidate, ack, turn);
        }
    }

    /// True if the caller found that no search was needed, and one is needed now.
    fn must_search(&self, session: &Session) -> bool {
        matches!(self.search, HistorySearch::Needless) && session.shows_nothing()
    }
}
