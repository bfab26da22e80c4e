//! Replacing a history.

use std::fmt::Debug;
use std::marker::PhantomData;
use std::sync::Arc;

use crate::engine::shard::Shard;
use crate::engine::shard::answer::{Ack, Answer};
use crate::engine::shard::change::Origin;
use crate::engine::shard::request::{Absent, Manner, Verb};
use crate::engine::shard::session::Session;
use crate::engine::shard::source::Source;
use crate::engine::shard::turn::Turn;
use crate::engine::shard::verbs::update::Updated;
use crate::error::Version;

/// Replace the history by whole lines, each ended by LF; answer with what came of it, as `T`
/// says it.
#[derive(Debug)]
pub(crate) struct SetHistory<T> {
    pub(crate) lines: Vec<u8>,
    /// The version that the session must be at.
    pub(crate) expect: Option<Version>,
    pub(crate) told: PhantomData<fn() -> T>,
}

impl<T: From<Updated> + Debug + Send + 'static> Verb for SetHistory<T> {
    type Output = T;
    const MANNER: Manner = Manner::Writes;
    const READS_CONTROLS: bool = false;
    const TOUCHES_FILES: bool = true;

    fn bytes(&self) -> usize {
        self.lines.len()
    }

    fn if_absent(&self, key: &Arc<str>, _: &mut Shard) -> Absent<T> {
        match Version::ABSENT.require(key, self.expect) {
            Ok(()) => Absent::Create,
            Err(error) => Absent::Answer(Err(error)),
        }
    }

    fn waits(&self, session: &Session) -> bool {
        !session.is_still()
    }

    fn stage(self, answer: Answer<T>, shard: &mut Shard, id: usize, turn: &mut Turn<'_>) {
        let session = shard.session(id);
        let found = session.settled.meta.version;
        if let Err(error) = found.require(&session.entry.key, self.expect) {
            return turn.out.answer(answer, Err(error));
        }
        let session = shard.reclaim(id, turn);
        session.created(turn.now);
        let told = T::from(Updated {
            version: session.next_version(),
            is_new: true,
        });
        session.touch(turn.now);
        session.staged.meta.skip = 0;
        let source = Source::Lines(self.lines);
        shard.start_rewrite(id, source, Origin::Lines, Ack::with(answer, told), turn);
    }
}
