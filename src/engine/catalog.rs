//! The catalog: the files of each session, and the session that each alias names. Every look-up is
//! a hash look-up; no directory is scanned.

mod aliases;
mod entry;
mod listing;
mod names;
mod table;

use std::sync::Arc;

use sessionlog_core::rules;
use sessionlog_core::session_file::{self, NameRule};
use sessionlog_wal::sync::Mutex;
use sessionlog_wal::sync::atomic::{AtomicBool, Ordering};
use sessionlog_wal::sync::map::Map;

use crate::disk::catalog_file::Rows;
use crate::engine::snapshot::View;

pub use aliases::AliasConflict;
use aliases::Aliases;
pub(crate) use entry::Entry;
use names::FoldedNames;
use table::Table;

/// Owns reserved file names: no session has this key.
const NOBODY: &str = "";

/// Maps keys, aliases and file names to sessions.
#[derive(Debug, Default)]
pub(crate) struct Catalog {
    /// The sessions that were found at open and not used since. A session that is asked for leaves
    /// it and joins the others; it never comes back.
    table: Table,
    /// Held while a session moves: of two callers that look for the same session, one would
    /// otherwise enter it after the other had deleted it.
    moving: Mutex<()>,
    entries: Map<Arc<str>, Arc<Entry>>,
    names: FoldedNames,
    /// File names with files that name no owner: without sidecar, or with one that does not decode.
    /// The value is true if there is a session file among them.
    orphans: Map<Arc<str>, bool>,
    aliases: Aliases,
    /// True if the directory must be read again: a file turned out to be another session's. Read
    /// when everything else has ended.
    doubted: AtomicBool,
}

impl Catalog {
    /// Makes a catalog of sessions found on disk, with a rule that tells names apart. `None` if two
    /// have one key.
    pub(crate) fn of(rows: Rows, rule: NameRule) -> Option<Self> {
        let table = Table::of(rows, rule)?;
        Some(Self {
            aliases: Aliases::of(&table),
            names: FoldedNames::of(rule),
            table,
            ..Self::default()
        })
    }

    /// Returns the session of exactly this key.
    pub(crate) fn get(&self, key: &str) -> Option<Arc<Entry>> {
        self.entered(key).or_else(|| {
            self.bring_in(self.table.row_of(key)?);
            self.entered(key)
        })
    }

    /// Returns the session of exactly this key, if it was looked for since the open.
    pub(crate) fn entered(&self, key: &str) -> Option<Arc<Entry>> {
        self.entries.get(key).map(|entry| entry.value().clone())
    }

    /// Moves a session out of the table.
    fn bring_in(&self, row: usize) {
        if self.table.is_out(row) {
            return;
        }
        let _moving = self.moving.lock();
        if self.table.is_out(row) {
            return;
        }
        let (key, stem): (Arc<str>, Arc<str>) =
            (self.table.key(row).into(), self.table.stem(row).into());
        self.names.enter(&stem, Some(key.clone()));
        let entry = Entry::new(key.clone(), stem, true, true, Some(row as u32));
        self.entries.insert(key, entry);
        self.table.take_out(row);
    }

    /// Moves the sessions out of the table that have this file name, or another spelling of it.
    fn bring_in_named(&self, stem: &str) {
        for row in self.table.rows_named(stem) {
            self.bring_in(row);
        }
    }

    /// Returns the aliases that a session had when it was found, unless it began since.
    pub(crate) fn found_aliases(&self, entry: &Entry) -> Option<Vec<String>> {
        let aliases = self.table.aliases(entry.row? as usize);
        Some(aliases.map(str::to_owned).collect())
    }

    /// Returns the time of a session's update, from its sidecar when it was found: nanoseconds
    /// since 1970. `None` if that is not known.
    pub(crate) fn found_updated(&self, key: &str) -> Option<i64> {
        self.table.updated(self.table.row_of(key)?)
    }

    /// Returns the name of files that no session owns and that `key` may take. A name with the
    /// key's hash in it comes first: no other key leads to it.
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

    /// True if a session was found at the open and not used since.
    pub(crate) fn is_untouched(&self, key: &str) -> bool {
        self.table.holds(key)
    }

    /// True if there is a session of exactly this key, or files that it can take.
    pub(crate) fn knows(&self, key: &str) -> bool {
        self.has(key) || self.orphan_of(key).is_some()
    }

