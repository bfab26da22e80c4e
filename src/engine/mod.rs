//! Floor 3: the engine of one opened directory. This file holds what its handles, shards
//! and threads share.
//!
//! # Hand-overs
//!
//! Every hand-over between threads: what must hold of it, why it holds, and the model in
//! `loom-tests/` that explores it on the code that ships. `tests/faults` has the faults
//! that models must see, and those that are seen by `schedules`: the whole engine with two
//! to four workers and callers of every kind, in random orders.
//!
//! **Commands.**
//!
//! * *Caller to shard* (`mailbox::bounded`): a command is accepted, or handed back. Items
//!   are queued under the read lock of `closed`; the close takes that lock for writing
//!   before it collects. `mailbox_close`, `mailbox_async_close`.
//! * A drain follows whatever is queued. Sender and drain both swap `rung` (acquire,
//!   release): if the sender finds it cleared, it rings; else the drain that cleared it
//!   sees the item. `mailbox_bell`.
//! * Nobody waits beside free room, whoever gives up. A sender looks for room again, and
//!   is registered as waiting, under the lock that the drain takes after it made room; an
//!   emptied mailbox wakes every task. `mailbox_room`, `mailbox_async_waiter`,
//!   `limits_room`.
//! * *Shards to worker* (`Bells`): no ring is lost, and one answer is for many. All bits
//!   are one word: a ring that finds it empty has to see to an answer; the answer takes
//!   all bits in one step, and acquires what came before each. `worker_bells`,
//!   `engine_bells`.
//!
//! **The seat of a worker** (`Seat`), which callers, the committer and the worker's
//! thread take.
//!
//! * Who finds the seat taken leaves nothing that nobody sees to. Callers and committer
//!   only try for the seat, and whoever held it looks at the bells after giving it up.
//!   Ring and look both write the bells, so that a look comes after a ring that found the
//!   seat taken. `seat_callers`, `engine_bells`.
//! * The thread does not sleep over what others leave to it. While it holds the seat it
//!   says until when it sleeps; whoever leaves something that is due earlier tells it
//!   (`Worker::due` is the one measure of both). `seat_sleep`, `seat_close`.
//! * Files are written while others may hold the seat (`Errand`). What is written is
//!   decided under the seat, and what came of it noted under it; in between only what
//!   touches no file is staged or settled, for the thread that alone touches files is the
//!   one that writes. `readers_append`, `engine_flush`, `workers_flush`, `schedules`.
//! * Commands of a session keep their order. Only what finds the mailbox empty goes past
//!   it; everything waits after a command that is held back for the thread.
//!   `limits_order`, `schedules`.
//! * What a panic left of a worker answers nobody: it is taken out of the seat under the
//!   seat's lock, and dropped after the alarm. `engine_panic`.
//!
//! **The journal.**
//!
//! * *Shard to committer* (`GroupCommit`): a ticket is in a batch exactly if its bytes
//!   are. Both change hands under one lock, as does whether the committer sleeps.
//!   `group_commit`, `engine_group`.
//! * *Caller in the committer's place* (`JournalSeat`): what is queued is seen to. A caller
//!   leads only if the committer sleeps, or is away, which one lock says of the queue and of it; who
//!   finds somebody leading has queued before, and whoever led looks at the queue after
//!   giving the seat up. What has to be synced, or is too much, the committer is told of.
//!   A batch is taken under the seat, so that batches are written in their order.
//!   `lead_callers`, `lead_levels`, `engine_append`, `schedules`.
//! * *Caller beside the committer's sync* (`Syncing`): the sync speaks of what was written
//!   before it began, and only that is told and watermarked. Meanwhile nobody else syncs or
//!   goes on to another segment; the committer looks at the queue when it is back.
//!   `lead_beside`, `limits_buffered`.
//! * Closed and poisoned leave nobody waiting. Both are looked at under the lock that
//!   queues; a close rouses the committer, also one that lingers. `group_close`,
//!   `group_linger`, `group_poison`.
//! * A worker that has to wait for a buffered record asks for its sync; the committer
//!   does not sleep over that, with nothing queued either. `group_asked`, `schedules`.
//! * *Committer to worker* (signals): a worker is told after the sync, in order; a
//!   command that joined after the sync began is not meant. Each batch has a number: a
//!   signal handled on the spot passes only such as say less, or speak of later numbers.
//!   `engine_append`, `engine_group`, `seat_settle`; of several workers `workers_append`.
//! * *Committer to worker, a refusal*: what was staged on refused lines is not written.
//!   A ticket says how many refusals its worker had seen; the worker commits what it staged
//!   before it counts another. `limits_refused`.
//! * *Committer to supervisor* (`Progress`): a checkpoint covers only what every worker
//!   was told of before it was asked to flush. The watermark is raised (release) after
//!   the signals are sent, and read (acquire) before the workers are asked, in the same
//!   queues. `journal_watermark`, `journal_progress`, `journal_owes`, `engine_flush`,
//!   `engine_segments`, `workers_flush`; of what was only written `limits_buffered`.
//! * *Committer to supervisor* (`active`): a commit that a flush does not cover calls for
//!   another flush. Both sides swap (acquire, release): the flush clears the flag, then
//!   reads the watermark; the commit raises the watermark, then the flag. If either
//!   stored instead, each could look past the other. `journal_activity`.
//! * *Committer, background, supervisor* (`SegmentPool`): segments are used in the order
//!   of their numbers, given up only when covered, and none is left at the end. One is
//!   made at a time, decided under the lock; who waits for it is notified however the
//!   making ends. `journal_pool`, `journal_retire`, `supervisor_full`.
//!
//! **Readers and callers.**
//!
//! * *Owner to readers* (`Published`): one moment's value, no older than an answer
//!   already given. One lock around one `Arc`, replaced before the answer.
//!   `published_snapshot`, `engine_append`.
//! * *Owner to readers* (`Tail`): lines, and the count that goes with them. Both change,
//!   and are looked at, under one lock. What is staged stands after what is shown. What
//!   is shown only grows; then another tail takes its place, together with the range.
//!   `readers_append`, `readers_truncate`.
//! * *Owner to readers, a swap*: length, generation and file of one moment. They are
//!   published as one `Live`; whoever holds the old one keeps its file. `readers_swap`.
//! * *Owner to readers, an idle file closed*: who reads keeps what is read; who comes
//!   later asks the owner. A snapshot holds its file; the closed one is published as
//!   lacking it. `readers_evict`.
//! * *Owner to caller* (`Promise`, `Slot`): answered once, or broken; either side may
//!   leave. The answer is stored, and the waiter registered, under one lock; a dropped
//!   promise settles, too. `slot_*`.
//! * *Owner to subscribers* (`sync::watch`): the first change is not missed, and what is
//!   told is there. The one owner subscribes and tells, after it published.
//!   `engine_subscribe`, `schedules`.
//! * *Waking tasks* (`sync::wake`): nobody hangs on the task that wakes the others. Tokio
//!   is below the seam, so there is no model; it is tested on real runtimes, with a
//!   fault in `tests/faults`.
//!
//! **The rest.**
//!
//! * *Shard to background* (`Job`, `Event::Done`): one result per job; a compaction is
//!   neither doubled nor lost. The owner keeps `busy`, `pending` or `compaction` until
//!   the result comes, and results come through its queue. `engine_compact`,
//!   `supervisor_clear`, `schedules`.
//! * *Background threads* (`LongJobs`): a job that has to wait is taken by who is done. Who
//!   is done gives up its turn and looks for the next job under one lock.
//!   `supervisor_jobs`.
//! * *Shard to shard, promotion of an alias*: taken over once. The target's owner looks
//!   whether there is something to lose, and holds its session until the new file is in.
//!   `engine_promote`.
//! * *Shards to callers* (the catalog): an alias is found by whoever was told of it; a
//!   file name has one owner; what is listed is found. What was found at open goes out of
//!   its table once, under a lock, after it is entered among the others (release), and is
//!   looked for in the table first (acquire). A claim is counted before it is
//!   entered, under its entry's lock; a name is owned in one step; `listed` is raised
//!   (release) after `exists`. `catalog_*`, `schedules`.
//! * *Everyone* (`Alarm`): the first reason wins; nobody is left waiting, or told that it
//!   went well. Commits are refused before workers are told; a worker that panicked says
//!   why before its mailboxes close. `engine_poison`, `engine_panic`, `workers_alarm`; who
//!   waits for a checkpoint is told as well, `supervisor_alarm`.
//! * *Caller to the end of the store*: carried out, or told that it is closed; no journal
//!   is left. Mailboxes are closed and emptied, then what is in flight, flush,
//!   checkpoint; only then is the committer ended. `engine_stop`, `workers_close`.
//!
//! A panic in a worker is caught at its seat, for it
//! may be on a caller's thread. The committer's panic raises the alarm through a guard. A
//! panicking job is caught, and its owner is told as of any other failure.
//!
//! # Limits and times
//!
//! Those a person tunes. The constant is the authority and says what it bounds; the value
//! here is today's.
//!
//! | constant | value |
//! |---|---|
//! | `MAILBOX` (open) | 1,024 commands per shard |
//! | `max_batch_bytes`, `max_line_bytes` (options) | 64 MiB in one command, 16 MiB in one line |
//! | `max_sidecar_bytes` (options), `MAX` (disk/files/sidecar) | two lines and 16 KiB, 128 MiB |
//! | `Limits` (shard/worker/limits) | 64 MiB of records in flight per worker; 256 commands, events at a time |
//! | `LINGER`, `GRAIN` (shard/worker/chores) | 400 ms to 4 s, 1 ms |
//! | `FEW`, `FEW_BYTES` (shard/worker/unwritten) | 16 sessions, 64 KiB, per worker |
//! | `AGAIN` (shard/worker/unwritten) | 100 ms |
//! | `UNWRITTEN_PART` (shard/worker/unwritten) | a quarter of what the journal may take |
//! | `MANY` (shard/worker/unwritten) | 256 sessions |
//! | `PER_TURN`, `LONGEST_SHARE` (shard/worker/unwritten) | files get a quarter of what turns take, or as much; 4 ms |
//! | `SIDECARS` (shard/worker/chores) | up to 9 s |
//! | `SHARE` (shard/worker/budget) | a 16th of the time |
//! | `WAITS` (shard/verbs/compact) | 4 s |
//! | `FROM` (kept) | 1,000 sessions |
//! | `LITTLE` (snapshot) | 16 KiB |
//! | `QUICK_BYTES` (shard/request), `INLINE` (shard/locate) | 64 KiB, 256 KiB |
//! | `MOST`, `MOST_BYTES` (shard/waiting) | 4,096 commands, 64 MiB |
//! | `SETTLED_BUSY`, `SETTLED_IDLE` (supervisor/journal) | 4 KiB, 32 KiB |
//! | `BUFFERED_LINGER` (supervisor/journal) | 10 ms |
//! | `LED` (supervisor, where callers lead) | 64 KiB |
//! | `IDLE`, `TICK`, `SIDECARS` (supervisor) | 300, 100, 900 ms |
//! | `PERIOD` (supervisor/publisher) | 1 s between two looks for others |
//! | `Lengths` (disk/journal/segment) | 1 MiB, fourfold up to 64 MiB; less if there is little space |
//! | `STEP`, `PAUSE`, `AT_LEISURE` (disk/journal/segment) | 128 KiB of zeros, 300 us, 16 MiB |
//! | `PART`, `SEGMENTS`, `SMALLEST` (disk/journal/budget) | an eighth of the space, 8 segments, 64 KiB |
//! | `RESERVE` (disk/journal/committer) | 4 KiB of each segment, for checkpoints |
//! | `SPARE_SEGMENTS` (disk/journal/pool) | 8 of the largest (512 MiB) |
//! | `RETURN`, `RETURN_PER_KIB` (disk/journal/pace) | 60 us, 3 us |
//! | `LONGEST`, `PAUSE` (disk/journal/pace) | 2 ms, 4 to 256 commits |
//! | `MAX_TAIL`, `ROUNDS` (shard/verbs/compact) | 256 KiB, 8 rounds |
//! | `DEAD_SLACK` (shard/session) | 4 MiB |
//! | `STEP`, `LONGEST` (disk/files/lines) | 4 MiB, 64 MiB |
//! | steps of a rewrite (shard/steps) | 16 KiB if syncs take 60 µs, 256 KiB from 1 ms on |
//! | `KEPT`, `KEPT_IDLE`, `LARGEST` (shard/buffers) | 64 MiB, 4 MiB, 64 KiB, per worker |
//! | `AT_ONCE`, `LARGEST`, `LOTS` (ground/emptied) | 32 buffers (also of each thread that writes), 2 KiB, 64 times as many |
//! | `KEPT` (shard/inflight) | 4,096 changes |
//! | `TRIES` (view/moment, disk/journal/scan), `CHASES` (view) | 20 looks, 1,000 reads |
//! | `END`, `SLACK` (disk/copies) | 4 KiB, 64 KiB |
//! | `MAX_WORKERS` (front/store) | 8 threads |
//! | `BACKGROUND` (supervisor/background) | 3 threads |
//! | `PAUSE` (ground/seldom) | 10 s between two complaints of one kind |
//!
//! No constant bounds the catalog (an entry per session of the directory), what a shard
//! keeps of each session used since the open (an entry per control record, if its
//! conversation was asked for), and the list of backups.

