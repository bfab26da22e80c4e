//! Open files and directories, and their metadata.
#![expect(clippy::disallowed_types, reason = "this is the seam")]

use std::fs::{File, TryLockError};
use std::io;
use std::os::unix::fs::FileExt;

use rustix::fs::{FileType, Stat};

use super::lock_error;
use crate::storage::{FileInfo, FileKind, StorageDir, StorageFile};

/// Permission bits of a stored [`FileInfo`]; the rest of `st_mode` is the kind.
const PERMISSIONS: u32 = 0o7777;

/// An open directory.
#[derive(Debug)]
pub(super) struct DiskDir {
    pub(super) directory: File,
}

impl StorageDir for DiskDir {
    fn sync_names(&self) -> io::Result<()> {
        self.directory.sync_all()
    }

    fn sync_file_system(&self) -> io::Result<()> {
        sync_file_system(&self.directory)
    }

    fn free_space(&self) -> io::Result<u64> {
        let found = rustix::fs::fstatvfs(&self.directory)?;
        Ok(found.f_bavail.saturating_mul(found.f_frsize))
    }
}

/// An open regular file.
#[derive(Debug)]
pub(super) struct DiskFile {
    pub(super) file: File,
}

impl StorageFile for DiskFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.file.read_at(buf, offset)
    }

    #[cfg(target_os = "linux")]
    fn read_cached_at(&self, buf: &mut [u8], offset: u64) -> bool {
        use rustix::io::{ReadWriteFlags, preadv2};
        let mut part = [io::IoSliceMut::new(buf)];
        let read = preadv2(&self.file, &mut part, offset, ReadWriteFlags::NOWAIT);
        read.is_ok_and(|read| read == buf.len())
    }

    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<usize> {
        self.file.write_at(buf, offset)
    }

    /// Opened through its descriptor: its name may belong to another file by now.
    #[cfg(target_os = "linux")]
    fn past_cache(&self) -> Option<std::sync::Arc<dyn StorageFile>> {
        use rustix::fs::{CWD, Mode, OFlags, openat};
        use std::os::fd::AsRawFd;
        let path = format!("/proc/self/fd/{}", self.file.as_raw_fd());
        let flags = OFlags::RDWR | OFlags::DIRECT | OFlags::CLOEXEC;
        let descriptor = openat(CWD, path, flags, Mode::empty()).ok()?;
        let file = File::from(descriptor);
        Some(std::sync::Arc::new(Self { file }))
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }

    fn info(&self) -> io::Result<FileInfo> {
        Ok(info_of(&rustix::fs::fstat(&self.file)?))
    }

    fn sync_data(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn try_lock(&self) -> io::Result<bool> {
        match self.file.try_lock() {
            Ok(()) => Ok(true),
            Err(TryLockError::WouldBlock) => Ok(false),
            Err(TryLockError::Error(e)) => Err(lock_error(e)),
        }
    }

    fn is_locked(&self) -> io::Result<bool> {
        match self.file.try_lock_shared() {
            Ok(()) => self.file.unlock().map(|()| false),
            Err(TryLockError::WouldBlock) => Ok(true),
            Err(TryLockError::Error(e)) => Err(lock_error(e)),
        }
    }
}

pub(super) fn info_of(found: &Stat) -> FileInfo {
    FileInfo {
        kind: kind_of(FileType::from_raw_mode(found.st_mode)),
        len: found.st_size.cast_unsigned(),
        inode: found.st_ino,
        owner: found.st_uid,
        mode: bits(found.st_mode) & PERMISSIONS,
        modified: nanoseconds(found.st_mtime, found.st_mtime_nsec),
        changed: nanoseconds(found.st_ctime, found.st_ctime_nsec),
    }
}

/// Uses the widest type of any system.
fn bits(mode: impl Into<u32>) -> u32 {
    mode.into()
}

fn nanoseconds(seconds: impl Into<i128>, rest: impl Into<i128>) -> i128 {
    seconds.into() * 1_000_000_000 + rest.into()
}

pub(super) fn kind_of(kind: FileType) -> FileKind {
    match kind {
        FileType::RegularFile => FileKind::File,
        FileType::Directory => FileKind::Directory,
        FileType::Symlink => FileKind::Symlink,
        _ => FileKind::Other,
    }
}

#[cfg(any(target_os = "linux", target_os = "android"))]
fn sync_file_system(directory: &File) -> io::Result<()> {
    Ok(rustix::fs::syncfs(directory)?)
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn sync_file_system(_directory: &File) -> io::Result<()> {
    rustix::fs::sync();
    Ok(())
}
