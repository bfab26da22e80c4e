//! What became of records, as the journal says it.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::Worker;
use super::ahead::AHEAD;
use crate::disk::journal::committer::{Outcome, Signal};
use crate::engine::shard::change::Op;
use crate::error::Error;

impl Worker {
    pub(super) fn signal(&mut self, signal: Signal) {
        match signal.outcome {
            Outcome::Written => self.show_up_to(signal.number),
            Outcome::Synced => self.settle_up_to(signal.number),
            Outcome::Refused(error) => {
                // What was staged meanwhile builds on what was refused.
                self.commit();
                self.refusals += 1;
                self.fail_from(signal.number, &error);
            }
            Outcome::Poisoned(reason) => self.poison(reason),
        }
    }

    fn show_up_to(&mut self, number: u64) {
        let mut inflight = std::mem::take(&mut self.inflight);
        // Counted before anybody is answered: who has an answer finds it counted.
        let unseen = inflight.unseen_up_to(number).flat_map(|(_, ops)| ops);
        let lines = unseen.map(Op::unseen).fold((0, 0), plus);
        self.shared.counters.add(lines, 0);
        inflight.show_up_to(number, |op| {
            self.with(op.shard, |shard, turn| shard.show(op, turn));
        });
        self.inflight = inflight;
    }

    fn settle_up_to(&mut self, number: u64) {
        let told = self.inflight.up_to(number).flat_map(|(_, ops)| ops);
        let mut changes = 0;
        let (lines, commands) = told.fold(((0, 0), 0), |(lines, commands), op| {
            changes += 1;
            let commands = commands + u64::from(op.is_command());
            (plus(lines, op.unseen()), commands)
        });
        self.shared.counters.add(lines, commands);
        let mut reached = 0;
        while let Some(batch) = self.inflight.next_up_to(number) {
            for _ in 0..batch.ops {
                if reached == 0 {
                    reached = AHEAD.min(changes);
                    self.reach_for_oldest(reached);
                }
                (reached, changes) = (reached - 1, changes - 1);
                if let Some(op) = self.inflight.pop() {
                    self.with(op.shard, |shard, turn| shard.settle(op, turn));
                }
            }
        }
        self.note_unwritten();
    }

    pub(super) fn fail_from(&mut self, number: u64, error: &Error) {
        let mut sessions = BTreeSet::new();
        for op in self.inflight.split_off(number) {
            sessions.insert((op.shard, op.session));
            self.with(op.shard, |shard, turn| shard.fail(op, error, turn));
        }
        let pending = std::mem::take(&mut self.inflight);
        for &(shard, session) in &sessions {
            let ops = pending.ops();
            let own = ops.filter(|op| op.shard == shard && op.session == session);
            self.with(shard, |shard, _| shard.restage(session, own));
        }
        self.inflight = pending;
        for (shard, session) in sessions {
            self.with(shard, |shard, turn| shard.pump(session, turn));
        }
    }

    fn poison(&mut self, reason: Arc<str>) {
        if self.poisoned.is_some() {
            return;
        }
        let error = Error::Poisoned { reason };
        self.poisoned = Some(error.clone());
        self.shared.feed.end();
        for owned in &mut self.shards {
            owned.shard.refuse_waiting(&error, &mut self.out);
        }
        // The journal refuses what was staged: its sessions must not wait for it.
        self.commit();
        self.fail_from(0, &error);
        if let Some(task) = self.flush.take() {
            self.abandon_flush(task, error);
        }
        self.sidecars.clear();
        self.unwritten_since = None;
    }
}

fn plus((lines, bytes): (u64, u64), (more_lines, more_bytes): (u64, u64)) -> (u64, u64) {
    (lines + more_lines, bytes + more_bytes)
}
