//! What the tests share.

pub(crate) mod cluster;
pub(crate) mod crew;
pub(crate) mod load;
pub(crate) mod pooler;
pub(crate) mod ports;
pub(crate) mod proxy;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use sessionlog::{Message, Reply, Result};
use sessionlog_postgres::{PostgresOptions, PostgresStore};
use tempfile::TempDir;

use cluster::Cluster;

/// The server that tests share which harm none, if there can be one.
pub(crate) fn server() -> Option<&'static Cluster> {
    static SERVER: OnceLock<Option<Cluster>> = OnceLock::new();
    SERVER
        .get_or_init(|| Cluster::start_shared(&["fsync=off"]))
        .as_ref()
}

/// A name that no other test of the process has.
pub(crate) fn fresh(what: &str) -> String {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    format!("{what}_{}", NEXT.fetch_add(1, Ordering::Relaxed))
}

/// Options for a store of its own on the shared server.
pub(crate) fn options(server: &Cluster) -> PostgresOptions {
    PostgresOptions::new(server.dsn()).schema(fresh("test"))
}

/// A store of its own on the shared server.
pub(crate) fn store() -> Option<PostgresStore> {
    Some(PostgresStore::open(options(server()?)).unwrap())
}

pub(crate) fn scratch() -> TempDir {
    tempfile::tempdir().unwrap()
}

/// The texts of messages.
pub(crate) fn said(messages: &[Message]) -> Vec<String> {
    messages.iter().map(|m| m.text().into_owned()).collect()
}

/// The texts of a session's history.
pub(crate) fn texts(store: &PostgresStore, key: &str) -> Vec<String> {
    said(&store.history(key).wait().unwrap())
}

/// Texts `from..to` as numbers.
pub(crate) fn numbers(range: std::ops::Range<usize>) -> Vec<String> {
    range.map(|n| n.to_string()).collect()
}

/// A line with a text.
pub(crate) fn line(text: &str) -> String {
    format!("{{\"role\":\"user\",\"content\":\"{text}\"}}\n")
}

/// All files under a directory, by their path in it.
pub(crate) fn files(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut left = vec![dir.to_path_buf()];
    while let Some(at) = left.pop() {
        for entry in std::fs::read_dir(at).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                left.push(path);
            } else {
                let bytes = std::fs::read(&path).unwrap();
                found.insert(path.strip_prefix(dir).unwrap().into(), bytes);
            }
        }
    }
    found
}

/// In what way a test gets its answers.
#[derive(Debug)]
pub(crate) enum Caller {
    PlainThread,
    Runtime(tokio::runtime::Runtime),
}

impl Caller {
    pub(crate) fn each() -> [Self; 3] {
        use tokio::runtime::Builder;
        [
            Self::PlainThread,
            Self::Runtime(Builder::new_current_thread().build().unwrap()),
            Self::Runtime(
                Builder::new_multi_thread()
                    .worker_threads(2)
                    .build()
                    .unwrap(),
            ),
        ]
    }

    pub(crate) fn get<T: Send + 'static>(&self, reply: Reply<T>) -> Result<T> {
        match self {
            Self::PlainThread => reply.wait(),
            Self::Runtime(runtime) => runtime.block_on(reply),
        }
    }

    pub(crate) fn ok<T: Send + 'static>(&self, reply: Reply<T>) -> T {
        self.get(reply).unwrap()
    }
}
