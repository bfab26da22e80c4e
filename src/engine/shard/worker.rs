//! A worker: several shards, driven by one thread at a time.
//!
//! Its own thread takes journal signals, job results and requests of the supervisor
//! as events, and commands from the mailboxes. One turn takes what has arrived,
//! stages it, hands the records to the journal and answers; between turns, settled
//! lines are written to the session files. Whoever else holds its [`seat`] stages
//! and settles what touches no file.

mod ahead;
pub(crate) mod alarm;
pub(crate) mod bells;
mod budget;
mod chores;
pub(crate) mod driver;
pub(crate) mod event;
mod intake;
pub(crate) mod limits;
mod quick;
mod rest;
pub(crate) mod seat;
mod signals;
mod unwritten;

use std::collections::VecDeque;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use self::alarm::Alarm;
use self::bells::Bells;
use self::budget::Budget;
use self::event::Event;
use self::intake::Intake;
use self::limits::Limits;
use super::Shard;
use super::buffers::Buffers;
use super::change::Staging;
use super::errand::{Done, Errand, Purpose};
use super::flushed::FlushPart;
use super::inflight::Inflight;
use super::job::Job;
use super::request::Command;
use super::shared::Shared;
use super::turn::{Outbox, Turn};
use crate::disk::journal::committer::Ticket;
use crate::disk::journal::group::{GroupCommit, Lead, Led};
use crate::disk::journal::pool::SegmentPool;
use crate::disk::session_file::SHARDS;
use crate::error::Error;
use crate::ground::clock::Stamp;
use crate::ground::emptied::Emptied;
use crate::ground::mailbox::{EventReceiver, EventSender, Receiver};
use crate::ground::sync::slot::Promise;

/// Records handed to the journal at a time, bytes.
const MAX_BATCH: usize = 8 << 20;

/// Due when told.
const NEVER: Duration = Duration::MAX;

/// Several shards and the thread they live on.
#[derive(Debug)]
pub(crate) struct Worker {
    id: usize,
    limits: Limits,
    shared: Arc<Shared>,
    shards: Vec<Owned>,
    /// Where a shard stands in `shards`.
    places: Vec<usize>,
    group: Arc<GroupCommit<Ticket>>,
    pool: Arc<SegmentPool>,
    alarm: Alarm,
    staging: Staging,
    buffers: Buffers,
    emptied: Emptied,
    out: Outbox,
    now: Stamp,
    inflight: Inflight,
    next_number: u64,
    refusals: u64,
    epoch: u64,
    /// Shards to drain again.
    again: VecDeque<usize>,
    /// Commands that may have to wait for a file, and those after them, left for
    /// the worker's thread.
    held: VecDeque<(usize, Command)>,
    /// Until when the worker's thread sleeps, if it does.
    asleep: Option<Duration>,
    /// Room for what is drained, used again and again.
    intake: Intake,
    flush: Option<FlushTask>,
    /// Until its part of a flush is done, the checkpoint cannot have been
    /// written, and the sidecar images of the epoch before are in the journal.
    flushing: bool,
    sidecars: VecDeque<(usize, usize)>,
    /// What was looked for first when it last wrote anything between flushes.
    looked_for: Purpose,
    drained: Option<Promise<()>>,
    /// The mailboxes are closed: nothing comes past them either.
    closed: bool,
    unwritten_since: Option<Duration>,
    /// Where the shard stands whose lines are written next.
    writes_next: usize,
    line_budget: Budget,
    sidecar_budget: Budget,
    /// Why the last lines to be written were not: no space, mostly. However few wait,
    /// they wait their time then: tried again at once they would take a
    /// processor for as long as the disk is full.
    stuck: Option<Error>,
    poisoned: Option<Error>,
    /// See [`take_led`](Self::take_led).
    led: bool,
}

#[derive(Debug)]
struct Owned {
    shard: Shard,
    mailbox: Receiver<Command>,
}

#[derive(Debug)]
struct FlushTask {
    queue: VecDeque<(usize, usize)>,
    part: FlushPart,
    promise: Promise<FlushPart>,
}

