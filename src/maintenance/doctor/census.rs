//! The sessions of a directory, and the other files in it.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;

use sessionlog_core::error::{Error, Result};
use sessionlog_core::session_file::{self, LOG, SIDECAR, SessionMeta};
use sessionlog_wal::storage::{FileKind, Storage};

use super::report::{Claim, SidecarCheck};
use crate::disk::files::is_temp_name;
use crate::disk::files::sidecar::read_bytes;
use crate::engine::recovery::plan::Plans;
use crate::engine::recovery::redo::is_scratch_name;

/// The names of a directory, sorted out.
#[derive(Debug, Default)]
pub(super) struct Census {
    /// File names without extension of everything that has a session file, a
    /// sidecar, or a plan in the journal.
    pub(super) stems: BTreeSet<String>,
    /// Those with a session file.
    pub(super) logs: BTreeSet<String>,
    /// Left by an unfinished rewrite or recovery.
    pub(super) strays: Vec<String>,
}

impl Census {
    /// Lists `dir`.
    ///
    /// # Errors
    /// If it cannot be listed.
    pub(super) fn take(storage: &dyn Storage, dir: &Path, plans: &Plans) -> Result<Self> {
        let mut census = Self::default();
        let entries = storage
            .read_dir(dir)
            .map_err(|e| Error::io("list", dir, e))?;
        for entry in entries {
            if entry.kind != FileKind::File {
                // A session that cannot be read is reported.
                census
                    .stems
                    .extend(entry.name.strip_suffix(LOG).map(str::to_owned));
            } else if let Some(stem) = entry.name.strip_suffix(SIDECAR) {
                census.stems.insert(stem.to_owned());
            } else if let Some(stem) = entry.name.strip_suffix(LOG) {
                census.stems.insert(stem.to_owned());
                census.logs.insert(stem.to_owned());
            } else if is_temp_name(&entry.name) || is_scratch_name(&entry.name) {
                census.strays.push(entry.name);
            }
        }
        for (stem, plan) in &plans.sessions {
            if plan.exists() {
                census.stems.insert(stem.clone());
            } else {
                census.stems.remove(stem);
            }
        }
        census.strays.sort();
        Ok(census)
    }
}

/// Reads a session's sidecar as it lies on disk.
///
/// # Errors
/// If the operating system refuses to read it.
pub(super) fn sidecar(
    storage: &dyn Storage,
    dir: &Path,
    stem: &str,
) -> Result<(SidecarCheck, Option<SessionMeta>)> {
    let name = session_file::sidecar_name(stem);
    let path = dir.join(&name);
    let bytes = match read_bytes(storage, &path) {
        Ok(bytes) => bytes,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok((SidecarCheck::Missing, None)),
        Err(e) => return Err(Error::io("read", &path, e)),
    };
    if session_file::holds_session(&bytes) {
        return Ok((SidecarCheck::Unimported, None));
    }
    Ok(match session_file::decode_sidecar(&bytes) {
        Ok(meta) => (SidecarCheck::Sound, Some(meta)),
        Err(reason) => (SidecarCheck::Corrupt { reason }, None),
    })
}

/// Returns the names that more than one session claims; the sessions stand in the order in which
/// they get the name.
pub(super) fn contested(claims: impl Iterator<Item = (String, String)>) -> Vec<Claim> {
    let mut by_name: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (name, stem) in claims.filter(|(name, _)| !name.is_empty()) {
        by_name.entry(name).or_default().push(stem);
    }
    by_name.retain(|_, stems| stems.len() > 1);
    let order = |(name, mut stems): (String, Vec<String>)| {
        let own = |stem: &String| {
            *stem == session_file::plain_stem(&name) || *stem == session_file::hashed_stem(&name)
        };
        stems.sort_by_cached_key(|stem| (!own(stem), session_file::sidecar_name(stem)));
        Claim { name, stems }
    };
    by_name.into_iter().map(order).collect()
}
