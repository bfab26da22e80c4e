//! What is done with the bytes of a fuzzer.
//!
//! Each target takes any bytes whatever. Whatever they are, the store opens or
//! says in words why not; nothing panics, hangs, or allocates out of proportion
//! to what it reads; looking changes nothing; what was there before a write is
//! there after it.

mod image;
mod journal;
mod log;
mod sidecar;

use sessionlog::StoreOptions;
use sessionlog::testing::disk_model::MemoryStorage;
use sessionlog::testing::sim::{DIR, Sim, read_now, read_only};

pub(crate) use image::image;
pub(crate) use journal::journal;
pub(crate) use log::log;
pub(crate) use sidecar::sidecar;

/// A target and its name.
pub(crate) type Target = (&'static str, fn(&[u8]));

/// All of them.
pub(crate) const TARGETS: [Target; 4] = [
    ("journal", journal),
    ("log", log),
    ("sidecar", sidecar),
    ("image", image),
];

/// The session that every target has.
const KEY: &str = "cli";

/// Larger files show nothing that smaller ones do not.
const MAX_INPUT: usize = 64 << 10;

fn options() -> StoreOptions {
    StoreOptions::new().journal_segments(8 << 10, 8 << 10)
}

fn put(storage: &MemoryStorage, name: &str, bytes: &[u8]) {
    let written = storage.write_foreign(format!("{DIR}/{name}"), bytes);
    written.expect("the disk is empty and works");
}

/// Texts and summaries by key.
type Shown = Vec<(String, Vec<String>, String)>;

/// Reads the store without owning it, then owns it, writes and opens it again.
fn use_all(storage: &MemoryStorage) {
    let before = storage.dump();
    let beside = look_beside(storage);
    assert!(storage.dump() == before, "a read-only look changed files");

    let Ok(mut sim) = Sim::open(storage.clone(), &options(), 0) else {
        return;
    };
    let findings = sim.report().findings.len();
    let Ok(shown) = look(&mut sim) else { return };
    // Where something is wrong the look beside may rightly see less, or more.
    if let Some(Ok(beside)) = beside
        && findings == 0
    {
        assert_eq!(beside, shown, "a look beside the owner differs");
    }
    let chats = sim.handle().exact_keys();
    let added = sim.run(chats.add_message(KEY, "user", "after"));
    let Ok(after) = look(&mut sim) else { return };
    let mut expected = texts_of(&shown, KEY);
    if added.is_ok() {
        expected.push("after".to_owned());
    }
    assert_eq!(texts_of(&after, KEY), expected);
    if sim.close().is_err() {
        return;
    }
    let mut sim = Sim::open(storage.clone(), &options(), 0).expect("a closed store opens");
    let again = look(&mut sim).expect("what was read before can be read again");
    assert_eq!(again, after, "closing changed something");
}

fn look_beside(storage: &MemoryStorage) -> Option<Result<Shown, sessionlog::Error>> {
    let handle = read_only(storage.clone()).ok()?.exact_keys();
    let look = || {
        let mut shown = Shown::new();
        for key in keys(read_now(handle.list_sessions())?) {
            let history = read_now(handle.history(&key))?;
            let summary = read_now(handle.summary(&key))?;
            let tail = read_now(handle.tail(&key, 2))?;
            shown.push(entry(key, &history, &tail, summary));
        }
        Ok(shown)
    };
    Some(look())
}

fn look(sim: &mut Sim) -> Result<Shown, sessionlog::Error> {
    let handle = sim.handle().exact_keys();
    let mut shown = Shown::new();
    for key in keys(sim.run(handle.list_sessions())?) {
        let history = sim.run(handle.history(&key))?;
        let summary = sim.run(handle.summary(&key))?;
        let tail = sim.run(handle.tail(&key, 2))?;
        shown.push(entry(key, &history, &tail, summary));
    }
    Ok(shown)
}

fn keys(mut listed: Vec<String>) -> Vec<String> {
    listed.push(KEY.to_owned());
    listed.sort_unstable();
    listed.dedup();
    listed
}

fn entry(
    key: String,
    history: &[sessionlog::Message],
    tail: &[sessionlog::Message],
    summary: String,
) -> (String, Vec<String>, String) {
    let texts = |of: &[sessionlog::Message]| -> Vec<String> {
        of.iter().map(|m| m.text().to_string()).collect()
    };
    let (texts, newest) = (texts(history), texts(tail));
    assert_eq!(texts[texts.len().saturating_sub(2)..], newest, "{key}");
    (key, texts, summary)
}

fn texts_of(shown: &Shown, key: &str) -> Vec<String> {
    let found = shown.iter().find(|(of, _, _)| of == key);
    found.map(|(_, texts, _)| texts.clone()).unwrap_or_default()
}
