//! The sessions that claim each alias. Every operation costs a hash look-up, and, if several
//! sessions claim one alias, the logarithm of their number: all of an agent's sessions claim its
//! main alias. The first change to an alias that was found at open copies four bytes for each
//! session that has it; when one of these sessions lets go of it, as many bytes are moved.

mod claims;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use sessionlog_core::session_file;
use sessionlog_wal::sync::atomic::{AtomicUsize, Ordering};
use sessionlog_wal::sync::map::{Map, RefMut};

use self::claims::{Claims, first_but};
use super::Entry;
use super::table::Table;

/// An alias that several sessions claim.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AliasConflict {
    /// The alias.
    pub alias: String,
    /// The keys of the sessions that claim it, in the order of their file names. The alias means
    /// the first of them, unless it is the key of a session itself and holds no `:`, `/` or `\`.
    pub sessions: Vec<String>,
}

/// Maps aliases to the sessions that claim them, except those that only sessions of the [`Table`]
/// claim, as they did when they were found.
#[derive(Debug, Default)]
pub(super) struct Aliases {
    claims: Map<Box<str>, Claims>,
    /// Never less than the number of aliases, so that 0 means none: raised before one is entered,
    /// lowered after one is gone. If the map's length were stored instead, it could be older than
    /// another worker's alias. That alias would then not be found, and a message for it would start
    /// a session of its own.
    ///
    /// No order is needed: a caller that was told of an alias comes after its count, and every
    /// later change is counted on top of it.
    count: AtomicUsize,
}

