//! A disk that lies, for tests that cut the power.
//!
//! [`MemoryStorage`] keeps, for every file and directory, what the page cache
//! shows and what the disk has for certain, and the changes in between, any
//! part of which the disk may have too. A test runs the engine on it, stops it
//! at a step, and opens the store again on an [`Image`] of what is left.
//!
//! It is the one model of a disk that crash tests rest on: what it forgives, no
//! test will find.

mod bytes;
mod calls;
mod content;
mod directory;
mod draw;
mod faults;
mod file;
mod foreign;
mod image;
mod inode;
mod names;
mod trace;
mod tree;
mod write_back;

#[cfg(test)]
mod tests;

#[cfg(test)]
pub(super) use draw::Draw;

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;

pub use faults::{Fault, Repeat, SyncFault};
pub use image::Image;

use crate::sync::Mutex;
use faults::Faults;
use trace::Trace;
use tree::{Node, Tree, USER, What};

/// A file system in memory. Clones are handles to the same one.
///
/// Every call of [`Storage`](crate::storage::Storage) and
/// [`StorageFile`](crate::storage::StorageFile) that does I/O is one step, counted from
/// 0; `current_user`, `open_file_limit` and dropping a file or a lock are none.
/// Paths start at an empty root directory, with or without a leading `/`; there
/// are no `..` and no links to follow.
#[derive(Clone)]
pub struct MemoryStorage {
    machine: Arc<Mutex<DiskState>>,
}

/// What all handles share, under one lock.
struct DiskState {
    tree: Tree,
    faults: Faults,
    trace: Trace,
    open_file_limit: usize,
}

impl MemoryStorage {
    /// An empty file system of unlimited size.
    #[must_use]
    pub fn new() -> Self {
        Self::with(DiskState {
            tree: Tree::new(),
            faults: Faults::default(),
            trace: Trace::default(),
            open_file_limit: 1024,
        })
    }

    fn with(machine: DiskState) -> Self {
        Self {
            machine: Arc::new(Mutex::new(machine)),
        }
    }

    /// How many calls there have been, which is the number of the next one.
    #[must_use]
    pub fn steps(&self) -> u64 {
        self.machine.lock().faults.steps()
    }

    /// Cuts the power before the call numbered `step`: it and all later ones
    /// fail with "power is off" (kind `Other`) and change nothing.
    pub fn crash_at(&self, step: u64) {
        self.machine.lock().faults.crash_at(step);
    }

    /// Cuts the power now.
    pub fn crash(&self) {
        let mut machine = self.machine.lock();
        let now = machine.faults.steps();
        machine.faults.crash_at(now);
    }

    /// Makes the call numbered `step` fail, or every one from there on. Faults
    /// add up; if several are due, the one planned first strikes.
    pub fn fail_at(&self, step: u64, fault: Fault, repeat: Repeat) {
        self.machine.lock().faults.plan(step, fault, repeat);
    }

    /// Forgets every planned fault.
    pub fn heal(&self) {
        self.machine.lock().faults.heal();
    }

    /// How many calls a planned fault has struck so far.
    #[must_use]
    pub fn faults_hit(&self) -> u64 {
        self.machine.lock().faults.hits()
    }

    /// Chooses what a sync that a planned fault strikes leaves behind.
    /// [`SyncFault::CleanPageStaleDisk`] unless chosen.
    pub fn on_sync_failure(&self, fault: SyncFault) {
        self.machine.lock().faults.on_sync = fault;
    }

    /// Limits the sizes of all files, removed ones that are still open
    /// included, to so many bytes in total. A write that partly fits is short;
    /// one that does not fit fails with `StorageFull`.
    pub fn capacity(&self, bytes: u64) {
        self.machine.lock().tree.capacity = bytes;
    }

    /// Takes names that differ only in case, or in how a character is composed, for
    /// one, as file systems do on macOS and Windows. A file keeps the spelling that
    /// it was made with.
    pub fn fold_names(&self) {
        self.machine.lock().tree.folds = true;
    }

    /// Sets what [`open_file_limit`](crate::storage::Storage::open_file_limit) says, 1024 unless set. It is not
    /// enforced; [`MemoryStorage::open_files`] tells whether it was kept.
    pub fn set_open_file_limit(&self, files: usize) {
        self.machine.lock().open_file_limit = files;
    }

    /// How many files are open.
    #[must_use]
    pub fn open_files(&self) -> usize {
        let machine = self.machine.lock();
        machine.tree.nodes.values().map(Node::opens).sum()
    }

