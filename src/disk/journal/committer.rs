//! The committer: turns what all shards queued into one write and one sync.

use std::sync::{Arc, atomic};
use std::{io, mem};

use super::counters::Counters;
use super::cursor::{Cursor, RESERVE, Route};
use super::group::{Batch, GroupCommit};
use super::pool::SegmentPool;
use super::progress::Progress;
use super::record::{self, Commit, Record};
use super::segment::HEADER;
use super::syncing::Syncing;
use super::tickets::{MAX_BATCH, signal_each, split};
use crate::error::{Error, Result};
use crate::ground::sync::atomic::Ordering;

/// What a producer queued: whose it is, and which of its batches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ticket {
    /// The producer to tell.
    pub(crate) producer: usize,
    /// The producer's own number, counting up by one.
    pub(crate) number: u64,
    /// Refusals that the producer has seen. Records staged before it
    /// saw one build on records that were never written.
    pub(crate) refusals: u64,
    /// Bytes of its records in the batch.
    pub(crate) len: usize,
    /// How many changes they are.
    pub(crate) records: usize,
    /// Whether one of them frees space once it holds.
    pub(crate) frees: bool,
}

impl Ticket {
    /// The group commit of a store.
    pub(crate) fn group() -> Arc<GroupCommit<Self>> {
        Arc::new(GroupCommit::counting(|ticket: &Self| ticket.records))
    }
}

/// What became of a producer's tickets: of all up to `number`, except that a
/// refusal speaks of all from `number` on.
#[derive(Debug, Clone)]
pub(crate) struct Signal {
    pub(crate) producer: usize,
    pub(crate) number: u64,
    pub(crate) outcome: Outcome,
}

/// What became of a ticket.
#[derive(Debug, Clone)]
pub(crate) enum Outcome {
    /// With the operating system: survives the death of the process.
    Written,
    /// On disk: survives power loss.
    Synced,
    /// Not written, from this number on: nothing staged on top of it will be.
    Refused(Error),
    /// Nothing is known; the store must be reopened.
    Poisoned(Arc<str>),
}

/// The single writer of the journal.
#[derive(Debug)]
pub(crate) struct Committer {
    pool: Arc<SegmentPool>,
    cursor: Cursor,
    /// The last batch written.
    sequence: u64,
    progress: Arc<Progress>,
    /// Written, not yet synced.
    unsynced: Vec<Ticket>,
    /// A [sync](Self::begin_sync) is under way.
    syncs: bool,
    /// Per producer, how many refusals a ticket must know of.
    refusals: Vec<u64>,
    counters: Arc<Counters>,
}

impl Committer {
    /// Continues after batch `sequence` in a fresh segment.
    ///
    /// # Errors
    /// If the first segment cannot be made.
    pub(crate) fn new(
        pool: Arc<SegmentPool>,
        sequence: u64,
        producers: usize,
        progress: Arc<Progress>,
        counters: Arc<Counters>,
    ) -> Result<Self> {
        let segment = pool.next(0, true)?;
        progress.written.store(sequence, Ordering::Relaxed);
        progress.synced.store(sequence, Ordering::Relaxed);
        Ok(Self {
            pool,
            cursor: Cursor::new(segment),
            sequence,
            progress,
            unsynced: Vec::new(),
            syncs: false,
            refusals: vec![0; producers],
            counters,
        })
    }

    /// Writes one batch and, if a ticket asks for it, syncs.
    ///
    /// # Errors
    /// An error poisons the store: nothing is known of the batch any more. A
    /// full disk is no error, nor is a lack of descriptors; the tickets are refused.
    pub(crate) fn commit(
        &mut self,
        batch: &mut Batch<Ticket>,
        tell: &mut dyn FnMut(Signal),
    ) -> Result<()> {
        self.drop_refused(batch);
        while batch.bytes.len() > MAX_BATCH && batch.tickets.len() > 1 {
            let mut part = split(batch);
            self.commit_part(&mut part, tell)?;
        }
        self.commit_part(batch, tell)
    }

