//! The calls the engine makes, each one step.

use std::io;
use std::path::Path;
use std::sync::Arc;

use super::MemoryStorage;
use super::faults::{Demand, SyncFault, Verdict};
use super::file::MemoryFile;
use super::trace::Call;
use super::tree::{Tree, USER};
use crate::ground::storage::{DirEntry, FileInfo, LockGuard, OpenMode, Storage, StorageFile};

impl Storage for MemoryStorage {
    fn create_dir(&self, path: &Path) -> io::Result<()> {
        let call = on("create_dir", path);
        self.call(call, Demand::Space, |tree, _| tree.create_dir(path))
    }

    fn read_dir(&self, path: &Path) -> io::Result<Vec<DirEntry>> {
        let call = on("read_dir", path);
        self.call(call, Demand::Nothing, |tree, _| tree.read_dir(path))
    }

    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn StorageFile>> {
        let (name, demand) = match mode {
            OpenMode::Read => ("open for reading", Demand::Nothing),
            OpenMode::ReadWrite => ("open", Demand::Nothing),
            OpenMode::CreateNew => ("create", Demand::Space),
        };
        let call = on(name, path);
        let path_text = Arc::clone(&call.path);
        let (ino, open) = self.call(call, demand, |tree, _| tree.open(path, mode))?;
        Ok(Arc::new(MemoryFile {
            storage: self.clone(),
            ino,
            path: path_text,
            writable: mode != OpenMode::Read,
            _open: open,
        }))
    }

    fn info(&self, path: &Path) -> io::Result<FileInfo> {
        let call = on("info", path);
        self.call(call, Demand::Nothing, |tree, _| {
            tree.info(tree.lookup(path)?)
        })
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut call = on("rename", from);
        call.path = format!("{} -> {}", from.display(), to.display()).into();
        self.call(call, Demand::Space, |tree, _| tree.rename(from, to))
    }

    fn link(&self, file: &Path, name: &Path) -> io::Result<()> {
        let mut call = on("link", file);
        call.path = format!("{} -> {}", file.display(), name.display()).into();
        self.call(call, Demand::Space, |tree, _| tree.link(file, name))
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        let call = on("remove_file", path);
        self.call(call, Demand::Nothing, |tree, _| tree.remove_file(path))
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        let call = on("sync_dir", path);
        self.sync(call, |tree, fault| tree.sync_dir(path, fault))
    }

    fn sync_all(&self, path: &Path) -> io::Result<()> {
        let call = on("sync_all", path);
        self.sync(call, |tree, fault| tree.sync_all(path, fault))
    }

    fn try_lock(&self, path: &Path, note: &str) -> io::Result<Option<Box<dyn LockGuard>>> {
        let call = on("try_lock", path);
        let held = self.call(call, Demand::Space, |tree, _| tree.lock(path, note))?;
        Ok(held.map(|held| Box::new(MemoryLock { _held: held }) as Box<dyn LockGuard>))
    }

    fn try_lock_dir(&self, path: &Path) -> io::Result<Option<Box<dyn LockGuard>>> {
        let call = on("try_lock_dir", path);
        let held = self.call(call, Demand::Nothing, |tree, _| tree.lock_dir(path))?;
        Ok(held.map(|held| Box::new(MemoryLock { _held: held }) as Box<dyn LockGuard>))
    }

    fn current_user(&self) -> u32 {
        USER
    }

    fn open_file_limit(&self) -> usize {
        self.machine.lock().open_file_limit
    }
}

impl MemoryStorage {
    /// Makes one call. `run` is told whether it is to be done by half.
    pub(super) fn call<T>(
        &self,
        call: Call,
        demand: Demand,
        run: impl FnOnce(&mut Tree, bool) -> io::Result<T>,
    ) -> io::Result<T> {
        let machine = &mut *self.machine.lock();
        let step = machine.faults.steps();
        let result = match machine.faults.judge(demand) {
            Verdict::Whole => run(&mut machine.tree, false),
            Verdict::Half => run(&mut machine.tree, true),
            Verdict::Failed(e) | Verdict::Off(e) => Err(e),
        };
        machine.trace.record(step, call, &result);
        result
    }

    /// Makes one sync. `run` is told what it is to leave if it is to fail.
    pub(super) fn sync(
        &self,
        call: Call,
        run: impl FnOnce(&mut Tree, Option<SyncFault>) -> io::Result<()>,
    ) -> io::Result<()> {
        let machine = &mut *self.machine.lock();
        let step = machine.faults.steps();
        let result = match machine.faults.judge(Demand::Space) {
            Verdict::Whole | Verdict::Half => run(&mut machine.tree, None),
            Verdict::Failed(e) => run(&mut machine.tree, Some(machine.faults.on_sync)).and(Err(e)),
            Verdict::Off(e) => Err(e),
        };
        machine.trace.record(step, call, &result);
        result
    }
}

/// A held lock; dropping it lets the next one in.
#[derive(Debug)]
struct MemoryLock {
    _held: Arc<()>,
}

impl LockGuard for MemoryLock {}

fn on(name: &'static str, path: &Path) -> Call {
    Call {
        name,
        path: path.to_string_lossy().into(),
        range: 0..0,
    }
}
