//! The only door to the file system.
//!
//! [`Storage`] has the operations that the engine needs of a file system, [`StorageFile`] those of
//! an open file. `disk` is the real one; `testing::disk_model` models a page cache over a disk, for
//! tests that cut the power.
//!
//! Contract, on which every crash argument in this crate rests:
//!
//! * `write_at` reaches the page cache: it survives the death of the process, not a power
//!   loss.
//! * `sync_data` makes a file's bytes and size survive power loss, not its name.
//! * `sync_dir` makes names created, linked, renamed or removed in a directory survive.
//! * After a failed sync the state of the bytes it covered is unknown; it must not be retried. They
//!   may have reached the disk, have reverted, or show in the cache and never reach the disk.
//! * The system also writes bytes back when it likes, and a failure of that is silent. The next
//!   sync through a descriptor that was open before reports it, once. A descriptor opened later
//!   reports it only if it was not reported before: another program's sync is enough. So a sync
//!   that must be relied on goes through a descriptor that was open when the bytes were written:
//!   the file's own, or one of a directory, which reports failures of every file of the file
//!   system.
//! * A write tears at most at 512-byte sectors; bytes outside it stay as they were.
//! * `rename` is atomic.
//! * Reads return the written bytes, or an error.
//!
//! Not assumed: any order between two writes without a sync between them, or that a file's size,
//! bytes and name change together. A disk that lies about syncs is out of scope.

mod disk;
mod held;

pub use disk::DiskStorage;
pub use held::HeldDirs;

use std::io;
use std::path::Path;
use std::sync::Arc;

/// The number of bytes copied at a time.
const COPY: u64 = 1 << 20;

/// The ways in which [`Storage::open`] opens a file. No mode follows a symbolic link in the last
/// component, and every descriptor is close-on-exec.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenMode {
    /// An existing file, for reading only.
    Read,
    /// An existing file, for reading and writing.
    ReadWrite,
    /// A new file with mode 0600, for reading and writing; `AlreadyExists` if
    /// the name is taken.
    CreateNew,
}

/// The kinds of file system entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink,
    /// Anything else: sockets, devices, pipes.
    Other,
}

/// The metadata of a file or directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileInfo {
    /// Its kind.
    pub kind: FileKind,
    /// Its size in bytes.
    pub len: u64,
    /// The inode number: two opens returned the same file exactly if it is equal.
    pub inode: u64,
    /// Numeric owner.
    pub owner: u32,
    /// Permission bits.
    pub mode: u32,
    /// Last modification, nanoseconds since 1970.
    pub modified: i128,
    /// The time of the last change, in nanoseconds since 1970; for a directory, of the names in
    /// it. No program can set it. Changes up to [`SAME_TIME`] apart may have the same time.
    pub changed: i128,
}

/// The largest distance of two changes with the same [`changed`](FileInfo::changed), in
/// nanoseconds: system clocks tick every 10 ms or sooner.
pub const SAME_TIME: i128 = 20_000_000;

/// One name in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirEntry {
    /// The file name. Names that are not UTF-8 are not ours and are left out.
    pub name: String,
    /// Its kind.
    pub kind: FileKind,
}

/// Holds a directory's writer lock until dropped. The kernel releases it when the process dies, in
/// any way.
pub trait LockGuard: Send + Sync + std::fmt::Debug {}

/// A file system.
pub trait Storage: Send + Sync + std::fmt::Debug {
    /// The same file system, with all names in `dir` looked up in the directory that has this path
    /// now. If that is removed and another takes its place, the other one does not belong to this
    /// store. `None` if no other program could do so.
    ///
    /// # Errors
    /// As the operating system reports them.
    fn rooted(&self, _dir: &Path) -> io::Result<Option<Arc<dyn Storage>>> {
        Ok(None)
    }

    /// Creates one directory with mode 0700. `AlreadyExists` if the name is
    /// taken.
    ///
    /// # Errors
    /// As the operating system reports them.
    fn create_dir(&self, path: &Path) -> io::Result<()>;

    /// Every name in a directory, in no particular order.
    ///
    /// # Errors
    /// As the operating system reports them.
    fn read_dir(&self, path: &Path) -> io::Result<Vec<DirEntry>>;

    /// Opens a regular file. A directory, symbolic link, socket or device is an
    /// error.
    ///
    /// # Errors
    /// As the operating system reports them.
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn StorageFile>>;

