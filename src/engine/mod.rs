//! Floor 3: the engine of one opened directory. This file holds the parts that its handles, shards
//! and threads share.
//!
//! # Hand-overs
//!
//! Every hand-over between threads: its invariant, the reason that it holds, and the model in
//! `loom-tests/` that explores it on the shipped code. `tests/faults` has the faults that models
//! must see, and those that `schedules` sees: the whole engine with callers of every kind, in
//! random orders.
//!
//! **Queued items.**
//!
//! * *Caller to shard* (`mailbox::Queue`): an item is taken in, or stays its caller's. Items are
//!   queued, taken and refused under one lock. `mailbox_async_close`.
//! * No caller waits while there is room, even if others give up. A caller that finds no room is
//!   noted under the lock that a take holds; every take wakes all of them. `mailbox_conformance`,
//!   `limits_room`.
//! * *Shards to leader* (`Ready`): no ring is lost, and one look serves many. The caller that
//!   queues the first item of a shard rings. All bits are one word: a ring that finds it empty has
//!   the leader look; the look takes all bits in one step, and acquires what came before each. The
//!   leader marks itself asleep, and then looks once more: ring and look both write the word, so
//!   the second of them sees the first. `worker_bells`, `engine_bells`.
//! * *Leader to caller* (`Queue::answer`): a caller is answered when the number of its item is
//!   passed, or by an exception. Exceptions are entered before the number is raised (release), and
//!   looked for after it is read (acquire). A caller that comes to wait after its item was taken is
//!   noted under the lock that raises the number. No answer is kept for a caller that left.
//!   `mailbox_answer`, `mailbox_leaving`, `engine_append`.
//! * Commands of a session keep their order. Once a command of a shard is held back for the
//!   worker's thread, all later ones of the shard are held back. `schedules`.
//!
//! **The leader** (`Leader`): its thread, or a caller in its place.
//!
//! * Queued items are handled. A caller leads only if the thread sleeps, or is away, which one lock
//!   decides. A caller that finds another leading has rung before, and the leader looks at the word
//!   once more after giving the journal up. Work that needs a sync, or is too much, is reported to
//!   the thread. Queued items are taken in under the journal's lock, so that batches are written in
//!   their order. `lead_callers`, `lead_levels`, `schedules`.
//! * *Caller beside the thread's sync* (`Aside`): the sync covers the writes before it began, and
//!   only those are settled and watermarked. Meanwhile no other thread syncs or goes on to another
//!   segment. `schedules`, and a unit test with a fault.
//! * *Leader and the worker's thread* (`Seat`): both work on the shards under one lock, which no
//!   thread holds while it writes, syncs or waits. Work that may touch files is the thread's: it is
//!   held back or deferred, and the thread is told if it sleeps past it (`Worker::due` is the one
//!   measure of both). The leader is told of records that the thread stages. `lead_sleep`,
//!   `lead_close`, `engine_append`.
//! * Changes of a session settle in their order. Once one is deferred, all later ones of its
//!   session are deferred, also those that are only shown (`Session::deferred`).
//!   `readers_truncate`, `readers_swap`.
//! * Files are written without the seat (`Errand`). The write is decided under the seat, and its
//!   result noted under it. In between, only changes that touch no file are staged or settled,
//!   because the one thread that touches files is the one that writes. `readers_append`,
//!   `schedules`.
//! * A worker that panicked answers no caller: it is taken out of the seat under the seat's lock,
//!   and the inboxes end after the alarm. `engine_panic`.
//! * A close and a poisoning leave no caller waiting. Both are looked at under the lock under which
//!   the leader sleeps. After a failure the leader still takes items in, and refuses them.
//!   `lead_close`, `engine_poison`, `supervisor_alarm`.
//! * *A refusal*: changes staged on refused lines are not written. All changes that were staged
//!   when a batch was refused are refused with it. `limits_refused`.
//! * *Leader to supervisor* (`Progress`): a checkpoint covers only changes that were settled, or
//!   deferred, before the worker's thread was asked to flush; that thread settles deferred ones
//!   first. The watermark is raised (release) after that, and read (acquire) before the thread is
//!   asked. `journal_watermark`, `journal_owes`, `engine_segments`.
//! * *Leader to supervisor* (`active`): a commit that a flush does not cover calls for
//!   another flush. Both sides swap (acquire, release): the flush clears the flag, then
//!   reads the watermark; the commit raises the watermark, then the flag. If either
//!   stored instead, each could look past the other. `journal_activity`.
//! * *Leader, background, supervisor* (`SegmentPool`): segments are used in the order of their
//!   numbers, given up only when covered, and none is left at the end. One is made at a time,
//!   decided under the lock; a thread that waits for it is notified however the making ends.
//!   `journal_retire`.
//!
//! **Readers and callers.**
//!
//! * *Owner to readers* (`PublishedValue`): one moment's value, no older than an answer
//!   already given. One lock around one `Arc`, replaced before the answer.
//!   `engine_append`.
//! * *Owner to readers* (`Tail`): lines, and the count that goes with them. Both change,
//!   and are looked at, under one lock. Lines enter it when they are shown, and it only
//!   grows; then another tail takes its place, together with the range.
//!   `readers_append`, `readers_truncate`.
//! * *Owner to readers, a swap*: length, generation and file of one moment. They are published as
//!   one `Live`; a reader of the old one keeps its file. `readers_swap`.
//! * *Owner to readers, an idle file closed*: a present reader keeps its file; a later one asks the
//!   owner. A snapshot holds its file; the closed session is published without one.
//!   `readers_evict`.
//! * *Owner to caller* (`Promise`, `Slot`): answered once, or broken; either side may
//!   leave. The answer is stored, and the waiter registered, under one lock; a dropped
//!   promise settles, too. `slot_poll`.
//! * *Owner to subscribers* (`sync::watch`): the first change is not missed, and reported changes
//!   are visible. The one owner subscribes and notifies, after it published. `engine_subscribe`,
//!   `schedules`.
//! * *Waking tasks* (`sync::wake`): no task depends on the task that wakes the others. Tokio is
//!   below the seam, so there is no model; it is tested on real runtimes, with a fault in
//!   `tests/faults`.
//!
//! **The rest.**
//!
//! * *Shard to background* (`Job`, `Event::Done`): one result per job; a compaction is
//!   neither doubled nor lost. The owner keeps `busy`, `pending` or `compaction` until
//!   the result comes, and results come through its queue. `schedules`.
//! * *Background threads* (`LongJobs`): a waiting job is taken by a thread that is done with
//!   another. That thread gives up its turn and looks for the next job under one lock.
//!   `supervisor_jobs`.
//! * *Shard to shard, promotion of an alias*: taken over once. The target's owner checks if there
//!   is something to lose, and holds its session until the new file is in. `schedules`.
//! * *Shards to callers* (the catalog): a caller that was told of an alias finds it; a file name
//!   has one owner; listed sessions are found. A session found at open leaves its table once, under
//!   a lock, after it is entered among the others (release), and is looked for in the table first
//!   (acquire). A claim is counted before it is entered, under its entry's lock; a name is owned in
//!   one step; `listed` is raised (release) after `exists`. `catalog_*`, `schedules`.
//! * *All threads* (`Alarm`): the first reason wins; no caller is left waiting, or told that it
//!   succeeded. Commits are refused before the worker is told; a worker that panicked gives the
//!   reason before its inboxes end. `engine_poison`, `engine_panic`; a thread that waits for a
//!   checkpoint is told as well, `supervisor_alarm`.
//! * *Caller to the end of the store*: carried out, or told that it is closed; no journal is left.
//!   Inboxes are closed and emptied, then records in flight, flush, checkpoint; only then is the
//!   leader ended. `lead_close`.
//!
//! A panic in the worker is caught at its seat, and one of the leader where it leads, because both
//! may be on a caller's thread. A panicking job is caught, and its owner is told as of any other
//! failure.
//!
//! # Limits and times
//!
//! The limits that a person tunes. The constant is the authority and documents its bound; the value
//! here is today's.
//!
//! | constant | value |
//! |---|---|
//! | `MAILBOX` (open), `MOST_BYTES` (wal: mailbox/queue) | 1,024 commands and 16 MiB per shard |
//! | `max_batch_bytes`, `max_line_bytes` (options) | 64 MiB in one command, 16 MiB in one line |
//! | `max_sidecar_bytes` (options), `MAX` (disk/files/sidecar) | two lines and 16 KiB, 128 MiB |
//! | `Limits` (shard/worker/limits) | 64 MiB of records in flight, 8 MiB in a batch, and what was queued for a shard; 256 events at a time |
//! | `BLOCK` (shard/change) | records of several batches share 1 MiB |
//! | `LINGER`, `GRAIN` (shard/worker/chores) | 400 ms to 4 s, 1 ms |
//! | `FEW`, `FEW_BYTES` (shard/worker/unwritten) | 16 sessions, 64 KiB |
//! | `AGAIN` (shard/worker/unwritten) | 100 ms |
//! | `UNWRITTEN_PART` (shard/worker/unwritten) | a quarter of what the journal may take |
//! | `MANY` (shard/worker/unwritten) | 256 sessions |
//! | `REST`, `LONGEST_REST` (shard/worker/unwritten) | of many sessions, twice as long as a file took; 1 ms |
//! | `SIDECARS` (shard/worker/chores) | up to 9 s |
//! | `SHARE` (shard/worker/budget) | a 16th of the time |
//! | `WAITS` (shard/verbs/compact) | 4 s |
//! | `FROM` (kept) | 1,000 sessions |
//! | `LITTLE` (snapshot) | 16 KiB |
//! | `QUICK_BYTES` (shard/request), `INLINE` (shard/locate) | 64 KiB, 256 KiB |
//! | `MOST`, `MOST_BYTES` (shard/waiting) | 4,096 commands, 64 MiB |
//! | `BUFFERED_LINGER` (supervisor/leader) | 10 ms |
//! | `LED` (supervisor/leader) | 64 KiB |
//! | `IDLE`, `TICK`, `SIDECARS` (supervisor) | 300, 100, 900 ms |
//! | `PERIOD` (supervisor/publisher) | 1 s between two looks for others |
//! | `Lengths` (wal: journal/segment) | 1 MiB, fourfold up to 64 MiB; less if there is little space |
//! | `STEP`, `PAUSE`, `AT_LEISURE` (wal: journal/segment) | 128 KiB of zeros, 300 us, 16 MiB |
//! | `PART`, `SEGMENTS`, `SMALLEST` (wal: journal/budget) | an eighth of the space, 8 segments, 64 KiB |
//! | `RESERVE` (wal: journal/committer) | 4 KiB of each segment, for checkpoints |
//! | `SPARE_SEGMENTS` (wal: journal/pool) | 8 of the largest (512 MiB) |
//! | `MAX_TAIL`, `ROUNDS` (shard/verbs/compact) | 256 KiB, 8 rounds |
//! | `DEAD_SLACK` (shard/session) | 4 MiB |
//! | `STEP`, `LONGEST` (disk/files/lines) | 4 MiB, 64 MiB |
//! | steps of a rewrite (shard/steps) | 16 KiB if syncs take 60 µs, 256 KiB from 1 ms on |
//! | `KEPT`, `LARGEST` (wal: emptied) | 32 buffers of each thread that writes, 2 KiB each |
//! | `KEPT` (shard/inflight) | 4,096 changes |
//! | `TRIES` (view/moment, wal: journal/scan), `CHASES` (view) | 20 looks, 1,000 reads |
//! | `END`, `SLACK` (disk/copies) | 4 KiB, 64 KiB |
//! | `BACKGROUND` (supervisor/background) | 3 threads |
//! | `PAUSE` (wal: seldom) | 10 s between two complaints of one kind |
//!
//! No constant bounds the catalog (an entry per session of the directory), a shard's state of each
//! session used since the open (an entry per control record, if its conversation was asked for),
//! and the list of backups.

