//! The sleep of a worker's thread.

use std::time::Duration;

use super::{NEVER, Worker};

/// The next work of a worker's thread.
pub(in crate::engine::shard) enum Rest {
    /// There is work.
    None,
    /// Nothing until an event arrives, or until this time has passed.
    For(Duration),
    /// Nothing until an event arrives.
    UntilTold,
}

impl Worker {
    /// Returns true if the worker's thread sleeps and must not any more. Says so once: the caller
    /// must then wake it.
    pub(super) fn rouse(&mut self) -> bool {
        let overslept = self.asleep.is_some_and(|until| self.due() < until);
        if overslept {
            self.asleep = None;
        }
        overslept
    }

    /// Returns the next work of the worker's thread, and notes how long it will sleep. With `wait`,
    /// time passes while it sleeps.
    pub(super) fn rest(&mut self, wait: bool) -> Rest {
        let due = self.due();
        let left = due.saturating_sub(self.shared.clock.monotonic());
        let lingers = self.unwritten_since.is_some() && self.stuck.is_none();
        if left.is_zero() || lingers && !wait {
            return Rest::None;
        }
        self.asleep = Some(due);
        if due == NEVER {
            Rest::UntilTold
        } else {
            Rest::For(left)
        }
    }

    /// Returns the time at which the worker's thread has work. Both sleeping and rousing use this
    /// one measure: with two, the thread could fall asleep over work that no caller rouses it for.
    pub(super) fn due(&self) -> Duration {
        let waiting = self.has_held() || !self.to_pump.is_empty();
        let waiting = waiting && self.may_stage() || !self.deferred.is_empty();
        if waiting || self.drained.is_some() && self.is_quiet() {
            return Duration::ZERO;
        }
        self.files_due().max(self.files_rest_until)
    }

    /// Returns the time at which files are to be written.
    fn files_due(&self) -> Duration {
        if self.flush.is_some() || !self.sidecars.is_empty() {
            return Duration::ZERO;
        }
        match self.unwritten_since {
            None => NEVER,
            Some(_) if self.few_unwritten() || self.much_unwritten() => Duration::ZERO,
            Some(since) => since + self.linger(),
        }
    }
}