pub(crate) mod archive;
pub(crate) mod catalog;
pub(crate) mod copy_dir;
pub(crate) mod doctor;
pub(crate) mod estate;
pub(crate) mod feed;
pub(crate) mod glance;
pub(crate) mod home;
pub(crate) mod kept;
pub(crate) mod open;
pub(crate) mod options;
pub(crate) mod outline;
pub(crate) mod pages;
pub(crate) mod position;
pub(crate) mod published;
pub(crate) mod reader;
pub(crate) mod recovery;
pub(crate) mod search;
pub(crate) mod shard;
pub(crate) mod snapshot;
pub(crate) mod stats;
pub(crate) mod status;
pub(crate) mod supervisor;
pub(crate) mod traces;
pub(crate) mod view;
pub(crate) mod window;

use std::sync::{Arc, Weak};
use std::task::{Context, Poll};

use crate::disk::journal::committer::Ticket;
use crate::disk::journal::group::{GroupCommit, Lead, Led};
use crate::disk::journal::pool::SegmentPool;
use crate::disk::session_file;
use crate::engine::shard::answer::Answer;
use crate::engine::shard::request::Command;
use crate::engine::shard::shared::Shared;
use crate::engine::shard::worker::seat::{Leads, Seat};
use crate::engine::supervisor::Request;
use crate::engine::supervisor::journal_seat::JournalSeat;
use crate::error::{Error, Result};
use crate::ground::mailbox::{Closed, EventSender, Sender};
use crate::ground::sync::atomic::{AtomicBool, Ordering};
use crate::ground::sync::slot::{Slot, slot};
use crate::ground::sync::wake::Runtime;

