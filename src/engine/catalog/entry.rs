//! A session, as everybody finds it.

use std::sync::Arc;

use crate::engine::snapshot::View;
use crate::ground::sync::Published;
use crate::ground::sync::atomic::{AtomicBool, Ordering};

/// A session that has files, or is about to.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) key: Arc<str>,
    /// Its file name without extension.
    pub(crate) stem: Arc<str>,
    /// Whether it has a sidecar, and so appears in a listing.
    pub(crate) listed: AtomicBool,
    /// Whether anything of it is to be read. Entered and refused its first
    /// write, it must not stand before an alias of that name.
    pub(super) exists: AtomicBool,
    /// Where it stands in the table, if it was found at open and not used before.
    pub(super) row: Option<u32>,
    pub(crate) view: Published<View>,
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
            view: Published::new(Arc::new(View::Cold)),
        })
    }

    /// It has been written to, and has a sidecar, or will have one.
    pub(crate) fn mark_listed(&self) {
        if !self.listed.load(Ordering::Relaxed) {
            // In this order: whoever finds it listed must find it.
            self.exists.store(true, Ordering::Relaxed);
            self.listed.store(true, Ordering::Release);
        }
    }
}
