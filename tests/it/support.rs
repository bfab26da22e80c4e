//! What the tests share.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::value::RawValue;
use sessionlog::testing::disk_model::MemoryStorage;
use sessionlog::testing::storage::Storage;
use sessionlog::{Message, Reply, Result, Store, StoreHandle, StoreOptions, testing};
use tempfile::TempDir;

/// How long something that happens by itself may take before a test gives up.
const PATIENCE: Duration = Duration::from_secs(30);

/// Where stores on a [`MemoryStorage`] live.
pub(crate) const MEMORY_DIR: &str = "/s";

/// A directory of its own for one test.
pub(crate) fn scratch() -> TempDir {
    tempfile::tempdir().unwrap()
}

/// Options under which nothing is compacted unasked.
pub(crate) fn manual() -> StoreOptions {
    StoreOptions::new().auto_compact(false)
}

/// A store in `dir` that compacts nothing unasked.
pub(crate) fn open(dir: &Path) -> Store {
    Store::open_with(dir, manual()).unwrap()
}

/// A store on a modelled disk.
pub(crate) fn open_memory(disk: &MemoryStorage) -> Result<Store> {
    open_on(Arc::new(disk.clone()), small_segments())
}

/// [`manual`], with a journal that goes on in the next segment soon.
pub(crate) fn small_segments() -> StoreOptions {
    manual().journal_segments(64 << 10, 1 << 20)
}

/// A store on any file system.
pub(crate) fn open_on(storage: Arc<dyn Storage>, options: StoreOptions) -> Result<Store> {
    testing::open_store(storage, Path::new(MEMORY_DIR), options)
}

/// The path of a store's file on a modelled disk.
pub(crate) fn in_memory(name: &str) -> PathBuf {
    Path::new(MEMORY_DIR).join(name)
}

/// The texts of a session's history.
pub(crate) fn texts(chats: &StoreHandle, key: &str) -> Vec<String> {
    said(&chats.history(key).wait().unwrap())
}

/// The texts of messages.
pub(crate) fn said(messages: &[Message]) -> Vec<String> {
    messages.iter().map(|m| m.text().into_owned()).collect()
}

/// Texts `from..to` as numbers.
pub(crate) fn numbers(range: std::ops::Range<usize>) -> Vec<String> {
    range.map(|n| n.to_string()).collect()
}

/// Adds texts `from..to` as numbers.
pub(crate) fn add_numbers(chats: &StoreHandle, key: &str, range: std::ops::Range<usize>) {
    for text in numbers(range) {
        chats.add_message(key, "user", &text).wait().unwrap();
    }
}

/// A user's line as PicoClaw writes it, its LF included.
pub(crate) fn line(text: &str) -> String {
    format!(
        "{{\"role\":\"user\",\"content\":\"{text}\",\"created_at\":\"2026-01-02T03:04:05Z\"}}\n"
    )
}

/// A sidecar as PicoClaw writes it.
pub(crate) fn sidecar(key: &str, summary: &str, skip: usize, count: usize) -> String {
    format!(
        "{{\n  \"key\": \"{key}\",\n  \"summary\": \"{summary}\",\n  \"skip\": {skip},\n  \
         \"count\": {count},\n  \"created_at\": \"2026-01-02T03:04:05Z\",\n  \
         \"updated_at\": \"2026-01-02T03:04:05Z\"\n}}"
    )
}

/// Returns true if `SESSIONLOG_LONG` asks for the depth of `.ci/full`.
pub(crate) fn is_long() -> bool {
    std::env::var("SESSIONLOG_LONG").is_ok_and(|value| value != "0")
}

/// Every file below `dir` by its path in there.
pub(crate) fn files(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut unread = vec![dir.to_path_buf()];
    while let Some(next) = unread.pop() {
        for entry in fs::read_dir(&next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                unread.push(path);
            } else {
                let name = path.strip_prefix(dir).unwrap().to_path_buf();
                found.insert(name, fs::read(&path).unwrap());
            }
        }
    }
    found
}

/// The names in a store's directory that other programs see.
pub(crate) fn visible_names(dir: &Path) -> Vec<String> {
    let mut names: Vec<_> = fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name != ".sessionlog")
        .collect();
    names.sort();
    names
}

/// A session's scope.
#[expect(
    clippy::unnecessary_wraps,
    reason = "it goes where a scope may be missing"
)]
pub(crate) fn scope(json: &str) -> Option<Box<RawValue>> {
    Some(RawValue::from_string(json.into()).unwrap())
}

/// Waits for what happens by itself.
pub(crate) fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < PATIENCE, "{what} did not happen");
        std::thread::park_timeout(Duration::from_millis(1));
    }
}

/// Waits until the journal segment is ready that is made in the background at
/// open: it takes space and calls of its own.
pub(crate) fn wait_for_spare_segment(disk: &MemoryStorage) {
    let ready = |name: &String| name.contains("/journal/segment-") && !name.contains("tmp");
    wait_until("a spare journal segment", || {
        disk.dump().keys().filter(|name| ready(name)).count() >= 2
    });
}

/// Copies a directory as a crash of its writer would leave it, page cache
/// included.
pub(crate) fn copy_dir(from: &Path, to: &Path) {
    for (name, bytes) in files(from) {
        let path = to.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }
}

/// In what way a test gets its answers.
#[derive(Debug)]
pub(crate) enum Caller {
    PlainThread,
    Runtime(tokio::runtime::Runtime),
}

impl Caller {
    /// A plain thread, an async runtime of one thread, and one of several.
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

    /// Waits for an answer, or awaits it.
    pub(crate) fn get<T: Send + 'static>(&self, reply: Reply<T>) -> Result<T> {
        match self {
            Self::PlainThread => reply.wait(),
            Self::Runtime(runtime) => runtime.block_on(reply),
        }
    }

    /// Waits for an answer that is no error, or awaits it.
    pub(crate) fn ok<T: Send + 'static>(&self, reply: Reply<T>) -> T {
        self.get(reply).unwrap()
    }
}

/// Runs a claim about a fresh store once for every kind of caller.
pub(crate) fn for_each_caller(claim: impl Fn(&Caller, &StoreHandle, &Path)) {
    for caller in Caller::each() {
        let dir = scratch();
        let store = open(dir.path());
        claim(&caller, &store.handle(), dir.path());
        store.close().unwrap();
    }
}

/// Names the directory that a child process is to work on.
const CHILD: &str = "SESSIONLOG_TEST_CHILD";

/// The directory that this process is to work on, if it is a child.
pub(crate) fn child_dir() -> Option<PathBuf> {
    std::env::var_os(CHILD).map(PathBuf::from)
}

/// Runs one test of this program in a process of its own, as a child that works
/// on `dir`. Its standard input is ours to close.
pub(crate) fn spawn_child(test: &str, dir: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env(CHILD, dir)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Numbers that are the same for the same seed.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn of(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    pub(crate) fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }
}
