//! Which sessions claim which alias. Every operation costs a hash look-up, and
//! if several sessions claim one alias the logarithm of how many: all of an
//! agent's sessions claim its main alias.

use std::cmp::Ordering as Order;
use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use super::Entry;
use crate::disk::session_file::{self, SIDECAR};
use crate::ground::sync::atomic::{AtomicUsize, Ordering};
use crate::ground::sync::map::{Entry as Place, Map};

/// An alias that several sessions claim.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AliasConflict {
    /// The alias.
    pub alias: String,
    /// The keys of those that claim it, in the order of their file names. The
    /// alias means the first of them, unless it is the key of a session itself
    /// and holds no `:`, `/` or `\`.
    pub sessions: Vec<String>,
}

/// Maps aliases to the sessions that claim them.
#[derive(Debug, Default)]
pub(super) struct Aliases {
    claims: Map<Box<str>, Claims>,
    /// Never less than there are aliases, so that 0 means none: raised before
    /// one is entered, lowered after one is gone. Stored as the map's length, it
    /// could be that of a moment before another worker's alias, which then would
    /// not be found, and a message for it would start a session of its own.
    ///
    /// No order is needed: whoever was told of an alias comes after its count, and
    /// every later change is counted on top of it.
    count: AtomicUsize,
}

impl Aliases {
    pub(super) fn is_empty(&self) -> bool {
        self.count.load(Ordering::Relaxed) == 0
    }

    /// The key of the first session by file name that claims `alias` and has
    /// another key.
    pub(super) fn resolve(&self, alias: &str) -> Option<Arc<str>> {
        if self.is_empty() {
            return None;
        }
        let claims = self.claims.get(alias)?;
        let mut others = claims.iter().filter(|claim| *claim.key != *alias);
        others.next().map(|claim| claim.key.clone())
    }

    /// Replaces the aliases of a session, and says which of the new ones another
    /// session claims as well. One that is in both lists leads to the session at
    /// every moment: a message for it would otherwise start a session of its own.
    pub(super) fn replace(
        &self,
        entry: &Arc<Entry>,
        old: &[String],
        new: &[String],
    ) -> Vec<String> {
        let kept: HashSet<&str> = new.iter().map(String::as_str).collect();
        let contested = new.iter().filter(|alias| self.claim(entry, alias));
        let contested = contested.cloned().collect();
        for alias in old.iter().filter(|alias| !kept.contains(alias.as_str())) {
            self.release(entry, alias);
        }
        contested
    }

    /// Every alias that several sessions claim, in order. An agent's main alias
    /// is meant to be claimed by all its sessions, and is left out.
    pub(super) fn conflicts(&self) -> Vec<AliasConflict> {
        let several = |claims: &Claims| matches!(claims, Claims::Several(_));
        let mut conflicts: Vec<_> = self
            .claims
            .iter()
            .filter(|claims| several(claims) && is_exclusive(claims.key()))
            .map(|claims| AliasConflict {
                alias: claims.key().to_string(),
                sessions: claims.iter().map(|claim| claim.key.to_string()).collect(),
            })
            .collect();
        conflicts.sort_unstable_by(|a, b| a.alias.cmp(&b.alias));
        conflicts
    }

    /// Enters a claim; `true` if the alias has another one since this one.
    fn claim(&self, entry: &Arc<Entry>, alias: &str) -> bool {
        match self.claims.entry(alias.into()) {
            Place::Vacant(place) => {
                self.count.fetch_add(1, Ordering::Relaxed);
                place.insert(Claims::One(Claim::of(entry)));
                false
            }
            Place::Occupied(mut place) => place.get_mut().add(entry) && is_exclusive(alias),
        }
    }

