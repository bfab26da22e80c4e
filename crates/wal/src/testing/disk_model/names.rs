//! What the cache and the disk each hold of the directories.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::draw::Draw;
use super::faults::SyncFault;

/// An inode number.
pub(super) type Ino = u64;

/// The names in one directory.
pub(super) type Entries = BTreeMap<Arc<str>, Ino>;

/// A name in a directory.
type Key = (Ino, Arc<str>);

/// Every directory's names, as callers see them and as a power loss would leave
/// them.
#[derive(Clone, Debug, Default)]
pub(super) struct DirectoryNames {
    cache: Directories,
    durable: Directories,
    /// Operations the disk may not have seen, oldest first. Each is atomic, and
    /// one that touches a name never lands before an older one that does.
    pending: Vec<Operation>,
}

type Directories = BTreeMap<Ino, Directory>;

#[derive(Clone, Debug, Default)]
struct Directory {
    entries: Entries,
    /// The count of the operation that last changed them.
    changed: u64,
}

/// One creation, renaming or removal.
#[derive(Clone, Debug)]
struct Operation {
    /// When it was made, counted over the whole file system.
    seq: u64,
    /// What each name it touches stands for afterwards.
    changes: Vec<(Key, Option<Ino>)>,
}

/// Which pending operations a power loss leaves on the disk.
#[derive(Clone, Debug)]
pub(super) enum NameSurvival {
    /// None of them.
    Nothing,
    /// All of them.
    Everything,
    /// Those made at or after a moment, and what they build on.
    Since(u64),
    /// A choice among none, all, a prefix, and any set in which each name's
    /// history is a prefix.
    Drawn(Draw),
}

impl DirectoryNames {
    /// Adds an empty directory; its own name is a separate operation.
    pub(super) fn add_directory(&mut self, directory: Ino) {
        self.cache.insert(directory, Directory::default());
        self.durable.insert(directory, Directory::default());
    }

    /// The directory's names, unless `directory` is none.
    pub(super) fn entries(&self, directory: Ino) -> Option<&Entries> {
        Some(&self.cache.get(&directory)?.entries)
    }

    /// The count of the operation that last changed a directory.
    pub(super) fn changed(&self, directory: Ino) -> u64 {
        self.cache.get(&directory).map_or(0, |found| found.changed)
    }

    /// Lets names stand for other things, or for nothing, in one atomic step.
    pub(super) fn apply(&mut self, seq: u64, changes: &[(Ino, &str, Option<Ino>)]) {
        let changes: Vec<_> = changes
            .iter()
            .map(|(directory, name, ino)| ((*directory, Arc::from(*name)), *ino))
            .collect();
        let operation = Operation { seq, changes };
        operation.land(&mut self.cache);
        self.pending.push(operation);
    }

    /// The directory's names reach the disk, with all they depend on.
    pub(super) fn sync(&mut self, directory: Ino) {
        for operation in self.take(|key| key.0 == directory) {
            operation.land(&mut self.durable);
        }
    }

    /// One name reaches the disk, with all it depends on.
    pub(super) fn sync_name(&mut self, directory: Ino, name: &str) {
        for operation in self.take(|key| key.0 == directory && *key.1 == *name) {
            operation.land(&mut self.durable);
        }
    }

    pub(super) fn sync_all(&mut self) {
        for operation in std::mem::take(&mut self.pending) {
            operation.land(&mut self.durable);
        }
    }

    /// A sync of the directory reports failure.
    pub(super) fn fail_sync(&mut self, directory: Ino, fault: SyncFault) {
        let covered = self.take(|key| key.0 == directory);
        self.fail(&covered, fault);
    }

    /// A sync of every directory reports failure.
    pub(super) fn fail_sync_all(&mut self, fault: SyncFault) {
        let covered = std::mem::take(&mut self.pending);
        self.fail(&covered, fault);
    }

    fn fail(&mut self, covered: &[Operation], fault: SyncFault) {
        match fault {
            SyncFault::CleanPageStaleDisk => {}
            SyncFault::ContentReverted => {
                for ((directory, name), _) in covered.iter().flat_map(|o| &o.changes) {
                    let known = self.durable.get(directory);
                    let known = known.and_then(|found| found.entries.get(name)).copied();
                    let shown = self.cache.entry(*directory).or_default();
                    shown.set(name, known);
                }
            }
            SyncFault::ReportedFailedButLanded => {
                for operation in covered {
                    operation.land(&mut self.durable);
                }
            }
        }
    }

