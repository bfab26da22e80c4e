//! The catalog, and what rings for the leader, without a store.

use std::sync::Arc;

use sessionlog_core::session_file::NameRule;

use crate::disk::catalog_file::Rows;
use crate::engine::catalog::{Catalog, Entry};
use crate::engine::shard::worker::ready::Ready;

/// The catalog.
#[derive(Debug, Default)]
pub struct Names(Catalog);

/// A session of the catalog, in the hands of its shard.
#[derive(Clone, Debug)]
pub struct CatalogName(Arc<Entry>);

impl Names {
    /// As it is after an open that found one session.
    ///
    /// # Panics
    /// Never: one session has one key.
    #[must_use]
    pub fn found(key: &str, alias: &str) -> Self {
        let mut rows = Rows::default();
        let is_room = rows.push(key, key, &[alias.to_owned()], None);
        Self(
            Catalog::of(rows, NameRule::Folds)
                .filter(|_| is_room)
                .expect("one session"),
        )
    }

    /// As a shard enters a session.
    #[must_use]
    pub fn claim(&self, key: &str) -> CatalogName {
        CatalogName(self.0.claim(&key.into()))
    }

    /// As a shard that carried a deletion out.
    pub fn remove(&self, named: &CatalogName, aliases: &[String]) {
        self.0.remove(&named.0, aliases);
    }

    /// As a shard that carried a change of aliases out.
    pub fn set_aliases(&self, named: &CatalogName, old: &[String], new: &[String]) {
        self.0.set_aliases(&named.0, old, new);
    }

    /// The session that a key or alias means.
    #[must_use]
    pub fn resolve(&self, key: &str) -> Option<String> {
        self.0.resolve(key)
    }

    /// As [`resolve`](Self::resolve), on the way of every verb: `None` also
    /// if the key means itself.
    #[must_use]
    pub fn resolve_other(&self, key: &str) -> Option<Arc<str>> {
        self.0.resolve_other(key)
    }

    /// Every session with a sidecar.
    #[must_use]
    pub fn list(&self) -> Vec<String> {
        self.0.list()
    }
}

impl CatalogName {
    /// Its file name.
    #[must_use]
    pub fn stem(&self) -> &str {
        &self.0.stem
    }

    /// As a shard that carried its first change out.
    pub fn list(&self) {
        self.0.mark_listed();
    }
}

/// What tells the leader that shards have something queued.
#[derive(Debug, Default)]
pub struct Rope(Ready);

impl Rope {
    /// As who queues something rings.
    #[must_use]
    pub fn ring(&self, shard: usize) -> bool {
        self.0.ring(shard)
    }

    /// Tells the leader, if it sleeps.
    pub fn rouse(&self) {
        self.0.rouse();
    }

    /// As the leader waits, and then takes what rang.
    #[must_use]
    pub fn wait(&self) -> Vec<usize> {
        let _looks = self.0.wait(None);
        let (rung, _) = self.0.begin_round();
        (0..64).filter(|shard| rung >> shard & 1 == 1).collect()
    }
}