    /// The bytes of a regular file, as [`open`](Self::open) finds it.
    ///
    /// # Errors
    /// `InvalidData` if it is over `max` bytes, and as the operating system reports them.
    fn read(&self, path: &Path, max: u64) -> io::Result<Vec<u8>> {
        let file = self.open(path, OpenMode::Read)?;
        let len = file.info()?.len;
        read_all(&*file, len, max)
    }

    /// The metadata of a name, without following a symbolic link.
    ///
    /// # Errors
    /// As the operating system reports them.
    fn info(&self, path: &Path) -> io::Result<FileInfo>;

    /// Gives a file a new name, replacing any file of that name. Atomic to every observer.
    ///
    /// # Errors
    /// As the operating system reports them.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Gives a file a second name, in a directory of the same file system.
    /// `AlreadyExists` if the name is taken.
    ///
    /// # Errors
    /// As the operating system reports them; not every file system can.
    fn link(&self, file: &Path, name: &Path) -> io::Result<()>;

    /// Removes a file's name. Open files stay readable.
    ///
    /// # Errors
    /// As the operating system reports them.
    fn remove_file(&self, path: &Path) -> io::Result<()>;

    /// Removes an empty directory.
    ///
    /// # Errors
    /// `DirectoryNotEmpty`, and as the operating system reports them.
    fn remove_dir(&self, path: &Path) -> io::Result<()>;

    /// Opens a directory, to sync through.
    ///
    /// # Errors
    /// As the operating system reports them.
    fn open_dir(&self, path: &Path) -> io::Result<Arc<dyn StorageDir>>;

    /// Makes the names in a directory survive power loss.
    ///
    /// # Errors
    /// A failure leaves the outcome unknown.
    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        self.open_dir(path)?.sync_names()
    }

    /// As [`StorageDir::sync_file_system`], of the file system that holds the
    /// directory `path`.
    ///
    /// # Errors
    /// A failure leaves the outcome unknown.
    fn sync_all(&self, path: &Path) -> io::Result<()> {
        self.open_dir(path)?.sync_file_system()
    }

    /// Takes the exclusive lock of the file at `path`, creating it if needed,
    /// without waiting. `None` if another holds it. `note` is written into the
    /// file by the new holder.
    ///
    /// # Errors
    /// As the operating system reports them, `Unsupported` if the file
    /// system has no locks.
    fn try_lock(&self, path: &Path, note: &str) -> io::Result<Option<Box<dyn LockGuard>>>;

    /// Takes the exclusive lock of a directory, without waiting. `None` if
    /// another holds it. No file is made.
    ///
    /// # Errors
    /// As the operating system reports them; not every file system locks
    /// directories.
    fn try_lock_dir(&self, path: &Path) -> io::Result<Option<Box<dyn LockGuard>>>;

    /// The user this process acts as; a store's directory must belong to it.
    fn current_user(&self) -> u32;

    /// True if other processes can see it: only then can a store publish statistics.
    fn is_shared(&self) -> bool {
        false
    }

    /// The number of files that this process may have open at once.
    fn open_file_limit(&self) -> usize;
}

/// The first `len` bytes of a file, if `len` is at most `max`.
fn read_all(file: &dyn StorageFile, len: u64, max: u64) -> io::Result<Vec<u8>> {
    if len > max {
        return Err(too_large(len, max));
    }
    let mut bytes = vec![0; len as usize];
    file.read_exact_at(&mut bytes, 0)?;
    Ok(bytes)
}

/// The error for a file that is larger than may be read.
#[must_use]
pub fn too_large(size: u64, limit: u64) -> io::Error {
    let reason = format!("{size} bytes, over the limit of {limit}");
    io::Error::new(io::ErrorKind::InvalidData, reason)
}

/// An open directory.
pub trait StorageDir: Send + Sync + std::fmt::Debug {
    /// Makes the names in it survive power loss.
    ///
    /// # Errors
    /// A failure leaves the outcome unknown.
    fn sync_names(&self) -> io::Result<()>;

    /// Makes everything written to its file system survive power loss, names
    /// included. Also flushes what other programs wrote.
    ///
    /// # Errors
    /// A failure leaves the outcome unknown. A failure that happened while this was open, for any
    /// file, is reported here even if it was reported elsewhere before.
    fn sync_file_system(&self) -> io::Result<()>;

    /// The number of bytes that its file system has left for this process.
    ///
    /// # Errors
    /// As the operating system reports them.
    fn free_space(&self) -> io::Result<u64>;
}

