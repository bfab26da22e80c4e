//! A file system on which one kind of call goes wrong.

use std::io;
use std::panic::resume_unwind;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};

use sessionlog::testing::disk_model::MemoryStorage;
use sessionlog::testing::storage::{
    DirEntry, FileInfo, LockGuard, OpenMode, Storage, StorageDir, StorageFile,
};

/// `EMFILE`: the process has no descriptor left.
const OUT_OF_DESCRIPTORS: i32 = 24;

/// What a call does instead of its work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mishap {
    Panic,
    Eio,
    /// Nothing, until something else is armed or nothing is.
    Stall,
}

/// A modelled disk with a trap on it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Trapped {
    pub(crate) disk: MemoryStorage,
    rules: Arc<Rules>,
}

#[derive(Debug, Default)]
struct Rules {
    trap: Mutex<Option<(&'static str, &'static str, Mishap)>>,
    armed: Condvar,
    sprung: AtomicUsize,
    /// Most files that may be open; 0 for any number.
    descriptors: AtomicUsize,
}

impl Trapped {
    /// From now on `call` on a path that contains `path` goes wrong, until
    /// [`disarm`](Self::disarm).
    pub(crate) fn arm(&self, call: &'static str, path: &'static str, mishap: Mishap) {
        *self.rules.trap.lock().unwrap() = Some((call, path, mishap));
        self.rules.armed.notify_all();
    }

    pub(crate) fn disarm(&self) {
        *self.rules.trap.lock().unwrap() = None;
        self.rules.armed.notify_all();
    }

    /// How many calls went wrong.
    pub(crate) fn sprung(&self) -> usize {
        self.rules.sprung.load(Ordering::Acquire)
    }

    /// Lets so many files be open, and no more.
    pub(crate) fn limit_descriptors(&self, files: usize) {
        self.rules.descriptors.store(files, Ordering::Release);
    }
}

impl Rules {
    fn check(&self, call: &str, path: &str) -> io::Result<()> {
        let trap = *self.trap.lock().unwrap();
        let Some((_, _, mishap)) = trap.filter(|(c, p, _)| *c == call && path.contains(p)) else {
            return Ok(());
        };
        self.sprung.fetch_add(1, Ordering::AcqRel);
        match mishap {
            // Unwinds without the message that a panic prints.
            Mishap::Panic => resume_unwind(Box::new("trap")),
            Mishap::Eio => Err(io::Error::from_raw_os_error(5)),
            Mishap::Stall => {
                let armed = self.trap.lock().unwrap();
                drop(self.armed.wait_while(armed, |armed| *armed == trap));
                self.check(call, path)
            }
        }
    }
}

impl Trapped {
    fn check(&self, call: &str, path: &Path) -> io::Result<()> {
        self.rules.check(call, &path.to_string_lossy())
    }
}

impl Storage for Trapped {
    fn create_dir(&self, path: &Path) -> io::Result<()> {
        self.check("create_dir", path)?;
        self.disk.create_dir(path)
    }

    fn read_dir(&self, path: &Path) -> io::Result<Vec<DirEntry>> {
        self.check("read_dir", path)?;
        self.disk.read_dir(path)
    }

    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn StorageFile>> {
        let call = match mode {
            OpenMode::Read | OpenMode::ReadWrite => "open",
            OpenMode::CreateNew => "create",
        };
        self.check(call, path)?;
        let limit = self.rules.descriptors.load(Ordering::Acquire);
        if limit > 0 && self.disk.open_files() >= limit {
            return Err(io::Error::from_raw_os_error(OUT_OF_DESCRIPTORS));
        }
        Ok(Arc::new(TrappedFile {
            file: self.disk.open(path, mode)?,
            path: path.to_string_lossy().into(),
            rules: self.rules.clone(),
        }))
    }

    fn info(&self, path: &Path) -> io::Result<FileInfo> {
        self.check("info", path)?;
        self.disk.info(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.check("rename", to)?;
        self.disk.rename(from, to)
    }

    fn link(&self, file: &Path, name: &Path) -> io::Result<()> {
        self.check("link", name)?;
        self.disk.link(file, name)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.check("remove_file", path)?;
        self.disk.remove_file(path)
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        self.check("remove_dir", path)?;
        self.disk.remove_dir(path)
    }

    fn open_dir(&self, path: &Path) -> io::Result<Arc<dyn StorageDir>> {
        Ok(Arc::new(TrappedDir {
            dir: self.disk.open_dir(path)?,
            path: path.to_string_lossy().into(),
            rules: self.rules.clone(),
        }))
    }

    fn try_lock(&self, path: &Path, note: &str) -> io::Result<Option<Box<dyn LockGuard>>> {
        self.disk.try_lock(path, note)
    }

    fn try_lock_dir(&self, path: &Path) -> io::Result<Option<Box<dyn LockGuard>>> {
        self.disk.try_lock_dir(path)
    }

    fn current_user(&self) -> u32 {
        self.disk.current_user()
    }

    fn open_file_limit(&self) -> usize {
        self.disk.open_file_limit()
    }
}

#[derive(Debug)]
struct TrappedDir {
    dir: Arc<dyn StorageDir>,
    path: Box<str>,
    rules: Arc<Rules>,
}

impl StorageDir for TrappedDir {
    fn sync_names(&self) -> io::Result<()> {
        self.rules.check("sync_dir", &self.path)?;
        self.dir.sync_names()
    }

    fn sync_file_system(&self) -> io::Result<()> {
        self.rules.check("sync_all", &self.path)?;
        self.dir.sync_file_system()
    }

    fn free_space(&self) -> io::Result<u64> {
        self.dir.free_space()
    }
}

#[derive(Debug)]
struct TrappedFile {
    file: Arc<dyn StorageFile>,
    path: Box<str>,
    rules: Arc<Rules>,
}

impl StorageFile for TrappedFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.rules.check("read_at", &self.path)?;
        self.file.read_at(buf, offset)
    }

    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<usize> {
        self.rules.check("write_at", &self.path)?;
        self.file.write_at(buf, offset)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.rules.check("set_len", &self.path)?;
        self.file.set_len(len)
    }

    fn info(&self) -> io::Result<FileInfo> {
        self.rules.check("info", &self.path)?;
        self.file.info()
    }

    fn sync_data(&self) -> io::Result<()> {
        self.rules.check("sync_data", &self.path)?;
        self.file.sync_data()
    }
}
