//! The real file system.
#![expect(clippy::disallowed_types, reason = "this is the seam")]

mod opened;

use std::ffi::OsStr;
use std::fs::{self, File, TryLockError};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags};
use rustix::io::{Errno, retry_on_intr};
use rustix::process::{Resource, geteuid, getrlimit};
use sessionlog_core::error::is_full;

use self::opened::{DiskDir, DiskFile, info_of, kind_of};
use super::{DirEntry, FileInfo, LockGuard, OpenMode, Storage, StorageDir, StorageFile, read_all};

/// The file system of the operating system.
#[derive(Debug, Default)]
pub struct DiskStorage {
    root: Option<Root>,
}

/// A directory, opened when it had this name.
#[derive(Debug)]
struct Root {
    path: PathBuf,
    directory: File,
}

impl DiskStorage {
    /// The directory to look a name up in, and the name there. A path that leads out of the
    /// directory again is not one of its names.
    fn at<'a>(&'a self, path: &'a Path) -> (BorrowedFd<'a>, &'a Path) {
        let within = |root: &'a Root| Some((root.directory.as_fd(), below(&root.path, path)?));
        let place = self.root.as_ref().and_then(within);
        place.unwrap_or((CWD, path))
    }

    /// Opens a regular file, and nothing else, without following a link. Also returns its metadata,
    /// unless it is new.
    ///
    /// `NONBLOCK` is for pipes: opening one must be refused, not waited for. It has no effect on a
    /// regular file.
    fn open_regular(&self, path: &Path, flags: OFlags) -> io::Result<(File, Option<fs::Metadata>)> {
        let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        let private = Mode::RUSR | Mode::WUSR;
        let (at, name) = self.at(path);
        let file = match retry_on_intr(|| rustix::fs::openat(at, name, flags, private)) {
            Ok(descriptor) => File::from(descriptor),
            Err(Errno::LOOP | Errno::ISDIR | Errno::NXIO) => return Err(not_regular(path)),
            Err(e) => return Err(e.into()),
        };
        // An exclusive creation made the file, so its metadata need not be read.
        if flags.contains(OFlags::EXCL) {
            return Ok((file, None));
        }
        let found = file.metadata()?;
        if !found.is_file() {
            return Err(not_regular(path));
        }
        Ok((file, Some(found)))
    }

    /// Opens a directory. The empty path, which is the parent of a bare relative name, is the
    /// working directory.
    fn open_directory(&self, path: &Path) -> io::Result<File> {
        let path = if path.as_os_str().is_empty() {
            Path::new(".")
        } else {
            path
        };
        let (at, name) = self.at(path);
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let descriptor = retry_on_intr(|| rustix::fs::openat(at, name, flags, Mode::empty()))?;
        Ok(File::from(descriptor))
    }
}

/// The rest of a path after the directory, if it names something in it. It compares bytes:
/// splitting both into components took five sixths of the instructions of opening a file.
fn below<'a>(dir: &Path, path: &'a Path) -> Option<&'a Path> {
    let (dir, path) = (dir.as_os_str().as_bytes(), path.as_os_str().as_bytes());
    let slashes = dir.iter().rev().take_while(|byte| **byte == b'/').count();
    let rest = match path.strip_prefix(&dir[..dir.len() - slashes])? {
        rest if dir.is_empty() => rest,
        [b'/', rest @ ..] => rest,
        [] => &[],
        _ => return None,
    };
    let leads_out =
        rest.starts_with(b"/") || rest.split(|byte| *byte == b'/').any(|part| part == b"..");
    let rest = if rest.is_empty() { b"." } else { rest };
    (!leads_out).then(|| Path::new(OsStr::from_bytes(rest)))
}

impl Storage for DiskStorage {
    fn rooted(&self, dir: &Path) -> io::Result<Option<Arc<dyn Storage>>> {
        let directory = self.open_directory(dir)?;
        let path = dir.to_path_buf();
        let root = Some(Root { path, directory });
        Ok(Some(Arc::new(Self { root })))
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        let (at, name) = self.at(path);
        Ok(rustix::fs::mkdirat(at, name, Mode::RWXU)?)
    }

