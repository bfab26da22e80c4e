//! The events of a worker's thread.

use std::sync::Arc;

use sessionlog_core::error::Error;
use sessionlog_wal::sync::slot::Promise;

use crate::engine::shard::flushed::FlushPart;
use crate::engine::shard::job::{JobResult, Owner};

/// An event for a worker.
#[derive(Debug)]
pub(crate) enum Event {
    /// There is something for the worker's thread to do.
    Ready,
    /// The store stopped writing.
    Poisoned(Arc<str>),
    /// A background job ended.
    Done { owner: Owner, done: JobResult },
    /// The store must stop.
    Fatal(Error),
    /// Bring every session file up to date.
    Flush(Promise<FlushPart>),
    /// Bring the sidecars up to date.
    Sidecars,
    /// Take no more commands; report when all are carried out.
    Drain(Promise<()>),
    /// End.
    Exit,
}
