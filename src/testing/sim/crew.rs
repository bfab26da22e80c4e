//! Everyone but the supervisor.

use std::future::poll_fn;
use std::sync::Arc;

use super::PATIENCE;
use super::callers::Callers;
use super::clock::ManualClock;
use super::schedule::Schedule;
use crate::disk::journal::group::{Lead, Taken};
use crate::disk::journal::syncing::Syncing;
use crate::engine::shard::job::Job;
use crate::engine::shard::shared::Shared;
use crate::engine::shard::worker::driver::Driver;
use crate::engine::shard::worker::seat::Held;
use crate::engine::supervisor::journal::Journal;
use crate::engine::supervisor::wait::Wait;
use crate::ground::mailbox::EventReceiver;
use crate::ground::sync::slot::Slot;
use crate::ground::sync::wake::Runtime;
use crate::testing::parts;

/// Everyone but the supervisor.
#[derive(Debug)]
pub(super) struct Crew {
    pub(super) workers: Vec<Driver>,
    /// `None` once it has ended or failed.
    pub(super) journal: Option<Journal>,
    /// The sync under way.
    pub(super) syncing: Option<Syncing>,
    pub(super) jobs: EventReceiver<Job>,
    pub(super) shared: Arc<Shared>,
    pub(super) callers: Callers,
    pub(super) clock: Arc<ManualClock>,
    pub(super) schedule: Schedule,
}

impl Crew {
    /// Lets the first who has something to do go on.
    ///
    /// A caller who goes on by submitting another command does not show that it
    /// did; whoever came before it in the order gets a second look.
    pub(super) fn step(&mut self) -> bool {
        let parties = self.workers.len() + 3;
        let order = self.schedule.order(parties);
        order.iter().any(|party| self.turn_of(*party))
            || (!self.callers.submitted.is_empty()
                && order.iter().any(|party| self.turn_of(*party)))
    }

    fn turn_of(&mut self, party: usize) -> bool {
        match party.checked_sub(1) {
            None => {
                let busy = self.schedule.finds_workers_busy();
                let _held = busy.then(|| hold_all(&self.workers));
                self.callers.turn()
            }
            Some(id) if id < self.workers.len() => self.workers[id].step(false),
            Some(id) if id == self.workers.len() => self.run_job(),
            Some(_) => self.commit(),
        }
    }

    fn run_job(&mut self) -> bool {
        let Some(job) = self.jobs.try_recv() else {
            return false;
        };
        if let (Some(outcome), Some(journal)) = (job.run(&self.shared), &self.journal) {
            journal.alarm.tell(outcome);
        }
        true
    }

    fn commit(&mut self) -> bool {
        let Some(mut journal) = self.journal.take() else {
            return false;
        };
        let taken = match &self.syncing {
            Some(_) => take_beside(&mut journal),
            None => parts::take(&mut journal),
        };
        match taken {
            Taken::Closed => journal.end(),
            Taken::Idle | Taken::Nothing => self.journal = Some(journal),
            Taken::Batch => {
                let busy = self.schedule.finds_workers_busy();
                let held = busy.then(|| hold_all(&self.workers));
                parts::turn(&mut journal);
                drop(held);
                self.journal = Some(journal);
            }
        }
        matches!(taken, Taken::Batch | Taken::Closed) || self.end_sync()
    }

    /// Nothing came while buffered records linger. Their sync may go on beside what is
    /// written next.
    pub(super) fn sync_buffered(&mut self) -> bool {
        if self.end_sync() {
            return true;
        }
        let Some(journal) = &mut self.journal else {
            return false;
        };
        self.syncing = journal.begin_sync();
        let owes = self.syncing.is_some();
        if !self.schedule.writes_beside_a_sync() {
            self.end_sync();
        }
        owes
    }

    /// Lets a sync end, if one is under way.
    fn end_sync(&mut self) -> bool {
        let Some((journal, syncing)) = self.journal.as_mut().zip(self.syncing.take()) else {
            return false;
        };
        let synced = syncing.run();
        let (_, wakers) = journal.end_sync(&syncing, synced);
        Runtime::default().wake_all(wakers);
        true
    }
}

/// What is queued that a caller may see to while what was written before is synced.
fn take_beside(journal: &mut Journal) -> Taken {
    let (group, committer) = (&journal.alarm.group, &journal.committer);
    group.take_to_lead(&mut journal.batch, Lead::Write, |len| {
        committer.has_room(len)
    })
}

fn hold_all(workers: &[Driver]) -> Vec<Held<'_>> {
    workers.iter().map(|worker| worker.seat().hold()).collect()
}

impl Wait for Crew {
    fn answer<T>(&mut self, slot: Slot<T>) -> Option<T> {
        self.until(|| parts::now(poll_fn(|task| slot.poll(task))))?
    }

    fn event<T>(&mut self, events: &EventReceiver<T>) -> Option<T> {
        self.until(|| events.try_recv())
    }
}

impl Crew {
    fn until<T>(&mut self, mut ready: impl FnMut() -> Option<T>) -> Option<T> {
        for _ in 0..PATIENCE {
            if let Some(ready) = ready() {
                return Some(ready);
            }
            let aged = self.schedule.lets_buffered_age() && self.sync_buffered();
            if !aged && !self.step() && !self.sync_buffered() {
                break;
            }
        }
        ready()
    }
}
