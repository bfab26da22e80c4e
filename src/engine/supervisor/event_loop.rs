//! The supervisor's thread: carries out requests and work that is due.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use sessionlog_core::error::{Error, Result};
use sessionlog_wal::mailbox::{EventReceiver, EventSender, Timeout};
use sessionlog_wal::sync::atomic::{AtomicBool, Ordering};
use sessionlog_wal::sync::slot::slot;
use sessionlog_wal::sync::wake::wake;

use super::background::BACKGROUND;
use super::publisher::Publisher;
use super::wait::{Asleep, Wait};
use super::{Due, Supervisor, SupervisorRequest, TICK};
use crate::engine::shard::job::Job;
use crate::engine::shard::worker::alarm::Alarm;
use crate::engine::shard::worker::event::Event;

/// The supervisor's thread.
#[derive(Debug)]
pub(crate) struct Loop {
    pub(crate) supervisor: Supervisor,
    pub(crate) requests: EventReceiver<SupervisorRequest>,
    pub(crate) background: EventSender<Job>,
    pub(crate) alarm: Alarm,
    pub(crate) ended_cleanly: Arc<AtomicBool>,
    /// True if something was written that no flush covers yet.
    pub(crate) busy: bool,
    pub(crate) publisher: Publisher,
}

impl Loop {
    pub(crate) fn run(mut self) {
        self.publisher.turn(false);
        loop {
            let request = self.next();
            let last = matches!(request, Timeout::Item(SupervisorRequest::Stop(_)));
            let happened = self.busy || matches!(request, Timeout::Item(_));
            let turn = AssertUnwindSafe(|| self.turn(request, &mut Asleep));
            match catch_unwind(turn) {
                Ok(true) => self.publisher.turn(happened),
                Ok(false) => return,
                Err(_) => {
                    self.alarm.raise(&"the supervisor panicked".into());
                    self.busy = false;
                    if last {
                        self.publisher.end();
                        return self.end();
                    }
                }
            }
        }
    }

    /// Returns the next request, or that it is time to look: an idle store is looked at once more,
    /// for the readers of its statistics.
    fn next(&self) -> Timeout<SupervisorRequest> {
        if self.busy {
            return self.requests.recv_timeout(TICK);
        }
        if let Some(left) = self.publisher.left() {
            return self.requests.recv_timeout(left);
        }
        match self.requests.recv() {
            Some(request) => Timeout::Item(request),
            None => Timeout::Disconnected,
        }
    }

    /// Does the requested or due work. Returns `false` once the store has ended.
    pub(crate) fn turn(
        &mut self,
        request: Timeout<SupervisorRequest>,
        wait: &mut impl Wait,
    ) -> bool {
        match request {
            Timeout::Item(SupervisorRequest::Active) => {
                self.busy = true;
                self.supervisor.went_active();
            }
            Timeout::Item(SupervisorRequest::SegmentFull) => {
                if self.supervisor.journal_is_long() {
                    self.flush_quietly(wait);
                }
            }
            Timeout::Item(SupervisorRequest::Flush(promise)) => {
                let result = self.flush(wait);
                self.busy |= result.is_err();
                wake_one(promise.fulfil(result));
            }
            Timeout::Item(SupervisorRequest::Purge(promise)) => {
                let result = self.purge(wait);
                self.busy |= result.is_err();
                wake_one(promise.fulfil(result));
            }
            Timeout::Item(SupervisorRequest::Stop(promise)) => {
                let result = self.stop(wait);
                wake_one(promise.fulfil(result));
                return false;
            }
            Timeout::Item(SupervisorRequest::Failed) => {}
            Timeout::TimedOut if !self.busy => {}
            Timeout::TimedOut => match self.tick() {
                Due::Idle => self.busy = !self.flush_quietly(wait),
                Due::Busy => {
                    self.flush_quietly(wait);
                }
                Due::Nothing => {}
            },
            Timeout::Disconnected => return false,
        }
        true
    }

    fn tick(&mut self) -> Due {
        self.publisher.sample();
        self.supervisor.tick()
    }

