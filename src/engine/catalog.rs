//! The catalog: which session has which files, and which alias names which
//! session. Every look-up is a hash look-up; no directory is scanned.

mod aliases;
mod names;

use std::sync::Arc;

use crate::disk::session_file;
use crate::engine::snapshot::View;
use crate::ground::sync::Published;
use crate::ground::sync::atomic::{AtomicBool, Ordering};
use crate::ground::sync::map::Map;

pub use aliases::AliasConflict;
use aliases::Aliases;
use names::Names;

/// Owns reserved file names: no session has this key.
const NOBODY: &str = "";

/// A session that has files, or is about to.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) key: Arc<str>,
    /// Its file name without extension.
    pub(crate) stem: Arc<str>,
    /// Whether it has a sidecar, and so appears in a listing.
    pub(crate) listed: AtomicBool,
    /// Whether anything of it is to be read. Entered and refused its first
    /// write, it must not stand before an alias of that name.
    exists: AtomicBool,
    pub(crate) view: Published<View>,
}

impl Entry {
    fn new(key: Arc<str>, stem: Arc<str>, listed: bool, exists: bool) -> Arc<Self> {
        Arc::new(Self {
            key,
            stem,
            listed: AtomicBool::new(listed),
            exists: AtomicBool::new(exists),
            view: Published::new(Arc::new(View::Cold)),
        })
    }

    /// It has been written to, and has a sidecar, or will have one.
    pub(crate) fn mark_listed(&self) {
        if !self.listed.load(Ordering::Relaxed) {
            // In this order: whoever finds it listed must find it.
            self.exists.store(true, Ordering::Relaxed);
            self.listed.store(true, Ordering::Release);
        }
    }
}

/// Maps keys, aliases and file names to sessions.
#[derive(Debug, Default)]
pub(crate) struct Catalog {
    entries: Map<Arc<str>, Arc<Entry>>,
    names: Names,
    /// File names whose files name no owner: without sidecar, or with one that
    /// does not decode.
    orphans: Map<Arc<str>, ()>,
    aliases: Aliases,
}

impl Catalog {
    /// The session of this very key.
    pub(crate) fn get(&self, key: &str) -> Option<Arc<Entry>> {
        self.entries.get(key).map(|entry| entry.value().clone())
    }

    /// The name of files that nobody owns and that are `key`'s to take. A name
    /// with the key's hash in it comes first: no other key leads to it.
    pub(crate) fn orphan_of(&self, key: &str) -> Option<Arc<str>> {
        if self.orphans.is_empty() {
            return None;
        }
        let hashed = session_file::hashed_stem(key);
        let orphan = self
            .orphans
            .get(hashed.as_str())
            .or_else(|| self.orphans.get(session_file::plain_stem(key).as_str()));
        orphan.map(|orphan| orphan.key().clone())
    }

    /// Whether there is a session of this very key, or files it can take.
    pub(crate) fn knows(&self, key: &str) -> bool {
        self.entries.contains_key(key) || self.orphan_of(key).is_some()
    }

    /// Enters a session found on disk. `false` if the key has one already.
    pub(crate) fn enter(&self, key: &str, stem: &str, listed: bool) -> bool {
        if self.entries.contains_key(key) {
            return false;
        }
        let (key, stem): (Arc<str>, Arc<str>) = (key.into(), stem.into());
        self.names.enter(&stem, Some(key.clone()));
        self.entries
            .insert(key.clone(), Entry::new(key, stem, listed, true));
        true
    }

    /// Enters a session of which only backups are left: it holds its file name, and is
    /// not listed.
    pub(crate) fn enter_gone(&self, key: &str, stem: &str) {
        if self.entries.contains_key(key) || self.has_stem(stem) {
            return;
        }
        let (key, stem): (Arc<str>, Arc<str>) = (key.into(), stem.into());
        self.names.enter(&stem, Some(key.clone()));
        self.entries
            .insert(key.clone(), Entry::new(key, stem, false, false));
    }

    /// Enters files that name no owner.
    pub(crate) fn enter_orphan(&self, stem: &str) {
        if self.names.owner(stem).is_none() {
            let stem: Arc<str> = stem.into();
            self.names.enter(&stem, None);
            self.orphans.insert(stem, ());
        }
    }

    /// Other spellings of a file name that sessions or nobody's files have.
    pub(crate) fn twins(&self, stem: &str) -> Vec<Arc<str>> {
        self.names.twins(stem)
    }

    /// Whether there are files of this name: somebody's, or to be taken.
    pub(crate) fn has_stem(&self, stem: &str) -> bool {
        self.names.owner(stem).is_some() || self.orphans.contains_key(stem)
    }

    /// Keeps a file name from every session: what would be its sidecar is
    /// something else, and must not be written over.
    pub(crate) fn reserve(&self, stem: &str) {
        self.names.enter(&stem.into(), Some(NOBODY.into()));
    }

    /// Frees a reserved file name.
    pub(crate) fn release(&self, stem: &str) {
        self.names.disown(stem, NOBODY);
    }

    /// The session of `key`, with a file name of its own if it is new: the
    /// name PicoClaw would use, or if another key has that (or one that some
    /// file systems do not tell from it) or it is unsafe, one with a hash of the
    /// key.
    pub(crate) fn claim(&self, key: &Arc<str>) -> Arc<Entry> {
        if let Some(entry) = self.get(key) {
            return entry;
        }
        let orphan = self.orphan_of(key);
        let stem = self.claim_stem(key, orphan.as_ref());
        let entry = Entry::new(key.clone(), stem.clone(), false, orphan == Some(stem));
        self.entries
            .entry(key.clone())
            .or_insert(entry)
            .value()
            .clone()
    }

