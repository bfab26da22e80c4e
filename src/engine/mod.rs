//! Floor 3: the engine of one opened directory. This file holds what its handles,
//! shards and threads share.

pub(crate) mod catalog;
pub(crate) mod doctor;
pub(crate) mod home;
pub(crate) mod open;
pub(crate) mod options;
pub(crate) mod reader;
pub(crate) mod recovery;
pub(crate) mod shard;
pub(crate) mod snapshot;
pub(crate) mod stats;
pub(crate) mod supervisor;
pub(crate) mod view;

use std::sync::Arc;
use std::task::{Context, Poll};

use crate::disk::journal::committer::Ticket;
use crate::disk::journal::group::GroupCommit;
use crate::disk::session_file;
use crate::engine::shard::command::{Answer, Command};
use crate::engine::shard::context;
use crate::engine::shard::worker::seat::Seat;
use crate::engine::supervisor::Request;
use crate::error::{Error, Result};
use crate::ground::mailbox::{Closed, EventSender, Sender};
use crate::ground::sync::atomic::{AtomicBool, Ordering};
use crate::ground::sync::slot::{Slot, slot};
use crate::ground::sync::wake::Runtime;

/// What handles reach the shards through.
pub(crate) struct Engine {
    pub(crate) context: Arc<context::Context>,
    mailboxes: Vec<Sender<Command>>,
    /// Whoever drives a shard, by shard.
    seats: Vec<Arc<Seat>>,
    group: Arc<GroupCommit<Ticket>>,
    runtime: Runtime,
    supervise: EventSender<Request>,
    /// Says nothing but itself: what comes with a close is told by mailboxes and
    /// locks.
    closed: AtomicBool,
}

/// Says nothing of the sessions: it ends up in logs, and would hold up who looks.
impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine")
            .field("dir", &self.context.dir)
            .field("closed", &self.is_closed())
            .finish_non_exhaustive()
    }
}

impl Engine {
    /// Submits a command, and blocks this thread while the mailbox is full.
    ///
    /// # Errors
    /// If the store takes no more commands.
    pub(crate) fn submit(&self, command: Command) -> Result<()> {
        let shard = session_file::shard_of(&command.key);
        let mut command = Some(command);
        self.seats[shard].submit(shard, &mut command);
        let sent = command.map_or(Ok(()), |left| self.mailboxes[shard].send(left));
        sent.map_err(|Closed(_)| self.failure())
    }

    /// Submits the command in `command`, if there is one left; the task is woken
    /// when the mailbox has room again.
    ///
    /// # Errors
    /// If the store takes no more commands.
    pub(crate) fn poll_submit(
        &self,
        cx: &mut Context<'_>,
        command: &mut Option<Command>,
    ) -> Poll<Result<()>> {
        let Some(submitted) = command else {
            return Poll::Ready(Ok(()));
        };
        self.runtime.remember_current();
        let shard = session_file::shard_of(&submitted.key);
        self.seats[shard].submit(shard, command);
        let sent = self.mailboxes[shard].poll_send(cx, command);
        sent.map_err(|Closed(_)| self.failure())
    }

    /// Why a command was not answered.
    pub(crate) fn failure(&self) -> Error {
        match self.group.poisoned() {
            Some(reason) => Error::Poisoned { reason },
            None => Error::Closed,
        }
    }

    /// Whether the store was closed.
    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Relaxed)
    }

    /// Asks the supervisor for something and waits for the answer.
    pub(crate) fn ask(&self, request: impl FnOnce(Answer<()>) -> Request) -> Result<()> {
        let slot = self.request(request)?;
        slot.wait().unwrap_or_else(|| Err(self.failure()))
    }

    /// Asks the supervisor for something; the answer arrives in the slot.
    pub(crate) fn request(
        &self,
        request: impl FnOnce(Answer<()>) -> Request,
    ) -> Result<Slot<Result<()>>> {
        let (promise, slot) = slot();
        if self.supervise.send(request(promise)) {
            Ok(slot)
        } else {
            Err(self.failure())
        }
    }

    /// Refuses every later call, carries out what was accepted, and ends.
    pub(crate) fn stop(&self) -> Result<()> {
        self.refuse_calls();
        self.ask(Request::Stop)
    }

    /// Refuses every later call.
    pub(crate) fn refuse_calls(&self) {
        self.closed.store(true, Ordering::Relaxed);
    }
}
