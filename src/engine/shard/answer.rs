//! Answers to callers.

use std::fmt::Debug;
use std::task::Waker;

use sessionlog_core::error::Result;
use sessionlog_wal::sync::slot::Promise;

/// A promise of a verb's result.
pub(crate) type Answer<T> = Promise<Result<T>>;

/// The party to answer once a change holds or has failed. The value for success was fixed when the
/// change was staged.
#[derive(Debug, Default)]
pub(crate) enum Ack {
    /// The caller has its answer.
    #[default]
    Given,
    /// No caller asked for the change, and it is not counted as a command.
    Nobody,
    Done(Answer<()>),
    /// The caller is answered by the number of its item in the shard's inbox.
    Numbered {
        shard: usize,
        number: u64,
    },
    /// Boxed: every staged change is as large as the largest.
    Told(Box<dyn AnswerReceiver>),
}

impl Ack {
    /// Answers with `value` once the change holds.
    pub(crate) fn with<T: Debug + Send + 'static>(answer: Answer<T>, value: T) -> Self {
        Self::Told(Box::new(AnswerValue { answer, value }))
    }

    /// Answers every caller that waits for one and the same change.
    pub(crate) fn all(answers: Vec<Answer<()>>) -> Self {
        if answers.is_empty() {
            return Self::Given;
        }
        Self::Told(Box::new(answers))
    }

    /// True if a caller waits for it.
    pub(crate) fn is_awaited(&self) -> bool {
        matches!(self, Self::Done(_) | Self::Numbered { .. } | Self::Told(_))
    }

    /// Answers, unless the answer goes by number; the tasks to wake are added to `wakers`.
    pub(crate) fn settle(self, result: &Result<()>, wakers: &mut Vec<Waker>) {
        match self {
            Self::Given | Self::Nobody | Self::Numbered { .. } => {}
            Self::Done(answer) => wakers.extend(answer.fulfil(result.clone())),
            Self::Told(told) => told.settle(result, wakers),
        }
    }
}

/// A receiver that gets more than the fact that a change holds.
pub(crate) trait AnswerReceiver: Debug + Send {
    /// See [`Ack::settle`].
    fn settle(self: Box<Self>, result: &Result<()>, wakers: &mut Vec<Waker>);
}

#[derive(Debug)]
struct AnswerValue<T> {
    answer: Answer<T>,
    value: T,
}

impl<T: Debug + Send> AnswerReceiver for AnswerValue<T> {
    fn settle(self: Box<Self>, result: &Result<()>, wakers: &mut Vec<Waker>) {
        let Self { answer, value } = *self;
        wakers.extend(answer.fulfil(result.clone().map(|()| value)));
    }
}

impl AnswerReceiver for Vec<Answer<()>> {
    fn settle(self: Box<Self>, result: &Result<()>, wakers: &mut Vec<Waker>) {
        for answer in *self {
            wakers.extend(answer.fulfil(result.clone()));
        }
    }
}
