//! Write-back that fails in the background, and who is told of it.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::io::Errno;

use super::faults::SyncFault;
use super::tree::{Tree, What};

/// The failures to write one file back, or any of the file system, counted as Linux
/// counts them: those that nobody was told of yet count as one.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Errors {
    count: u64,
    is_told: bool,
}

/// What a descriptor was told of, or need not be.
#[derive(Debug)]
pub(super) struct Known(AtomicU64);

impl Known {
    /// For a descriptor that was opened when this one was.
    pub(super) fn of_another(&self) -> Self {
        Self(AtomicU64::new(self.0.load(Ordering::Relaxed)))
    }
}

impl Errors {
    fn add(&mut self) {
        if self.is_told || self.count == 0 {
            self.count += 1;
            self.is_told = false;
        }
    }

    /// The same, of which somebody was told.
    pub(super) fn told(self) -> Self {
        Self {
            is_told: true,
            ..self
        }
    }

    /// What a descriptor takes for known that is opened now: what somebody was told
    /// of. What nobody was, it will be.
    pub(super) fn known(&self) -> Known {
        Known(AtomicU64::new(if self.is_told { self.count } else { 0 }))
    }

    /// Tells a descriptor what it does not know yet.
    pub(super) fn tell(&mut self, known: &Known) -> io::Result<()> {
        if known.0.swap(self.count, Ordering::Relaxed) == self.count {
            return Ok(());
        }
        self.is_told = true;
        Err(Errno::IO.into())
    }
}

impl Tree {
    /// Whether the disk is owed bytes.
    pub(super) fn owes_bytes(&self) -> bool {
        let mut nodes = self.nodes.values();
        nodes.any(|node| matches!(&node.what, What::File(inode) if inode.owes_bytes()))
    }

    /// Every file that owes bytes is written back, which fails. With `told`, another
    /// program syncs all there is, and is told of it.
    pub(super) fn fail_write_back(&mut self, fault: SyncFault, told: bool) {
        for node in self.nodes.values_mut() {
            if let What::File(inode) = &mut node.what
                && inode.owes_bytes()
            {
                inode.fail_sync(fault);
                node.errors.add();
                node.errors.is_told |= told;
                self.errors.add();
            }
        }
        self.errors.is_told |= told;
    }
}