/// What handles reach the shards through.
pub(crate) struct Engine {
    pub(crate) shared: Arc<Shared>,
    mailboxes: Vec<Sender<Command>>,
    /// Whoever drives a shard, by shard.
    seats: Vec<Arc<Seat>>,
    /// Whoever commits.
    journal: Arc<JournalSeat>,
    group: Arc<GroupCommit<Ticket>>,
    runtime: Runtime,
    /// What a task may do for the journal while it is polled.
    poll_lead: Lead,
    supervise: EventSender<Request>,
    /// The threads' own: a handle that outlives them keeps no segment open.
    pool: Weak<SegmentPool>,
    /// Says nothing but itself: what comes with a close is told by mailboxes and
    /// locks.
    closed: AtomicBool,
}

/// Says nothing of the sessions: it ends up in logs, and would hold up who looks.
impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine")
            .field("dir", &self.shared.dir)
            .field("closed", &self.is_closed())
            .finish_non_exhaustive()
    }
}

impl Engine {
    /// Submits a command, and blocks this thread while the mailbox is full.
    ///
    /// # Errors
    /// If the store takes no more commands.
    pub(crate) fn submit(&self, command: Command) -> Result<()> {
        let shard = session_file::shard_of(&command.key);
        let mut command = Some(command);
        self.enter(shard, &mut command, Lead::Sync);
        let sent = command.map_or(Ok(()), |left| self.mailboxes[shard].send(left));
        sent.map_err(|Closed(_)| self.failure())
    }