    fn release(&self, entry: &Arc<Entry>, alias: &str) {
        let gone = self
            .claims
            .remove_if_mut(alias, |_, claims| claims.remove(entry));
        if gone.is_some() {
            self.count.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// Whether two sessions with this alias contradict each other.
fn is_exclusive(alias: &str) -> bool {
    !session_file::is_main_alias(alias)
}

/// The sessions that claim one alias; most have one, and cost no allocation.
#[derive(Debug)]
enum Claims {
    One(Claim),
    /// Two or more, by file name.
    Several(BTreeSet<Claim>),
}

impl Claims {
    /// In the order of file names.
    fn iter(&self) -> impl Iterator<Item = &Claim> {
        let (one, several) = match self {
            Self::One(claim) => (Some(claim), None),
            Self::Several(claims) => (None, Some(claims)),
        };
        one.into_iter().chain(several.into_iter().flatten())
    }

    /// Adds a session; `false` if it is there already.
    fn add(&mut self, entry: &Arc<Entry>) -> bool {
        match self {
            Self::One(only) if only.stem == entry.stem => {
                *only = Claim::of(entry);
                false
            }
            Self::One(only) => {
                let both = [only.clone(), Claim::of(entry)];
                *self = Self::Several(both.into());
                true
            }
            Self::Several(claims) => claims.replace(Claim::of(entry)).is_none(),
        }
    }

    /// Takes a session away; `true` if that was the last.
    fn remove(&mut self, entry: &Arc<Entry>) -> bool {
        match self {
            Self::One(only) => only.stem == entry.stem,
            Self::Several(claims) => {
                claims.remove(&Claim::of(entry));
                if claims.len() == 1
                    && let Some(last) = claims.pop_first()
                {
                    *self = Self::One(last);
                }
                false
            }
        }
    }
}

/// A session's claim, in the order of sidecars' file names. It holds the key
/// itself: a look-up among many sessions pays for each pointer it follows.
#[derive(Clone, Debug)]
struct Claim {
    key: Arc<str>,
    stem: Arc<str>,
}

impl Claim {
    fn of(entry: &Entry) -> Self {
        Self {
            key: entry.key.clone(),
            stem: entry.stem.clone(),
        }
    }

    fn file_name(&self) -> impl Iterator<Item = u8> {
        self.stem.bytes().chain(SIDECAR.bytes())
    }
}

impl Ord for Claim {
    fn cmp(&self, other: &Self) -> Order {
        self.file_name().cmp(other.file_name())
    }
}

impl PartialOrd for Claim {
    fn partial_cmp(&self, other: &Self) -> Option<Order> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Claim {
    fn eq(&self, other: &Self) -> bool {
        self.stem == other.stem
    }
}

impl Eq for Claim {}

#[cfg(test)]
mod tests {
    use super::*;

    const SESSIONS: usize = 100_000;

    fn entry(key: &str) -> Arc<Entry> {
        Entry::new(key.into(), key.replace(':', "_").into(), true, true)
    }

    fn owned(aliases: &[&str]) -> Vec<String> {
        aliases.iter().map(ToString::to_string).collect()
    }

    /// With claims in a list that is searched or sorted, this would take hours.
    #[test]
    fn every_session_may_claim_the_main_alias_at_a_logarithmic_cost() {
        let aliases = Aliases::default();
        let names = |n: usize| vec![String::from("agent:main:main"), format!("telegram:{n}")];
        let entries: Vec<_> = (0..SESSIONS)
            .rev()
            .map(|n| entry(&format!("sk_{n:06}")))
            .collect();
        for (n, entry) in entries.iter().rev().enumerate() {
            assert!(aliases.replace(entry, &[], &names(n)).is_empty());
        }
        for n in 0..SESSIONS {
            let key = aliases.resolve(&format!("telegram:{n}")).unwrap();
            assert_eq!(*key, *format!("sk_{n:06}"));
            assert_eq!(
                aliases.resolve("agent:main:main").as_deref(),
                Some("sk_000000")
            );
        }
        assert_eq!(aliases.conflicts(), []);
        for (n, entry) in entries.iter().rev().enumerate() {
            aliases.replace(entry, &names(n), &[]);
        }
        assert!(aliases.is_empty() && aliases.claims.is_empty());
    }

    #[test]
    fn the_first_by_file_name_has_a_contested_alias() {
        let aliases = Aliases::default();
        let shared = owned(&["telegram:1"]);
        // By name of the sidecar, `a-b.meta.json` comes before `a.meta.json`.
        let order = ["a-b", "a", "b"].map(entry);
        for entry in order.iter().rev() {
            aliases.replace(entry, &[], &shared);
            assert_eq!(aliases.resolve("telegram:1").unwrap(), entry.key);
        }
        let conflict = AliasConflict {
            alias: String::from("telegram:1"),
            sessions: owned(&["a-b", "a", "b"]),
        };
        assert_eq!(aliases.conflicts(), [conflict]);
        for pair in order.windows(2) {
            assert_eq!(aliases.resolve("telegram:1").unwrap(), pair[0].key);
            aliases.replace(&pair[0], &shared, &[]);
            assert_eq!(aliases.resolve("telegram:1").unwrap(), pair[1].key);
        }
        assert_eq!(aliases.conflicts(), []);
    }

    #[test]
    fn claiming_again_contests_nothing() {
        let aliases = Aliases::default();
        let (mine, other) = (entry("mine"), entry("other"));
        let names = owned(&["a:1", "a:2"]);
        assert!(aliases.replace(&mine, &[], &names).is_empty());
        assert!(aliases.replace(&mine, &names, &names).is_empty());
        assert_eq!(aliases.replace(&other, &[], &names[1..]), ["a:2"]);
        assert!(aliases.replace(&other, &names[1..], &names[1..]).is_empty());
        aliases.replace(&other, &names[1..], &[]);
        aliases.replace(&mine, &names, &[]);
        assert!(aliases.is_empty());
    }
}
