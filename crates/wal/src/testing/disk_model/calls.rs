//! The calls the engine makes, each one step.

use std::io;
use std::path::Path;
use std::sync::Arc;

use super::directory::MemoryDir;
use super::faults::{Demand, SyncFault, Verdict};
use super::file::MemoryFile;
use super::trace::DiskCall;
use super::tree::{Tree, USER};
use super::{DiskState, MemoryStorage};
use crate::storage::{DirEntry, FileInfo, LockGuard, OpenMode, Storage, StorageDir, StorageFile};

impl Storage for MemoryStorage {
    fn create_dir(&self, path: &Path) -> io::Result<()> {
        let call = on("create_dir", path);
        self.call(call, Demand::Space, |tree, _| tree.create_dir(path))
    }

    fn read_dir(&self, path: &Path) -> io::Result<Vec<DirEntry>> {
        let call = on("read_dir", path);
        self.call(call, Demand::Descriptor, |tree, _| tree.read_dir(path))
    }

    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn StorageFile>> {
        let (name, demand) = match mode {
            OpenMode::Read => ("open for reading", Demand::Descriptor),
            OpenMode::ReadWrite => ("open", Demand::Descriptor),
            OpenMode::CreateNew => ("create", Demand::SpaceAndDescriptor),
        };
        let call = on(name, path);
        let path_text = Arc::clone(&call.path);
        let opened = self.call(call, demand, |tree, _| tree.open(path, mode))?;
        Ok(Arc::new(MemoryFile {
            storage: self.clone(),
            ino: opened.ino,
            path: path_text,
            writable: mode != OpenMode::Read,
            at_sectors: false,
            known: opened.known,
            open: opened.open,
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

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        let call = on("remove_dir", path);
        self.call(call, Demand::Nothing, |tree, _| tree.remove_dir(path))
    }

    fn open_dir(&self, path: &Path) -> io::Result<Arc<dyn StorageDir>> {
        let call = on("open_dir", path);
        let path_text = Arc::clone(&call.path);
        let (ino, known) = self.call(call, Demand::Descriptor, |tree, _| tree.open_dir(path))?;
        Ok(Arc::new(MemoryDir {
            storage: self.clone(),
            ino,
            path: path_text,
            known,
        }))
    }

    fn try_lock(&self, path: &Path, note: &str) -> io::Result<Option<Box<dyn LockGuard>>> {
        let call = on("try_lock", path);
        let demand = Demand::SpaceAndDescriptor;
        let held = self.call(call, demand, |tree, _| tree.lock(path, note))?;
        Ok(held.map(|held| Box::new(MemoryLock { _held: held }) as Box<dyn LockGuard>))
    }

    fn try_lock_dir(&self, path: &Path) -> io::Result<Option<Box<dyn LockGuard>>> {
        let call = on("try_lock_dir", path);
        let held = self.call(call, Demand::Descriptor, |tree, _| tree.lock_dir(path))?;
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
        call: DiskCall,
        demand: Demand,
        run: impl FnOnce(&mut Tree, bool) -> io::Result<T>,
    ) -> io::Result<T> {
        let machine = &mut *self.machine.lock();
        let step = machine.faults.steps();
        let result = match machine.judge(demand) {
            Verdict::Whole | Verdict::AfterWriteBack { .. } => run(&mut machine.tree, false),
            Verdict::Half => run(&mut machine.tree, true),
            Verdict::Failed(e) | Verdict::Off(e) => Err(e),
        };
        machine.trace.record(step, call, &result);
        result
    }

    /// Makes one sync. `run` is told what it is to leave if it is to fail.
    pub(super) fn sync(
        &self,
        call: DiskCall,
        run: impl FnOnce(&mut Tree, Option<SyncFault>) -> io::Result<()>,
    ) -> io::Result<()> {
        let machine = &mut *self.machine.lock();
        let step = machine.faults.steps();
        let result = match machine.judge(Demand::Space) {
            Verdict::Whole | Verdict::Half | Verdict::AfterWriteBack { .. } => {
                run(&mut machine.tree, None)
            }
            Verdict::Failed(e) => run(&mut machine.tree, Some(machine.faults.on_sync)).and(Err(e)),
            Verdict::Off(e) => Err(e),
        };
        machine.trace.record(step, call, &result);
        result
    }
}

impl DiskState {
    /// What becomes of a call, after what happened before it.
    fn judge(&mut self, demand: Demand) -> Verdict {
        let owes_bytes = || self.tree.owes_bytes();
        let verdict = self.faults.judge(demand, owes_bytes);
        if let Verdict::AfterWriteBack { told } = verdict {
            self.tree.fail_write_back(self.faults.on_sync, told);
        }
        verdict
    }
}

/// A held lock; dropping it lets the next one in.
#[derive(Debug)]
struct MemoryLock {
    _held: Arc<()>,
}

impl LockGuard for MemoryLock {}

fn on(name: &'static str, path: &Path) -> DiskCall {
    DiskCall {
        name,
        path: path.to_string_lossy().into(),
        range: 0..0,
    }
}