/// What a worker is made of.
#[derive(Debug)]
pub(crate) struct Parts {
    pub(crate) id: usize,
    pub(crate) limits: Limits,
    pub(crate) shared: Arc<Shared>,
    /// The shards it drives, with their mailboxes.
    pub(crate) shards: Vec<(usize, Receiver<Command>)>,
    pub(crate) open_files_per_shard: NonZeroUsize,
    pub(crate) jobs: EventSender<Job>,
    pub(crate) pool: Arc<SegmentPool>,
    pub(crate) alarm: Alarm,
}

impl Worker {
    pub(crate) fn new(parts: Parts) -> Self {
        let mut places = vec![usize::MAX; SHARDS];
        let mut shards = Vec::new();
        for (id, mailbox) in parts.shards {
            places[id] = shards.len();
            shards.push(Owned {
                shard: Shard::new(id, parts.open_files_per_shard, &parts.shared),
                mailbox,
            });
        }
        let (line_budget, sidecar_budget) = chores::budgets();
        Self {
            id: parts.id,
            limits: parts.limits,
            shards,
            places,
            group: parts.alarm.group.clone(),
            pool: parts.pool,
            alarm: parts.alarm,
            staging: Staging::default(),
            buffers: Buffers::default(),
            emptied: Emptied::default(),
            out: Outbox {
                worker: parts.id,
                shared: parts.shared.clone(),
                wakers: Vec::new(),
                jobs: parts.jobs,
                jobs_out: 0,
                fatal: None,
            },
            now: Stamp::of(parts.shared.clock.now()),
            shared: parts.shared,
            inflight: Inflight::default(),
            next_number: 1,
            refusals: 0,
            epoch: 1,
            again: VecDeque::new(),
            held: VecDeque::new(),
            asleep: None,
            intake: Intake::default(),
            flush: None,
            flushing: false,
            sidecars: VecDeque::new(),
            looked_for: Purpose::Lines,
            drained: None,
            closed: false,
            unwritten_since: None,
            writes_next: 0,
            line_budget,
            sidecar_budget,
            stuck: None,
            poisoned: None,
            led: false,
        }
    }

    /// Handles `first` and what arrived after it, and what is in the mailboxes.
    /// `false` once the worker is to end.
    pub(super) fn turn(
        &mut self,
        first: Option<Event>,
        inbox: &EventReceiver<Event>,
        bells: &Bells,
    ) -> bool {
        self.asleep = None;
        self.read_clock();
        // Before anything else: what came behind them must stay behind them.
        self.accept_held();
        let goes_on = self.handle_all(first, inbox);
        if goes_on {
            self.again.extend(bells.answer());
            self.drain_again();
        }
        // Who was answered in the last turn must still be woken, and what was
        // staged in it refused: nobody else would do it.
        self.end_turn();
        goes_on
    }

    /// What is to be written to files between two turns, of one session; `idle` if no
    /// event came, `now` if no time passes.
    pub(super) fn chore(&mut self, idle: bool, now: bool) -> Option<Errand> {
        let errand = self.next_errand(idle, now);
        self.end_turn();
        self.report_drained();
        errand
    }

    /// Notes what came of it. Whether more may be written: not once the store is to stop.
    pub(super) fn chore_done(&mut self, done: Done) -> bool {
        self.finish_errand(done);
        let goes_on = self.out.fatal.is_none();
        self.end_turn();
        self.report_drained();
        goes_on
    }

    /// The callers answered since the last look, for whoever drives to wake.
    #[must_use = "whoever is not woken sleeps for ever"]
    pub(super) fn take_wakers(&mut self) -> Vec<Waker> {
        std::mem::take(&mut self.out.wakers)
    }

