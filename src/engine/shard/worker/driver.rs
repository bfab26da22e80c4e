//! The work of the worker's thread: events, files, and all that may take its time.

use std::sync::Arc;

use sessionlog_wal::mailbox::{EventReceiver, Timeout};

use super::Worker;
use super::event::Event;
use super::rest::Rest;
use super::seat::Seat;
use crate::engine::shard::shared::SharedState;
use crate::engine::supervisor::leader::Leader;

/// The thread's side of the worker. Dropping it ends the worker.
#[derive(Debug)]
pub(crate) struct Driver {
    seat: SeatGuard,
    inbox: EventReceiver<Event>,
    shared: Arc<SharedState>,
    leader: Arc<Leader>,
}

/// The seat of the worker for as long as it has a thread. Dropping this vacates the seat: a worker
/// and its inboxes hold each other through it.
#[derive(Debug)]
struct SeatGuard(Arc<Seat>);

impl Driver {
    /// Seats `worker`.
    pub(crate) fn new(
        seat: Arc<Seat>,
        inbox: EventReceiver<Event>,
        worker: Worker,
        leader: Arc<Leader>,
    ) -> Self {
        let shared = worker.shared.clone();
        seat.occupy(worker);
        Self {
            seat: SeatGuard(seat),
            inbox,
            shared,
            leader,
        }
    }

    /// Works on the worker, and sees to the records that it staged.
    fn drive<R>(&self, act: impl FnOnce(&mut Worker) -> R) -> Option<R> {
        let (result, staged) = self.seat().drive(act)?;
        if staged {
            self.leader.attend_staged();
        }
        Some(result)
    }

    /// Returns the seat, through which other threads reach the worker.
    pub(crate) fn seat(&self) -> &Arc<Seat> {
        &self.seat.0
    }

    /// Works until told to end.
    pub(crate) fn run(&self) {
        while self.step(true) {}
    }

    /// Does one turn, and the writes due meanwhile. With `wait` it blocks while there is nothing to
    /// do; without, it writes the files of one session. Returns `false` once the worker is to end,
    /// or (without `wait`) when nothing was left to do.
    pub(crate) fn step(&self, wait: bool) -> bool {
        let first = match self.next(wait) {
            NextWork::Event(event) => Some(event),
            NextWork::Work => None,
            NextWork::Nothing | NextWork::End => return false,
        };
        let idle = first.is_none();
        let turned = self.drive(|worker| worker.turn(first, &self.inbox));
        turned == Some(true) && self.write(idle, wait).is_some()
    }

    /// Writes the files of one session that are due. Returns `None` once there is no worker any
    /// more.
    fn write(&self, idle: bool, wait: bool) -> Option<()> {
        let Some(errand) = self.drive(|worker| worker.chore(idle, !wait))? else {
            return Some(());
        };
        let shared = &self.shared;
        // Other threads work on the worker meanwhile.
        let done = self.seat().beside(|| errand.run(shared))?;
        self.drive(|worker| worker.chore_done(done, !wait))
    }

    fn next(&self, wait: bool) -> NextWork {
        if let Some(event) = self.inbox.try_recv() {
            return NextWork::Event(event);
        }
        let Some(rest) = self.drive(|worker| worker.rest(wait)) else {
            return NextWork::End;
        };
        match rest {
            Rest::None => NextWork::Work,
            _ if !wait => NextWork::Nothing,
            Rest::For(time) => match self.inbox.recv_timeout(time) {
                Timeout::Item(event) => NextWork::Event(event),
                Timeout::TimedOut => NextWork::Work,
                Timeout::Disconnected => NextWork::End,
            },
            Rest::UntilTold => self.inbox.recv().map_or(NextWork::End, NextWork::Event),
        }
    }
}

impl Drop for SeatGuard {
    fn drop(&mut self) {
        self.0.vacate();
    }
}

enum NextWork {
    Event(Event),
    Work,
    Nothing,
    End,
}
