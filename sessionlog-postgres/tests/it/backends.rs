//! The contract of session stores, as the other stores keep it, over a database.

#[path = "../../../tests/it/backends/conformance.rs"]
mod conformance;

use std::path::Path;
use std::sync::Arc;

use sessionlog::backend::{JsonlBackend, SessionStore, StoreKind};
use sessionlog::scope::SessionScope;
use sessionlog::{Store, StoreOptions};
use sessionlog_postgres::{PostgresOptions, PostgresStore};

use crate::support::{fresh, said, scratch, server};

/// The kinds of store that the contract runs over: one, if there is a server.
struct Kinds;

const KINDS: Kinds = Kinds;

impl IntoIterator for Kinds {
    type Item = StoreKind;
    type IntoIter = std::option::IntoIter<StoreKind>;

    fn into_iter(self) -> Self::IntoIter {
        server().map(|_| StoreKind::Other).into_iter()
    }
}

/// A store of a kind. The directory of one over a database says which schema it has.
fn open_kind(kind: StoreKind, dir: &Path) -> Arc<dyn SessionStore> {
    if kind == StoreKind::Jsonl {
        let options = StoreOptions::new().auto_compact(false);
        return Arc::new(JsonlBackend::new(Store::open_with(dir, options).unwrap()));
    }
    std::fs::create_dir_all(dir).unwrap();
    let note = dir.join("schema");
    let schema = std::fs::read_to_string(&note).unwrap_or_else(|_| fresh("contract"));
    std::fs::write(note, &schema).unwrap();
    let options = PostgresOptions::new(server().unwrap().dsn()).schema(schema);
    Arc::new(PostgresStore::open(options).unwrap())
}

fn for_each_store(claim: impl Fn(&dyn SessionStore, &Path)) {
    for kind in KINDS {
        let parent = scratch();
        let dir = parent.path().join("sessions");
        let store = open_kind(kind, &dir);
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