    /// Removes from the pending operations those that touch a `wanted` name and
    /// those they build on.
    fn take(&mut self, wanted: impl Fn(&Key) -> bool) -> Vec<Operation> {
        let chosen = self.closure(|operation| operation.keys().any(&wanted));
        let mut taken = Vec::new();
        let mut kept = Vec::new();
        for (operation, chosen) in std::mem::take(&mut self.pending).into_iter().zip(chosen) {
            if chosen {
                taken.push(operation);
            } else {
                kept.push(operation);
            }
        }
        self.pending = kept;
        taken
    }

    /// For each pending operation whether it is `wanted` or a wanted one builds
    /// on it by touching a name that it touched.
    fn closure(&self, wanted: impl Fn(&Operation) -> bool) -> Vec<bool> {
        let mut needed: BTreeSet<&Key> = BTreeSet::new();
        let mut chosen = vec![false; self.pending.len()];
        for (nth, operation) in self.pending.iter().enumerate().rev() {
            if wanted(operation) || operation.keys().any(|key| needed.contains(key)) {
                needed.extend(operation.keys());
                chosen[nth] = true;
            }
        }
        chosen
    }

    pub(super) fn pending_seqs(&self) -> impl Iterator<Item = u64> {
        self.pending.iter().map(|operation| operation.seq)
    }

    /// Every inode that a name stands for.
    pub(super) fn named(&self) -> BTreeSet<Ino> {
        let directories = self.cache.values();
        directories
            .flat_map(|found| found.entries.values().copied())
            .collect()
    }

    /// Forgets the directories that are not in `kept`.
    pub(super) fn retain(&mut self, kept: &BTreeSet<Ino>) {
        self.cache.retain(|directory, _| kept.contains(directory));
        self.durable.retain(|directory, _| kept.contains(directory));
    }

    /// Every inode that some name stands for, stood for or may yet stand for.
    pub(super) fn mentioned(&self) -> BTreeSet<Ino> {
        let listed = self.cache.values().chain(self.durable.values());
        let listed = listed.flat_map(|found| found.entries.values().copied());
        let awaited = self.pending.iter().flat_map(|o| &o.changes);
        listed.chain(awaited.filter_map(|(_, ino)| *ino)).collect()
    }

    /// What the disk holds after a power loss, on a fresh disk.
    pub(super) fn after_power_loss(&self, survival: &NameSurvival) -> Self {
        let landed = match survival {
            NameSurvival::Nothing => vec![false; self.pending.len()],
            NameSurvival::Everything => vec![true; self.pending.len()],
            NameSurvival::Since(moment) => self.closure(|o| o.seq >= *moment),
            NameSurvival::Drawn(draw) => self.drawn(draw.clone()),
        };
        let mut disk = self.durable.clone();
        for (operation, landed) in self.pending.iter().zip(landed) {
            if landed {
                operation.land(&mut disk);
            }
        }
        Self {
            cache: disk.clone(),
            durable: disk,
            pending: Vec::new(),
        }
    }

    fn drawn(&self, mut draw: Draw) -> Vec<bool> {
        let all = self.pending.len();
        match draw.next() % 4 {
            0 => vec![false; all],
            1 => vec![true; all],
            2 => {
                let landed = draw.up_to(all);
                (0..all).map(|nth| nth < landed).collect()
            }
            _ => self.drawn_per_name(draw),
        }
    }

    fn drawn_per_name(&self, mut draw: Draw) -> Vec<bool> {
        let mut lost: BTreeSet<&Key> = BTreeSet::new();
        let mut landed = Vec::with_capacity(self.pending.len());
        for operation in &self.pending {
            let lands =
                draw.next().is_multiple_of(2) && !operation.keys().any(|k| lost.contains(k));
            if !lands {
                lost.extend(operation.keys());
            }
            landed.push(lands);
        }
        landed
    }
}

impl Operation {
    fn keys(&self) -> impl Iterator<Item = &Key> {
        self.changes.iter().map(|(key, _)| key)
    }

    fn land(&self, directories: &mut Directories) {
        for ((directory, name), ino) in &self.changes {
            let found = directories.entry(*directory).or_default();
            found.set(name, *ino);
            found.changed = found.changed.max(self.seq);
        }
    }
}

impl Directory {
    fn set(&mut self, name: &Arc<str>, ino: Option<Ino>) {
        match ino {
            Some(ino) => self.entries.insert(Arc::clone(name), ino),
            None => self.entries.remove(name),
        };
    }
}