    fn handle_all(&mut self, first: Option<Event>, inbox: &EventReceiver<Event>) -> bool {
        let mut next = first;
        for left in (0..self.limits.events).rev() {
            let Some(event) = next else { break };
            // Sent once. Passed over in a burst, it would leave this thread
            // waiting for ever, and with it whoever closes the store.
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
            Event::Journal(signal) => self.signal(signal),
            Event::Done { owner, done } => {
                self.out.jobs_out -= 1;
                self.with(owner.shard, |shard, turn| {
                    shard.done(owner.session, done, turn);
                });
            }
            Event::Fatal(error) => {
                self.out.stop_store(&error);
            }
            Event::Flush(promise) => self.start_flush(promise),
            Event::Sidecars => self.start_sidecars(),
            Event::Drain(promise) => self.start_drain(promise),
            // A turn looks at the bells anyway, and `Exit` ends it before it gets
            // here.
            Event::Ready | Event::Exit => {}
        }
    }

    fn with<R>(&mut self, shard: usize, act: impl FnOnce(&mut Shard, &mut Turn<'_>) -> R) -> R {
        let place = self.places[shard];
        let refuses = self.keeps_others_out();
        let mut turn = Turn {
            shared: &self.shared,
            staging: &mut self.staging,
            buffers: &mut self.buffers,
            emptied: &mut self.emptied,
            out: &mut self.out,
            now: &self.now,
            no_room: self.stuck.as_ref().filter(|_| refuses),
            epoch: self.epoch,
            images_from: self.epoch - u64::from(self.flushing),
        };
        act(&mut self.shards[place].shard, &mut turn)
    }

    /// Hands what was staged to the journal, and the answers to their callers.
    fn end_turn(&mut self) {
        self.commit();
        if let Some(reason) = self.out.fatal.take() {
            self.alarm.raise(&reason);
        }
    }

    fn commit(&mut self) {
        self.led |= self.commit_as(Lead::Write) == Led::Here;
    }

    /// Whether whoever drives has to see to what was handed to the journal.
    fn take_led(&mut self) -> bool {
        std::mem::take(&mut self.led)
    }

    /// Hands what was staged to the journal, for somebody who may see to it as `lead` says.
    fn commit_as(&mut self, lead: Lead) -> Led {
        if self.staging.ops.is_empty() {
            if std::mem::take(&mut self.staging.durable) {
                self.group.ask_for_sync();
            }
            return Led::Elsewhere;
        }
        let bytes = self.staging.records.len();
        let ticket = Ticket {
            producer: self.id,
            number: self.next_number,
            refusals: self.refusals,
            len: bytes,
            records: self.staging.ops.len(),
            frees: self.staging.frees,
        };
        // Nothing more is taken in until some of what is in flight is synced: nobody else
        // would ask for that.
        let fills = self.inflight.bytes() + bytes > self.limits.in_flight;
        let durable = self.staging.durable || fills;
        let records = &self.staging.records;
        let submitted = self.group.submit_to_lead(records, ticket, durable, lead);
        self.inflight
            .push(ticket.number, &mut self.staging.ops, bytes);
        self.next_number += 1;
        self.staging.records.clear();
        (self.staging.durable, self.staging.frees) = (false, false);
        submitted.unwrap_or_else(|refused| {
            self.fail_from(refused.ticket.number, &refused.reason.into());
            Led::Elsewhere
        })
    }

    fn start_drain(&mut self, promise: Promise<()>) {
        let mut rest = Vec::new();
        for place in 0..self.shards.len() {
            let id = self.shards[place].shard.id();
            for command in self.shards[place].mailbox.close() {
                rest.push((id, command));
            }
        }
        self.read_clock();
        // They came before what the mailboxes held, however much is in flight.
        self.held.extend(rest);
        while let Some((shard, command)) = self.held.pop_front() {
            self.accept(shard, command);
        }
        self.again.clear();
        // The end waits for all of it, and time alone would sync what is buffered.
        self.staging.durable |= !self.inflight.is_empty() || !self.staging.ops.is_empty();
        self.closed = true;
        self.drained = Some(promise);
    }

    fn report_drained(&mut self) {
        if self.drained.is_none() || !self.is_quiet() {
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
            && (self.poisoned.is_some() || self.shards.iter().all(|o| o.shard.is_quiet()))
    }
}