    /// In this order: a session that leaves the table is entered before.
    fn has(&self, key: &str) -> bool {
        self.table.holds(key) || self.entries.contains_key(key)
    }

    /// Enters a session found on disk, and its aliases. Returns `false` if the key has one already.
    pub(crate) fn enter(&self, key: &str, stem: &str, aliases: &[String]) -> bool {
        if self.has(key) {
            return false;
        }
        let (key, stem): (Arc<str>, Arc<str>) = (key.into(), stem.into());
        self.names.enter(&stem, Some(key.clone()));
        let entry = Entry::new(key.clone(), stem, true, true, None);
        self.entries.insert(key, entry.clone());
        self.aliases.replace(&self.table, &entry, &[], aliases);
        true
    }

    /// Enters a session that only has backups left: it holds its file name, and is not listed.
    pub(crate) fn enter_gone(&self, key: &str, stem: &str) {
        if self.has(key) || self.has_stem(stem) {
            return;
        }
        let (key, stem): (Arc<str>, Arc<str>) = (key.into(), stem.into());
        self.names.enter(&stem, Some(key.clone()));
        self.entries
            .insert(key.clone(), Entry::new(key, stem, false, false, None));
    }

    /// Enters files that name no owner; `has_log` is true if a session file is among them.
    pub(crate) fn enter_orphan(&self, stem: &str, has_log: bool) {
        self.bring_in_named(stem);
        if self.names.owner(stem).is_none() {
            let stem: Arc<str> = stem.into();
            self.names.enter(&stem, None);
            self.orphans.insert(stem, has_log);
        }
    }

    /// True if a session was found on disk under exactly this file name.
    pub(crate) fn found(&self, stem: &str) -> bool {
        let mut rows = self.table.rows_named(stem);
        rows.any(|row| self.table.stem(row) == stem)
    }

    /// Returns other spellings of a file name that sessions or unowned files have.
    pub(crate) fn twins(&self, stem: &str) -> Vec<Arc<str>> {
        self.bring_in_named(stem);
        self.names.twins(stem)
    }

    /// True if there are files of this name: a session's, or free to be taken.
    pub(crate) fn has_stem(&self, stem: &str) -> bool {
        self.bring_in_named(stem);
        self.names.owner(stem).is_some() || self.orphans.contains_key(stem)
    }

    /// Reserves a file name against all sessions: the file with its sidecar's name is something
    /// else, and must not be written over.
    pub(crate) fn reserve(&self, stem: &str) {
        self.bring_in_named(stem);
        self.names.enter(&stem.into(), Some(NOBODY.into()));
    }

    /// Frees a reserved file name.
    pub(crate) fn release(&self, stem: &str) {
        self.names.disown(stem, NOBODY);
    }

    /// Returns the session of `key`. If it is new, it gets a file name of its own: the name
    /// PicoClaw would use; or, if another key has that name (or one that some file systems do not
    /// tell from it) or it is unsafe, a name with a hash of the key.
    pub(crate) fn claim(&self, key: &Arc<str>) -> Arc<Entry> {
        if let Some(entry) = self.get(key) {
            return entry;
        }
        let orphan = self.orphan_of(key);
        let stem = self.claim_stem(key, orphan.as_ref());
        let exists = orphan.as_ref() == Some(&stem);
        let entry = Entry::new(key.clone(), stem, false, exists, None);
        self.entries
            .entry(key.clone())
            .or_insert(entry)
            .value()
            .clone()
    }

    fn claim_stem(&self, key: &Arc<str>, orphan: Option<&Arc<str>>) -> Arc<str> {
        let plain = session_file::plain_stem(key);
        let plain = session_file::is_safe_stem(&plain).then_some(plain);
        let first = orphan.cloned().or(plain.map(Into::into));
        if let Some(stem) = first.filter(|stem| self.own(stem, key)) {
            return stem;
        }
        let mut hashed = session_file::hashed_stem(key);
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
        self.bring_in_named(stem);
        let ours = self.names.own(stem, key);
        if ours {
            self.orphans.remove(stem);
        }
        ours
    }

    /// Forgets a deleted session; its file name and aliases are free again.
    pub(crate) fn remove(&self, entry: &Arc<Entry>, aliases: &[String]) {
        self.aliases.replace(&self.table, entry, aliases, &[]);
        self.entries.remove(&entry.key);
        self.names.disown(&entry.stem, &entry.key);
    }

