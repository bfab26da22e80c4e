//! The owners of file names.
//!
//! A name is held in the folded form of the store's file system: where that tells neither case nor
//! ways of writing a character apart, two sessions never share a file. Only files that lie on disk
//! under two such names, as they may if the file system tells them apart, keep both.

use std::borrow::Cow;
use std::sync::Arc;

use sessionlog_core::session_file::NameRule;
use sessionlog_wal::sync::map::Map;

/// Maps folded file names to the names held under them, nearly always one.
#[derive(Debug, Default)]
pub(super) struct FoldedNames {
    held: Map<Arc<str>, Vec<HeldNames>>,
    rule: NameRule,
}

#[derive(Debug)]
struct HeldNames {
    stem: Arc<str>,
    /// `None` for files that name no owner, and for those of a deleted session. The journal's
    /// remaining records of the deleted session would be carried out on the file of another
    /// spelling, so the name is given only to that same spelling.
    owner: Option<Arc<str>>,
}

impl FoldedNames {
    pub(super) fn of(rule: NameRule) -> Self {
        Self {
            rule,
            ..Self::default()
        }
    }

    /// Returns the owner of a file name, if it has one.
    pub(super) fn owner(&self, stem: &str) -> Option<Arc<str>> {
        let held = self.held.get(&*self.rule.fold(stem))?;
        let mut own = held.iter().filter(|held| *held.stem == *stem);
        own.next()?.owner.clone()
    }

    /// Returns other spellings of a file name that are held.
    pub(super) fn twins(&self, stem: &str) -> Vec<Arc<str>> {
        let held = self.held.get(&*self.rule.fold(stem));
        let held = held.iter().flat_map(|held| held.iter());
        let twins = held.filter(|held| *held.stem != *stem);
        twins.map(|held| held.stem.clone()).collect()
    }

    /// Enters a name found on disk, beside its twins if there are any.
    pub(super) fn enter(&self, stem: &Arc<str>, owner: Option<Arc<str>>) {
        let mut place = self.held.entry(self.folded(stem)).or_default();
        match place.iter_mut().find(|held| held.stem == *stem) {
            Some(held) => held.owner = owner,
            None => place.push(HeldNames {
                stem: stem.clone(),
                owner,
            }),
        }
    }

    /// Makes `key` the owner of a name, unless it has one, or a twin is held. This is one step:
    /// otherwise two keys that map to one name would write into one file.
    pub(super) fn own(&self, stem: &Arc<str>, key: &Arc<str>) -> bool {
        let mut place = self.held.entry(self.folded(stem)).or_default();
        if place.is_empty() {
            place.push(HeldNames {
                stem: stem.clone(),
                owner: Some(key.clone()),
            });
            return true;
        }
        let found = place.iter_mut().find(|held| held.stem == *stem);
        found.is_some_and(|held| *held.owner.get_or_insert_with(|| key.clone()) == *key)
    }

    /// Leaves a name without an owner, if it is `owner`'s.
    pub(super) fn disown(&self, stem: &str, owner: &str) {
        let folded = self.rule.fold(stem);
        self.held.remove_if_mut(&*folded, |_, place| {
            let is_own =
                |held: &&mut HeldNames| *held.stem == *stem && held.owner.as_deref() == Some(owner);
            if let Some(held) = place.iter_mut().find(is_own) {
                held.owner = None;
            }
            false
        });
    }

    fn folded(&self, stem: &Arc<str>) -> Arc<str> {
        match self.rule.fold(stem) {
            Cow::Borrowed(_) => stem.clone(),
            Cow::Owned(folded) => folded.into(),
        }
    }
}
