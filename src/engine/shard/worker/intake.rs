//! Commands on their way from the mailboxes into the shards.

use super::ahead::Places;
use super::{MAX_BATCH, Worker};
use crate::engine::shard::request::Command;

/// Commands taken out of their mailboxes, and of which shards they are how many.
#[derive(Debug, Default)]
pub(super) struct Intake {
    commands: Vec<Command>,
    of: Vec<(usize, usize)>,
    /// Where their sessions are, of those that are loaded.
    places: Places,
}

impl Intake {
    /// Looks up where the sessions of the commands are.
    fn look_up(&mut self, worker: &Worker) {
        let mut commands = self.commands.iter();
        for &(shard, many) in &self.of {
            let place = worker.places[shard];
            let shard = &worker.shards[place].shard;
            let found = commands.by_ref().take(many);
            let found = found.filter_map(|command| shard.find(&command.key));
            self.places.extend(found.map(|id| (place, id)));
        }
    }
}

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
        let mut intake = std::mem::take(&mut self.intake);
        let mut left = self.again.len();
        // Held back, commands take up no room in their mailbox any more: the
        // others keep theirs, and with them their senders.
        while left > 0 && !self.is_full() && !self.holds_back() {
            left = self.empty_mailboxes(&mut intake, left);
            // No change may be said to have been made before it was asked for: who looks
            // for what changed since would miss it.
            self.read_clock();
            intake.look_up(self);
            self.reach_for(&mut intake.places);
            let mut commands = intake.commands.drain(..);
            for (shard, many) in intake.of.drain(..) {
                for command in commands.by_ref().take(many) {
                    if self.is_full() || self.holds_back() {
                        self.held.push_back((shard, command));
                    } else {
                        take(self, shard, command);
                    }
                }
            }
        }
        self.intake = intake;
    }

    /// Takes commands out of the mailboxes of the next `left` shards, up to the limit. How
    /// many shards are left.
    fn empty_mailboxes(&mut self, intake: &mut Intake, mut left: usize) -> usize {
        while left > 0 && intake.commands.len() < self.limits.drained {
            left -= 1;
            let Some(shard) = self.again.pop_front() else {
                return 0;
            };
            let mailbox = &self.shards[self.places[shard]].mailbox;
            let before = intake.commands.len();
            let room = self.limits.drained - before;
            if mailbox.drain(&mut intake.commands, room) {
                self.again.push_back(shard);
            }
            intake.of.push((shard, intake.commands.len() - before));
        }
        left
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
