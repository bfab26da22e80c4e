//! Moves queued items from the inboxes into the shards.

use std::sync::Arc;
use std::task::Waker;

use sessionlog_wal::mailbox::Lot;
use sessionlog_wal::sync::slot::slot;

use super::Worker;
use super::ahead::AHEAD;
use crate::engine::shard::inbox::{Inbox, Item, Otherwise, QueuedAppend};
use crate::engine::shard::request::Command;
use crate::engine::shard::verbs::append;

/// Number of a shard's commands that may be held back before its inbox is left alone. Held commands
/// take up no room in the inbox, so callers would keep getting in for as long as the thread is
/// busy.
const MOST_HELD: usize = 1024;

/// The items that were taken out of one inbox.
#[derive(Debug)]
pub(super) struct TakenLot {
    shard: usize,
    /// The number of the newest item.
    last: u64,
    /// The tasks and threads that wait for the answers.
    wakers: Vec<Waker>,
}

impl Worker {
    /// Takes in the items queued for the shards of `rung`, one bit each. Items that may have to
    /// wait for a file are held back for the worker's thread, with all later ones of their shard.
    /// Returns the shards that were left because so much is in flight.
    pub(crate) fn take_in(&mut self, mut rung: u64) -> u64 {
        // No change may be dated before it was asked for: a caller that looks for changes since
        // then would miss it.
        self.read_clock();
        let mut lots = std::mem::take(&mut self.lots);
        while rung != 0 && self.staging.records.len() < self.limits.batch {
            if self.is_full() {
                self.staging.durable = true;
                break;
            }
            let count = self.take_lots(&mut rung, &mut lots);
            let taken = &mut lots[..count];
            self.reach_for(taken);
            for (shard, lot) in taken {
                self.take_in_lot(*shard, lot);
                lot.empty();
            }
        }
        self.lots = lots;
        self.end_turn();
        rung
    }

    /// Takes the items queued for the first shards of `rung`, as many as are fetched ahead at a
    /// time, and returns the number of lots.
    fn take_lots(&mut self, rung: &mut u64, lots: &mut Vec<(usize, Lot<Item>)>) -> usize {
        let (mut count, mut items, mut bytes) = (0, 0, 0);
        while *rung != 0 && items < AHEAD && bytes < self.limits.batch {
            let shard = rung.trailing_zeros() as usize;
            *rung &= *rung - 1;
            if self.held_of[shard] >= MOST_HELD {
                self.left_alone |= 1 << shard;
                continue;
            }
            if count == lots.len() {
                lots.push((shard, Lot::default()));
            }
            let (of, lot) = &mut lots[count];
            *of = shard;
            self.inboxes[shard].queue.take(lot, &mut self.out.wakers);
            self.took(shard, lot);
            items += lot.items.len();
            bytes += lot.bytes.len();
            count += 1;
        }
        count
    }

    /// True if so much is in flight that nothing more is taken in.
    fn is_full(&self) -> bool {
        self.inflight.bytes() > self.limits.in_flight
    }

    fn take_in_lot(&mut self, shard: usize, lot: &mut Lot<Item>) {
        let mut number = lot.last - lot.items.len() as u64;
        let mut at = 0;
        for (item, end) in lot.items.drain(..) {
            number += 1;
            let lines = &lot.bytes[at..end];
            at = end;
            let staged = self.held_of[shard] == 0 && self.poisoned.is_none();
            match item {
                Item::Append(append) => {
                    let staged = staged
                        && self.with(shard, |shard, turn| {
                            shard.append_queued(&append, lines, number, turn)
                        });
                    if !staged {
                        self.set_apart(shard, append, lines, number);
                    }
                }
                Item::Command(command) => {
                    let left = if staged {
                        self.with(shard, |shard, turn| shard.accept_quickly(command, turn))
                    } else {
                        Err(command)
                    };
                    if let Err(command) = left {
                        self.hold(shard, command);
                    }
                }
            }
        }
    }

    /// Notes that the callers of a lot are answered with the batch that is staged. This comes
    /// first: after a panic in a shard, all waiting callers must still be woken.
    fn took(&mut self, shard: usize, lot: &mut Lot<Item>) {
        self.taken.push(TakenLot {
            shard,
            last: lot.last,
            wakers: std::mem::take(&mut lot.wakers),
        });
    }

