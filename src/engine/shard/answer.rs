//! Who is answered, and with what.

use std::fmt::Debug;
use std::task::Waker;

use crate::error::Result;
use crate::ground::sync::slot::Promise;

/// A promise of a verb's result.
pub(crate) type Answer<T> = Promise<Result<T>>;

/// Who is answered once a change holds, or cannot. What they are told if it holds
/// was fixed when it was staged.
#[derive(Debug, Default)]
pub(crate) enum Ack {
    /// Its caller has the answer.
    #[default]
    Given,
    /// No caller asked for the change, and it counts as nobody's command.
    Nobody,
    Done(Answer<()>),
    /// Its caller is answered by the number that what they queued has in the shard's inbox.
    Numbered {
        shard: usize,
        number: u64,
    },
    /// Boxed: every staged change is as large as the largest.
    Told(Box<dyn Told>),
}

impl Ack {
    /// Answers with `value` once the change holds.
    pub(crate) fn with<T: Debug + Send + 'static>(answer: Answer<T>, value: T) -> Self {
        Self::Told(Box::new(Valued { answer, value }))
    }

    /// Answers everybody who waits for one and the same change.
    pub(crate) fn all(answers: Vec<Answer<()>>) -> Self {
        if answers.is_empty() {
            return Self::Given;
        }
        Self::Told(Box::new(answers))
    }

    /// Whether a caller waits for it.
    pub(crate) fn is_awaited(&self) -> bool {
        matches!(self, Self::Done(_) | Self::Numbered { .. } | Self::Told(_))
    }

    /// Answers, unless that goes by number; the tasks to wake are added to `wakers`.
    pub(crate) fn settle(self, result: &Result<()>, wakers: &mut Vec<Waker>) {
        match self {
            Self::Given | Self::Nobody | Self::Numbered { .. } => {}
            Self::Done(answer) => wakers.extend(answer.fulfil(result.clone())),
            Self::Told(told) => told.settle(result, wakers),
        }
    }
}

/// Somebody who is told more than that a change holds.
pub(crate) trait Told: Debug + Send {
    /// See [`Ack::settle`].
    fn settle(self: Box<Self>, result: &Result<()>, wakers: &mut Vec<Waker>);
}

#[derive(Debug)]
struct Valued<T> {
    answer: Answer<T>,
    value: T,
}

impl<T: Debug + Send> Told for Valued<T> {
    fn settle(self: Box<Self>, result: &Result<()>, wakers: &mut Vec<Waker>) {
        let Self { answer, value } = *self;
        wakers.extend(answer.fulfil(result.clone().map(|()| value)));
    }
}

impl Told for Vec<Answer<()>> {
    fn settle(self: Box<Self>, result: &Result<()>, wakers: &mut Vec<Waker>) {
        for answer in *self {
            wakers.extend(answer.fulfil(result.clone()));
        }
    }
}
