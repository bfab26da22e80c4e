//! The claims on one alias.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::sync::Arc;

use sessionlog_core::session_file;

use super::super::Entry;
use super::super::table::Table;

/// The sessions that claim one alias; most aliases have one, and cost no allocation.
#[derive(Debug)]
pub(super) struct Claims {
    /// Rows of the table, in the order of file names, like the others.
    pub(super) found: Vec<u32>,
    pub(super) since: Since,
}

/// The claims of sessions that are not in the table, or claim it again.
#[derive(Debug)]
pub(super) enum Since {
    Nobody,
    One(AliasClaim),
    /// Two or more, by file name.
    Several(BTreeSet<AliasClaim>),
}

impl Claims {
    /// Returns the claims as they were found.
    pub(super) fn found(table: &Table, alias: &str) -> Self {
        Self {
            found: table.claims(alias).to_vec(),
            since: Since::Nobody,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.found.len()
            + match &self.since {
                Since::Nobody => 0,
                Since::One(_) => 1,
                Since::Several(claims) => claims.len(),
            }
    }

    /// Returns the key of the first by file name that has another key than `alias`.
    pub(super) fn first_but(&self, table: &Table, alias: &str) -> Option<Arc<str>> {
        first_but(table, &self.found, self.since.iter(), alias)
    }

    /// Returns the keys of all, in the order of file names.
    pub(super) fn keys(&self, table: &Table) -> Vec<String> {
        let found = self.found.iter().map(|row| *row as usize);
        let found = found.map(|row| (table.stem(row), table.key(row)));
        let since = self.since.iter().map(|claim| (&*claim.stem, &*claim.key));
        let mut all: Vec<_> = found.chain(since).collect();
        all.sort_by(|(a, _), (b, _)| session_file::file_order(a, b));
        all.into_iter().map(|(_, key)| key.to_owned()).collect()
    }

    fn place_of(&self, entry: &Entry) -> Option<usize> {
        self.found.binary_search(&entry.row?).ok()
    }

    /// Adds a session; returns `false` if it is there already.
    pub(super) fn add(&mut self, entry: &Arc<Entry>) -> bool {
        self.place_of(entry).is_none() && self.since.add(entry)
    }

    /// Removes a session; returns `false` if it is not there.
    pub(super) fn remove(&mut self, entry: &Arc<Entry>) -> bool {
        match self.place_of(entry) {
            Some(place) => {
                self.found.remove(place);
                true
            }
            None => self.since.remove(entry),
        }
    }
}

/// Returns the key of the first session by file name that has another key than `alias`.
pub(super) fn first_but<'a>(
    table: &Table,
    found: &[u32],
    since: impl Iterator<Item = &'a AliasClaim>,
    alias: &str,
) -> Option<Arc<str>> {
    let mut found = found.iter().map(|row| *row as usize);
    let found = found.find(|row| table.key(*row) != alias);
    let mut since = since.filter(|claim| *claim.key != *alias);
    match (found, since.next()) {
        (Some(row), Some(claim)) if is_before(table.stem(row), &claim.stem) => {
            Some(table.key(row).into())
        }
        (_, Some(claim)) => Some(claim.key.clone()),
        (row, None) => Some(table.key(row?).into()),
    }
}

fn is_before(stem: &str, other: &str) -> bool {
    session_file::file_order(stem, other).is_lt()
}

impl Since {
    /// Returns them in the order of file names.
    pub(super) fn iter(&self) -> impl Iterator<Item = &AliasClaim> {
        let (one, several) = match self {
            Self::Nobody => (None, None),
            Self::One(claim) => (Some(claim), None),
            Self::Several(claims) => (None, Some(claims)),
        };
        one.into_iter().chain(several.into_iter().flatten())
    }

    fn add(&mut self, entry: &Arc<Entry>) -> bool {
        match self {
            Self::Nobody => {
                *self = Self::One(AliasClaim::of(entry));
                true
            }
            Self::One(only) if only.stem == entry.stem => {
                *only = AliasClaim::of(entry);
                false
            }
            Self::One(only) => {
                let both = [only.clone(), AliasClaim::of(entry)];
                *self = Self::Several(both.into());
                true
            }
            Self::Several(claims) => claims.replace(AliasClaim::of(entry)).is_none(),
        }
    }

    fn remove(&mut self, entry: &Arc<Entry>) -> bool {
        match self {
            Self::One(only) if only.stem == entry.stem => {
                *self = Self::Nobody;
                true
            }
            Self::Nobody | Self::One(_) => false,
            Self::Several(claims) => {
                let removed = claims.remove(&AliasClaim::of(entry));
                if claims.len() == 1
                    && let Some(last) = claims.pop_first()
                {
                    *self = Self::One(last);
                }
                removed
            }
        }
    }
}

/// A session's claim, in the order of sidecars' file names. It holds the key
/// itself: a look-up among many sessions pays for each pointer it follows.
#[derive(Clone, Debug)]
pub(super) struct AliasClaim {
    key: Arc<str>,
    pub(super) stem: Arc<str>,
}

impl AliasClaim {
    fn of(entry: &Entry) -> Self {
        Self {
            key: entry.key.clone(),
            stem: entry.stem.clone(),
        }
    }
}

impl Ord for AliasClaim {
    fn cmp(&self, other: &Self) -> Ordering {
        session_file::file_order(&self.stem, &other.stem)
    }
}

impl PartialOrd for AliasClaim {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for AliasClaim {
    fn eq(&self, other: &Self) -> bool {
        self.stem == other.stem
    }
}

impl Eq for AliasClaim {}
