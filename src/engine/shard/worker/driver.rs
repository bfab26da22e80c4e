//! What a worker's thread does: events, files, and all that may take its time.

use std::sync::Arc;

use super::Worker;
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

    /// One turn, and what is to be written of one session. With `wait` it blocks while
    /// there is nothing to do. `false` once the worker is to end, or (without
    /// `wait`) when nothing was left to do.
    pub(crate) fn step(&self, wait: bool) -> bool {
        let first = match self.next(wait) {
            Next::Event(event) => Some(event),
            Next::Work => None,
            Next::Nothing | Next::End => return false,
        };
        let idle = first.is_none();
        let seat = self.seat();
        let turned = seat.drive(|worker, bells| worker.turn(first, &self.inbox, bells));
        if turned != Some(true) {
            return false;
        }
        let Some(errand) = seat.drive(|worker, _| worker.chore(idle, !wait)) else {
            return false;
        };
        match errand {
            Some(errand) => self.carry_out(errand),
            None => true,
        }
    }

    /// Writes to files while others may drive the worker.
    fn carry_out(&self, errand: Errand) -> bool {
        let shared = &self.shared;
        let Some(done) = self.seat().beside(|| errand.run(shared)) else {
            return false;
        };
        let goes_on = self
            .seat()
            .drive(|worker, _| worker.chore_done(done))
            .is_some();
        // Who has just been woken would wait for this thread's slice to end, some
        // milliseconds, if there are fewer processors than threads.
        thread::give_way();
        goes_on
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
