//! The part of its catalog that a store keeps at a clean end, for the next open: listing the
//! directory and reading every sidecar takes 7 µs a session, reading one file a fraction.
//!
//! It is trusted if the store's journal is empty and the directory is the same one, with the same
//! names: no file was made, removed, renamed or replaced since, as PicoClaw and most programs do
//! when they write a sidecar. Changes that a program wrote into a sidecar in place are found when
//! the session is first used (`shard/load.rs`): aliases count from then on, a sidecar that does not
//! decode is taken from its copy, and one that names another key keeps its session closed until the
//! directory is read again.
//!
//! # What a crash leaves
//!
//! No file that is trusted: while a store runs there is none, and an unclean end leaves a journal.
//! The removal of an earlier end's file is synced before anything is written. Otherwise a power
//! loss would bring the file back, and if sidecars were only written in place since, the directory
//! would still match it. The new file is not synced: a power loss may leave none, or part of one,
//! which does not decode.

use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use foldhash::fast::RandomState;
use sessionlog_core::session_file::{self, LOG, SIDECAR};
use sessionlog_wal::journal::segment::StoreId;
use sessionlog_wal::storage::{DirEntry, FileKind, OpenMode, SAME_TIME, Storage, StorageFile};
use sessionlog_wal::sync::thread;

use super::catalog::Catalog;
use super::home::{self, Home};
use crate::disk::catalog_file::{self, DirectoryVersion, Rows};
use crate::disk::files::{self, is_temp_name, sidecar};
use crate::engine::recovery::redo::is_scratch_name;

/// Stores with fewer sessions keep nothing: reading their sidecars takes some milliseconds, and
/// also finds changes written in place.
pub(crate) const FROM: usize = 1_000;

/// Number of waits for the clock of the file system.
const TRIES: usize = 3;

/// The place of a store's kept catalog, and the number of sessions from which on it is kept.
#[derive(Debug)]
pub(crate) struct KeptCatalog {
    path: PathBuf,
    temp: PathBuf,
    id: StoreId,
    from: usize,
    /// The time at which the store was opened, by the clock of the file system.
    opened: Option<i128>,
}

impl KeptCatalog {
    /// Returns the kept catalog's place, for a store that just took its lock.
    pub(crate) fn of(storage: &dyn Storage, home: &Home, id: StoreId, from: usize) -> Self {
        Self {
            path: home.catalog.clone(),
            temp: home.catalog.with_extension("tmp"),
            id,
            from,
            opened: home.locked_at(storage),
        }
    }

    /// Removes the kept catalog, and returns it if it can be trusted.
    ///
    /// # Errors
    /// If it is there and cannot be removed durably.
    pub(crate) fn take(&self, storage: &dyn Storage, dir: &Path) -> io::Result<Option<Catalog>> {
        let catalog = self.look(storage, dir);
        if self.remove(storage)?
            && let Some(home) = self.path.parent()
        {
            storage.sync_dir(home)?;
        }
        Ok(catalog)
    }

    /// Returns the kept catalog, if it can be trusted. The file stays, for readers.
    pub(crate) fn look(&self, storage: &dyn Storage, dir: &Path) -> Option<Catalog> {
        let bytes = files::read_whole(storage, &self.path).ok()?;
        let version = DirectoryVersion::of(&storage.info(dir).ok()?);
        let rows = catalog_file::decode(&bytes, &self.id, version)?;
        Catalog::of(rows, home::name_rule(storage, dir))
    }

    /// Removes both files; returns true if there was one.
    fn remove(&self, storage: &dyn Storage) -> io::Result<bool> {
        let mut removed = false;
        for path in [&self.path, &self.temp] {
            match storage.remove_file(path) {
                Ok(()) => removed = true,
                Err(e) if e.kind() == io::ErrorKind::NotFound => {}
                Err(e) => return Err(e),
            }
        }
        Ok(removed)
    }

    /// Keeps the catalog of a store that has written everything and will write no more, unless it
    /// is small or knows less of the directory than the next open would find. A failure costs that
    /// open time, and nothing else.
    pub(crate) fn keep(&self, storage: &dyn Storage, dir: &Path, catalog: &Catalog) {
        if catalog.len() < self.from || !catalog.is_plain() {
            return;
        }
        if let Err(error) = self.write(storage, dir, catalog) {
            tracing::warn!(%error, "the catalog is not kept; the next open takes longer");
        }
    }