    fn claim_stem(&self, key: &Arc<str>, orphan: Option<&Arc<str>>) -> Arc<str> {
        let plain = session_file::plain_stem(key);
        let plain = session_file::is_safe_stem(&plain).then_some(plain);
        let mut hashed = session_file::hashed_stem(key);
        let first = orphan.cloned().or(plain.map(Into::into));
        if let Some(stem) = first.filter(|stem| self.own(stem, key)) {
            return stem;
        }
        // Another key may be spelled like this one's hashed name.
        loop {
            let stem: Arc<str> = hashed.as_str().into();
            if self.own(&stem, key) {
                return stem;
            }
            hashed.push('~');
        }
    }

    /// Makes `key` the owner of a file name, unless it has one.
    fn own(&self, stem: &Arc<str>, key: &Arc<str>) -> bool {
        let ours = self.names.own(stem, key);
        if ours {
            self.orphans.remove(stem);
        }
        ours
    }

    /// Forgets a deleted session; its file name and aliases are free again.
    pub(crate) fn remove(&self, entry: &Arc<Entry>, aliases: &[String]) {
        self.aliases.replace(entry, aliases, &[]);
        self.entries.remove(&entry.key);
        self.names.disown(&entry.stem, &entry.key);
    }

    /// Whether a file name is another session's than `key`'s.
    pub(crate) fn is_others(&self, stem: &str, key: &str) -> bool {
        let owner = self.names.owner(stem);
        owner.is_some_and(|owner| *owner != *key)
    }

    /// Replaces a session's aliases. Another session may claim one of them, too:
    /// whom it means then is settled, and a log says that it is claimed twice.
    pub(crate) fn set_aliases(&self, entry: &Arc<Entry>, old: &[String], new: &[String]) {
        if old == new {
            return;
        }
        for alias in self.aliases.replace(entry, old, new) {
            let means = self.resolve(&alias);
            tracing::warn!(alias, session = %entry.key, means, "an alias of several sessions");
        }
    }

    /// Enters the aliases of a session found on disk. Those that several claim
    /// are in [`alias_conflicts`](Self::alias_conflicts).
    pub(crate) fn enter_aliases(&self, entry: &Arc<Entry>, aliases: &[String]) {
        self.aliases.replace(entry, &[], aliases);
    }

    /// Every alias that several sessions claim, in order.
    pub(crate) fn alias_conflicts(&self) -> Vec<AliasConflict> {
        self.aliases.conflicts()
    }

    /// The canonical key for `key`, as PicoClaw resolves it: the key itself
    /// if it has files and no `:`, `/` or `\`; else the session that claims
    /// it as an alias, the first by file name if several do; else the key
    /// itself if it has a session or files. White space around it is part of
    /// it if a session has it in its key, which would be out of reach otherwise.
    pub(crate) fn resolve(&self, key: &str) -> Option<String> {
        let padded = key;
        let key = key.trim();
        if padded.len() != key.len() && self.has_files(padded) {
            return Some(padded.into());
        }
        if key.is_empty() {
            return None;
        }
        if session_file::short_circuits(key) && self.has_files(key) {
            return Some(key.into());
        }
        self.aliases
            .resolve(key)
            .map(|key| key.to_string())
            .or_else(|| self.has_files(key).then(|| key.into()))
    }

    /// The canonical key for `key`, if it is another one.
    pub(crate) fn resolve_other(&self, key: &str) -> Option<Arc<str>> {
        let padded = key.trim() != key;
        if !padded && self.aliases.is_empty() {
            return None;
        }
        self.resolve(key)
            .filter(|resolved| resolved != key)
            .map(Into::into)
    }

    /// Whether anything is to be read under this very key.
    pub(crate) fn has_files(&self, key: &str) -> bool {
        match self.entries.get(key) {
            Some(entry) => entry.exists.load(Ordering::Relaxed),
            None => self.orphan_of(key).is_some(),
        }
    }

    /// Lets go of every session's file: handles that outlive the store must not
    /// keep descriptors open.
    pub(crate) fn close_files(&self) {
        for entry in &self.entries {
            entry.view.store(Arc::new(View::Cold));
        }
    }

    /// Every listed key, in the order of file names, as PicoClaw lists them.
    pub(crate) fn list(&self) -> Vec<String> {
        let mut listed: Vec<_> = self
            .entries
            .iter()
            .filter(|entry| entry.listed.load(Ordering::Acquire))
            .map(|entry| {
                (
                    session_file::sidecar_name(&entry.stem),
                    entry.key.to_string(),
                )
            })
            .collect();
        listed.sort_unstable();
        listed.into_iter().map(|(_, key)| key).collect()
    }

    /// The file names that name no owner, in order.
    pub(crate) fn orphans(&self) -> Vec<String> {
        let mut orphans: Vec<_> = self
            .orphans
            .iter()
            .map(|orphan| orphan.key().to_string())
            .collect();
        orphans.sort_unstable();
        orphans
    }

    /// How many sessions are entered.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ground::sync::thread;

    /// Workers change aliases at the same time.
    #[test]
    fn an_alias_is_found_whatever_other_workers_take_away_meanwhile() {
        for _ in 0..2_000 {
            let catalog = Arc::new(Catalog::default());
            let (mine, other) = (
                catalog.claim(&"mine".into()),
                catalog.claim(&"other".into()),
            );
            let (a, b) = ([String::from("a")], [String::from("b")]);
            catalog.set_aliases(&other, &[], &b);
            let shared = catalog.clone();
            let worker = thread::spawn("worker", move || shared.set_aliases(&other, &b, &[]));
            catalog.set_aliases(&mine, &[], &a);
            worker.unwrap().join().unwrap();
            assert_eq!(catalog.resolve("a").as_deref(), Some("mine"));
        }
    }
}