    /// A file system of its own, powered on, with what a crash at this moment
    /// leaves. Nothing is open or locked in it, no fault is planned and steps
    /// start at 0. Capacity, open file limit and the effect of failing syncs
    /// are the same.
    #[must_use]
    pub fn image(&self, image: Image) -> Self {
        let machine = self.machine.lock();
        Self::with(DiskState {
            tree: machine.tree.after(image),
            faults: machine.faults.after_crash(),
            trace: Trace::default(),
            open_file_limit: machine.open_file_limit,
        })
    }

    /// The last `n` calls, oldest first, at most 512.
    #[must_use]
    pub fn last_calls(&self, n: usize) -> Vec<String> {
        self.machine.lock().trace.last(n)
    }

    /// Every file by its path from the root, without a leading `/`, as readers
    /// see it. No step.
    #[must_use]
    pub fn dump(&self) -> BTreeMap<String, Vec<u8>> {
        self.machine.lock().tree.dump()
    }

    /// Writes a whole file as another program did some time ago: over the old
    /// one or with mode 0644 and the directories it needs, all on the disk
    /// already. No step, and it never fails on demand.
    ///
    /// # Errors
    /// Where a directory has the name, or a file that of a directory.
    pub fn write_foreign(&self, path: impl AsRef<Path>, bytes: &[u8]) -> io::Result<()> {
        let mut machine = self.machine.lock();
        let node = machine.tree.foreign_file(bytes);
        machine.tree.place_foreign(path.as_ref(), node)
    }

    /// Puts a new file in the place of one, or where none was, as a program does
    /// that renames what it wrote over it: who has the old one open keeps that. Else
    /// as [`MemoryStorage::write_foreign`].
    ///
    /// # Errors
    /// Where a directory has the name, or a file that of a directory.
    pub fn replace_foreign(&self, path: impl AsRef<Path>, bytes: &[u8]) -> io::Result<()> {
        let mut machine = self.machine.lock();
        let node = machine.tree.foreign_file(bytes);
        machine.tree.replace_foreign(path.as_ref(), node)
    }

    /// Adds to the end of a file, or makes it, as a program does that opens it to
    /// append and syncs: what others wrote to it is on the disk then, too. Else as
    /// [`MemoryStorage::write_foreign`].
    ///
    /// # Errors
    /// Where a directory has the name, or a file that of a directory.
    pub fn append_foreign(&self, path: impl AsRef<Path>, bytes: &[u8]) -> io::Result<()> {
        let mut machine = self.machine.lock();
        let ino = machine.tree.lookup(path.as_ref()).ok();
        let mut all = ino
            .and_then(|ino| machine.tree.bytes(ino))
            .unwrap_or_default();
        all.extend_from_slice(bytes);
        let node = machine.tree.foreign_file(&all);
        machine.tree.place_foreign(path.as_ref(), node)
    }

    /// Makes a symbolic link, as [`MemoryStorage::write_foreign`] makes a file.
    ///
    /// # Errors
    /// If the name is taken, or a file has that of a directory.
    pub fn link_foreign(&self, path: impl AsRef<Path>) -> io::Result<()> {
        let mut machine = self.machine.lock();
        let node = Node::new(What::Symlink, USER, 0o777);
        machine.tree.place_foreign(path.as_ref(), node)
    }

    /// The bytes of a file as readers see them, `None` if there is none. No
    /// step.
    #[must_use]
    pub fn read_foreign(&self, path: impl AsRef<Path>) -> Option<Vec<u8>> {
        let machine = self.machine.lock();
        let ino = machine.tree.lookup(path.as_ref()).ok()?;
        machine.tree.bytes(ino)
    }

    /// Removes a file as another program did some time ago. No step.
    ///
    /// # Errors
    /// If there is no such file.
    pub fn remove_foreign(&self, path: impl AsRef<Path>) -> io::Result<()> {
        let mut machine = self.machine.lock();
        machine.tree.remove_file(path.as_ref())?;
        machine.tree.settle_name(path.as_ref())
    }

    /// Gives a file or directory another owner and mode. Neither keeps anybody
    /// from anything here; they are what [`info`](crate::storage::Storage::info) says. No step.
    ///
    /// # Errors
    /// If there is nothing of that name.
    pub fn own_foreign(&self, path: impl AsRef<Path>, owner: u32, mode: u32) -> io::Result<()> {
        let mut machine = self.machine.lock();
        let ino = machine.tree.lookup(path.as_ref())?;
        if let Some(node) = machine.tree.nodes.get_mut(&ino) {
            node.owner = owner;
            node.mode = mode;
        }
        Ok(())
    }
}

impl Default for MemoryStorage {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for MemoryStorage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryStorage").finish_non_exhaustive()
    }
}
