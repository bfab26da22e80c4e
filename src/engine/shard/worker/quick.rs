//! What a worker does on the thread of a caller or of the committer: nothing that
//! touches a file.

use super::bells::Bells;
use super::{MAX_BATCH, Worker};
use crate::disk::journal::committer::{Outcome, Signal};
use crate::disk::journal::group::{Lead, Led};
use crate::engine::shard::change::Op;
use crate::engine::shard::inflight::{Handed, Ops};
use crate::engine::shard::request::Command;

impl Worker {
    /// Takes in what is in the mailboxes. A command that may have to wait for a
    /// file is held back for the worker's thread, with all that come after it.
    pub(super) fn take_in(&mut self, bells: &Bells) {
        // Commands of one session keep their order.
        if self.holds_back() {
            return;
        }
        self.again.extend(bells.answer());
        self.drain(|worker, shard, command| {
            if worker.staging.ops.len() >= worker.limits.taken_here {
                worker.held.push_back((shard, command));
            } else if let Err(command) = worker.accept_quickly(shard, command) {
                worker.held.push_back((shard, command));
            }
        });
        self.end_turn();
    }

    /// Takes one command in past its mailbox, if nothing is before it there. Says who
    /// sees to its records.
    pub(super) fn take_directly(
        &mut self,
        shard: usize,
        command: &mut Option<Command>,
        lead: Lead,
    ) -> Led {
        let place = self.places[shard];
        let next = !self.closed && !self.is_full() && self.shards[place].mailbox.is_empty();
        let Some(taken) = command.take_if(|_| next) else {
            return Led::Elsewhere;
        };
        self.read_clock();
        *command = self.accept_quickly(shard, taken).err();
        let seen_to = self.commit_as(lead);
        self.end_turn();
        seen_to
    }

    /// Whether commands wait for the worker's thread.
    pub(super) fn holds_back(&self) -> bool {
        !self.held.is_empty()
    }

    /// Whether the worker's thread sleeps and must not any more. Answered with
    /// yes once: whoever asks must tell it.
    pub(super) fn rouse(&mut self) -> bool {
        let overslept = self.asleep.is_some_and(|until| self.due() < until);
        if overslept {
            self.asleep = None;
        }
        overslept
    }

    /// Settles, if it is `most` bytes of records at most and no file is touched; whether it
    /// did.
    pub(super) fn settle_quickly(&mut self, signal: &Signal, most: usize) -> bool {
        let quick = self.settles_quickly(signal, most);
        if quick {
            self.signal(signal.clone());
            self.end_turn();
        }
        quick
    }

    fn settles_quickly(&self, signal: &Signal, most: usize) -> bool {
        let written = matches!(signal.outcome, Outcome::Written);
        let plain = written || matches!(signal.outcome, Outcome::Synced);
        let mut bytes = 0;
        let mut is_quick = |(batch, mut ops): (Handed, Ops<'_>)| {
            bytes += batch.bytes;
            bytes <= most && ops.all(|op| self.is_quick(op))
        };
        // What is shown is not shown again.
        let quick = if written {
            self.inflight.unseen_up_to(signal.number).all(&mut is_quick)
        } else {
            self.inflight.up_to(signal.number).all(&mut is_quick)
        };
        plain && self.poisoned.is_none() && quick
    }

    fn is_quick(&self, op: &Op) -> bool {
        let place = self.places[op.shard];
        self.shards[place].shard.settles_quickly(op)
    }

    fn accept_quickly(&mut self, shard: usize, command: Command) -> Result<(), Command> {
        if self.holds_back() || self.poisoned.is_some() {
            return Err(command);
        }
        self.with(shard, |shard, turn| shard.accept_quickly(command, turn))?;
        if self.staging.records.len() >= MAX_BATCH {
            self.commit();
        }
        Ok(())
    }
}
