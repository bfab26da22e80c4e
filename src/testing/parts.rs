//! A store without threads: put together as in production, and handed out in parts
//! to whoever steps them.

use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context as Task, Poll, Waker};
use std::time::Duration;

use crate::disk::journal::group::Taken;
use crate::engine::open::{self, Opened, Site};
use crate::engine::shard::worker::limits::Limits;
use crate::engine::supervisor::journal::Journal;
use crate::error::Result;
use crate::front::handle::Side;
use crate::ground::clock::Clock;
use crate::ground::storage::Storage;
use crate::ground::sync::wake::Runtime;
use crate::{StoreHandle, StoreOptions};

/// Where the store is.
pub const DIR: &str = "/sessions";

/// Who carries the commands of a store, and how many may wait.
pub(super) struct Size {
    pub(super) workers: usize,
    pub(super) mailbox: usize,
    /// Whether few commands reach what a worker does at a time.
    pub(super) small_limits: bool,
}

/// Opens a store and says who may use it.
///
/// # Errors
/// As [`Store::open`](crate::Store::open).
pub(super) fn take_apart(
    storage: Arc<dyn Storage>,
    clock: Arc<dyn Clock>,
    options: &StoreOptions,
    size: &Size,
) -> Result<(StoreHandle, Opened)> {
    let opened = open::open(&Site {
        storage,
        clock,
        dir: Path::new(DIR),
        options,
        workers: size.workers,
        mailbox: size.mailbox,
        limits: if size.small_limits {
            Limits::SMALL
        } else {
            Limits::USUAL
        },
        keep_from: 1,
    })?;
    let handle = StoreHandle::new(Side::Writer(opened.engine.clone()), options);
    Ok((handle, opened))
}

/// A handle that reads the store on `storage` as
/// [`Store::open_read_only`](crate::Store::open_read_only) does.
///
/// # Errors
/// As there.
#[cfg(any(not(sessionlog_loom), feature = "shuttle"))]
pub(super) fn read_only(storage: Arc<dyn Storage>) -> Result<StoreHandle> {
    let view = crate::engine::view::DirectoryView::open(storage, DIR.into())?;
    let side = Side::Reader(Arc::new(view));
    Ok(StoreHandle::new(side, &StoreOptions::new()))
}

/// What has come, if anything has: nobody is woken later.
pub(super) fn now<F: Future>(future: F) -> Option<F::Output> {
    match pin!(future).poll(&mut Task::from_waker(Waker::noop())) {
        Poll::Ready(output) => Some(output),
        Poll::Pending => None,
    }
}

/// Commits what was taken; `false` once the store is poisoned.
pub(super) fn turn(journal: &mut Journal) -> bool {
    let (goes_on, wakers) = journal.turn(Duration::ZERO);
    Runtime::default().wake_all(wakers);
    goes_on
}

/// What is queued for the committer.
pub(super) fn take(journal: &mut Journal) -> Taken {
    journal.alarm.group.take(&mut journal.batch)
}
