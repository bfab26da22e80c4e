//! The sessions that were found when the store was opened: all known facts about those not used
//! since, in little memory. Nothing in it changes, except that sessions leave it.

use std::hash::BuildHasher;

use foldhash::fast::RandomState;
use hashbrown::HashTable;
use hashbrown::hash_table::Entry as Place;
use sessionlog_core::session_file::NameRule;
use sessionlog_wal::sync::atomic::{AtomicBool, Ordering};
use sessionlog_wal::sync::thread;

use crate::disk::catalog_file::Rows;

/// With fewer sessions than this, the table is made on one thread.
const MANY: usize = 10_000;

/// Sessions found at open, by key, file name and alias.
#[derive(Debug, Default)]
pub(super) struct Table {
    rows: Rows,
    /// The rule that tells names apart.
    rule: NameRule,
    /// Rows by key.
    keys: HashTable<u32>,
    /// Rows by their stems in folded form.
    names: HashTable<u32>,
    aliases: TableAliases,
    /// True for the rows that left: their facts are held elsewhere. Raised (release) after they are
    /// there, so that a reader that finds it raised (acquire) finds them there.
    out: Vec<AtomicBool>,
    hasher: RandomState,
}

/// The rows of each alias.
#[derive(Debug, Default)]
struct TableAliases {
    /// Groups by alias.
    by_text: HashTable<u32>,
    groups: Vec<AliasGroup>,
    /// The rows of the first group, of the second, and so on, each in order.
    rows: Vec<u32>,
}

/// The rows that have one alias.
#[derive(Clone, Copy, Debug)]
struct AliasGroup {
    /// Position of the alias in the text, and its length.
    text: u64,
    text_len: u32,
    start: u32,
    len: u32,
}

impl Table {
    /// Makes the table; `None` if two sessions have one key.
    pub(super) fn of(rows: Rows, rule: NameRule) -> Option<Self> {
        let hasher = RandomState::default();
        let ((keys, names), aliases) = if rows.len() < MANY {
            let keys_and_names = (by_key(&rows, &hasher), by_name(&rows, rule, &hasher));
            (keys_and_names, TableAliases::of(&rows, &hasher))
        } else {
            let keys_and_names = || {
                let keys = || by_key(&rows, &hasher);
                thread::both(keys, || by_name(&rows, rule, &hasher))
            };
            thread::both(keys_and_names, || TableAliases::of(&rows, &hasher))
        };
        Some(Self {
            keys: keys?,
            names,
            aliases,
            out: (0..rows.len()).map(|_| AtomicBool::new(false)).collect(),
            rows,
            rule,
            hasher,
        })
    }

    pub(super) fn key(&self, row: usize) -> &str {
        self.rows.key(row)
    }

    pub(super) fn stem(&self, row: usize) -> &str {
        self.rows.stem(row)
    }

    /// Returns the aliases that a session had when it was found.
    pub(super) fn aliases(&self, row: usize) -> impl Iterator<Item = &str> {
        self.rows.aliases(row)
    }

    /// Returns the time of a session's update, from its sidecar when it was found, if that is
    /// known: nanoseconds since 1970.
    pub(super) fn updated(&self, row: usize) -> Option<i64> {
        self.rows.updated(row)
    }

    /// Returns the session of `key`, also if it left.
    pub(super) fn row_of(&self, key: &str) -> Option<usize> {
        if self.keys.is_empty() {
            return None;
        }
        let is_it = |row: &u32| self.rows.key(*row as usize) == key;
        let row = self.keys.find(self.hasher.hash_one(key), is_it)?;
        Some(*row as usize)
    }

    /// True if `key` has a session here that did not leave.
    pub(super) fn holds(&self, key: &str) -> bool {
        self.row_of(key).is_some_and(|row| !self.is_out(row))
    }

    /// Returns the sessions of a file name and its other spellings, also those that left.
    pub(super) fn rows_named(&self, stem: &str) -> impl Iterator<Item = usize> {
        let found = (!self.names.is_empty()).then(|| {
            let folded = self.rule.fold(stem);
            let rows = self.names.iter_hash(self.hasher.hash_one(&*folded));
            rows.filter(move |row| self.rule.fold(self.rows.stem(**row as usize)) == folded)
        });
        found.into_iter().flatten().map(|row| *row as usize)
    }

    pub(super) fn is_out(&self, row: usize) -> bool {
        self.out[row].load(Ordering::Acquire)
    }

    pub(super) fn take_out(&self, row: usize) {
        self.out[row].store(true, Ordering::Release);
    }

    /// Returns the sessions that did not leave, in the order of their sidecars' names.
    pub(super) fn held(&self) -> impl Iterator<Item = usize> {
        (0..self.rows.len()).filter(|row| !self.is_out(*row))
    }

    /// Returns the sessions that had an alias when they were found, in that order.
    pub(super) fn claims(&self, alias: &str) -> &[u32] {
        let Self { rows, hasher, .. } = self;
        let group = self.aliases.find(rows, hasher, alias);
        group.map_or(&[], |group| self.aliases.rows_of(group))
    }

    /// Returns the number of aliases.
    pub(super) fn alias_count(&self) -> usize {
        self.aliases.groups.len()
    }

    /// Returns the aliases that several sessions had.
    pub(super) fn contested(&self) -> impl Iterator<Item = &str> {
        let groups = self.aliases.groups.iter();
        let contested = groups.filter(|group| group.len > 1);
        contested.map(|group| group.text(&self.rows))
    }
}

