//! A worker's chores between turns: the choice of the session to write next, between flushes or for
//! one.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use sessionlog_core::error::{Error, Result};
use sessionlog_wal::sync::slot::Promise;

use super::budget::WriteBudget;
use super::{FlushTask, Worker};
use crate::engine::shard::Shard;
use crate::engine::shard::change::SessionChange;
use crate::engine::shard::errand::{Errand, ErrandResult, Purpose};
use crate::engine::shard::flushed::FlushPart;
use crate::engine::shard::turn::Turn;

/// The time that settled lines may wait for more before they are written to the session files, when
/// many sessions are written to: from and to.
const LINGER: (Duration, Duration) = (Duration::from_millis(400), Duration::from_secs(4));

/// The wait between two writes of sidecars, unless a flush writes them: from and to.
const SIDECARS: (Duration, Duration) = (Duration::ZERO, Duration::from_secs(9));

/// Sessions due within this time are written together with those that are due: woken for each, the
/// thread would do little else.
const GRAIN: Duration = Duration::from_millis(1);

/// Number of sessions that a flush passes over at a time because nothing of them is to be written.
const PASSED_OVER: usize = 64;

/// The budgets for writing lines, and sidecars, between flushes.
pub(super) fn budgets() -> (WriteBudget, WriteBudget) {
    (
        WriteBudget::new(LINGER.0, LINGER.1),
        WriteBudget::new(SIDECARS.0, SIDECARS.1),
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
        for shard in &mut self.shards {
            let id = shard.id();
            queue.extend(shard.take_dirty().into_iter().map(|s| (id, s)));
        }
        self.flushing = true;
        self.flush = Some(FlushTask {
            queue,
            part: FlushPart::default(),
            promise,
        });
    }

    /// Gives sessions with changes in flight a whole sidecar image in the new epoch: their next
    /// sidecar is written after the checkpoint, when the earlier images are gone. Sessions being
    /// deleted are left out: an image after the deletion would bring them back.
    fn image_inflight(&mut self) {
        let ops = self
            .deferred
            .iter()
            .map(|(op, _)| op)
            .chain(self.inflight.ops());
        let ops = ops.chain(&self.staging.ops);
        let kept = ops.filter(|op| !matches!(op.change, SessionChange::Delete));
        let sessions: BTreeSet<_> = kept.map(|op| (op.shard, op.session)).collect();
        for (shard, session) in sessions {
            self.with(shard, |shard, turn| {
                shard.push_image_again(session, turn);
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
        for shard in &self.shards {
            let id = shard.id();
            let stale = shard.stale_sidecars();
            self.sidecars.extend(stale.into_iter().map(|s| (id, s)));
        }
    }

    /// Returns the files of one session to write next; with `now`, without waiting for more lines.
    pub(super) fn next_errand(&mut self, idle: bool, now: bool) -> Option<Errand> {
        if self.poisoned.is_some() {
            return None;
        }
        if self.flush.is_some() {
            return self.flush_next();
        }
        // Alternating: lines that keep coming would keep all sidecars waiting.
        let sidecars_first = idle && self.looked_for == Purpose::Lines;
        self.looked_for = if sidecars_first {
            Purpose::Sidecar
        } else {
            Purpose::Lines
        };
        if sidecars_first && let Some(sidecar) = self.next_sidecar() {
            return Some(sidecar);
        }
        let lines = if now || self.few_unwritten() || self.much_unwritten() {
            self.lines_of_next(Duration::MAX)
        } else {
            let now = self.shared.clock.monotonic();
            self.line_budget.begin(now);
            let linger = self.linger();
            let due = |since: Duration| since + linger <= now;
            let due = self.unwritten_since.is_some_and(due);
            due.then(|| self.lines_of_next((now + GRAIN).saturating_sub(linger)))
                .flatten()
        };
        lines.or_else(|| idle.then(|| self.next_sidecar()).flatten())
    }

    /// Notes the result of an errand. It does not count once the store stopped.
    pub(super) fn finish_errand(&mut self, done: ErrandResult) {
        let ErrandResult {
            errand,
            lines,
            sidecar,
        } = done;
        if self.poisoned.is_some() {
            return;
        }
        let Errand {
            shard,
            session,
            purpose,
            started,
            ..
        } = errand;
        let finished = self.with(shard, |shard, turn| {
            let written = match errand.lines {
                // The file goes with the lines: the sidecar may need its descriptor.
                Some(new) => shard.finish_lines(session, &new, lines, turn),
                None => Ok(()),
            };
            match (&errand.sidecar, sidecar) {
                (Some(new), Some(put)) => shard.finish_sidecar(session, new, put, turn)?,
                (Some(new), None) => shard.leave_sidecar(session, new),
                (None, _) => {}
            }
            written
        });
        let ended = self.shared.clock.monotonic();
        match purpose {
            Purpose::Lines => {
                self.line_budget.spend(started, ended);
                self.lines_written(finished.err(), ended);
            }
            Purpose::Sidecar => {
                self.sidecar_budget.spend(started, ended);
                if let Err(error) = finished {
                    self.leave_sidecars(&error);
                }
            }
            Purpose::Flush => self.flushed(shard, session, finished),
        }
    }

    /// Returns the lines of a session that has waited since `upto` or longer. Each session waits
    /// its own time: if all were written with the first, they would take the processors for as long
    /// as that lasts.
    fn lines_of_next(&mut self, upto: Duration) -> Option<Errand> {
        let (started, mut failed) = (self.shared.clock.monotonic(), None);
        // In turn: with more lines than can be written, some shards would otherwise wait for ever.
        for _ in 0..self.shards.len() {
            let shard = self.writes_next;
            self.writes_next = (self.writes_next + 1) % self.shards.len();
            let begun = self.with(shard, |shard, turn| {
                let session = shard.next_unwritten(upto)?;
                let lines = shard.begin_lines(session, turn).transpose()?;
                Some(lines.map(|lines| (session, lines)))
            });
            match begun {
                Some(Ok((session, lines))) => {
                    return Some(Errand {
                        shard,
                        session,
                        purpose: Purpose::Lines,
                        lines: Some(lines),
                        sidecar: None,
                        started,
                    });
                }
                Some(Err(error)) => failed = Some(error),
                None => {}
            }
        }
        self.lines_written(failed, started);
        None
    }

    fn lines_written(&mut self, failed: Option<Error>, ended: Duration) {
        self.unwritten_since = None;
        self.note_unwritten();
        self.stuck = failed;
        if self.stuck.is_some() {
            self.unwritten_since = Some(ended);
        }
    }

    fn next_sidecar(&mut self) -> Option<Errand> {
        while let Some((shard, session)) = self.sidecars.pop_front() {
            let now = self.shared.clock.monotonic();
            if self.with(shard, |shard, _| shard.awaits_compaction(session, now)) {
                continue;
            }
            match self.begin_files(shard, session, Purpose::Sidecar) {
                Ok(None) => {}
                Ok(errand) => return errand,
                Err(error) => self.leave_sidecars(&error),
            }
        }
        None
    }

    /// Returns the writes that bring both files of a session up to date: a sidecar never counts
    /// lines that are not in the file yet.
    fn begin_files(
        &mut self,
        shard: usize,
        session: usize,
        purpose: Purpose,
    ) -> Result<Option<Errand>> {
        let started = self.shared.clock.monotonic();
        let (lines, sidecar) = self.with(shard, |shard, turn| {
            let lines = shard.begin_lines(session, turn);
            lines.map(|lines| (lines, shard.begin_sidecar(session, turn)))
        })?;
        let any = lines.is_some() || sidecar.is_some();
        Ok(any.then_some(Errand {
            shard,
            session,
            purpose,
            lines,
            sidecar,
            started,
        }))
    }

    fn leave_sidecars(&mut self, error: &Error) {
        let what = "sidecars stay behind until they can be written";
        self.shared.warn(error, what);
        self.sidecars.clear();
    }

    fn flush_next(&mut self) -> Option<Errand> {
        for _ in 0..PASSED_OVER {
            let task = self.flush.as_mut()?;
            let Some((shard, session)) = task.queue.pop_front() else {
                let task = self.flush.take()?;
                self.flushing = false;
                self.out.wakers.extend(task.promise.fulfil(task.part));
                return None;
            };
            match self.begin_files(shard, session, Purpose::Flush) {
                Ok(Some(errand)) => return Some(errand),
                Ok(None) => self.flushed(shard, session, Ok(())),
                Err(error) => self.flushed(shard, session, Err(error)),
            }
        }
        None
    }

    fn flushed(&mut self, shard: usize, session: usize, written: Result<()>) {
        let put = |shard: &mut Shard, turn: &mut Turn<'_>| shard.write_once(session, turn);
        match written.and_then(|()| self.with(shard, put)) {
            Ok(()) => {
                let flushed = self.with(shard, |shard, turn| shard.flushed(session, turn));
                if let Some(task) = &mut self.flush {
                    task.part.add(flushed);
                }
            }
            Err(error) => {
                self.with(shard, |shard, _| shard.mark_dirty(session));
                if let Some(task) = self.flush.take() {
                    self.abandon_flush(task, error);
                }
            }
        }
    }

    /// Gives a flush up. Sessions that it did not reach are still dirty; those it reached stay in
    /// its part, for the supervisor to sync with the next.
    pub(super) fn abandon_flush(&mut self, mut task: FlushTask, error: Error) {
        for (shard, session) in task.queue {
            self.with(shard, |shard, _| shard.mark_dirty(session));
        }
        self.flushing = false;
        task.part.error = Some(error);
        self.out.wakers.extend(task.promise.fulfil(task.part));
    }
}