    fn commit_part(
        &mut self,
        batch: &mut Batch<Ticket>,
        tell: &mut dyn FnMut(Signal),
    ) -> Result<()> {
        self.drop_refused(batch);
        if batch.tickets.is_empty() {
            return Ok(());
        }
        match self.write(batch) {
            Ok(()) => self.accepted(batch),
            Err(passing) if passing.may_pass() => {
                let mut own = self.take_own(batch);
                self.refuse(&batch.tickets, &passing, tell);
                if batch.tickets.is_empty() {
                    self.refuse(&own.tickets, &passing, tell);
                    return Ok(());
                }
                return self.commit_part(&mut own, tell);
            }
            Err(other) => return Err(other),
        }
        if !batch.durable {
            signal_each(&batch.tickets, &Outcome::Written, tell);
        }
        self.unsynced.append(&mut batch.tickets);
        if batch.durable {
            return self.sync(tell);
        }
        Ok(())
    }

    /// Of the supervisor's records, for which room is kept, nobody learns that there is
    /// some.
    fn accepted(&self, batch: &Batch<Ticket>) {
        if batch.tickets.iter().any(|ticket| !self.is_own(ticket)) {
            self.counters.refuses.store(false, Ordering::Relaxed);
        }
    }

    /// Whether a batch of so many bytes goes into the present segment.
    pub(crate) fn has_room(&self, len: usize) -> bool {
        let len = (len + record::COMMIT_LEN) as u64 + self.cursor.reserve();
        self.cursor.takes(len) && !self.is_outdated()
    }

    fn is_outdated(&self) -> bool {
        self.pool.is_outdated(self.segment_number())
    }

    /// Which segment takes the next batch.
    pub(crate) fn segment_number(&self) -> u64 {
        self.cursor.segment().number
    }

    /// Whether a written batch waits for a sync.
    pub(crate) fn has_unsynced(&self) -> bool {
        !self.unsynced.is_empty()
    }

    /// Syncs what was written, if anything was. One sync covers every batch before it.
    ///
    /// # Errors
    /// A failed sync poisons the store; it is never tried again, for the page
    /// cache may then show bytes the disk does not have.
    pub(crate) fn sync(&mut self, tell: &mut dyn FnMut(Signal)) -> Result<()> {
        let Some(syncing) = self.begin_sync() else {
            return Ok(());
        };
        let synced = syncing.run();
        self.end_sync(&syncing, synced, tell)
    }

    /// Begins a sync of what was written, if anything was. Until it is ended, only what is
    /// not synced with its own batch, and fits into the segment, may be committed.
    pub(crate) fn begin_sync(&mut self) -> Option<Syncing> {
        self.syncs = self.has_unsynced();
        self.syncs.then(|| Syncing {
            file: self.cursor.file(),
            tickets: mem::take(&mut self.unsynced),
            sequence: self.sequence,
            began: self.counters.now(),
        })
    }

    /// Says what came of a sync that ran.
    ///
    /// # Errors
    /// As [`sync`](Self::sync).
    pub(crate) fn end_sync(
        &mut self,
        syncing: &Syncing,
        synced: io::Result<()>,
        tell: &mut dyn FnMut(Signal),
    ) -> Result<()> {
        self.syncs = false;
        synced.map_err(|e| Error::io("sync journal", self.pool.dir(), e))?;
        self.counters.synced(syncing.began);
        signal_each(&syncing.tickets, &Outcome::Synced, tell);
        let synced = &self.progress.synced;
        synced.store(syncing.sequence, Ordering::Release);
        Ok(())
    }

    /// Tells everyone still waiting that the store is poisoned.
    pub(crate) fn fail(&mut self, reason: &Arc<str>, tell: &mut dyn FnMut(Signal)) {
        let outcome = Outcome::Poisoned(reason.clone());
        for producer in 0..self.refusals.len() {
            tell(Signal {
                producer,
                number: u64::MAX,
                outcome: outcome.clone(),
            });
        }
        self.unsynced.clear();
    }

    /// Ends the journal after a clean checkpoint: nothing is left to recover.
    ///
    /// # Errors
    /// What stays on disk is skipped by the next open.
    pub(crate) fn finish(self) -> Result<()> {
        self.pool.remove_all(self.cursor.segment())
    }

