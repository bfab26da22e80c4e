//! Reading a sidecar.

use std::io;
use std::path::Path;

use sessionlog_core::error::{Error, Result};
use sessionlog_core::session_file::{self, Meta, SessionMeta};
use sessionlog_wal::storage::{FileKind, Storage, too_large};

use super::kind_of;

/// The relation of the sidecar on disk to the known one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sidecar {
    Missing,
    Present,
    /// It decodes, but is not written as we write it. It is replaced, not overwritten: a mixture of
    /// both would not tell which session it belongs to.
    Unlike,
    /// It does not decode, or is a directory or pipe; it is set aside before a new one takes its
    /// name.
    Corrupt,
}

impl Sidecar {
    /// True if there is a sidecar that decodes.
    pub(crate) fn is_read(self) -> bool {
        matches!(self, Self::Present | Self::Unlike)
    }
}

/// The size of the largest sidecar that is read and written, in bytes. It is far more than any
/// command can make, and small enough for a journal record. A session with a larger one is refused
/// as it is: without its `skip` it would show truncated messages.
const MAX: u64 = 128 << 20;

/// The bytes of a file that may be a sidecar.
///
/// # Errors
/// `InvalidData` if it is over 128 MiB, and as the operating system reports
/// them.
pub(crate) fn read_bytes(storage: &dyn Storage, path: &Path) -> io::Result<Vec<u8>> {
    storage.read(path, MAX)
}

/// Refuses a sidecar that would be too large to be read when it is written again: escapes and white
/// space can make it up to 24 times as long.
fn check_room(bytes: &[u8], meta: &SessionMeta) -> io::Result<()> {
    if (bytes.len() as u64) < MAX / 32 {
        return Ok(());
    }
    let len = session_file::encoded_sidecar_len(meta) as u64;
    if len > MAX {
        return Err(too_large(len, MAX));
    }
    Ok(())
}

/// The sidecar of `stem`. It is empty if the file is missing, does not decode, or is a session of
/// PicoClaw's older manager that was not imported: decoded as a sidecar, that would lend its
/// summary to another session, and be overwritten.
///
/// # Errors
/// If the operating system refuses to read it, or it is larger than any store writes.
pub(crate) fn read_sidecar(
    storage: &dyn Storage,
    dir: &Path,
    stem: &str,
    key: &str,
) -> Result<(Meta, Sidecar)> {
    let alike =
        |bytes: &[u8], meta: &SessionMeta| session_file::is_laid_out(bytes.trim_ascii_end(), meta);
    read(storage, dir, (stem, key), alike)
}

/// As [`read_sidecar`], for readers: the form in which it is written is not checked, which takes as
/// long as decoding it.
///
/// # Errors
/// As [`read_sidecar`].
pub(crate) fn read_meta(
    storage: &dyn Storage,
    dir: &Path,
    stem: &str,
    key: &str,
) -> Result<(Meta, Sidecar)> {
    read(storage, dir, (stem, key), |_, _| true)
}

/// The error for a session with a sidecar that names the key of another.
pub(crate) fn anothers(dir: &Path, (stem, key): (&str, &str), now: &str) -> Error {
    Error::Corrupt {
        path: dir.join(session_file::sidecar_name(stem)),
        detail: format!(
            "it was {key:?}'s and names the key {now:?} now; opened again, the store takes it \
             for that one's"
        ),
    }
}

fn read(
    storage: &dyn Storage,
    dir: &Path,
    (stem, key): (&str, &str),
    alike: impl Fn(&[u8], &SessionMeta) -> bool,
) -> Result<(Meta, Sidecar)> {
    let path = dir.join(session_file::sidecar_name(stem));
    let bytes = match read_bytes(storage, &path) {
        Ok(bytes) => bytes,
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            return Ok((Meta::empty(key), Sidecar::Missing));
        }
        // A link may lead to the sidecar that says how much of the session is hidden.
        Err(_)
            if matches!(
                kind_of(storage, &path),
                Some(FileKind::Directory | FileKind::Other)
            ) =>
        {
            return Ok((Meta::empty(key), Sidecar::Corrupt));
        }
        Err(e) => return Err(Error::io("read", &path, e)),
    };
    let decoded = if session_file::holds_session(&bytes) {
        Err(String::from("it is a session to be imported"))
    } else {
        session_file::decode_sidecar(&bytes)
    };
    match decoded {
        Ok(meta) => {
            check_room(&bytes, &meta).map_err(|e| Error::io("read", &path, e))?;
            let alike = alike(&bytes, &meta);
            let found = if alike {
                Sidecar::Present
            } else {
                Sidecar::Unlike
            };
            Ok((Meta::named(meta, key), found))
        }
        Err(reason) => {
            tracing::warn!(path = %path.display(), reason, "no sidecar");
            Ok((Meta::empty(key), Sidecar::Corrupt))
        }
    }
}
