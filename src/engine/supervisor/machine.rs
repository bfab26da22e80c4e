//! The parts that run a store, before any thread does.

use std::sync::Arc;

use sessionlog_wal::mailbox::EventReceiver;

use super::event_loop::Loop;
use super::leader::Leader;
use crate::engine::shard::job::Job;
use crate::engine::shard::shared::SharedState;
use crate::engine::shard::worker::alarm::Alarm;
use crate::engine::shard::worker::driver::Driver;

/// All parts that run a store: on threads, or stepped one by one.
#[derive(Debug)]
pub(crate) struct Machine {
    pub(crate) worker: Driver,
    pub(crate) leader: Arc<Leader>,
    pub(crate) supervisor: Loop,
    /// The jobs for the background threads.
    pub(crate) jobs: EventReceiver<Job>,
    pub(crate) shared: Arc<SharedState>,
    pub(crate) alarm: Alarm,
}
