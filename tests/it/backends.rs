//! One contract, three stores: every case runs over each of them.

mod conformance;
mod ephemeral;
mod fallback;
mod identity;
mod legacy_json;

use std::path::Path;
use std::sync::Arc;

use sessionlog::backend::{EphemeralStore, JsonlBackend, LegacyJsonStore, SessionStore, StoreKind};
use sessionlog::scope::SessionScope;

use crate::support::{open, said, scratch};

/// Every kind of store there is.
const KINDS: [StoreKind; 3] = [
    StoreKind::Jsonl,
    StoreKind::Ephemeral,
    StoreKind::LegacyJson,
];

/// A store of a kind, in `dir` if it has one.
fn open_kind(kind: StoreKind, dir: &Path) -> Arc<dyn SessionStore> {
    match kind {
        StoreKind::Jsonl => Arc::new(JsonlBackend::new(open(dir))),
        StoreKind::LegacyJson => Arc::new(LegacyJsonStore::open(dir).unwrap()),
        _ => Arc::new(EphemeralStore::new()),
    }
}

/// Runs a claim over a fresh store of every kind. Its directory has a parent of
/// its own.
fn for_each_store(claim: impl Fn(&dyn SessionStore, &Path)) {
    for kind in KINDS {
        let parent = scratch();
        let dir = parent.path().join("sessions");
        let store = open_kind(kind, &dir);
        assert_eq!(store.kind(), kind);
        claim(&*store, &dir);
        store.close().wait().unwrap();
    }
}

fn texts(store: &dyn SessionStore, key: &str) -> Vec<String> {
    said(&store.history(key).wait().unwrap())
}

fn add(store: &dyn SessionStore, key: &str, texts: &[&str]) {
    for text in texts {
        store.add_message(key, "user", text).wait().unwrap();
    }
}

fn owned(aliases: &[&str]) -> Vec<String> {
    aliases.iter().map(ToString::to_string).collect()
}

fn scope(values: &[(&str, &str)]) -> SessionScope {
    SessionScope {
        version: 1,
        agent_id: "main".into(),
        channel: "irc".into(),
        account: "default".into(),
        dimensions: values.iter().map(|(name, _)| (*name).to_owned()).collect(),
        values: values
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect(),
    }
}
