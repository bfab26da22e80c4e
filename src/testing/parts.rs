//! A store without threads: put together as in production, and handed out in parts
//! to whoever steps them.

use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context as Task, Poll, Waker};

use sessionlog_core::error::Result;
use sessionlog_wal::clock::Clock;
use sessionlog_wal::storage::Storage;

use crate::engine::open::{self, OpenedStore, Site};
use crate::engine::shard::worker::limits::TurnLimits;
use crate::front::handle::Side;
use crate::{StoreHandle, StoreOptions};

/// Where the store is.
pub const DIR: &str = "/sessions";

/// How many commands may wait, and be taken in.
pub(super) struct Size {
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
) -> Result<(StoreHandle, OpenedStore)> {
    let opened = open::open(&Site {
        storage,
        clock,
        dir: Path::new(DIR),
        options,
        mailbox: size.mailbox,
        limits: if size.small_limits {
            TurnLimits::SMALL
        } else {
            TurnLimits::USUAL
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