    fn read_dir(&self, path: &Path) -> io::Result<Vec<DirEntry>> {
        let mut directory = Dir::new(self.open_directory(path)?)?;
        let mut names = Vec::new();
        while let Some(entry) = directory.read() {
            let entry = entry?;
            let Ok(name) = entry.file_name().to_str() else {
                continue;
            };
            if matches!(name, "." | "..") {
                continue;
            }
            // Not every file system fills in the type here.
            let kind = match entry.file_type() {
                FileType::Unknown => {
                    match rustix::fs::statat(directory.fd()?, name, AtFlags::SYMLINK_NOFOLLOW) {
                        Ok(found) => FileType::from_raw_mode(found.st_mode),
                        // Removed since the directory was read.
                        Err(Errno::NOENT) => continue,
                        Err(e) => return Err(e.into()),
                    }
                }
                known => known,
            };
            names.push(DirEntry {
                name: name.to_owned(),
                kind: kind_of(kind),
            });
        }
        Ok(names)
    }

    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn StorageFile>> {
        let flags = match mode {
            OpenMode::Read => OFlags::RDONLY,
            OpenMode::ReadWrite => OFlags::RDWR,
            OpenMode::CreateNew => OFlags::RDWR | OFlags::CREATE | OFlags::EXCL,
        };
        let (file, _) = self.open_regular(path, flags)?;
        Ok(Arc::new(DiskFile { file }))
    }

    /// Looks at the file's metadata once: opening a directory reads thousands of files.
    fn read(&self, path: &Path, max: u64) -> io::Result<Vec<u8>> {
        let (file, found) = self.open_regular(path, OFlags::RDONLY)?;
        let len = found.map_or(0, |found| found.len());
        read_all(&DiskFile { file }, len, max)
    }

    fn info(&self, path: &Path) -> io::Result<FileInfo> {
        let (at, name) = self.at(path);
        let found = rustix::fs::statat(at, name, AtFlags::SYMLINK_NOFOLLOW)?;
        Ok(info_of(&found))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let ((from_at, from), (to_at, to)) = (self.at(from), self.at(to));
        Ok(rustix::fs::renameat(from_at, from, to_at, to)?)
    }

    fn link(&self, file: &Path, name: &Path) -> io::Result<()> {
        let ((file_at, file), (name_at, name)) = (self.at(file), self.at(name));
        Ok(rustix::fs::linkat(
            file_at,
            file,
            name_at,
            name,
            AtFlags::empty(),
        )?)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        let (at, name) = self.at(path);
        Ok(rustix::fs::unlinkat(at, name, AtFlags::empty())?)
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        let (at, name) = self.at(path);
        Ok(rustix::fs::unlinkat(at, name, AtFlags::REMOVEDIR)?)
    }

    fn open_dir(&self, path: &Path) -> io::Result<Arc<dyn StorageDir>> {
        let directory = self.open_directory(path)?;
        Ok(Arc::new(DiskDir { directory }))
    }

    fn try_lock(&self, path: &Path, note: &str) -> io::Result<Option<Box<dyn LockGuard>>> {
        let flags = OFlags::RDWR | OFlags::CREATE;
        let (file, _) = self.open_regular(path, flags)?;
        let Some(guard) = DiskLock::take(file, || Ok(self.open_regular(path, flags)?.0))? else {
            return Ok(None);
        };
        match guard.sign(note) {
            // The note is for people. A full disk must not keep a store from opening, since opening
            // is how it recovers.
            Err(e) if !is_full(&e) => Err(e),
            _ => Ok(Some(Box::new(guard))),
        }
    }

    fn try_lock_dir(&self, path: &Path) -> io::Result<Option<Box<dyn LockGuard>>> {
        let guard = DiskLock::take(self.open_directory(path)?, || self.open_directory(path))?;
        Ok(guard.map(|guard| Box::new(guard) as Box<dyn LockGuard>))
    }

    fn current_user(&self) -> u32 {
        geteuid().as_raw()
    }

    fn is_shared(&self) -> bool {
        true
    }

    fn open_file_limit(&self) -> usize {
        getrlimit(Resource::Nofile)
            .current
            .map_or(usize::MAX, |limit| limit as usize)
    }
}

/// A held `flock`. The file is never unlinked: a lock on a name that another
/// process can replace locks nothing.
#[derive(Debug)]
struct DiskLock {
    file: File,
}

impl DiskLock {
    /// Takes the lock of a file, without waiting. `None` if another descriptor has it.
    ///
    /// Some file systems grant every lock (9p, NFS mounted without locks). So a second descriptor
    /// must be refused; otherwise two writers would each believe to be the only one.
    ///
    /// # Errors
    /// `Unsupported` if the file system keeps no locks.
    fn take(file: File, second: impl FnOnce() -> io::Result<File>) -> io::Result<Option<Self>> {
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(e)) => return Err(lock_error(e)),
        }
        let guard = Self { file };
        match second()?.try_lock() {
            Err(TryLockError::WouldBlock) => Ok(Some(guard)),
            Err(TryLockError::Error(e)) => Err(lock_error(e)),
            Ok(()) => Err(io::Error::new(
                io::ErrorKind::Unsupported,
                "the file system grants a lock that is held",
            )),
        }
    }

    fn sign(&self, note: &str) -> io::Result<()> {
        self.file.set_len(0)?;
        self.file.write_all_at(note.as_bytes(), 0)
    }
}

