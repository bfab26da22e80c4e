//! The worker: all shards, behind one lock.
//!
//! The leader takes in the items that callers queued, stages them, and settles them once they are
//! committed. A thread of the worker's own does the work on files: it loads sessions, writes lines
//! and sidecars, and carries out the commands that may have to wait for those. Both hold the
//! worker's [`seat`] while they work, and neither holds it while it writes or syncs.

mod ahead;
pub(crate) mod alarm;
mod budget;
mod chores;
pub(crate) mod driver;
pub(crate) mod event;
mod intake;
pub(crate) mod limits;
pub(crate) mod ready;
mod rest;
pub(crate) mod seat;
mod signals;
mod unwritten;

use std::collections::VecDeque;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use sessionlog_core::error::Error;
use sessionlog_core::stamp::Stamp;
use sessionlog_wal::journal::committer::Batch;
use sessionlog_wal::journal::pool::SegmentPool;
use sessionlog_wal::mailbox::{EventReceiver, EventSender, Lot};
use sessionlog_wal::sync::slot::Promise;

use self::alarm::Alarm;
use self::budget::WriteBudget;
use self::event::Event;
use self::intake::TakenLot;
use self::limits::TurnLimits;
use super::Shard;
use super::change::{Op, Staging};
use super::errand::{Errand, ErrandResult, Purpose};
use super::flushed::FlushPart;
use super::inbox::Inbox;
use super::inflight::Inflight;
use super::job::Job;
use super::request::Command;
use super::shared::SharedState;
use super::turn::{OtherShards, Outbox, Turn};
use crate::engine::shard::number::SHARDS;

/// The time of work that is due only on an event.
const NEVER: Duration = Duration::MAX;

/// All shards.
#[derive(Debug)]
pub(crate) struct Worker {
    limits: TurnLimits,
    shared: Arc<SharedState>,
    inboxes: Arc<[Inbox]>,
    shards: Vec<Shard>,
    pool: Arc<SegmentPool>,
    alarm: Alarm,
    staging: Staging,
    out: Outbox,
    now: Stamp,
    inflight: Inflight,
    next_number: u64,
    /// Changes that hold and may touch files when they settle, each with the records of its batch:
    /// for the worker's thread.
    deferred: VecDeque<(Op, Bytes)>,
    /// Sessions with waiting requests that may go on, which may touch files too.
    to_pump: Vec<(usize, usize)>,
    epoch: u64,
    /// Room for the items taken in, used again and again.
    lots: Vec<(usize, Lot<super::inbox::Item>)>,
    /// The items taken in, to be answered with the batch that is staged, and with the one that is
    /// being committed.
    taken: Vec<TakenLot>,
    answering: Vec<TakenLot>,
    /// Commands that may have to wait for a file, and the later ones of the same shards, left for
    /// the worker's thread.
    held: VecDeque<(usize, Command)>,
    /// Number of held commands of each shard.
    held_of: Vec<usize>,
    /// Shards that have their inbox left alone, because so many of their commands are held; one bit
    /// each.
    left_alone: u64,
    /// The time until which the worker's thread sleeps, if it does.
    asleep: Option<Duration>,
    flush: Option<FlushTask>,
    /// True until the worker's part of a flush is done. Until then, the checkpoint cannot have been
    /// written, and the sidecar images of the epoch before are in the journal.
    flushing: bool,
    sidecars: VecDeque<(usize, usize)>,
    /// The purpose that was looked for first when it last wrote between flushes.
    looked_for: Purpose,
    drained: Option<Promise<()>>,
    unwritten_since: Option<Duration>,
    /// The shard whose lines are written next.
    writes_next: usize,
    line_budget: WriteBudget,
    sidecar_budget: WriteBudget,
    /// The reason that the last lines could not be written: mostly no space. However few lines
    /// wait, they then wait their time: retried at once, they would take a processor for as long as
    /// the disk is full.
    stuck: Option<Error>,
    /// The time for which files are still to be left alone.
    owed_rest: Duration,
    /// The time until which no file is written. Sessions are loaded meanwhile: their callers wait.
    files_rest_until: Duration,
    poisoned: Option<Error>,
}

#[derive(Debug)]
struct FlushTask {
    queue: VecDeque<(usize, usize)>,
    part: FlushPart,
    promise: Promise<FlushPart>,
}

