//! A worker's chores between turns: slices of writing session files, sidecars
//! and flushes.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use super::budget::Budget;
use super::{FlushTask, Worker};
use crate::Durability;
use crate::engine::shard::answer::Ack;
use crate::engine::shard::change::Change;
use crate::engine::shard::flushed::FlushPart;
use crate::error::Error;
use crate::ground::sync::slot::Promise;

/// How long settled lines may wait for company before they are written to the
/// session files, when many sessions are written to: from and to.
const LINGER: (Duration, Duration) = (Duration::from_millis(400), Duration::from_secs(4));

/// How long after sidecars the next are written, unless a flush does: from and to.
const SIDECARS: (Duration, Duration) = (Duration::ZERO, Duration::from_secs(9));

/// Sessions whose time comes so soon are written with those whose time has come:
/// woken for each, the thread would do little else.
const GRAIN: Duration = Duration::from_millis(1);

/// Up to so many sessions, settled lines are written at once.
const FEW: usize = 16;

/// Settled lines are written at once beyond so many bytes.
const MAX_UNWRITTEN: usize = 32 << 20;

/// Sessions written or flushed between two turns: commands that come meanwhile wait for them.
const SLICE: usize = 2;

/// What writing lines, and sidecars, between flushes may cost.
pub(super) fn budgets() -> (Budget, Budget) {
    (
        Budget::new(LINGER.0, LINGER.1),
        Budget::new(SIDECARS.0, SIDECARS.1),
    )
}

impl Worker {
    pub(super) fn start_flush(&mut self, promise: Promise<FlushPart>) {
        if let Some(error) = &self.poisoned {
            let part = FlushPart {
                error: Some(error.clone()),
                ..FlushPart::default()
            };
            self.out.wakers.extend(promise.fulfil(part));
            return;
        }
        self.epoch += 1;
        self.image_inflight();
        let mut queue = VecDeque::new();
        for owned in &mut self.shards {
            let id = owned.shard.id();
            queue.extend(owned.shard.take_dirty().into_iter().map(|s| (id, s)));
        }
        self.flushing = true;
        self.flush = Some(FlushTask {
            queue,
            part: FlushPart::default(),
            promise,
        });
    }

    /// Sessions with changes in flight get a whole sidecar image in the new
    /// epoch: their next sidecar is written after the checkpoint, when the
    /// images before it are gone. Not those being deleted: an image after the
    /// deletion would bring them back.
    fn image_inflight(&mut self) {
        let ops = self.inflight.ops().chain(&self.staging.ops);
        let kept = ops.filter(|op| !matches!(op.change, Change::Delete));
        let sessions: BTreeSet<_> = kept.map(|op| (op.shard, op.session)).collect();
        for (shard, session) in sessions {
            self.with(shard, |shard, turn| {
                shard.push_meta(session, Durability::Buffered, Ack::Nobody, turn);
            });
        }
    }

    pub(super) fn start_sidecars(&mut self) {
        if self.poisoned.is_some() || self.flush.is_some() || !self.sidecars.is_empty() {
            return;
        }
        if !self.sidecar_budget.begin(self.shared.clock.monotonic()) {
            return;
        }
        for owned in &self.shards {
            let id = owned.shard.id();
            let stale = owned.shard.stale_sidecars();
            self.sidecars.extend(stale.into_iter().map(|s| (id, s)));
        }
    }

    /// A slice of file writing; with `now`, without waiting for company.
    pub(super) fn housekeeping(&mut self, idle: bool, now: bool) {
        if self.poisoned.is_some() {
            return;
        }
        if self.flush.is_some() {
            return self.flush_slice();
        }
        if now || self.few_unwritten() || self.much_unwritten() {
            self.write_slice(Duration::MAX);
        } else {
            let now = self.shared.clock.monotonic();
            self.line_budget.begin(now);
            let linger = self.line_budget.wait();
            if self
                .unwritten_since
                .is_some_and(|since| since + linger <= now)
            {
                self.write_slice((now + GRAIN).saturating_sub(linger));
            }
        }
        if idle {
            self.sidecar_slice();
        }
    }

    pub(super) fn much_unwritten(&self) -> bool {
        let bytes = self.shards.iter().map(|o| o.shard.unwritten_bytes());
        !self.stuck && bytes.sum::<usize>() > MAX_UNWRITTEN
    }

    pub(super) fn few_unwritten(&self) -> bool {
        let sessions = self.shards.iter().map(|o| o.shard.unwritten_sessions());
        !self.stuck && sessions.sum::<usize>() <= FEW
    }

    /// Writes sessions that wait since `upto` or longer. Each waits its own time:
    /// were all written with the first, the processors would be taken for as long
    /// as that lasts, and every caller would wait for one.
    fn write_slice(&mut self, upto: Duration) {
        let started = self.shared.clock.monotonic();
        let (mut left, mut failed) = (SLICE, false);
        // In turn: of more than can be written some would wait for ever.
        for _ in 0..self.shards.len() {
            let place = self.writes_next;
            let id = self.shards[place].shard.id();
            match self.with(id, |shard, turn| shard.write_some(left, upto, turn)) {
                Ok(done) => left -= done,
                Err(_) => failed = true,
            }
            self.writes_next = (place + 1) % self.shards.len();
            if left == 0 {
                break;
            }
        }
        self.unwritten_since = None;
        self.note_unwritten();
        let ended = self.shared.clock.monotonic();
        self.line_budget.spend(started, ended);
        self.stuck = failed && left == SLICE;
        if self.stuck {
            self.unwritten_since = Some(ended);
        }
    }

    pub(super) fn note_unwritten(&mut self) {
        // A store that stopped writes no more: what waits would be work for ever.
        if self.poisoned.is_none() && self.unwritten_since.is_none() {
            let waiting = self.shards.iter().map(|o| o.shard.unwritten_since());
            self.unwritten_since = waiting.flatten().min();
        }
    }

    fn sidecar_slice(&mut self) {
        if self.sidecars.is_empty() {
            return;
        }
        let started = self.shared.clock.monotonic();
        for _ in 0..SLICE {
            let Some((shard, session)) = self.sidecars.pop_front() else {
                break;
            };
            let written = self.with(shard, |shard, turn| shard.write_sidecar(session, turn));
            if let Err(error) = written {
                let what = "sidecars stay behind until they can be written";
                self.shared.warn(&error, what);
                self.sidecars.clear();
            }
        }
        let ended = self.shared.clock.monotonic();
        self.sidecar_budget.spend(started, ended);
    }

    fn flush_slice(&mut self) {
        let Some(mut task) = self.flush.take() else {
            return;
        };
        for _ in 0..SLICE {
            let Some((shard, session)) = task.queue.pop_front() else {
                self.flushing = false;
                let waker = task.promise.fulfil(task.part);
                self.out.wakers.extend(waker);
                return;
            };
            match self.with(shard, |shard, turn| shard.flush_one(session, turn)) {
                Ok(flushed) => task.part.add(flushed),
                Err(error) => return self.abandon_flush(task, error),
            }
        }
        self.flush = Some(task);
    }

    /// What the flush did not come to is dirty still; what it did stays in its
    /// part, for the supervisor to sync with the next.
    pub(super) fn abandon_flush(&mut self, mut task: FlushTask, error: Error) {
        for (shard, session) in task.queue {
            self.with(shard, |shard, _| shard.mark_dirty(session));
        }
        self.flushing = false;
        task.part.error = Some(error);
        self.out.wakers.extend(task.promise.fulfil(task.part));
    }
}