    fn flush_quietly(&mut self, wait: &mut impl Wait) -> bool {
        match self.flush(wait) {
            Ok(()) => true,
            Err(error) => {
                self.supervisor
                    .warn(&error, "flush failed; the journal is kept");
                // A poisoned store has nothing left to flush.
                matches!(error, Error::Poisoned { .. })
            }
        }
    }

    pub(super) fn flush(&mut self, wait: &mut impl Wait) -> Result<()> {
        let _flushing = tracing::debug_span!("flush").entered();
        let shared = self.supervisor.shared.clone();
        let began = shared.clock.monotonic();
        let flushed = self.flush_all(wait);
        let took = shared.clock.monotonic().saturating_sub(began);
        match &flushed {
            Ok(()) => {
                shared.counters.flush_nanos.record_time(took);
                tracing::debug!(?took, "flushed");
            }
            Err(_) => shared.counters.flushes_failed.add(1),
        }
        flushed
    }

    fn flush_all(&mut self, wait: &mut impl Wait) -> Result<()> {
        let upto = self.flush_files(wait)?;
        self.checkpoint(upto, false, wait)?;
        self.supervisor.retire(upto)
    }

    /// Brings all files up to date. If there is no space for that, the journal gives up its spares:
    /// the lines in full segments would otherwise wait for it for ever.
    fn flush_files(&mut self, wait: &mut impl Wait) -> Result<u64> {
        match self.try_flush_files(wait) {
            Err(Error::StorageFull { .. }) if self.supervisor.give_way()? => {
                self.try_flush_files(wait)
            }
            other => other,
        }
    }

    fn try_flush_files(&mut self, wait: &mut impl Wait) -> Result<u64> {
        self.supervisor.sync_journal(wait)?;
        let flush = self.supervisor.begin();
        let part = wait.answer(flush.slot).ok_or_else(|| self.failure())?;
        self.supervisor.sync(part)?;
        Ok(flush.upto)
    }

    fn checkpoint(&mut self, upto: u64, clean: bool, wait: &mut impl Wait) -> Result<()> {
        self.supervisor.submit_checkpoint(upto, clean)?;
        self.supervisor.await_synced(wait)
    }

    /// Stops everything in order: no more commands; accepted ones carried out; files and sidecars
    /// synced; the journal's end; then the threads.
    fn stop(&mut self, wait: &mut impl Wait) -> Result<()> {
        let result = self.finish(wait);
        if result.is_ok() {
            self.supervisor.shared.keep_catalog();
        }
        self.publisher.end();
        // Before the leader is told to end: the leader's lock carries the value there.
        self.ended_cleanly.store(result.is_ok(), Ordering::Relaxed);
        self.end();
        result
    }

    /// Ends the other threads. They end only when they are told to, and closing waits for them:
    /// this must not be left out, whatever went wrong.
    pub(crate) fn end(&self) {
        end(&self.alarm, &self.background);
    }

    fn finish(&mut self, wait: &mut impl Wait) -> Result<()> {
        let (promise, slot) = slot();
        self.alarm.worker.send(Event::Drain(promise));
        wait.answer(slot).ok_or_else(|| self.failure())?;
        if let Some(reason) = self.alarm.ready.poisoned() {
            return Err(Error::Poisoned { reason });
        }
        let upto = self.flush_files(wait)?;
        self.supervisor.clear_gone()?;
        // While the journal is there: a reader that looks after it is gone must see another number.
        let shared = &self.supervisor.shared;
        shared.life.mark(&*shared.storage);
        self.checkpoint(upto, true, wait)
    }

    fn failure(&self) -> Error {
        match self.alarm.ready.poisoned() {
            Some(reason) => Error::Poisoned { reason },
            None => Error::Closed,
        }
    }
}

/// Ends every thread but the supervisor's.
pub(super) fn end(alarm: &Alarm, background: &EventSender<Job>) {
    alarm.ready.close();
    alarm.worker.send(Event::Exit);
    for _ in 0..BACKGROUND {
        background.send(Job::Stop);
    }
}

fn wake_one(waker: Option<std::task::Waker>) {
    if let Some(waker) = waker {
        wake(waker);
    }
}
