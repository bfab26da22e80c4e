//! A modelled disk on which a test acts in the middle of somebody's call.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use sessionlog::testing::disk_model::MemoryStorage;
use sessionlog::testing::storage::{
    DirEntry, FileInfo, LockGuard, OpenMode, Storage, StorageDir, StorageFile,
};

/// What a test does when a call is made: it is told which, and on what path.
type Act = dyn Fn(&str, &Path, &MemoryStorage) -> io::Result<()> + Send + Sync;

/// How long something may take before a test gives up.
const PATIENCE: Duration = Duration::from_secs(30);

/// A modelled disk that tells of calls before they are made. Of these it tells
/// afterwards too: an open that found nothing, as `missed`, and a sync of
/// everything, as `synced_all`.
#[derive(Clone, Default)]
pub(crate) struct Intercepted {
    pub(crate) disk: MemoryStorage,
    act: Arc<Mutex<Option<Arc<Act>>>>,
    shared: bool,
}

impl fmt::Debug for Intercepted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Intercepted").finish_non_exhaustive()
    }
}

impl Intercepted {
    pub(crate) fn on(disk: MemoryStorage) -> Self {
        Self {
            disk,
            act: Arc::default(),
            shared: false,
        }
    }

    /// The same, as if other processes could look at it.
    #[allow(dead_code, reason = "another test's")]
    pub(crate) fn shared(self) -> Self {
        Self {
            shared: true,
            ..self
        }
    }

    /// From now on does this at every call.
    pub(crate) fn at_every_call(
        &self,
        act: impl Fn(&str, &Path, &MemoryStorage) -> io::Result<()> + Send + Sync + 'static,
    ) {
        *self.act.lock().unwrap() = Some(Arc::new(act));
    }

    /// From now on whoever makes this call on a file of this name raises `begun` and waits
    /// for `go`.
    pub(crate) fn hold(&self, held: &'static str, name: &'static str) -> Flags {
        let flags = Flags::default();
        let told = flags.clone();
        self.at_every_call(move |call, path, _| {
            if call == held && path.ends_with(name) {
                told.raise("begun");
                told.wait_for("go");
            }
            Ok(())
        });
        flags
    }

    /// From now on no sync of files or directories of the store succeeds.
    pub(crate) fn fail_flushes(&self, dir: &'static str) {
        self.at_every_call(move |call, path, _| {
            if call == "sync_all" || (call == "sync_dir" && path == Path::new(dir)) {
                return Err(io::Error::from_raw_os_error(5));
            }
            Ok(())
        });
    }

    fn tell(&self, call: &str, path: &Path) -> io::Result<()> {
        let act = self.act.lock().unwrap().clone();
        act.map_or(Ok(()), |act| act(call, path, &self.disk))
    }
}

impl Storage for Intercepted {
    fn create_dir(&self, path: &Path) -> io::Result<()> {
        self.tell("create_dir", path)?;
        self.disk.create_dir(path)
    }

    fn read_dir(&self, path: &Path) -> io::Result<Vec<DirEntry>> {
        self.disk.read_dir(path)
    }

    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn StorageFile>> {
        let call = if mode == OpenMode::CreateNew {
            "create"
        } else {
            "open"
        };
        self.tell(call, path)?;
        let opened = self.disk.open(path, mode);
        if opened.is_err() {
            self.tell("missed", path)?;
        }
        opened
    }

    fn info(&self, path: &Path) -> io::Result<FileInfo> {
        self.disk.info(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.tell("rename", to)?;
        self.disk.rename(from, to)
    }

    fn link(&self, file: &Path, name: &Path) -> io::Result<()> {
        self.disk.link(file, name)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.tell("remove_file", path)?;
        self.disk.remove_file(path)
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        self.tell("remove_dir", path)?;
        self.disk.remove_dir(path)
    }

    fn open_dir(&self, path: &Path) -> io::Result<Arc<dyn StorageDir>> {
        Ok(Arc::new(InterceptedDir {
            storage: self.clone(),
            dir: self.disk.open_dir(path)?,
            path: path.into(),
        }))
    }

    fn try_lock(&self, path: &Path, note: &str) -> io::Result<Option<Box<dyn LockGuard>>> {
        self.disk.try_lock(path, note)
    }

    fn try_lock_dir(&self, path: &Path) -> io::Result<Option<Box<dyn LockGuard>>> {
        self.tell("try_lock_dir", path)?;
        self.disk.try_lock_dir(path)
    }

    fn current_user(&self) -> u32 {
        self.disk.current_user()
    }

    fn is_shared(&self) -> bool {
        self.shared
    }

    fn open_file_limit(&self) -> usize {
        self.disk.open_file_limit()
    }
}

#[derive(Debug)]
struct InterceptedDir {
    storage: Intercepted,
    dir: Arc<dyn StorageDir>,
    path: PathBuf,
}

impl StorageDir for InterceptedDir {
    fn sync_names(&self) -> io::Result<()> {
        self.storage.tell("sync_dir", &self.path)?;
        self.dir.sync_names()
    }

    fn sync_file_system(&self) -> io::Result<()> {
        self.storage.tell("sync_all", &self.path)?;
        self.dir.sync_file_system()?;
        self.storage.tell("synced_all", &self.path)
    }

    fn free_space(&self) -> io::Result<u64> {
        self.dir.free_space()
    }
}

/// Flags by which threads of a test wait for each other.
#[derive(Clone, Debug, Default)]
pub(crate) struct Flags(Arc<(Mutex<Vec<&'static str>>, Condvar)>);

impl Flags {
    /// Raises a flag; whether it was down.
    pub(crate) fn raise(&self, flag: &'static str) -> bool {
        let mut raised = self.0.0.lock().unwrap();
        let first = !raised.contains(&flag);
        raised.push(flag);
        self.0.1.notify_all();
        first
    }

    pub(crate) fn is_raised(&self, flag: &str) -> bool {
        self.0.0.lock().unwrap().contains(&flag)
    }

    /// Waits until somebody raised it.
    pub(crate) fn wait_for(&self, flag: &str) {
        let raised = self.0.0.lock().unwrap();
        let down = |raised: &mut Vec<&str>| !raised.contains(&flag);
        let waited = self.0.1.wait_timeout_while(raised, PATIENCE, down);
        let (raised, _) = waited.unwrap();
        assert!(raised.contains(&flag), "nobody raised {flag}");
    }
}
