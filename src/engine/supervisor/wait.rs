//! The supervisor's waiting.

use sessionlog_wal::mailbox::EventReceiver;
use sessionlog_wal::sync::slot::Slot;

/// The supervisor's way of waiting for the other threads: the real one sleeps, a simulation lets
/// the others run.
pub(crate) trait Wait {
    /// Returns the answer that `slot` is for; `None` if it will never come.
    fn answer<T>(&mut self, slot: Slot<T>) -> Option<T>;

    /// Returns the next event; `None` once no sender is left.
    fn event<T>(&mut self, events: &EventReceiver<T>) -> Option<T>;
}

#[derive(Debug)]
pub(crate) struct Asleep;

impl Wait for Asleep {
    fn answer<T>(&mut self, slot: Slot<T>) -> Option<T> {
        slot.wait()
    }

    fn event<T>(&mut self, events: &EventReceiver<T>) -> Option<T> {
        events.recv()
    }
}
