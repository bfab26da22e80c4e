//! Requests to a session's owner: the facts that every verb declares.

use std::fmt::Debug;
use std::sync::Arc;

use sessionlog_core::error::{Error, Result};
use sessionlog_wal::sync::slot::slot;

use super::Shard;
use super::answer::Answer;
use super::session::Session;
use super::turn::{Outbox, Turn};
use super::waiting::{self, MayWait};

/// The most that a caller's thread copies itself, bytes. More would hold up the other tasks of a
/// runtime's thread, and the callers that wait for the shard.
const QUICK_BYTES: usize = 64 << 10;

/// A verb: all that the engine must know to carry it out. Nothing here has a default. A verb that
/// left a question open would be dropped where the engine asks it, and its caller would wait for an
/// answer that never comes.
pub(crate) trait Verb: Debug + Send + Sized + 'static {
    /// The answer to the caller.
    type Output: Debug + Send + 'static;

    const MANNER: Manner;

    /// True if it cannot be staged without knowing what the session's control records say.
    const READS_CONTROLS: bool;

    /// True if staging it may touch a file. If it cannot, and is small, a caller's thread may stage
    /// it.
    const TOUCHES_FILES: bool;

    /// True if the verb gives the session up. Of the verbs that take their turn, only these are
    /// carried out on a deleted session.
    const LETS_GO: bool;

    /// Returns the memory it holds beyond a small constant, bytes.
    fn bytes(&self) -> usize;

    /// Decides its fate if no such session exists or was asked for since the open.
    fn if_absent(&self, key: &Arc<str>, shard: &mut Shard) -> Absent<Self::Output>;

    /// True if work under way for the session keeps it from being staged.
    fn waits(&self, session: &Session) -> bool;

    /// Stages it as a change with an [`Ack`](super::answer::Ack) that answers, starts the job it
    /// needs, or answers at once.
    fn stage(self, answer: Answer<Self::Output>, shard: &mut Shard, id: usize, turn: &mut Turn<'_>);
}

/// The relation of a verb to the changes of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Manner {
    /// It reports settled state. It goes past commands that wait, and a store that stopped writing
    /// answers it.
    Looks,
    /// It goes past commands that wait. A store that stopped writing refuses it, for it will have
    /// nothing to report.
    Subscribes,
    /// It takes its turn among the commands of its session, and goes with the session if that gets
    /// another key.
    Writes,
    /// It takes its turn and refers to the key itself: it says which session owns the key.
    Names,
}

/// The fate of a verb if the session does not exist.
#[derive(Debug)]
pub(crate) enum Absent<T> {
    /// The session is made.
    Create,
    /// Nothing is made. A session entered for nothing would hold a file name that another key may
    /// need.
    Answer(Result<T>),
}

/// A command for the session `key`.
#[derive(Debug)]
pub(crate) struct Command {
    pub(crate) key: Arc<str>,
    pub(crate) request: Box<dyn Request>,
}

impl Command {
    pub(crate) fn new<V: Verb>(key: Arc<str>, verb: V, answer: Answer<V::Output>) -> Self {
        let request = asked(verb, answer);
        Self { key, request }
    }
}

/// Pairs a verb with its caller's answer.
pub(crate) fn asked<V: Verb>(verb: V, answer: Answer<V::Output>) -> Box<dyn Request> {
    Box::new(VerbRequest { verb, answer })
}

/// A verb that the engine itself asks for, without a caller.
pub(crate) fn unasked<V: Verb>(verb: V) -> Box<dyn Request> {
    let (answer, _) = slot();
    asked(verb, answer)
}

/// Requests that wait for one session.
pub(crate) type Waiting = waiting::RequestQueue<Box<dyn Request>>;

impl MayWait for Box<dyn Request> {
    fn held(&self) -> usize {
        self.bytes()
    }
}

/// A verb of any kind with its caller's answer.
pub(crate) trait Request: Debug + Send {
    fn manner(&self) -> Manner;

    /// See [`Verb::LETS_GO`].
    fn lets_go(&self) -> bool;

    /// True if it may be staged on a caller's thread.
    fn is_quick(&self) -> bool;

    /// See [`Verb::bytes`].
    fn bytes(&self) -> usize;

    /// See [`Verb::waits`].
    fn waits(&self, session: &Session) -> bool;

    /// Answers, unless the session is to be made: then the request is returned.
    fn meet_absence(
        self: Box<Self>,
        key: &Arc<str>,
        shard: &mut Shard,
        turn: &mut Turn<'_>,
    ) -> Option<Box<dyn Request>>;

    /// Stages it, once the session's control records are known if it needs them.
    fn stage(self: Box<Self>, shard: &mut Shard, id: usize, turn: &mut Turn<'_>);

    /// Answers that it will not be carried out.
    fn refuse(self: Box<Self>, error: &Error, out: &mut Outbox);
}

#[derive(Debug)]
struct VerbRequest<V: Verb> {
    verb: V,
    answer: Answer<V::Output>,
}

impl<V: Verb> Request for VerbRequest<V> {
    fn manner(&self) -> Manner {
        V::MANNER
    }

    fn lets_go(&self) -> bool {
        V::LETS_GO
    }

    fn is_quick(&self) -> bool {
        !V::TOUCHES_FILES && self.verb.bytes() <= QUICK_BYTES
    }

    fn bytes(&self) -> usize {
        self.verb.bytes()
    }

    fn waits(&self, session: &Session) -> bool {
        self.verb.waits(session)
    }

    fn meet_absence(
        self: Box<Self>,
        key: &Arc<str>,
        shard: &mut Shard,
        turn: &mut Turn<'_>,
    ) -> Option<Box<dyn Request>> {
        match self.verb.if_absent(key, shard) {
            Absent::Create => Some(self),
            Absent::Answer(result) => {
                turn.out.answer(self.answer, result);
                None
            }
        }
    }

    fn stage(self: Box<Self>, shard: &mut Shard, id: usize, turn: &mut Turn<'_>) {
        if V::READS_CONTROLS && shard.session(id).conversation.is_none() {
            return shard.read_controls(id, self, turn);
        }
        let Self { verb, answer } = *self;
        verb.stage(answer, shard, id, turn);
    }

    fn refuse(self: Box<Self>, error: &Error, out: &mut Outbox) {
        out.answer(self.answer, Err(error.clone()));
    }
}