    /// True if a file name belongs to another session than `key`'s.
    pub(crate) fn is_others(&self, stem: &str, key: &str) -> bool {
        self.bring_in_named(stem);
        let owner = self.names.owner(stem);
        owner.is_some_and(|owner| *owner != *key)
    }

    /// Replaces a session's aliases. Another session may claim one of them, too: `resolve` decides
    /// then which session it means, and a log entry says that it is claimed twice.
    pub(crate) fn set_aliases(&self, entry: &Arc<Entry>, old: &[String], new: &[String]) {
        if old == new {
            return;
        }
        for alias in self.aliases.replace(&self.table, entry, old, new) {
            let means = self.resolve(&alias);
            tracing::warn!(alias, session = %entry.key, means, "an alias of several sessions");
        }
    }

    /// Returns every alias that several sessions claim, in order.
    pub(crate) fn alias_conflicts(&self) -> Vec<AliasConflict> {
        self.aliases.conflicts(&self.table)
    }

    /// Returns the key of the session that `key` means: see [`rules::names::resolve`].
    pub(crate) fn resolve(&self, key: &str) -> Option<String> {
        let claimant = |alias: &str| self.aliases.resolve(&self.table, alias);
        rules::names::resolve(
            key,
            |key| self.has_files(key),
            |alias| claimant(alias).map(|key| key.to_string()),
        )
    }

    /// Returns the session that claims `key` as an alias, the first by file name if several do,
    /// also where the key means its own session.
    pub(crate) fn claimant(&self, key: &str) -> Option<Arc<str>> {
        self.aliases.resolve(&self.table, key)
    }

    /// Returns the canonical key for `key`, if it is another one.
    pub(crate) fn resolve_other(&self, key: &str) -> Option<Arc<str>> {
        let padded = key.trim() != key;
        if !padded && self.aliases.is_empty() {
            return None;
        }
        self.resolve(key)
            .filter(|resolved| resolved != key)
            .map(Into::into)
    }

    /// True if anything can be read under exactly this key.
    pub(crate) fn has_files(&self, key: &str) -> bool {
        if self.table.holds(key) {
            return true;
        }
        match self.entries.get(key) {
            Some(entry) => entry.exists.load(Ordering::Relaxed),
            None => self.orphan_of(key).is_some(),
        }
    }

    /// Lets go of every session's file: handles that outlive the store must not keep descriptors
    /// open.
    pub(crate) fn close_files(&self) {
        for entry in &self.entries {
            entry.view.store(Arc::new(View::Cold));
        }
    }

    /// Notes that a session found on disk is another's.
    pub(crate) fn doubt(&self) {
        self.doubted.store(true, Ordering::Relaxed);
    }

    /// True if the listed sessions are all that is known of the directory.
    pub(crate) fn is_plain(&self) -> bool {
        self.orphans.is_empty() && !self.doubted.load(Ordering::Relaxed)
    }

    /// Returns the file names that name no owner, in order.
    pub(crate) fn orphans(&self) -> Vec<String> {
        let mut orphans: Vec<_> = self
            .orphans
            .iter()
            .map(|orphan| orphan.key().to_string())
            .collect();
        orphans.sort_unstable();
        orphans
    }

    /// Returns the session files that name no session and have a name that, taken as a key, leads
    /// to them, in no particular order. They are listed under that name until a write shows their
    /// owner.
    pub(crate) fn nameless(&self) -> Vec<String> {
        let with_log = self.orphans.iter().filter(|orphan| *orphan.value());
        let stems = with_log.map(|orphan| orphan.key().clone());
        let leads_there = |stem: &Arc<str>| {
            session_file::validate_key(stem).is_ok()
                && !self.has(stem)
                && self.orphan_of(stem).as_ref() == Some(stem)
        };
        // Collected first: the map must not be queried while it is walked.
        let stems: Vec<Arc<str>> = stems.collect();
        let leading = stems.into_iter().filter(leads_there);
        leading.map(|stem| stem.to_string()).collect()
    }

    /// Returns the number of sessions, those without a name included.
    pub(crate) fn len(&self) -> usize {
        self.table.held().count() + self.entries.len() + self.nameless().len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sessionlog_wal::sync::thread;

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
