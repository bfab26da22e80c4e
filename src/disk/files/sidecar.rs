//! Reading a sidecar.

use std::io;
use std::path::Path;

use super::read_whole;
use crate::disk::session_file::{self, Meta};
use crate::error::{Error, Result};
use crate::ground::storage::Storage;

/// How the sidecar on disk relates to what is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sidecar {
    Missing,
    Present,
    /// It does not decode; it is set aside before a new one takes its name.
    Corrupt,
}

/// The sidecar of `stem`; an empty one where it is missing, does not decode, or
/// is a session of PicoClaw's older manager that nobody imported: decoded as a
/// sidecar that would lend its summary to another session, and be written over.
///
/// # Errors
/// If the operating system refuses to read it.
pub(crate) fn read_sidecar(
    storage: &dyn Storage,
    dir: &Path,
    stem: &str,
    key: &str,
) -> Result<(Meta, Sidecar)> {
    let path = dir.join(session_file::sidecar_name(stem));
    let bytes = match read_whole(storage, &path) {
        Ok(bytes) => bytes,
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            return Ok((Meta::empty(key), Sidecar::Missing));
        }
        Err(e) => return Err(Error::io("read", &path, e)),
    };
    let decoded = if session_file::holds_session(&bytes) {
        Err(String::from("it is a session to be imported"))
    } else {
        session_file::decode_sidecar(&bytes)
    };
    match decoded {
        Ok(mut meta) => {
            if meta.key.is_empty() {
                meta.key = key.into();
            }
            Ok((Meta::of(meta), Sidecar::Present))
        }
        Err(reason) => {
            tracing::warn!(path = %path.display(), reason, "no sidecar");
            Ok((Meta::empty(key), Sidecar::Corrupt))
        }
    }
}
