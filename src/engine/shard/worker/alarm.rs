//! The end of a store that cannot go on.

use std::sync::Arc;

use sessionlog_core::error::Result;
use sessionlog_wal::mailbox::EventSender;

use super::event::Event;
use super::ready::Ready;
use crate::engine::shard::job;

/// Tells the whole store that it must stop writing.
#[derive(Debug, Clone)]
pub(crate) struct Alarm {
    pub(crate) ready: Arc<Ready>,
    pub(crate) worker: EventSender<Event>,
    /// To the supervisor, which waits for its checkpoints.
    pub(crate) outcomes: EventSender<Result<()>>,
}

impl Alarm {
    /// Reports the result of a job to the worker.
    pub(crate) fn tell(&self, outcome: job::JobReport) {
        self.worker.send(match outcome {
            job::JobReport::Done { owner, done } => Event::Done { owner, done },
            job::JobReport::Fatal(error) => Event::Fatal(error),
        });
    }

    /// Refuses all later commits and tells the worker. The first reason wins.
    ///
    /// Commits are refused first: records handed over after another part was told would never be
    /// answered.
    pub(crate) fn raise(&self, reason: &Arc<str>) {
        tracing::error!(reason = &**reason, "the store stops writing");
        self.ready.poison(reason.clone());
        let reason = reason.clone();
        self.outcomes.send(Err(crate::Error::Poisoned {
            reason: reason.clone(),
        }));
        self.worker.send(Event::Poisoned(reason));
    }
}
