//! What runs a store, before anyone does.

use std::sync::Arc;

use super::event_loop::Loop;
use super::leader::Leader;
use crate::engine::shard::job::Job;
use crate::engine::shard::shared::Shared;
use crate::engine::shard::worker::alarm::Alarm;
use crate::engine::shard::worker::driver::Driver;
use crate::ground::mailbox::EventReceiver;

/// Everything that runs a store: on threads, or stepped one by one.
#[derive(Debug)]
pub(crate) struct Machine {
    pub(crate) worker: Driver,
    pub(crate) leader: Arc<Leader>,
    pub(crate) supervisor: Loop,
    /// What the background threads take.
    pub(crate) jobs: EventReceiver<Job>,
    pub(crate) shared: Arc<Shared>,
    pub(crate) alarm: Alarm,
}