/// Maps keys to rows; `None` if two rows have one key.
fn by_key(rows: &Rows, hasher: &RandomState) -> Option<HashTable<u32>> {
    let mut table = HashTable::with_capacity(rows.len());
    for row in 0..rows.len() {
        let key = rows.key(row);
        let is_it = |other: &u32| rows.key(*other as usize) == key;
        let hash = |other: &u32| hasher.hash_one(rows.key(*other as usize));
        match table.entry(hasher.hash_one(key), is_it, hash) {
            Place::Occupied(_) => return None,
            Place::Vacant(place) => place.insert(row as u32),
        };
    }
    Some(table)
}

fn by_name(rows: &Rows, rule: NameRule, hasher: &RandomState) -> HashTable<u32> {
    let hash = |row: usize| hasher.hash_one(&*rule.fold(rows.stem(row)));
    let mut table = HashTable::with_capacity(rows.len());
    for row in 0..rows.len() {
        table.insert_unique(hash(row), row as u32, |other| hash(*other as usize));
    }
    table
}

impl TableAliases {
    fn of(rows: &Rows, hasher: &RandomState) -> Self {
        // Each claim may be of an alias of its own, and a table that grows hashes all entries anew.
        let mut found = Self {
            by_text: HashTable::with_capacity(rows.claims()),
            groups: Vec::with_capacity(rows.claims()),
            rows: Vec::new(),
        };
        let mut group_of = Vec::with_capacity(rows.claims());
        let mut last = Vec::new();
        for row in 0..rows.len() {
            for (at, alias) in rows.aliases_at(row) {
                let group = found.group(rows, hasher, at, alias);
                last.resize(found.groups.len(), usize::MAX);
                // Another program may have written one twice.
                let is_new = std::mem::replace(&mut last[group as usize], row) != row;
                group_of.push(is_new.then_some(group));
                found.groups[group as usize].len += u32::from(is_new);
            }
        }
        found.groups.shrink_to_fit();
        found.sort_in(rows, &group_of);
        found
    }

    /// Returns the number of an alias's group.
    fn group(&mut self, rows: &Rows, hasher: &RandomState, at: u64, alias: &str) -> u32 {
        let groups = &self.groups;
        let text = |group: &u32| groups[*group as usize].text(rows);
        let hash = |group: &u32| hasher.hash_one(text(group));
        let hash_of_it = hasher.hash_one(alias);
        let is_it = |group: &u32| text(group) == alias;
        match self.by_text.entry(hash_of_it, is_it, hash) {
            Place::Occupied(place) => *place.get(),
            Place::Vacant(place) => {
                let group = groups.len() as u32;
                place.insert(group);
                self.groups.push(AliasGroup {
                    text: at,
                    text_len: alias.len() as u32,
                    start: 0,
                    len: 0,
                });
                group
            }
        }
    }

    /// Gives each group its rows, once all are counted.
    fn sort_in(&mut self, rows: &Rows, group_of: &[Option<u32>]) {
        let mut start = 0;
        for group in &mut self.groups {
            group.start = start;
            start += std::mem::take(&mut group.len);
        }
        self.rows.resize(start as usize, 0);
        let mut group_of = group_of.iter();
        for row in 0..rows.len() {
            for (_, group) in rows.aliases(row).zip(&mut group_of) {
                if let Some(group) = group {
                    let group = &mut self.groups[*group as usize];
                    self.rows[(group.start + group.len) as usize] = row as u32;
                    group.len += 1;
                }
            }
        }
    }

    fn find(&self, rows: &Rows, hasher: &RandomState, alias: &str) -> Option<AliasGroup> {
        if self.groups.is_empty() {
            return None;
        }
        let group = |group: &u32| self.groups[*group as usize];
        let is_it = |number: &u32| group(number).text(rows) == alias;
        self.by_text.find(hasher.hash_one(alias), is_it).map(group)
    }

    fn rows_of(&self, group: AliasGroup) -> &[u32] {
        &self.rows[group.start as usize..][..group.len as usize]
    }
}

impl AliasGroup {
    fn text(self, rows: &Rows) -> &str {
        rows.text_at(self.text, self.text_len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(sessions: &[(&str, &[&str])]) -> Table {
        let mut rows = Rows::default();
        for (key, aliases) in sessions {
            let aliases: Vec<_> = aliases.iter().map(ToString::to_string).collect();
            assert!(rows.push(key, key, &aliases, None));
        }
        Table::of(rows, NameRule::Folds).expect("each key is there once")
    }

    #[test]
    fn an_alias_that_is_written_twice_is_one_claim() {
        let table = table(&[("k", &["a", "a"]), ("l", &["b", "a", "b"])]);
        assert_eq!(table.claims("a"), [0, 1]);
        assert_eq!(table.claims("b"), [1]);
        assert_eq!(table.contested().collect::<Vec<_>>(), ["a"]);
    }

    /// If each search began at its session's first alias, this would take minutes.
    #[test]
    fn a_session_may_have_very_many_aliases() {
        let aliases: Vec<_> = (0..200_000).map(|n| format!("alias:{n}")).collect();
        let aliases: Vec<_> = aliases.iter().map(String::as_str).collect();
        let table = table(&[("k", &aliases)]);
        assert_eq!(table.alias_count(), aliases.len());
        assert_eq!(table.claims("alias:199999"), [0]);
    }
}
