//! All sessions of a catalog, in the order of their sidecars' names.

use std::sync::Arc;

use sessionlog_core::session_file;
use sessionlog_wal::sync::atomic::Ordering;

use super::{Catalog, Entry};
use crate::disk::catalog_file::Rows;

impl Catalog {
    /// Returns every listed key, in the order of file names, as PicoClaw lists them, and the names
    /// of [nameless](Self::nameless) files. Deleted sessions are left out.
    pub(crate) fn list(&self) -> Vec<String> {
        let all = self.all().into_iter().map(|(_, key)| key);
        all.filter(|key| !session_file::is_deleted_key(key))
            .collect()
    }

    /// Returns the stem and the key of all sessions, in that order. Files that name no key have
    /// their name as the key.
    pub(crate) fn all(&self) -> Vec<(String, String)> {
        let mut all = self.listed();
        let nameless = self.nameless();
        if !nameless.is_empty() {
            all.extend(nameless.into_iter().map(|stem| (stem.clone(), stem)));
            all.sort_by(|(a, _), (b, _)| session_file::file_order(a, b));
        }
        all
    }

    /// Returns the stem and the key of every session with a known key, in that order.
    pub(crate) fn listed(&self) -> Vec<(String, String)> {
        let mut listed = Vec::new();
        self.each_listed(|stem, key, _| {
            listed.push((stem.to_owned(), key.to_owned()));
            true
        });
        listed
    }

    /// Calls `tell` with the stem, the key and the table row of every listed session, in the order
    /// of file names, until it returns false.
    fn each_listed(&self, mut tell: impl FnMut(&str, &str, Option<usize>) -> bool) -> bool {
        // In this order: a session that leaves the table meanwhile is found twice, not never.
        let mut found = self.table.held().collect::<Vec<_>>().into_iter().peekable();
        // A session that took files which cannot be read is not written to, but exists.
        let listed = |entry: &Arc<Entry>| {
            entry.listed.load(Ordering::Acquire) || entry.exists.load(Ordering::Relaxed)
        };
        let since = self.entries.iter().map(|entry| entry.value().clone());
        let mut since: Vec<_> = since.filter(listed).collect();
        since.sort_unstable_by(|a, b| session_file::file_order(&a.stem, &b.stem));
        for entry in since {
            let order = |row: &usize| session_file::file_order(self.table.stem(*row), &entry.stem);
            while let Some(row) = found.next_if(|row| order(row).is_lt()) {
                if !tell(self.table.stem(row), self.table.key(row), Some(row)) {
                    return false;
                }
            }
            found.next_if(|row| order(row).is_eq());
            if !tell(&entry.stem, &entry.key, entry.row.map(|row| row as usize)) {
                return false;
            }
        }
        found.all(|row| tell(self.table.stem(row), self.table.key(row), Some(row)))
    }

    /// Returns the listed sessions with their aliases; `None` if there are too many.
    pub(crate) fn rows(&self) -> Option<Rows> {
        let mut rows = Rows::default();
        let mut since = self.aliases.since();
        self.each_listed(|stem, key, row| {
            let mut aliases = since.remove(stem).unwrap_or_default();
            aliases.extend(
                row.into_iter()
                    .flat_map(|row| self.aliases.kept(&self.table, row)),
            );
            // The sidecar of a session that was used may have another time, also if it had this one
            // before.
            let untouched = row.filter(|row| !self.table.is_out(*row));
            let updated = untouched.and_then(|row| self.table.updated(row));
            rows.push(stem, key, &aliases, updated)
        })
        .then_some(rows)
    }
}
