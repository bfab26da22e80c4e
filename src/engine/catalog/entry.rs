//! A session, as all callers find it.

use std::sync::Arc;

use sessionlog_wal::sync::PublishedValue;
use sessionlog_wal::sync::atomic::{AtomicBool, Ordering};

use crate::engine::snapshot::View;

/// A session that has files, or is about to.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) key: Arc<str>,
    /// Its file name without extension.
    pub(crate) stem: Arc<str>,
    /// True if it has a sidecar, and so appears in a listing.
    pub(crate) listed: AtomicBool,
    /// True if anything of it can be read. A session that was entered and had its first write
    /// refused must not hide an alias of that name.
    pub(super) exists: AtomicBool,
    /// Its row in the table, if it was found at open and not used before.
    pub(super) row: Option<u32>,
    pub(crate) view: PublishedValue<View>,
}

impl Entry {
    pub(super) fn new(
        key: Arc<str>,
        stem: Arc<str>,
        listed: bool,
        exists: bool,
        row: Option<u32>,
    ) -> Arc<Self> {
        Arc::new(Self {
            key,
            stem,
            listed: AtomicBool::new(listed),
            exists: AtomicBool::new(exists),
            row,
            view: PublishedValue::new(Arc::new(View::Cold)),
        })
    }

    /// Notes that it has been written to, and has a sidecar, or will have one.
    pub(crate) fn mark_listed(&self) {
        if !self.listed.load(Ordering::Relaxed) {
            // In this order: a caller that finds it listed must find that it exists.
            self.exists.store(true, Ordering::Relaxed);
            self.listed.store(true, Ordering::Release);
        }
    }
}