/// The parts of a worker.
#[derive(Debug)]
pub(crate) struct WorkerParts {
    pub(crate) limits: TurnLimits,
    pub(crate) shared: Arc<SharedState>,
    /// One for each shard.
    pub(crate) inboxes: Arc<[Inbox]>,
    pub(crate) open_files_per_shard: NonZeroUsize,
    pub(crate) jobs: EventSender<Job>,
    pub(crate) pool: Arc<SegmentPool>,
    pub(crate) alarm: Alarm,
}

impl Worker {
    pub(crate) fn new(parts: WorkerParts) -> Self {
        let shard = |id: usize| {
            let places = parts.inboxes[id].places.clone();
            Shard::new(id, parts.open_files_per_shard, &parts.shared, places)
        };
        let shards = (0..SHARDS).map(shard).collect();
        let (line_budget, sidecar_budget) = chores::budgets();
        Self {
            limits: parts.limits,
            shards,
            pool: parts.pool,
            alarm: parts.alarm,
            staging: Staging::default(),
            out: Outbox {
                shared: parts.shared.clone(),
                refused: Vec::new(),
                wakers: Vec::new(),
                jobs: parts.jobs,
                jobs_out: 0,
                fatal: None,
            },
            inboxes: parts.inboxes,
            now: Stamp::of(parts.shared.clock.now()),
            shared: parts.shared,
            inflight: Inflight::default(),
            next_number: 1,
            deferred: VecDeque::new(),
            to_pump: Vec::new(),
            epoch: 1,
            lots: Vec::new(),
            taken: Vec::new(),
            answering: Vec::new(),
            held: VecDeque::new(),
            held_of: vec![0; SHARDS],
            left_alone: 0,
            asleep: None,
            flush: None,
            flushing: false,
            sidecars: VecDeque::new(),
            looked_for: Purpose::Lines,
            drained: None,
            unwritten_since: None,
            writes_next: 0,
            line_budget,
            sidecar_budget,
            stuck: None,
            owed_rest: Duration::ZERO,
            files_rest_until: Duration::ZERO,
            poisoned: None,
        }
    }

    /// Handles `first` and the events after it, and the work left for the worker's thread. Returns
    /// `false` once the worker is to end.
    pub(super) fn turn(&mut self, first: Option<Event>, inbox: &EventReceiver<Event>) -> bool {
        self.asleep = None;
        self.read_clock();
        // Before anything else: later commands must stay behind these.
        self.settle_deferred();
        self.accept_held();
        let goes_on = self.handle_all(first, inbox);
        self.pump_some();
        // Callers answered in the last turn must still be woken, and changes staged in it refused:
        // no other thread would do it.
        self.end_turn();
        self.report_drained();
        goes_on
    }

    /// Returns the files of one session to write between two turns; `idle` if no event came, `now`
    /// if no time passes.
    pub(super) fn chore(&mut self, idle: bool, now: bool) -> Option<Errand> {
        let errand = if now || !self.files_rest() {
            self.next_errand(idle, now)
        } else {
            None
        };
        self.end_turn();
        self.report_drained();
        errand
    }

    /// Notes the result of an errand. With `now` no rest follows it.
    pub(super) fn chore_done(&mut self, done: ErrandResult, now: bool) {
        let started = done.errand.started;
        self.finish_errand(done);
        self.end_turn();
        self.report_drained();
        if !now {
            self.rest_after(started);
        }
    }

    fn handle_all(&mut self, first: Option<Event>, inbox: &EventReceiver<Event>) -> bool {
        let mut next = first;
        for left in (0..self.limits.events).rev() {
            let Some(event) = next else { break };
            // Sent once. Passed over in a burst, it would leave this thread waiting for ever, and
            // with it the thread that closes the store.
            if matches!(event, Event::Exit) {
                return false;
            }
            self.handle(event);
            next = (left > 0).then(|| inbox.try_recv()).flatten();
        }
        true
    }