pub(crate) mod archive;
pub(crate) mod catalog;
pub(crate) mod feed;
pub(crate) mod glance;
pub(crate) mod home;
pub(crate) mod kept;
pub(crate) mod numbering;
pub(crate) mod open;
pub(crate) mod options;
pub(crate) mod outline;
pub(crate) mod pages;
pub(crate) mod published;
pub(crate) mod reader;
pub(crate) mod recovery;
pub(crate) mod search;
pub(crate) mod shard;
pub(crate) mod snapshot;
pub(crate) mod stats;
pub(crate) mod status;
pub(crate) mod supervisor;
pub(crate) mod view;
pub(crate) mod window;

use std::sync::{Arc, Weak};
use std::task::{Context, Poll};

use sessionlog_core::error::{Error, Result};
use sessionlog_wal::journal::pool::SegmentPool;
use sessionlog_wal::mailbox::{EventSender, QueueRefusal, QueueTicket};
use sessionlog_wal::sync::atomic::{AtomicBool, Ordering};
use sessionlog_wal::sync::slot::{Slot, slot};
use sessionlog_wal::sync::wake::Runtime;

use crate::Durability;
use crate::engine::shard::answer::Answer;
use crate::engine::shard::inbox::{Inbox, Item};
use crate::engine::shard::number::shard_of;
use crate::engine::shard::request::Command;
use crate::engine::shard::shared::SharedState;
use crate::engine::shard::worker::ready::Ready;
use crate::engine::supervisor::SupervisorRequest;
use crate::engine::supervisor::leader::{Lead, Leader};

