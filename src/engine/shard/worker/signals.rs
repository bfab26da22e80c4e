//! Applies the results of commits.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use sessionlog_core::error::Error;

use super::Worker;
use super::ahead::AHEAD;
use crate::engine::shard::change::Op;

impl Worker {
    /// Notes the records of a batch that was written, with its number.
    pub(crate) fn wrote(&mut self, batch: Option<(u64, Bytes)>) {
        if let Some((number, records)) = batch {
            self.inflight.wrote(number, records);
        }
    }

    /// Notes that every batch up to `number` is with the operating system, and shows it to readers.
    pub(crate) fn show_up_to(&mut self, number: u64) {
        let mut inflight = std::mem::take(&mut self.inflight);
        // Counted before any caller is answered: an answered caller finds its change counted.
        let unseen = inflight.unseen_up_to(number).flat_map(|(_, ops)| ops);
        let lines = unseen.map(Op::unseen).fold((0, 0), plus);
        self.shared.counters.add(lines, 0);
        inflight.show_up_to(number, |op, batch| {
            self.with(op.shard, |shard, turn| shard.show(op, batch, turn));
        });
        self.inflight = inflight;
    }

    /// Notes that every batch up to `number` is synced, and settles it.
    pub(crate) fn settle_up_to(&mut self, number: u64) {
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
                    self.settle(op, &batch.records);
                }
            }
        }
        self.note_unwritten();
    }

    /// Settles a change, or leaves it to the worker's thread if that may touch a file.
    fn settle(&mut self, op: Op, batch: &Bytes) {
        if self.shards[op.shard].settles_quickly(&op) {
            // Readers see it before its caller is answered, which goes by number.
            let (shard, session) = (op.shard, op.session);
            if self.with(shard, |shard, turn| shard.settle(op, batch, turn)) {
                self.to_pump.push((shard, session));
            }
            return;
        }
        self.shards[op.shard].defer(op.session);
        self.deferred.push_back((op, batch.clone()));
    }

    /// Settles the changes that were left to the worker's thread.
    pub(super) fn settle_deferred(&mut self) {
        while let Some((op, batch)) = self.deferred.pop_front() {
            let (shard, session) = (op.shard, op.session);
            if self.with(shard, |shard, turn| shard.settle_deferred(op, &batch, turn)) {
                self.to_pump.push((shard, session));
            }
        }
        self.note_unwritten();
    }

    /// Lets waiting requests go on, up to the limit of staged records.
    pub(super) fn pump_some(&mut self) {
        while self.may_stage()
            && let Some((shard, session)) = self.to_pump.pop()
        {
            self.with(shard, |shard, turn| shard.pump(session, turn));
        }
    }

    /// Refuses the batch `number`, which is not written, and all changes staged since, which build
    /// on it.
    pub(crate) fn refuse_from(&mut self, number: u64, error: &Error) {
        let mut refused = self.inflight.split_off(number);
        refused.append(&mut self.staging.ops);
        self.staging.records = BytesMut::new();
        self.staging.frees = false;
        self.answering.append(&mut self.taken);
        let mut sessions = BTreeSet::new();
        for op in refused {
            sessions.insert((op.shard, op.session));
            self.with(op.shard, |shard, turn| shard.fail(op, error, turn));
        }
        let pending = std::mem::take(&mut self.inflight);
        let deferred = std::mem::take(&mut self.deferred);
        for &(shard, session) in &sessions {
            let ops = deferred.iter().map(|(op, _)| op).chain(pending.ops());
            let own = ops.filter(|op| op.shard == shard && op.session == session);
            self.with(shard, |shard, _| shard.restage(session, own));
        }
        (self.inflight, self.deferred) = (pending, deferred);
        self.to_pump.extend(sessions);
    }

    /// Notes that the store stops writing.
    pub(crate) fn poison(&mut self, reason: &Arc<str>) {
        if self.poisoned.is_some() {
            return;
        }
        let reason = reason.clone();
        let error = Error::Poisoned { reason };
        self.poisoned = Some(error.clone());
        self.shared.feed.end();
        for shard in &mut self.shards {
            shard.refuse_waiting(&error, &mut self.out);
            shard.keep_unwritten();
        }
        self.refuse_from(0, &error);
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