/// An open regular file. All I/O is positional; a file has no cursor.
pub trait StorageFile: Send + Sync + std::fmt::Debug {
    /// Reads up to `buf.len()` bytes; 0 at or past the end of the file.
    ///
    /// # Errors
    /// As the operating system reports them.
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize>;

    /// Fills `buf` from `offset` if that needs no disk access, and returns true if it did. For
    /// threads that must not wait for a disk. After `false` the content of `buf` is undefined, and
    /// the bytes must be read.
    fn read_cached_at(&self, _buf: &mut [u8], _offset: u64) -> bool {
        false
    }

    /// Writes up to `buf.len()` bytes and returns their number; grows the file if the range ends
    /// past its end.
    ///
    /// # Errors
    /// As the operating system reports them; `StorageFull` if there is no
    /// space.
    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<usize>;

    /// The same file, for writing without the system's cache. Writes must be whole multiples of the
    /// disk's sector, from memory that begins at one, or fail with `InvalidInput`; they fail with
    /// `Unsupported` if it turns out to be impossible. The contract is that of `write_at`, and this
    /// file reads and syncs bytes written through either. `None` if this is not possible here.
    fn past_cache(&self) -> Option<Arc<dyn StorageFile>> {
        None
    }

    /// Cuts or extends the file.
    ///
    /// # Errors
    /// As the operating system reports them.
    fn set_len(&self, len: u64) -> io::Result<()>;

    /// The metadata of the file.
    ///
    /// # Errors
    /// As the operating system reports them.
    fn info(&self) -> io::Result<FileInfo>;

    /// Makes the file's bytes and size survive power loss.
    ///
    /// # Errors
    /// A failure leaves the outcome unknown; the sync must not be retried.
    fn sync_data(&self) -> io::Result<()>;

    /// Takes the file's exclusive lock, without waiting; returns true if it could. The lock is kept
    /// until the file is closed. In memory there is only one process, so the lock is always
    /// available.
    ///
    /// # Errors
    /// As the operating system reports them, `Unsupported` if the file system
    /// has no locks.
    fn try_lock(&self) -> io::Result<bool> {
        Ok(true)
    }

    /// True if another process holds the file's lock. It takes no lock that keeps a writer from its
    /// own. In memory there is no process that might have died: always true.
    ///
    /// # Errors
    /// As [`try_lock`](Self::try_lock).
    fn is_locked(&self) -> io::Result<bool> {
        Ok(true)
    }

    /// Copies the first `len` bytes to the start of `to`, a file of the same
    /// storage. No byte passes through the caller if the system can copy.
    ///
    /// # Errors
    /// `UnexpectedEof` if the file ends first, and errors of reading and writing.
    fn copy_to(&self, to: &dyn StorageFile, len: u64) -> io::Result<()> {
        let mut chunk = vec![0; len.min(COPY) as usize];
        let mut at = 0;
        while at < len {
            let want = (len - at).min(COPY) as usize;
            self.read_exact_at(&mut chunk[..want], at)?;
            to.write_all_at(&chunk[..want], at)?;
            at += want as u64;
        }
        Ok(())
    }

    /// Fills `buf` from `offset`, through short reads and interruptions.
    ///
    /// # Errors
    /// `UnexpectedEof` if the file ends first.
    fn read_exact_at(&self, mut buf: &mut [u8], mut offset: u64) -> io::Result<()> {
        while !buf.is_empty() {
            match self.read_at(buf, offset) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(n) => {
                    buf = &mut buf[n..];
                    offset += n as u64;
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }

    /// Writes all of `buf` at `offset`, through short writes and interruptions.
    ///
    /// # Errors
    /// The first error that is not an interruption; part of `buf` may then have
    /// been written.
    fn write_all_at(&self, mut buf: &[u8], mut offset: u64) -> io::Result<()> {
        while !buf.is_empty() {
            match self.write_at(buf, offset) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(n) => {
                    buf = &buf[n..];
                    offset += n as u64;
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }
}

/// The names of all files in `dir`, which may be absent.
///
/// # Errors
/// As the operating system reports them.
pub fn names(storage: &dyn Storage, dir: &Path) -> io::Result<Vec<String>> {
    let entries = match storage.read_dir(dir) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        other => other?,
    };
    let files = entries.into_iter().filter(|e| e.kind == FileKind::File);
    Ok(files.map(|entry| entry.name).collect())
}