    fn write(&self, storage: &dyn Storage, dir: &Path, catalog: &Catalog) -> io::Result<()> {
        self.remove(storage)?;
        let file = storage.open(&self.temp, OpenMode::CreateNew)?;
        let Some(version) = settled(storage, dir, &*file)? else {
            return self.remove(storage).map(drop);
        };
        let rows = catalog.rows();
        let opened = self.opened.unwrap_or(i128::MIN / 2);
        let is_true = |rows: &mut Rows| {
            let listed = agrees(storage, dir, rows).unwrap_or(false);
            listed && (0..rows.len()).all(|row| say(storage, dir, rows, row, opened))
        };
        let Some(rows) = rows.and_then(|mut rows| is_true(&mut rows).then_some(rows)) else {
            return self.remove(storage).map(drop);
        };
        file.write_all_at(&catalog_file::encode(&self.id, version, &rows), 0)?;
        if DirectoryVersion::of(&storage.info(dir)?) != version {
            return self.remove(storage).map(drop);
        }
        storage.rename(&self.temp, &self.path)
    }
}

/// Returns the directory's version, once so much time has passed since its last change that the
/// next change has another time. `None` if it does not come to rest, or its times are in whole
/// seconds.
fn settled(
    storage: &dyn Storage,
    dir: &Path,
    probe: &dyn StorageFile,
) -> io::Result<Option<DirectoryVersion>> {
    for _ in 0..TRIES {
        // The time of a new write to the same file system, because another clock may differ.
        probe.write_all_at(b"\n", 0)?;
        let (now, dir) = (probe.info()?.changed, storage.info(dir)?);
        if dir.changed % 1_000_000_000 == 0 {
            return Ok(None);
        }
        if now - dir.changed > SAME_TIME {
            return Ok(Some(DirectoryVersion::of(&dir)));
        }
        thread::pause(Duration::from_nanos(SAME_TIME as u64));
    }
    Ok(None)
}

/// Returns true if the directory holds these sessions' sidecars, and nothing that the next open
/// would report or remove: a session file or sidecar of another name, or a file that was never put
/// in place.
fn agrees(storage: &dyn Storage, dir: &Path, rows: &Rows) -> io::Result<bool> {
    let stems: HashSet<_, RandomState> = (0..rows.len()).map(|row| rows.stem(row)).collect();
    let mut sidecars = 0;
    for DirEntry { name, kind } in storage.read_dir(dir)? {
        if is_temp_name(&name) || is_scratch_name(&name) {
            return Ok(false);
        }
        let sidecar = name.strip_suffix(SIDECAR);
        let Some(stem) = sidecar.or_else(|| name.strip_suffix(LOG)) else {
            continue;
        };
        if kind != FileKind::File || !stems.contains(stem) {
            return Ok(false);
        }
        sidecars += usize::from(sidecar.is_some());
    }
    Ok(sidecars == rows.len())
}

/// Returns true if a sidecar has the content of its row, and sets the row's update time. A sidecar
/// that was not written since the store was opened was read then; another program may have written
/// some of the others.
fn say(storage: &dyn Storage, dir: &Path, rows: &mut Rows, row: usize, opened: i128) -> bool {
    let path = dir.join(session_file::sidecar_name(rows.stem(row)));
    let is_known = rows.updated(row).is_some();
    match storage.info(&path) {
        Ok(found) if is_known && found.changed < opened - SAME_TIME => return true,
        Ok(_) => {}
        Err(_) => return false,
    }
    let sidecar = sidecar::read_bytes(storage, &path).ok();
    let sidecar = sidecar.and_then(|bytes| session_file::decode_sidecar(&bytes).ok());
    sidecar.is_some_and(|sidecar| {
        let said: HashSet<_> = sidecar.aliases.iter().map(String::as_str).collect();
        let is_same = sidecar.key == rows.key(row) && said == rows.aliases(row).collect();
        rows.set_updated(row, sidecar.updated_nanos());
        is_same
    })
}
