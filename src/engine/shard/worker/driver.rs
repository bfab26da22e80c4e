//! What a worker's thread does: events, files, and all that may take its time.

use std::sync::Arc;
use std::time::Duration;

use super::Worker;
use super::bells::Bells;
use super::event::Event;
use super::rest::Rest;
use super::seat::Seat;
use crate::engine::shard::errand::Errand;
use crate::engine::shard::shared::Shared;
use crate::ground::mailbox::{EventReceiver, Timeout};
use crate::ground::sync::thread;

/// The thread's side of a worker. Dropping it ends the worker.
#[derive(Debug)]
pub(crate) struct Driver {
    seat: Seated,
    inbox: EventReceiver<Event>,
    shared: Arc<Shared>,
}

/// The seat of a worker for as long as it has a thread. It vacates the seat: a
/// worker and its mailboxes hold each other through it.
#[derive(Debug)]
struct Seated(Arc<Seat>);

impl Driver {
    /// Seats `worker`.
    pub(crate) fn new(seat: Arc<Seat>, inbox: EventReceiver<Event>, worker: Worker) -> Self {
        let shared = worker.shared.clone();
        seat.occupy(worker);
        Self {
            seat: Seated(seat),
            inbox,
            shared,
        }
    }

    /// What the worker would be told, for a model that listens in its place.
    #[cfg(all(feature = "testing", sessionlog_loom))]
    pub(crate) fn into_inbox(self) -> EventReceiver<Event> {
        self.inbox
    }

    /// One turn, if the thread was told of anything: so much it does while it sleeps.
    #[cfg(all(feature = "testing", sessionlog_loom))]
    pub(crate) fn step_if_told(&self) {
        if let Some(event) = self.inbox.try_recv() {
            let first = Some(event);
            let seat = self.seat();
            seat.drive(|worker, bells| worker.turn(first, &self.inbox, bells));
        }
    }

    /// What others reach the worker through.
    pub(crate) fn seat(&self) -> &Arc<Seat> {
        &self.seat.0
    }

    /// Drives the shards until told to end.
    pub(crate) fn run(&self) {
        while self.step(true) {}
    }

    /// One turn, and what is to be written meanwhile. With `wait` it blocks while
    /// there is nothing to do; without, it writes of one session. `false` once the worker
    /// is to end, or (without `wait`) when nothing was left to do.
    pub(crate) fn step(&self, wait: bool) -> bool {
        let first = match self.next(wait) {
            Next::Event(event) => Some(event),
            Next::Work => None,
            Next::Nothing | Next::End => return false,
        };
        let idle = first.is_none();
        let began = self.shared.clock.monotonic();
        let turn = |worker: &mut Worker, bells: &Bells| worker.turn(first, &self.inbox, bells);
        if self.seat().drive(turn) != Some(true) {
            return false;
        }
        let ended = self.shared.clock.monotonic();
        self.write_for(ended.saturating_sub(began), idle, wait)
            .is_some()
    }

    /// Writes what is to be written, for its share of the time that the turn before it
    /// `took`. `None` once there is no worker any more.
    pub(super) fn write_for(&self, took: Duration, idle: bool, wait: bool) -> Option<()> {
        let clock = &self.shared.clock;
        let began = clock.monotonic();
        let next = |worker: &mut Worker, _: &Bells| (worker.chore(idle, !wait), worker.share(took));
        let mut any = false;
        while let (Some(errand), share) = self.seat().drive(next)? {
            any = true;
            let goes_on = self.carry_out(errand)?;
            if !goes_on || !wait || clock.monotonic().saturating_sub(began) >= share {
                break;
            }
        }
        if any {
            // Who has just been woken would wait for this thread's slice to end, some
            // milliseconds, if there are fewer processors than threads.
            thread::give_way();
        }
        Some(())
    }

    /// Writes to files while others may drive the worker. Whether more may be written; `None`
    /// once there is no worker any more.
    fn carry_out(&self, errand: Errand) -> Option<bool> {
        let shared = &self.shared;
        let done = self.seat().beside(|| errand.run(shared))?;
        self.seat().drive(|worker, _| worker.chore_done(done))
    }

    fn next(&self, wait: bool) -> Next {
        if let Some(event) = self.inbox.try_recv() {
            return Next::Event(event);
        }
        let Some(rest) = self.seat().drive(|worker, _| worker.rest(wait)) else {
            return Next::End;
        };
        // Who rang while this thread held the seat counts on it to look again.
        if self.seat().is_rung() {
            return Next::Event(Event::Ready);
        }
        match rest {
            Rest::None => Next::Work,
            _ if !wait => Next::Nothing,
            Rest::For(time) => match self.inbox.recv_timeout(time) {
                Timeout::Item(event) => Next::Event(event),
                Timeout::TimedOut => Next::Work,
                Timeout::Disconnected => Next::End,
            },
            Rest::UntilTold => self.inbox.recv().map_or(Next::End, Next::Event),
        }
    }
}

impl Drop for Seated {
    fn drop(&mut self) {
        self.0.vacate();
    }
}

enum Next {
    Event(Event),
    Work,
    Nothing,
    End,
}
