//! The registry of backups: the backups of each session, and those about to go.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use sessionlog_core::session_file::{self, SessionMeta};
use sessionlog_wal::storage::{self, OpenMode, Storage};
use sessionlog_wal::sync::Mutex;
use sessionlog_wal::sync::atomic::AtomicBool;

use crate::disk::files::backup::{self, BackupFile, BackupName};
use crate::disk::files::sidecar;

/// The directory of backups, and the files in it.
#[derive(Debug)]
pub(crate) struct Backups {
    pub(crate) dir: PathBuf,
    /// True if the name of `dir` is known to be on disk.
    pub(crate) synced: Arc<AtomicBool>,
    known: Mutex<KnownBackups>,
}

/// Backups by session, by number.
#[derive(Debug, Default)]
struct KnownBackups {
    here: BTreeMap<String, BTreeMap<u64, BackupFile>>,
    /// The highest number given to a backup of a session for which a marker file exists.
    marked: BTreeMap<String, u64>,
    /// Backups with files about to be removed; they come back if that fails. Their numbers stay
    /// taken, and deleting the session removes them too.
    dying: BTreeMap<String, BTreeMap<u64, BackupFile>>,
}

impl Backups {
    /// Takes stock of `dir`, which need not be there.
    ///
    /// # Errors
    /// As the operating system reports them.
    pub(crate) fn survey(storage: &dyn Storage, dir: PathBuf) -> io::Result<Self> {
        let found = backup::list(storage, &dir)?;
        let marks = storage::names(storage, &dir)?;
        let backups = Self {
            dir,
            synced: Arc::default(),
            known: Mutex::default(),
        };
        for stored in found {
            backups.enter(stored);
        }
        for (stem, number) in marks
            .iter()
            .filter_map(|name| backup::parse_number_marker(name))
        {
            backups.mark(stem, number);
        }
        Ok(backups)
    }

    /// Prevents the number of a backup that is about to be removed from being given again, also
    /// after the next open: a caller that wrote it down would restore another conversation.
    ///
    /// # Errors
    /// As the operating system reports them.
    pub(crate) fn keep_number(&self, storage: &dyn Storage, name: &BackupName) -> io::Result<()> {
        let old = {
            let known = self.known.lock();
            let newer = known
                .here
                .get(&name.stem)
                .and_then(|own| own.last_key_value());
            let old = known.marked.get(&name.stem).copied();
            if newer.is_some_and(|(number, _)| *number > name.number) || old >= Some(name.number) {
                return Ok(());
            }
            old
        };
        let path = |number| self.dir.join(backup::number_marker(&name.stem, number));
        match storage.open(&path(name.number), OpenMode::CreateNew) {
            Err(e) if e.kind() != io::ErrorKind::AlreadyExists => return Err(e),
            _ => storage.sync_dir(&self.dir)?,
        }
        self.mark(&name.stem, name.number);
        old.map_or(Ok(()), |old| storage.remove_file(&path(old)))
    }

    fn mark(&self, stem: &str, number: u64) {
        let mut known = self.known.lock();
        let marked = known.marked.entry(stem.into()).or_default();
        *marked = number.max(*marked);
    }

    /// Returns the sidecar that went with a backup, if one was kept.
    pub(crate) fn sidecar(&self, storage: &dyn Storage, name: &BackupName) -> Option<SessionMeta> {
        let bytes = sidecar::read_bytes(storage, &self.dir.join(name.sidecar())).ok()?;
        session_file::decode_sidecar(&bytes).ok()
    }

    /// Returns the path of a backup.
    pub(crate) fn path(&self, name: &BackupName) -> PathBuf {
        self.dir.join(name.to_text())
    }

    /// Returns the number of a session's next backup.
    pub(crate) fn next_number(&self, stem: &str) -> u64 {
        let known = self.known.lock();
        let last = |all: &BTreeMap<String, BTreeMap<u64, BackupFile>>| {
            let (number, _) = all.get(stem)?.last_key_value()?;
            Some(*number)
        };
        let marked = known.marked.get(stem).copied();
        let last = last(&known.here).max(last(&known.dying)).max(marked);
        last.map_or(1, |number| number.saturating_add(1))
    }

    /// Returns a session's backups, oldest first.
    pub(crate) fn of(&self, stem: &str) -> Vec<BackupFile> {
        let known = self.known.lock();
        let own = known.here.get(stem).into_iter();
        own.flat_map(BTreeMap::values).cloned().collect()
    }

    pub(crate) fn get(&self, stem: &str, number: u64) -> Option<BackupFile> {
        self.known.lock().here.get(stem)?.get(&number).cloned()
    }

    pub(crate) fn enter(&self, stored: BackupFile) {
        insert(&mut self.known.lock().here, stored);
    }

    /// Forgets a backup that is about to be removed; returns true if it was there.
    pub(crate) fn forget(&self, name: &BackupName) -> bool {
        let mut known = self.known.lock();
        let stored = remove(&mut known.here, name);
        let found = stored.is_some();
        if let Some(stored) = stored {
            insert(&mut known.dying, stored);
        }
        found
    }

    /// Puts a [forgotten](Self::forget) backup back, unless its session was deleted meanwhile.
    pub(crate) fn recall(&self, name: &BackupName) {
        let mut known = self.known.lock();
        if let Some(stored) = remove(&mut known.dying, name) {
            insert(&mut known.here, stored);
        }
    }

    /// Notes that the file of a [forgotten](Self::forget) backup is gone.
    pub(crate) fn gone(&self, name: &BackupName) {
        remove(&mut self.known.lock().dying, name);
    }

    /// Forgets a deleted session's backups; returns the paths of all that may still have a file.
    pub(crate) fn take(&self, stem: &str) -> Vec<PathBuf> {
        let mut known = self.known.lock();
        let last = known.marked.remove(stem);
        let own = [known.here.remove(stem), known.dying.remove(stem)];
        let stored = own.into_iter().flatten().flat_map(BTreeMap::into_values);
        let names = stored.flat_map(|stored| stored.name.files());
        let marker = last.map(|number| backup::number_marker(stem, number));
        names
            .chain(marker)
            .map(|name| self.dir.join(name))
            .collect()
    }
}

fn insert(all: &mut BTreeMap<String, BTreeMap<u64, BackupFile>>, stored: BackupFile) {
    let own = all.entry(stored.name.stem.clone()).or_default();
    own.insert(stored.name.number, stored);
}

/// Takes out the backup with exactly this name: a session that was deleted numbers its backups
/// anew.
fn remove(
    all: &mut BTreeMap<String, BTreeMap<u64, BackupFile>>,
    name: &BackupName,
) -> Option<BackupFile> {
    let own = all.get_mut(&name.stem)?;
    if own.get(&name.number)?.name != *name {
        return None;
    }
    let stored = own.remove(&name.number);
    if own.is_empty() {
        all.remove(&name.stem);
    }
    stored
}
