//! What a store that ends in order keeps of its catalog, for the next open: to list the
//! directory and read every sidecar takes 7 µs a session, to read one file a fraction.
//!
//! It is believed if the store's journal is empty and the directory is the very one, with
//! the names it had: nobody made, removed, renamed or replaced a file since, as PicoClaw and
//! most programs do when they write a sidecar. What somebody wrote into one in place is
//! found when the session is first used (`shard/load.rs`): aliases count from then on, a
//! sidecar that does not decode is taken from its copy, and one that names another key
//! keeps its session closed until the directory is read again.
//!
//! # What a crash leaves
//!
//! Nothing that is believed: while a store runs there is no such file, and an unclean end
//! leaves a journal. That the file of an earlier end is gone is synced before anything is
//! written: after a power loss it would be back, and if sidecars were only written in place
//! since, the directory would still be the one it speaks of. The new file is not synced: a
//! power loss may leave none, or part of one, which does not decode.

use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use foldhash::fast::RandomState;

use super::catalog::Catalog;
use super::home::{self, Home};
use crate::disk::catalog_file::{self, Rows, Version};
use crate::disk::files::{self, is_temp_name, sidecar};
use crate::disk::journal::segment::StoreId;
use crate::disk::session_file::{self, LOG, SIDECAR};
use crate::engine::recovery::redo::is_scratch_name;
use crate::ground::storage::{DirEntry, FileKind, OpenMode, SAME_TIME, Storage, StorageFile};
use crate::ground::sync::thread;

/// Stores with fewer sessions keep nothing: reading their sidecars takes some
/// milliseconds, and finds also what was written in place.
pub(crate) const FROM: usize = 1_000;

/// How often the clock of the file system is waited for.
const TRIES: usize = 3;

/// Where the catalog of a store is kept, and from how many sessions on.
#[derive(Debug)]
pub(crate) struct Kept {
    path: PathBuf,
    temp: PathBuf,
    id: StoreId,
    from: usize,
    /// When the store was opened, by the clock of the file system.
    opened: Option<i128>,
}

impl Kept {
    /// For a store whose lock was just taken.
    pub(crate) fn of(storage: &dyn Storage, home: &Home, id: StoreId, from: usize) -> Self {
        Self {
            path: home.catalog.clone(),
            temp: home.catalog.with_extension("tmp"),
            id,
            from,
            opened: home.locked_at(storage),
        }
    }

    /// Removes what was kept, and gives it if it is to be believed.
    ///
    /// # Errors
    /// If it is there and cannot be removed for good.
    pub(crate) fn take(&self, storage: &dyn Storage, dir: &Path) -> io::Result<Option<Catalog>> {
        let catalog = self.look(storage, dir);
        if self.remove(storage)?
            && let Some(home) = self.path.parent()
        {
            storage.sync_dir(home)?;
        }
        Ok(catalog)
    }

    /// What was kept, if it is to be believed. It stays, for who only reads.
    pub(crate) fn look(&self, storage: &dyn Storage, dir: &Path) -> Option<Catalog> {
        let bytes = files::read_whole(storage, &self.path).ok()?;
        let version = Version::of(&storage.info(dir).ok()?);
        let rows = catalog_file::decode(&bytes, &self.id, version)?;
        Catalog::of(rows, home::name_rule(storage, dir))
    }

    /// Whether anything was there.
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

    /// Keeps the catalog of a store that has written everything and will write no more,
    /// unless it is small or says less of the directory than the next open would find. A
    /// failure costs that open time, and nothing else.
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
        if Version::of(&storage.info(dir)?) != version {
            return self.remove(storage).map(drop);
        }
        storage.rename(&self.temp, &self.path)
    }
}

/// The directory, once so much time has passed since its last change that the next has
/// another time. `None` if it does not come to rest, or its times are in whole seconds.
fn settled(
    storage: &dyn Storage,
    dir: &Path,
    probe: &dyn StorageFile,
) -> io::Result<Option<Version>> {
    for _ in 0..TRIES {
        // The time of a new write to the same file system: another clock may differ.
        probe.write_all_at(b"\n", 0)?;
        let (now, dir) = (probe.info()?.changed, storage.info(dir)?);
        if dir.changed % 1_000_000_000 == 0 {
            return Ok(None);
        }
        if now - dir.changed > SAME_TIME {
            return Ok(Some(Version::of(&dir)));
        }
        thread::pause(Duration::from_nanos(SAME_TIME as u64));
    }
    Ok(None)
}

/// Whether the directory holds these sessions' sidecars, and nothing that the next open would
/// tell of or remove: a session file or sidecar of another name, what was never put in place.
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

/// Whether a sidecar says what its row does, which then says when it was updated. One that
/// was not written since the store was opened was read then; of the others another program
/// may have written some.
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
