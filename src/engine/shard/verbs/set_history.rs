//! Replaces a history.

use std::fmt::Debug;
use std::marker::PhantomData;
use std::sync::Arc;

use sessionlog_core::error::{Result, Version};
use sessionlog_core::position::Position;
use sessionlog_core::rules::update::UpdateOrder;
use sessionlog_core::session_file::{Meta, TagChange};

use crate::engine::numbering::Place;
use crate::engine::shard::Shard;
use crate::engine::shard::answer::{Ack, Answer};
use crate::engine::shard::change::Origin;
use crate::engine::shard::request::{Absent, Manner, Verb};
use crate::engine::shard::session::Session;
use crate::engine::shard::source::FileSource;
use crate::engine::shard::turn::Turn;
use crate::engine::shard::verbs::update::UpdateOutcome;

/// Replace the history by whole lines, each ended by LF; the answer is the result, as a `T`.
#[derive(Debug)]
pub(crate) struct SetHistory<T> {
    pub(crate) lines: Vec<u8>,
    /// The version that the session must be at.
    pub(crate) expect: Option<Version>,
    /// A position of the history that the session must still have.
    pub(crate) after: Option<Position>,
    pub(crate) summary: Option<String>,
    pub(crate) tags: TagChange,
    pub(crate) told: PhantomData<fn() -> T>,
}

impl<T> SetHistory<T> {
    /// Returns a verb that replaces the history, and nothing else.
    pub(crate) fn of(lines: Vec<u8>, expect: Option<Version>) -> Self {
        Self {
            lines,
            expect,
            after: None,
            summary: None,
            tags: TagChange::default(),
            told: PhantomData,
        }
    }
}

impl<T: From<UpdateOutcome> + Debug + Send + 'static> Verb for SetHistory<T> {
    type Output = T;
    const MANNER: Manner = Manner::Writes;
    const READS_CONTROLS: bool = false;
    const TOUCHES_FILES: bool = true;
    const LETS_GO: bool = false;

    fn bytes(&self) -> usize {
        let summary = self.summary.as_ref().map_or(0, String::len);
        self.lines.len() + summary + self.tags.size()
    }

    fn if_absent(&self, key: &Arc<str>, _: &mut Shard) -> Absent<T> {
        let order = self.order();
        match order.decide(key, Version::ABSENT, |_| false, || Ok(false)) {
            Ok(_) => Absent::Create,
            Err(error) => Absent::Answer(Err(error)),
        }
    }

    fn waits(&self, session: &Session) -> bool {
        !session.is_still()
    }

    fn stage(self, answer: Answer<T>, shard: &mut Shard, id: usize, turn: &mut Turn<'_>) {
        let session = shard.session(id);
        let meta = match self.check(session, turn) {
            Ok(meta) => meta,
            Err(error) => return turn.out.answer(answer, Err(error)),
        };
        let session = shard.reclaim(id, turn);
        session.staged.meta = meta;
        session.created(turn.now);
        let told = T::from(UpdateOutcome {
            version: session.next_version(),
            is_new: true,
        });
        session.touch(turn.now);
        session.staged.meta.skip = 0;
        let source = FileSource::Lines(self.lines);
        shard.start_rewrite(id, source, Origin::Lines, Ack::with(answer, told), turn);
    }
}

impl<T> SetHistory<T> {
    fn order(&self) -> UpdateOrder {
        UpdateOrder {
            expect: self.expect,
            after: self.after,
            ..UpdateOrder::default()
        }
    }

    /// Returns the new sidecar, if the session is in the expected state.
    fn check(&self, session: &Session, turn: &Turn<'_>) -> Result<Meta> {
        let key = &session.entry.key;
        let found = session.settled.meta.version;
        let goes_on = |after: Position| session.numbering.find(after) != Place::Elsewhere;
        self.order().decide(key, found, goes_on, || Ok(false))?;
        if self.summary.is_none() && self.tags.is_empty() {
            return Ok(session.staged.meta.clone());
        }
        let change = |meta: &mut Meta| {
            let text = meta.text_mut();
            if let Some(summary) = &self.summary {
                text.summary.clone_from(summary);
            }
            self.tags.clone().apply(&mut text.tags);
        };
        session.changed(change, turn)
    }
}