    /// Submits the command in `command`, if there is one left; the task is woken
    /// when the mailbox has room again.
    ///
    /// # Errors
    /// If the store takes no more commands.
    pub(crate) fn poll_submit(
        &self,
        cx: &mut Context<'_>,
        command: &mut Option<Command>,
    ) -> Poll<Result<()>> {
        let Some(submitted) = command else {
            return Poll::Ready(Ok(()));
        };
        self.runtime.remember_current();
        let shard = session_file::shard_of(&submitted.key);
        self.enter(shard, command, self.poll_lead);
        let sent = self.mailboxes[shard].poll_send(cx, command);
        sent.map_err(|Closed(_)| self.failure())
    }

    /// Has a command taken in on the spot, if that is possible, and committed, if the
    /// committer sleeps or is away.
    fn enter(&self, shard: usize, command: &mut Option<Command>, lead: Lead) {
        if self.seats[shard].submit(shard, command, lead) == Led::Here {
            self.journal.lead(lead);
        }
    }

    /// Why a command was not answered.
    pub(crate) fn failure(&self) -> Error {
        match self.group.poisoned() {
            Some(reason) => Error::Poisoned { reason },
            None => Error::Closed,
        }
    }

    /// Whether the store was closed.
    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Relaxed)
    }

    /// Asks the supervisor for something and waits for the answer.
    pub(crate) fn ask(&self, request: impl FnOnce(Answer<()>) -> Request) -> Result<()> {
        let slot = self.request(request)?;
        slot.wait().unwrap_or_else(|| Err(self.failure()))
    }

    /// Asks the supervisor for something; the answer arrives in the slot.
    pub(crate) fn request(
        &self,
        request: impl FnOnce(Answer<()>) -> Request,
    ) -> Result<Slot<Result<()>>> {
        let (promise, slot) = slot();
        if self.supervise.send(request(promise)) {
            Ok(slot)
        } else {
            Err(self.failure())
        }
    }

    /// Refuses every later call, carries out what was accepted, and ends.
    pub(crate) fn stop(&self) -> Result<()> {
        self.refuse_calls();
        self.ask(Request::Stop)
    }

    /// Refuses every later call.
    pub(crate) fn refuse_calls(&self) {
        self.closed.store(true, Ordering::Relaxed);
    }
}