impl LockGuard for DiskLock {}

impl Drop for DiskLock {
    fn drop(&mut self) {
        // Closing alone would leave the lock with a forked child that has not yet executed its
        // program; that child shares the descriptor. A failure of the unlock leaves exactly that.
        let _ = self.file.unlock();
    }
}

fn not_regular(path: &Path) -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidInput,
        format!("{} is not a regular file", path.display()),
    )
}

/// A file system without locks must be distinguished from a lock that is held, and from other
/// failures.
fn lock_error(error: io::Error) -> io::Error {
    match Errno::from_io_error(&error) {
        Some(Errno::NOLCK | Errno::OPNOTSUPP | Errno::NOSYS | Errno::BADF | Errno::INVAL) => {
            io::Error::new(io::ErrorKind::Unsupported, error)
        }
        _ => error,
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "plants what is found")]
mod tests {
    use std::ffi::OsStr;
    use std::io::ErrorKind;
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::net::UnixListener;

    use rustix::fs::{CWD, FileType, Mode, mknodat};

    use super::{DiskStorage, OpenMode, Path, Storage, below, fs};
    use crate::storage::FileKind;

    /// Files outside are opened by the path as it is, which means the same until the directory is
    /// moved.
    #[test]
    fn a_path_names_something_in_the_directory_only_if_it_stays_there() {
        for (dir, path, expected) in [
            ("/a/store", "/a/store/x", Some("x")),
            ("/a/store", "/a/store/x/y..z", Some("x/y..z")),
            ("/a/store", "/a/store", Some(".")),
            ("/a/store//", "/a/store/x", Some("x")),
            ("", "x", Some("x")),
            ("/", "/x", Some("x")),
            ("store", "store/..x", Some("..x")),
            ("/a/store", "/a/store/..", None),
            ("/a/store", "/a/store/x/../..", None),
            ("/a/store", "/a/store//etc", None),
            ("/a/store", "/a/stores/x", None),
            ("/a/store", "/a/other", None),
            ("", "/x", None),
        ] {
            let found = below(Path::new(dir), Path::new(path));
            assert_eq!(found, expected.map(Path::new), "{path} in {dir}");
        }
    }

    #[test]
    fn a_pipe_or_socket_is_refused_without_waiting_for_its_other_end() {
        let dir = tempfile::tempdir().unwrap();
        let (pipe, socket) = (dir.path().join("pipe"), dir.path().join("socket"));
        mknodat(CWD, &pipe, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        let _listener = UnixListener::bind(&socket).unwrap();
        for path in [&pipe, &socket] {
            assert_eq!(
                DiskStorage::default().info(path).unwrap().kind,
                FileKind::Other
            );
            for mode in [OpenMode::Read, OpenMode::ReadWrite] {
                let error = DiskStorage::default().open(path, mode).unwrap_err();
                assert_eq!(error.kind(), ErrorKind::InvalidInput);
                assert!(error.to_string().ends_with("is not a regular file"));
            }
        }
    }

    #[test]
    fn names_that_are_not_unicode_are_left_out() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join(OsStr::from_bytes(b"\xff")), b"").unwrap();
        fs::write(dir.path().join("ours"), b"").unwrap();
        let entries = DiskStorage::default().read_dir(dir.path()).unwrap();
        let names: Vec<_> = entries.iter().map(|e| e.name.as_str()).collect();
        assert_eq!(names, ["ours"]);
    }

    #[test]
    fn a_lock_ends_with_its_guard_even_if_a_child_shares_the_descriptor() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        let (file, _) = DiskStorage::default()
            .open_regular(&path, super::OFlags::RDWR | super::OFlags::CREATE)
            .unwrap();
        let shared = file.try_clone().unwrap();
        file.try_lock().unwrap();
        drop(super::DiskLock { file });
        assert!(
            DiskStorage::default()
                .try_lock(&path, "")
                .unwrap()
                .is_some()
        );
        drop(shared);
    }

    #[test]
    fn the_time_and_permission_bits_of_a_file_are_the_systems() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("foreign");
        fs::write(&path, b"abc").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o4640)).unwrap();
        let info = DiskStorage::default().info(&path).unwrap();
        assert_eq!(
            (info.kind, info.mode, info.len),
            (FileKind::File, 0o4640, 3)
        );
        let modified = fs::metadata(&path).unwrap().modified().unwrap();
        let since = modified.duration_since(std::time::UNIX_EPOCH).unwrap();
        assert_eq!(info.modified, i128::try_from(since.as_nanos()).unwrap());
    }

    #[test]
    fn the_working_directory_is_the_parent_of_a_bare_name() {
        let parent = std::path::Path::new("bare").parent().unwrap();
        DiskStorage::default().sync_dir(parent).unwrap();
    }
}
