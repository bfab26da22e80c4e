//! The registry of backups: which a session has, and which are about to go.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use crate::disk::files::backup::{self, Name, Stored};
use crate::ground::storage::Storage;
use crate::ground::sync::Mutex;
use crate::ground::sync::atomic::AtomicBool;

/// The directory of backups, and what stands in it.
#[derive(Debug)]
pub(crate) struct Backups {
    pub(crate) dir: PathBuf,
    /// Whether `dir` is known to be on disk by its name.
    pub(crate) synced: Arc<AtomicBool>,
    known: Mutex<Known>,
}

/// Backups by session, by number.
#[derive(Debug, Default)]
struct Known {
    here: BTreeMap<String, BTreeMap<u64, Stored>>,
    /// Their files are about to be removed, and may come back should that fail:
    /// their numbers are taken, and who deletes the session removes them too.
    dying: BTreeMap<String, BTreeMap<u64, Stored>>,
}

impl Backups {
    /// Takes stock of `dir`, which need not be there.
    ///
    /// # Errors
    /// As the operating system reports them.
    pub(crate) fn survey(storage: &dyn Storage, dir: PathBuf) -> io::Result<Self> {
        let found = backup::list(storage, &dir)?;
        let backups = Self {
            dir,
            synced: Arc::default(),
            known: Mutex::default(),
        };
        for stored in found {
            backups.enter(stored);
        }
        Ok(backups)
    }

    /// Where a backup stands.
    pub(crate) fn path(&self, name: &Name) -> PathBuf {
        self.dir.join(name.to_text())
    }

    /// The number of a session's next backup.
    pub(crate) fn next_number(&self, stem: &str) -> u64 {
        let known = self.known.lock();
        let last = |all: &BTreeMap<String, BTreeMap<u64, Stored>>| {
            let (number, _) = all.get(stem)?.last_key_value()?;
            Some(*number)
        };
        let last = last(&known.here).max(last(&known.dying));
        last.map_or(1, |number| number.saturating_add(1))
    }

    /// A session's backups, oldest first.
    pub(crate) fn of(&self, stem: &str) -> Vec<Stored> {
        let known = self.known.lock();
        let own = known.here.get(stem).into_iter();
        own.flat_map(BTreeMap::values).cloned().collect()
    }

    pub(crate) fn get(&self, stem: &str, number: u64) -> Option<Stored> {
        self.known.lock().here.get(stem)?.get(&number).cloned()
    }

    pub(crate) fn enter(&self, stored: Stored) {
        insert(&mut self.known.lock().here, stored);
    }

    /// Forgets a backup that is about to be removed; whether it was there.
    pub(crate) fn forget(&self, name: &Name) -> bool {
        let mut known = self.known.lock();
        let stored = remove(&mut known.here, name);
        let found = stored.is_some();
        if let Some(stored) = stored {
            insert(&mut known.dying, stored);
        }
        found
    }

    /// A [forgotten](Self::forget) backup stays after all, unless its session
    /// was deleted meanwhile.
    pub(crate) fn recall(&self, name: &Name) {
        let mut known = self.known.lock();
        if let Some(stored) = remove(&mut known.dying, name) {
            insert(&mut known.here, stored);
        }
    }

    /// The file of a [forgotten](Self::forget) backup is gone.
    pub(crate) fn gone(&self, name: &Name) {
        remove(&mut self.known.lock().dying, name);
    }

    /// Forgets a deleted session's backups; the names of all that may have a
    /// file still.
    pub(crate) fn take(&self, stem: &str) -> Vec<Name> {
        let mut known = self.known.lock();
        let own = [known.here.remove(stem), known.dying.remove(stem)];
        let stored = own.into_iter().flatten().flat_map(BTreeMap::into_values);
        stored.map(|stored| stored.name).collect()
    }
}

fn insert(all: &mut BTreeMap<String, BTreeMap<u64, Stored>>, stored: Stored) {
    let own = all.entry(stored.name.stem.clone()).or_default();
    own.insert(stored.name.number, stored);
}

/// Takes out the backup of this very name: a session that was deleted numbers
/// its backups anew.
fn remove(all: &mut BTreeMap<String, BTreeMap<u64, Stored>>, name: &Name) -> Option<Stored> {
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