/// The handles' access to the shards.
pub(crate) struct Engine {
    pub(crate) shared: Arc<SharedState>,
    /// One for each shard.
    pub(crate) inboxes: Arc<[Inbox]>,
    ready: Arc<Ready>,
    leader: Arc<Leader>,
    runtime: Runtime,
    /// The work that a task may do for the journal while it is polled.
    poll_lead: Lead,
    supervise: EventSender<SupervisorRequest>,
    /// The threads' own: a handle that outlives them keeps no segment open.
    pool: Weak<SegmentPool>,
    /// Carries no other data: everything that comes with a close is passed on by inboxes and locks.
    closed: AtomicBool,
}

/// Without the sessions: this ends up in logs, and would hold up other readers.
impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine")
            .field("dir", &self.shared.dir)
            .field("closed", &self.is_closed())
            .finish_non_exhaustive()
    }
}

impl Engine {
    /// Submits a command, and blocks this thread while the inbox is full.
    ///
    /// # Errors
    /// If the store takes no more commands.
    pub(crate) fn submit(&self, command: Command) -> Result<()> {
        let shard = shard_of(&command.key);
        let item = Item::Command(command);
        self.push(shard, item, b"").map(drop)
    }

    /// Queues an item for a shard with its bytes, and blocks this thread while there is no room.
    ///
    /// # Errors
    /// If the store takes no more commands.
    pub(crate) fn push(&self, shard: usize, item: Item, bytes: &[u8]) -> Result<QueueTicket> {
        let pushed = self.inboxes[shard].queue.push(&mut Some(item), bytes);
        let asked = pushed.map_err(|_| self.failure())?;
        self.told_of(shard, &asked, Lead::Sync);
        Ok(asked)
    }

