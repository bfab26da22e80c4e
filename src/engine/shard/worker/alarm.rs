//! The end of a store that cannot go on.

use std::sync::Arc;

use super::event::Event;
use crate::disk::journal::committer::{Outcome, Signal, Ticket};
use crate::disk::journal::group::GroupCommit;
use crate::engine::shard::job;
use crate::ground::mailbox::EventSender;

/// Tells the whole store that it must stop writing.
#[derive(Debug, Clone)]
pub(crate) struct Alarm {
    pub(crate) group: Arc<GroupCommit<Ticket>>,
    pub(crate) workers: Vec<EventSender<Event>>,
    /// To the supervisor, which waits for its checkpoints.
    pub(crate) outcomes: EventSender<Outcome>,
}

impl Alarm {
    /// Tells whoever waits what became of a job.
    pub(crate) fn tell(&self, outcome: job::Outcome) {
        let (worker, event) = match outcome {
            job::Outcome::Done { owner, done } => (owner.worker, Event::Done { owner, done }),
            job::Outcome::Fatal(error) => (0, Event::Fatal(error)),
        };
        self.workers[worker].send(event);
    }

    /// Refuses all later commits and tells every worker. The first reason wins.
    ///
    /// Refused first: nobody would answer what was submitted by whoever was told before.
    pub(crate) fn raise(&self, reason: &Arc<str>) {
        tracing::error!(reason = &**reason, "the store stops writing");
        // The tickets not taken yet are their workers', who fail what they have
        // in flight when they are told.
        drop(self.group.poison(reason.clone()));
        self.outcomes.send(Outcome::Poisoned(reason.clone()));
        for (producer, worker) in self.workers.iter().enumerate() {
            worker.send(Event::Journal(Signal {
                producer,
                number: u64::MAX,
                outcome: Outcome::Poisoned(reason.clone()),
            }));
        }
    }
}