impl Aliases {
    pub(super) fn of(table: &Table) -> Self {
        Self {
            claims: Map::default(),
            count: AtomicUsize::new(table.alias_count()),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.count.load(Ordering::Relaxed) == 0
    }

    /// Returns the key of the first session by file name that claims `alias` and has another key.
    pub(super) fn resolve(&self, table: &Table, alias: &str) -> Option<Arc<str>> {
        if self.is_empty() {
            return None;
        }
        match self.claims.get(alias) {
            Some(claims) => claims.first_but(table, alias),
            None => first_but(table, table.claims(alias), [].iter(), alias),
        }
    }

    /// Replaces the aliases of a session, and returns those of the new ones that another session
    /// claims as well. An alias in both lists leads to the session at every moment: otherwise a
    /// message for it would start a session of its own.
    pub(super) fn replace(
        &self,
        table: &Table,
        entry: &Arc<Entry>,
        old: &[String],
        new: &[String],
    ) -> Vec<String> {
        let kept: HashSet<&str> = new.iter().map(String::as_str).collect();
        let contested = new.iter().filter(|alias| self.claim(table, entry, alias));
        let contested = contested.cloned().collect();
        for alias in old.iter().filter(|alias| !kept.contains(alias.as_str())) {
            self.release(table, entry, alias);
        }
        contested
    }

    /// Returns every alias that several sessions claim, in order. An agent's main alias is meant to
    /// be claimed by all its sessions, and is left out.
    pub(super) fn conflicts(&self, table: &Table) -> Vec<AliasConflict> {
        let conflict = |alias: &str, claims: &Claims| AliasConflict {
            alias: alias.to_owned(),
            sessions: claims.keys(table),
        };
        let found = table.contested().filter(|alias| is_exclusive(alias));
        let found = found.filter(|alias| !self.claims.contains_key(*alias));
        let found = found.map(|alias| conflict(alias, &Claims::found(table, alias)));
        let since = self.claims.iter();
        let since = since.filter(|claims| is_exclusive(claims.key()) && claims.len() > 1);
        let since = since.map(|claims| conflict(claims.key(), claims.value()));
        let mut conflicts: Vec<_> = found.chain(since).collect();
        conflicts.sort_unstable_by(|a, b| a.alias.cmp(&b.alias));
        conflicts.dedup_by(|a, b| a.alias == b.alias);
        conflicts
    }

    /// Returns the aliases that the table's session `row` still has.
    pub(super) fn kept(&self, table: &Table, row: usize) -> Vec<String> {
        let is_kept = |alias: &&str| match self.claims.get(*alias) {
            Some(claims) => claims.found.binary_search(&(row as u32)).is_ok(),
            None => true,
        };
        let kept = table.aliases(row).filter(is_kept);
        kept.map(str::to_owned).collect()
    }

    /// Returns, by stem, the aliases of sessions that are not in the table, or that did not have
    /// them there.
    pub(super) fn since(&self) -> HashMap<Arc<str>, Vec<String>> {
        let mut since = HashMap::<_, Vec<_>>::new();
        for claims in &self.claims {
            for claim in claims.since.iter() {
                let aliases = since.entry(claim.stem.clone()).or_default();
                aliases.push(claims.key().to_string());
            }
        }
        since
    }

    /// Enters a claim; returns `true` if the alias has another claim besides this new one.
    fn claim(&self, table: &Table, entry: &Arc<Entry>, alias: &str) -> bool {
        let mut claims = self.claims_of(table, alias);
        let others = claims.len();
        if others == 0 {
            self.count.fetch_add(1, Ordering::Relaxed);
        }
        claims.add(entry) && others > 0 && is_exclusive(alias)
    }

    fn release(&self, table: &Table, entry: &Arc<Entry>, alias: &str) {
        let mut claims = self.claims_of(table, alias);
        let was_last = claims.remove(entry) && claims.len() == 0;
        drop(claims);
        // Otherwise the table's claims would be looked up there again.
        if table.claims(alias).is_empty() {
            self.claims.remove_if(alias, |_, claims| claims.len() == 0);
        }
        if was_last {
            self.count.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Returns the claims of an alias, to be changed.
    fn claims_of(&self, table: &Table, alias: &str) -> RefMut<'_, Box<str>, Claims> {
        let place = self.claims.entry(alias.into());
        place.or_insert_with(|| Claims::found(table, alias))
    }
}

/// True if two sessions with this alias contradict each other.
fn is_exclusive(alias: &str) -> bool {
    !session_file::is_main_alias(alias)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SESSIONS: usize = 100_000;

    fn entry(key: &str) -> Arc<Entry> {
        Entry::new(key.into(), key.replace(':', "_").into(), true, true, None)
    }

    fn owned(aliases: &[&str]) -> Vec<String> {
        aliases.iter().map(ToString::to_string).collect()
    }

    /// With claims in a list that is searched or sorted, this would take hours.
    #[test]
    fn every_session_may_claim_the_main_alias_at_a_logarithmic_cost() {
        let (aliases, table) = (Aliases::default(), Table::default());
        let names = |n: usize| vec![String::from("agent:main:main"), format!("telegram:{n}")];
        let entries: Vec<_> = (0..SESSIONS)
            .rev()
            .map(|n| entry(&format!("sk_{n:06}")))
            .collect();
        for (n, entry) in entries.iter().rev().enumerate() {
            assert!(aliases.replace(&table, entry, &[], &names(n)).is_empty());
        }
        for n in 0..SESSIONS {
            let key = aliases.resolve(&table, &format!("telegram:{n}")).unwrap();
            assert_eq!(*key, *format!("sk_{n:06}"));
            assert_eq!(
                aliases.resolve(&table, "agent:main:main").as_deref(),
                Some("sk_000000")
            );
        }
        assert_eq!(aliases.conflicts(&table), []);
        for (n, entry) in entries.iter().rev().enumerate() {
            aliases.replace(&table, entry, &names(n), &[]);
        }
        assert!(aliases.is_empty() && aliases.claims.is_empty());
    }

    #[test]
    fn the_first_by_file_name_has_a_contested_alias() {
        let (aliases, table) = (Aliases::default(), Table::default());
        let shared = owned(&["telegram:1"]);
        // By name of the sidecar, `a-b.meta.json` comes before `a.meta.json`.
        let order = ["a-b", "a", "b"].map(entry);
        for entry in order.iter().rev() {
            aliases.replace(&table, entry, &[], &shared);
            assert_eq!(aliases.resolve(&table, "telegram:1").unwrap(), entry.key);
        }
        let conflict = AliasConflict {
            alias: String::from("telegram:1"),
            sessions: owned(&["a-b", "a", "b"]),
        };
        assert_eq!(aliases.conflicts(&table), [conflict]);
        for pair in order.windows(2) {
            assert_eq!(aliases.resolve(&table, "telegram:1").unwrap(), pair[0].key);
            aliases.replace(&table, &pair[0], &shared, &[]);
            assert_eq!(aliases.resolve(&table, "telegram:1").unwrap(), pair[1].key);
        }
        assert_eq!(aliases.conflicts(&table), []);
    }

    #[test]
    fn claiming_again_contests_nothing() {
        let (aliases, table) = (Aliases::default(), Table::default());
        let (mine, other) = (entry("mine"), entry("other"));
        let names = owned(&["a:1", "a:2"]);
        assert!(aliases.replace(&table, &mine, &[], &names).is_empty());
        assert!(aliases.replace(&table, &mine, &names, &names).is_empty());
        assert_eq!(aliases.replace(&table, &other, &[], &names[1..]), ["a:2"]);
        assert!(
            aliases
                .replace(&table, &other, &names[1..], &names[1..])
                .is_empty()
        );
        aliases.replace(&table, &other, &names[1..], &[]);
        aliases.replace(&table, &mine, &names, &[]);
        assert!(aliases.is_empty());
    }
}