    fn read_clock(&mut self) {
        self.now = Stamp::of(self.shared.clock.now());
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Poisoned(reason) => self.poison(&reason),
            Event::Done { owner, done } => {
                self.out.jobs_out -= 1;
                self.with(owner.shard, |shard, turn| {
                    shard.done(owner.session, done, turn);
                });
                self.to_pump.push((owner.shard, owner.session));
            }
            Event::Fatal(error) => {
                self.out.stop_store(&error);
            }
            Event::Flush(promise) => self.start_flush(promise),
            Event::Sidecars => self.start_sidecars(),
            Event::Drain(promise) => self.start_drain(promise),
            // A turn looks at the work that is left anyway, and `Exit` ends it before it gets here.
            Event::Ready | Event::Exit => {}
        }
    }

    fn with<R>(&mut self, shard: usize, act: impl FnOnce(&mut Shard, &mut Turn<'_>) -> R) -> R {
        let refuses = self.keeps_others_out();
        let (before, rest) = self.shards.split_at_mut(shard);
        let (own, after) = rest
            .split_first_mut()
            .expect("a shard has one of 64 numbers");
        let mut turn = Turn {
            shared: &self.shared,
            staging: &mut self.staging,
            out: &mut self.out,
            now: &self.now,
            no_room: self.stuck.as_ref().filter(|_| refuses),
            epoch: self.epoch,
            images_from: self.epoch - u64::from(self.flushing),
            others: OtherShards { before, after },
        };
        act(own, &mut turn)
    }

    fn end_turn(&mut self) {
        if let Some(reason) = self.out.fatal.take() {
            self.alarm.raise(&reason);
        }
    }

    /// True if something is staged, or a caller waits for a sync of an earlier write.
    pub(super) fn has_staged(&self) -> bool {
        !self.staging.ops.is_empty() || self.staging.durable || !self.taken.is_empty()
    }

    /// Moves the staged records into an empty `batch` and returns its number; the batch may be
    /// empty. The callers that queued them are answered by the next call of
    /// [`answer`](Self::answer).
    pub(crate) fn hand_over(&mut self, batch: &mut Batch) -> u64 {
        self.answering.append(&mut self.taken);
        let bytes = self.staging.records.len();
        // Nothing more is taken in until some of the records in flight are synced, and no other
        // thread would ask for that.
        let fills = self.inflight.bytes() + bytes > self.limits.in_flight;
        batch.durable = std::mem::take(&mut self.staging.durable) || fills;
        batch.frees = std::mem::take(&mut self.staging.frees);
        batch.changes = self.staging.ops.len();
        if batch.changes == 0 {
            return 0;
        }
        let number = self.next_number;
        batch.bytes = self.staging.take_records();
        self.inflight.push(number, &mut self.staging.ops, bytes);
        self.next_number += 1;
        number
    }

    /// Returns true if a thread that syncs nothing may write the staged records; and their length,
    /// bytes.
    pub(crate) fn staged(&self) -> (bool, usize) {
        let bytes = self.staging.records.len();
        let fills = self.inflight.bytes() + bytes > self.limits.in_flight;
        (!self.staging.durable && !fills, bytes)
    }

    /// Returns the number of staged changes.
    pub(crate) fn staged_changes(&self) -> usize {
        self.staging.ops.len()
    }

    fn start_drain(&mut self, promise: Promise<()>) {
        for shard in 0..SHARDS {
            let mut lot = Lot::default();
            let queue = &self.inboxes[shard].queue;
            queue.close(&mut self.out.wakers);
            queue.take(&mut lot, &mut self.out.wakers);
            self.hold_all(shard, &mut lot);
        }
        self.drained = Some(promise);
    }

    fn report_drained(&mut self) {
        if self.drained.is_none() {
            return;
        }
        if !self.is_quiet() {
            // The end waits for all of it, and buffered records would otherwise be synced only by
            // the clock.
            self.staging.durable |= !self.inflight.is_empty() || !self.staging.ops.is_empty();
            return;
        }
        if let Some(promise) = self.drained.take() {
            self.out.wakers.extend(promise.fulfil(()));
        }
    }

    fn is_quiet(&self) -> bool {
        let busy = self.out.jobs_out > 0 || !self.inflight.is_empty();
        !busy
            && self.held.is_empty()
            && self.staging.ops.is_empty()
            && self.taken.is_empty()
            && self.answering.is_empty()
            && self.deferred.is_empty()
            && self.to_pump.is_empty()
            && (self.poisoned.is_some() || self.shards.iter().all(Shard::is_quiet))
    }
}
