//! Until when a worker's thread may sleep.

use std::time::Duration;

use super::{NEVER, Worker};

/// What a worker's thread has to do next.
pub(in crate::engine::shard) enum Rest {
    /// There is work.
    None,
    /// Nothing until an event arrives, or for so long.
    For(Duration),
    /// Nothing until an event arrives.
    UntilTold,
}

impl Worker {
    /// Whether the worker's thread sleeps and must not any more. Answered with
    /// yes once: whoever asks must tell it.
    pub(super) fn rouse(&mut self) -> bool {
        let overslept = self.asleep.is_some_and(|until| self.due() < until);
        if overslept {
            self.asleep = None;
        }
        overslept
    }

    /// What the worker's thread is to do, noting for how long it will sleep. With
    /// `wait` time passes while it sleeps.
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

    /// When there is something to do for the worker's thread. The one measure of
    /// whether it may sleep and of whether it is to be roused: were there two, it
    /// could fall asleep over what nobody rouses it for.
    pub(super) fn due(&self) -> Duration {
        let waiting = self.has_held() || !self.to_pump.is_empty();
        let waiting = waiting && self.may_stage() || !self.deferred.is_empty();
        let busy = waiting || self.flush.is_some() || !self.sidecars.is_empty();
        if busy || self.drained.is_some() && self.is_quiet() {
            return Duration::ZERO;
        }
        match self.unwritten_since {
            None => NEVER,
            Some(_) if self.few_unwritten() || self.much_unwritten() => Duration::ZERO,
            Some(since) => since + self.linger(),
        }
    }
}