    /// Submits the command in `command`, if one is left; the task is woken when the inbox has room
    /// again.
    ///
    /// # Errors
    /// If the store takes no more commands.
    pub(crate) fn poll_submit(
        &self,
        cx: &mut Context<'_>,
        command: &mut Option<Command>,
    ) -> Poll<Result<()>> {
        let Some(submitted) = command.take() else {
            return Poll::Ready(Ok(()));
        };
        let shard = shard_of(&submitted.key);
        let mut item = Some(Item::Command(submitted));
        let pushed = self.poll_push(cx, shard, (&mut item, b""), self.poll_lead);
        if let Some(Item::Command(left)) = item {
            *command = Some(left);
        }
        pushed.map_ok(drop)
    }

    /// Queues the item in `item` with its bytes; the task is woken when it is answered, or when
    /// there may be room.
    ///
    /// # Errors
    /// If the store takes no more commands.
    pub(crate) fn poll_push(
        &self,
        cx: &mut Context<'_>,
        shard: usize,
        (item, bytes): (&mut Option<Item>, &[u8]),
        lead: Lead,
    ) -> Poll<Result<QueueTicket>> {
        self.runtime.remember_current();
        // A command answers by itself.
        let waits = matches!(item, Some(Item::Append(_)));
        let queue = &self.inboxes[shard].queue;
        match queue.poll_push(item, bytes, cx, waits) {
            Ok(asked) => {
                self.told_of(shard, &asked, lead);
                Poll::Ready(Ok(asked))
            }
            Err(QueueRefusal::Full) => Poll::Pending,
            Err(QueueRefusal::Closed) => Poll::Ready(Err(self.failure())),
        }
    }

    /// Returns the work that an appending task may do for the journal.
    pub(crate) fn append_lead(&self, level: Durability) -> Lead {
        match (level, self.poll_lead) {
            (Durability::Durable, Lead::Write) => Lead::Nothing,
            (_, lead) => lead,
        }
    }

    /// Has the leader look, or leads, if this shard has no look coming yet.
    fn told_of(&self, shard: usize, asked: &QueueTicket, lead: Lead) {
        if asked.first && self.ready.ring(shard) {
            self.leader.attend(lead);
        }
    }

    /// Returns the reason that a command was not answered.
    pub(crate) fn failure(&self) -> Error {
        match self.ready.poisoned() {
            Some(reason) => Error::Poisoned { reason },
            None => Error::Closed,
        }
    }

    /// True if the store was closed.
    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Relaxed)
    }

    /// Sends the supervisor a request and waits for the answer.
    pub(crate) fn ask(&self, request: impl FnOnce(Answer<()>) -> SupervisorRequest) -> Result<()> {
        let slot = self.request(request)?;
        slot.wait().unwrap_or_else(|| Err(self.failure()))
    }

    /// Sends the supervisor a request; the answer arrives in the slot.
    pub(crate) fn request(
        &self,
        request: impl FnOnce(Answer<()>) -> SupervisorRequest,
    ) -> Result<Slot<Result<()>>> {
        let (promise, slot) = slot();
        if self.supervise.send(request(promise)) {
            Ok(slot)
        } else {
            Err(self.failure())
        }
    }

    /// Refuses every later call, carries out the accepted ones, and ends.
    pub(crate) fn stop(&self) -> Result<()> {
        self.refuse_calls();
        self.ask(SupervisorRequest::Stop)
    }

    /// Refuses every later call.
    pub(crate) fn refuse_calls(&self) {
        self.closed.store(true, Ordering::Relaxed);
    }
}
