//! How the supervisor waits.

use crate::ground::mailbox::EventReceiver;
use crate::ground::sync::slot::Slot;

/// How the supervisor waits for the other threads: its own sleeps, a
/// simulation lets the others run.
pub(crate) trait Wait {
    /// The answer that `slot` is for; `None` if nobody owes it any more.
    fn answer<T>(&mut self, slot: Slot<T>) -> Option<T>;

    /// The next event; `None` once nobody can send one.
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
