//! Everyone but the supervisor.

use std::future::poll_fn;
use std::sync::Arc;

use sessionlog_wal::mailbox::EventReceiver;
use sessionlog_wal::sync::slot::Slot;

use super::PATIENCE;
use super::callers::Callers;
use super::clock::ManualClock;
use super::schedule::Schedule;
use crate::engine::shard::job::Job;
use crate::engine::shard::shared::SharedState;
use crate::engine::shard::worker::alarm::Alarm;
use crate::engine::shard::worker::driver::Driver;
use crate::engine::supervisor::leader::{Aside, Leader, LeaderStep};
use crate::engine::supervisor::wait::Wait;
use crate::testing::parts;

/// Everyone but the supervisor.
#[derive(Debug)]
pub(super) struct Crew {
    pub(super) worker: Driver,
    pub(super) leader: Arc<Leader>,
    /// The sync under way beside which others may write.
    pub(super) syncing: Option<Aside>,
    /// The leader's thread has ended.
    pub(super) ended: bool,
    pub(super) jobs: EventReceiver<Job>,
    pub(super) shared: Arc<SharedState>,
    pub(super) alarm: Alarm,
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
        let order = self.schedule.order(4);
        order.iter().any(|party| self.turn_of(*party))
            || (!self.callers.submitted.is_empty()
                && order.iter().any(|party| self.turn_of(*party)))
    }

    fn turn_of(&mut self, party: usize) -> bool {
        match party {
            0 => {
                let asleep = self.schedule.finds_the_leader_asleep();
                self.leader.set_asleep(asleep && self.syncing.is_none());
                let went_on = self.callers.turn();
                self.leader.set_asleep(false);
                went_on
            }
            1 => self.worker.step(false),
            2 => self.run_job(),
            _ => self.lead(),
        }
    }

    fn run_job(&mut self) -> bool {
        let Some(job) = self.jobs.try_recv() else {
            return false;
        };
        if let Some(outcome) = job.run(&self.shared) {
            self.alarm.tell(outcome);
        }
        true
    }

    fn lead(&mut self) -> bool {
        if self.ended {
            return false;
        }
        // A thread that syncs does nothing else.
        if self.syncing.is_some() {
            return self.end_sync();
        }
        let step = self.leader.step();
        self.ended = step == LeaderStep::Ended;
        step != LeaderStep::Nothing
    }

    /// Nothing came while buffered records linger. Their sync may go on beside what is
    /// written next.
    pub(super) fn sync_buffered(&mut self) -> bool {
        if self.end_sync() {
            return true;
        }
        if self.ended {
            return false;
        }
        self.syncing = self.leader.begin_aside();
        let owes = self.syncing.is_some();
        if !self.schedule.writes_beside_a_sync() {
            self.end_sync();
        }
        owes
    }

    /// Lets a sync end, if one is under way.
    fn end_sync(&mut self) -> bool {
        let Some(syncing) = self.syncing.take() else {
            return false;
        };
        self.leader.end_aside(syncing);
        true
    }
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
