//! The files of a session: their names, and opening and reading them. The floors above decide what
//! is read.

pub(crate) mod backup;
pub(crate) mod conversation;
pub(crate) mod extent;
pub(crate) mod lines;
pub(crate) mod once;
pub(crate) mod sidecar;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sessionlog_core::error::{Error, Result};
use sessionlog_core::session_file;
use sessionlog_wal::storage::{self, FileKind, OpenMode, Storage, StorageFile};

/// Opens the session file of `stem`; `None` if there is none.
///
/// # Errors
/// If the operating system refuses to open it.
pub(crate) fn open_log(
    storage: &dyn Storage,
    dir: &Path,
    stem: &str,
    mode: OpenMode,
) -> Result<Option<Arc<dyn StorageFile>>> {
    let path = dir.join(session_file::log_name(stem));
    match storage.open(&path, mode) {
        Ok(file) => Ok(Some(file)),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(Error::io("open", &path, e)),
    }
}

/// True if a name belongs to something that is not a file of ours: a directory, a link, a file that
/// may not be opened. Only operations that need that name fail; the medium is sound.
pub(crate) fn is_taken(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::InvalidInput
            | io::ErrorKind::IsADirectory
            | io::ErrorKind::PermissionDenied
            | io::ErrorKind::DirectoryNotEmpty
    )
}

/// True if anything has the name `path`.
///
/// # Errors
/// If that cannot be determined. If it counted as `false`, an existing file would be given up.
pub(crate) fn is_there(storage: &dyn Storage, path: &Path) -> Result<bool> {
    match storage.info(path) {
        Ok(_) => Ok(true),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(e) => Err(Error::io("look at", path, e)),
    }
}

/// Reads a small file whole.
///
/// # Errors
/// As the operating system reports them.
pub(crate) fn read_whole(storage: &dyn Storage, path: &Path) -> io::Result<Vec<u8>> {
    storage.read(path, u64::MAX)
}

/// The kind of file with that name; `None` if there is none or the disk fails to say.
pub(crate) fn kind_of(storage: &dyn Storage, path: &Path) -> Option<FileKind> {
    Some(storage.info(path).ok()?.kind)
}

/// True if something other than a `kind` has a name.
pub(crate) fn is_impostor(storage: &dyn Storage, path: &Path, kind: FileKind) -> bool {
    kind_of(storage, path).is_some_and(|found| found != kind)
}

/// Gives a file a second name, or makes a copy if the file system has no hard links.
///
/// # Errors
/// As the operating system reports them.
pub(crate) fn keep(storage: &dyn Storage, file: &Path, to: &Path) -> io::Result<()> {
    match storage.link(file, to) {
        Err(e) if cannot_link(&e) => duplicate(storage, file, to),
        other => other,
    }
}

/// True for the error of a file system without hard links.
fn cannot_link(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::Unsupported
            | io::ErrorKind::PermissionDenied
            | io::ErrorKind::TooManyLinks
            | io::ErrorKind::CrossesDevices
    )
}

/// Makes a synced copy. Unlike a second name, it does not share the journal records of the
/// session's file, nor a failed write to it that was reported elsewhere.
///
/// # Errors
/// As the operating system reports them.
pub(crate) fn duplicate(storage: &dyn Storage, log: &Path, to: &Path) -> io::Result<()> {
    let file = storage.open(log, OpenMode::Read)?;
    let copy = storage.open(to, OpenMode::CreateNew)?;
    file.copy_to(&*copy, file.info()?.len)?;
    copy.sync_data()
}

/// As [`storage::names`].
///
/// # Errors
/// If the directory cannot be listed.
pub(crate) fn entries(storage: &dyn Storage, dir: &Path) -> Result<Vec<String>> {
    storage::names(storage, dir).map_err(|e| Error::io("list", dir, e))
}

/// The path of `name` in `dir`, with a number if the name is taken: files set aside earlier stay.
///
/// # Errors
/// If it cannot be determined which names are taken. A name that counted as free would be replaced.
pub(crate) fn free_path(storage: &dyn Storage, dir: &Path, name: &str) -> Result<PathBuf> {
    let mut path = dir.join(name);
    let mut taken = 0;
    while is_there(storage, &path)? {
        taken += 1;
        path = dir.join(numbered(name, taken));
    }
    Ok(path)
}

/// Moves a file that has the name of a file of ours to the quarantine; returns its new path.
///
/// # Errors
/// As the operating system reports them.
pub(crate) fn set_aside(
    storage: &dyn Storage,
    path: &Path,
    quarantine: &Path,
) -> io::Result<PathBuf> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let aside = free_path(storage, quarantine, &name).map_err(io::Error::other)?;
    storage.rename(path, &aside)?;
    Ok(aside)
}

/// The engine's name for the directory of quarantined files.
pub(crate) const QUARANTINE: &str = "quarantine";

/// The longest name that most file systems take, in bytes.
const LONGEST_NAME: usize = 255;

/// A numbered name that file systems take, even if `name` is as long as they allow.
pub(crate) fn numbered(name: &str, number: u64) -> String {
    if number == 0 {
        return name.into();
    }
    let number = format!(".{number}");
    let mut end = name.len().min(LONGEST_NAME - number.len());
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}{number}", &name[..end])
}

/// The hidden name of the `counter`th rewrite. Names that begin like this are the engine's; files
/// of a crash with such names are removed at open.
pub(crate) fn temp_name(counter: u64) -> String {
    format!("{TEMP_PREFIX}{counter:016x}.tmp")
}

/// Hidden names for a recovery or a repair. They carry the number of the next segment, and so no
/// record in the journal has them, nor an attempt that was cut short.
#[derive(Debug, Default)]
pub(crate) struct TempNames {
    next: u64,
}

impl TempNames {
    pub(crate) fn before_segment(number: u64) -> Self {
        Self { next: number << 32 }
    }

    /// Returns the first name that is not taken yet, whether there is such a file or not.
    pub(crate) fn first(&self) -> String {
        temp_name(self.next)
    }

    /// Takes a name that no file in `dir` has.
    ///
    /// # Errors
    /// As the operating system reports them.
    pub(crate) fn take(&mut self, storage: &dyn Storage, dir: &Path) -> Result<String> {
        loop {
            let name = self.first();
            self.next += 1;
            if !is_there(storage, &dir.join(&name))? {
                return Ok(name);
            }
        }
    }
}

/// True if `name` is a rewrite's hidden name.
pub(crate) fn is_temp_name(name: &str) -> bool {
    name.starts_with(TEMP_PREFIX) && name.strip_suffix(".tmp").is_some()
}

const TEMP_PREFIX: &str = ".sessionlog-";

/// The path of a session's file.
pub(crate) fn log_path(dir: &Path, stem: &str) -> PathBuf {
    dir.join(session_file::log_name(stem))
}

#[cfg(test)]
mod tests {
    use super::*;
    use sessionlog_wal::testing::disk_model::MemoryStorage;

    #[test]
    fn a_name_as_long_as_there_may_be_is_numbered_and_stays_as_long() {
        let disk = MemoryStorage::new();
        let name = "ä".repeat(127) + "x";
        let mut taken = Vec::new();
        for _ in 0..12 {
            let path = free_path(&disk, Path::new("/"), &name).unwrap();
            let text = path.to_str().unwrap();
            assert!(text.len() <= LONGEST_NAME + 1, "{text}");
            disk.write_foreign(text, b"").unwrap();
            assert!(!taken.contains(&path));
            taken.push(path);
        }
    }
}