    /// Turns lines that cannot be staged now into a command, which answers by itself.
    fn set_apart(&mut self, shard: usize, append: QueuedAppend, lines: &[u8], number: u64) {
        let queue = &self.inboxes[shard].queue;
        if let Some(error) = &self.poisoned {
            return queue.except(number, Otherwise::Refused(error.clone()));
        }
        let (promise, slot) = slot();
        queue.except(number, Otherwise::Later(slot));
        let key = self.shards[shard].key_of(append.session as usize);
        let verb = append::Append {
            lines: lines.to_vec(),
            count: append.count,
            once: None,
            level: append.level,
        };
        self.hold(shard, Command::new(key, verb, promise));
    }

    fn hold(&mut self, shard: usize, command: Command) {
        self.held_of[shard] += 1;
        self.held.push_back((shard, command));
    }

    /// Holds a whole lot back.
    pub(super) fn hold_all(&mut self, shard: usize, lot: &mut Lot<Item>) {
        self.took(shard, lot);
        let mut number = lot.last - lot.items.len() as u64;
        let mut at = 0;
        for (item, end) in lot.items.drain(..) {
            number += 1;
            match item {
                Item::Append(append) => {
                    self.set_apart(shard, append, &lot.bytes[at..end], number);
                }
                Item::Command(command) => self.hold(shard, command),
            }
            at = end;
        }
    }

    /// True if commands wait for the worker's thread.
    pub(super) fn has_held(&self) -> bool {
        !self.held.is_empty()
    }

    /// Takes all wakers that wait, for the last time.
    pub(super) fn take_wakers(&mut self) -> Vec<Waker> {
        let mut wakers = std::mem::take(&mut self.out.wakers);
        for taken in self.taken.iter_mut().chain(&mut self.answering) {
            wakers.append(&mut taken.wakers);
        }
        wakers
    }

    pub(super) fn next_held(&mut self) -> Option<(usize, Command)> {
        let (shard, command) = self.held.pop_front()?;
        self.held_of[shard] -= 1;
        let bit = 1 << shard;
        if self.left_alone & bit != 0 && self.held_of[shard] < MOST_HELD / 2 {
            self.left_alone &= !bit;
            self.alarm.ready.ring_all(bit);
            self.alarm.ready.look();
        }
        Some((shard, command))
    }

    /// Carries out held commands, up to the limit of staged records.
    pub(super) fn accept_held(&mut self) {
        while self.may_stage()
            && let Some((shard, command)) = self.next_held()
        {
            self.accept(shard, command);
        }
    }

    /// True if more may be staged before some of it is committed.
    pub(super) fn may_stage(&self) -> bool {
        !self.is_full() && self.staging.records.len() < self.limits.batch
    }

    pub(super) fn accept(&mut self, shard: usize, command: Command) {
        if let Some(error) = &self.poisoned
            && !self.shards[shard].may_look(&command)
        {
            return command.request.refuse(error, &mut self.out);
        }
        self.with(shard, |shard, turn| shard.accept(command, turn));
    }

    /// Answers the callers of the items that are in the batch that was handed over, or were
    /// answered otherwise.
    pub(crate) fn answer(&mut self) {
        // First: a number that is passed without an exception counts as done.
        for (shard, number, error) in self.out.refused.drain(..) {
            let queue = &self.inboxes[shard].queue;
            queue.except(number, Otherwise::Refused(error));
        }
        for mut taken in std::mem::take(&mut self.answering) {
            self.out.wakers.append(&mut taken.wakers);
            let queue = &self.inboxes[taken.shard].queue;
            queue.answer(taken.last, &mut self.out.wakers);
        }
    }

    /// Refuses all later items of the inboxes, and marks the items taken so far as never answered.
    /// Returns the wakers to call.
    pub(super) fn end_inboxes(inboxes: &Arc<[Inbox]>) -> Vec<Waker> {
        let mut wakers = Vec::new();
        let left: Vec<_> = inboxes
            .iter()
            .map(|inbox| inbox.queue.end(&mut wakers))
            .collect();
        drop(left);
        wakers
    }
}
