//! Commands on their way from the mailboxes into the shards.

use super::{MAX_BATCH, Worker};
use crate::engine::shard::request::Command;

impl Worker {
    pub(super) fn accept_held(&mut self) {
        while !self.is_full()
            && let Some((shard, command)) = self.held.pop_front()
        {
            self.accept(shard, command);
        }
    }

    /// Whether so much is in flight that nothing more is taken in.
    pub(super) fn is_full(&self) -> bool {
        self.inflight.bytes() > self.limits.in_flight
    }

    pub(super) fn drain_again(&mut self) {
        self.drain(Self::accept);
    }

    pub(super) fn drain(&mut self, take: impl Fn(&mut Self, usize, Command)) {
        let mut commands = std::mem::take(&mut self.drained_commands);
        for _ in 0..self.again.len() {
            // Held back, commands take up no room in their mailbox any more: the
            // others keep theirs, and with them their senders.
            if self.is_full() || self.holds_back() {
                break;
            }
            let Some(shard) = self.again.pop_front() else {
                break;
            };
            let place = self.places[shard];
            let mailbox = &self.shards[place].mailbox;
            if mailbox.drain(&mut commands, self.limits.drained) {
                self.again.push_back(shard);
            }
            for command in commands.drain(..) {
                if self.is_full() || self.holds_back() {
                    self.held.push_back((shard, command));
                } else {
                    take(self, shard, command);
                }
            }
        }
        self.drained_commands = commands;
    }

    pub(super) fn accept(&mut self, shard: usize, command: Command) {
        if let Some(error) = &self.poisoned {
            let place = self.places[shard];
            let may_go_on = self.shards[place].shard.may_look(&command);
            if !may_go_on {
                return command.request.refuse(error, &mut self.out);
            }
        }
        self.with(shard, |shard, turn| shard.accept(command, turn));
        if self.staging.records.len() >= MAX_BATCH {
            self.commit();
        }
    }
}
