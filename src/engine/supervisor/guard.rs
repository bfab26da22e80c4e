//! Makes the end of a thread that panics known.

use crate::engine::shard::worker::alarm::Alarm;

/// Poisons the store when its thread unwinds: callers get an error, not a hang.
#[derive(Debug)]
pub(crate) struct Guard {
    alarm: Alarm,
    reason: &'static str,
    armed: bool,
}

impl Guard {
    pub(crate) fn new(alarm: &Alarm, reason: &'static str) -> Self {
        Self {
            alarm: alarm.clone(),
            reason,
            armed: true,
        }
    }

    pub(crate) fn disarm(mut self) {
        self.armed = false;
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if self.armed {
            self.alarm.raise(&self.reason.into());
        }
    }
}