    fn write(&mut self, batch: &mut Batch<Ticket>) -> Result<()> {
        let own = batch.tickets.iter().all(|ticket| self.is_own(ticket));
        let reserve = if own { 0 } else { self.cursor.reserve() };
        let changes = batch.tickets.iter().map(|ticket| ticket.records).sum();
        let records = &mut batch.bytes;
        let batch_len = records.len() as u32;
        record::encode(
            records,
            &Record::Commit(Commit {
                sequence: self.sequence + 1,
                batch_len,
                durable: self.progress.synced(),
            }),
        );
        let stays = self.cursor.takes(records.len() as u64 + reserve);
        // Not while the segment is synced: what was written to it could be missing after a
        // power loss when what follows in the next is there.
        if !stays || self.is_outdated() && !self.syncs {
            let frees = batch.tickets.iter().any(|ticket| ticket.frees);
            self.rotate(records.len() as u64, frees)?;
        }
        record::seal(records, self.cursor.segment().seed);
        let is_synced_next = batch.durable && !self.has_unsynced();
        let route = if is_synced_next {
            Route::Disk
        } else {
            Route::Cache
        };
        let was_past = self.cursor.is_past_half();
        self.cursor
            .write(records, route)
            .map_err(|e| Error::io("write journal", self.pool.dir(), e))?;
        if !was_past && self.cursor.is_past_half() {
            self.pool.hurry();
        }
        self.sequence += 1;
        self.progress
            .written
            .store(self.sequence, Ordering::Relaxed);
        self.counters.wrote(changes, records.len());
        Ok(())
    }

    /// Goes on in the next segment. What the old one holds is synced first:
    /// later syncs no longer reach it.
    fn rotate(&mut self, batch_len: u64, frees: bool) -> Result<()> {
        let next = self.pool.next(HEADER as u64 + batch_len + RESERVE, frees)?;
        let began = self.counters.now();
        if self.has_unsynced() {
            // Not `StorageFull`, which may pass: a sync is never tried again.
            self.cursor.file().sync_data().map_err(|e| Error::Io {
                operation: "sync journal",
                path: self.pool.dir().into(),
                source: Arc::new(e),
            })?;
            self.counters.synced(began);
        }
        let full = self.cursor.go_on_in(next);
        self.pool.filled(full, self.sequence);
        Ok(())
    }

    /// The supervisor's, who is the last producer.
    fn is_own(&self, ticket: &Ticket) -> bool {
        ticket.producer + 1 == self.refusals.len()
    }

    /// Takes the supervisor's records out of a batch.
    fn take_own(&self, batch: &mut Batch<Ticket>) -> Batch<Ticket> {
        let mut own = Batch::new();
        own.durable = batch.durable;
        let mut at = 0;
        for ticket in &batch.tickets {
            if self.is_own(ticket) {
                own.bytes.extend(&batch.bytes[at..at + ticket.len]);
            }
            at += ticket.len;
        }
        own.tickets = batch.tickets.extract_if(.., |t| self.is_own(t)).collect();
        own
    }

    fn refuse(&mut self, tickets: &[Ticket], error: &Error, tell: &mut dyn FnMut(Signal)) {
        let refuses = &self.counters.refuses;
        refuses.fetch_or(!tickets.is_empty(), atomic::Ordering::Relaxed);
        for ticket in tickets {
            if self.refusals[ticket.producer] > ticket.refusals {
                continue;
            }
            self.refusals[ticket.producer] = ticket.refusals + 1;
            tell(Signal {
                producer: ticket.producer,
                number: ticket.number,
                outcome: Outcome::Refused(error.clone()),
            });
        }
    }

    /// Leaves out records staged on top of refused ones: their offsets assume
    /// lines that were never written. Their producer has been told, or will
    /// find the refusal before it: it fails everything from there on itself.
    fn drop_refused(&mut self, batch: &mut Batch<Ticket>) {
        let refusals = &self.refusals;
        let stale = |t: &Ticket| t.refusals < refusals[t.producer];
        if !batch.tickets.iter().any(stale) {
            return;
        }
        let (mut bytes, mut at) = (Vec::new(), 0);
        batch.tickets.retain(|ticket| {
            let records = &batch.bytes[at..at + ticket.len];
            at += ticket.len;
            if !stale(ticket) {
                bytes.extend_from_slice(records);
            }
            !stale(ticket)
        });
        batch.bytes = bytes;
    }
}
