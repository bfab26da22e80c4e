//! What runs a store, before anyone does.

use std::sync::Arc;

use super::event_loop::Loop;
use super::journal::Journal;
use super::journal_seat::JournalSeat;
use crate::engine::shard::job::Job;
use crate::engine::shard::shared::Shared;
use crate::engine::shard::worker::alarm::Alarm;
use crate::engine::shard::worker::driver::Driver;
use crate::ground::mailbox::EventReceiver;

/// Everything that runs a store: on threads, or stepped one by one.
#[derive(Debug)]
pub(crate) struct Machine {
    pub(crate) workers: Vec<Driver>,
    pub(crate) journal: Journal,
    /// Where the committer's thread puts it.
    pub(crate) journal_seat: Arc<JournalSeat>,
    pub(crate) supervisor: Loop,
    /// What the background threads take.
    pub(crate) jobs: EventReceiver<Job>,
    pub(crate) shared: Arc<Shared>,
    pub(crate) alarm: Alarm,
}
