//! Small stores, made by the engine, of which everything is known.

use std::collections::BTreeMap;
use std::ops::Range;

use sessionlog::testing::disk_model::{Image, MemoryStorage};
use sessionlog::testing::sim::{Sim, read_now, read_only};
use sessionlog::{Message, Reply, Result, StoreHandle, StoreOptions};

pub(crate) const KEYS: [&str; 3] = ["a", "b:1", "c"];

/// The texts and the summary of every session.
pub(crate) type Seen = BTreeMap<&'static str, (Vec<String>, String)>;

/// A store that nobody has open.
pub(crate) struct Store {
    pub(crate) name: &'static str,
    pub(crate) disk: MemoryStorage,
    /// What was on the disk some time before.
    pub(crate) older: MemoryStorage,
    /// Every command in order: where in the journal it stands, and what the
    /// store held after it. The first is the empty store.
    pub(crate) commands: Vec<Command>,
    /// Whether the journal holds the last line of every session.
    pub(crate) journalled: bool,
    /// Whether nothing was ever truncated, replaced or deleted.
    pub(crate) only_appends: bool,
}

pub(crate) struct Command {
    pub(crate) seen: Seen,
    pub(crate) extents: Vec<(String, Range<usize>)>,
}

impl Store {
    pub(crate) fn last(&self) -> &Seen {
        &self
            .commands
            .last()
            .expect("the empty store is the first")
            .seen
    }

    /// Every text that was ever written.
    pub(crate) fn ever(&self) -> impl Iterator<Item = &String> {
        let seen = self
            .commands
            .iter()
            .flat_map(|command| command.seen.values());
        seen.flat_map(|(texts, _)| texts)
    }

    /// Files and their bytes, of which only the first may not be zeros.
    pub(crate) fn files(&self) -> Vec<(String, Vec<u8>, usize)> {
        let files = self.disk.dump().into_iter();
        let files = files.filter(|(path, _)| !path.ends_with("/lock"));
        files
            .map(|(path, bytes)| {
                let used = used(&bytes);
                (path, bytes, used)
            })
            .collect()
    }
}

pub(crate) fn all() -> Vec<Store> {
    vec![
        journal(),
        flushed(),
        truncated(),
        rewritten(Image::AllKept),
        rewritten(Image::AllLost),
        taken_back(Image::AllKept),
        taken_back(Image::AllLost),
        closed(),
    ]
}

/// Others, for a long run.
pub(crate) fn more() -> Vec<Store> {
    vec![
        appended("long lines", 6, 2500),
        appended("many lines", 20, 100),
    ]
}

/// Appends to several sessions over several segments, none of them flushed.
fn journal() -> Store {
    appended("journal", 4, 1500)
}

fn appended(name: &'static str, rounds: usize, long: usize) -> Store {
    let mut maker = Maker::new(name);
    for round in 0..rounds {
        for key in KEYS {
            maker.append(key, &format!("{key} says {round}"));
        }
        maker.append("a", &format!("long {round} {}", "-".repeat(long)));
    }
    maker.finish(true)
}

/// The same behind a checkpoint.
fn flushed() -> Store {
    let mut maker = Maker::new("flushed");
    for key in KEYS {
        maker.append(key, "first");
        maker.append(key, "second");
    }
    maker.flush();
    for key in KEYS {
        maker.append(key, "third");
    }
    maker.append("a", &"=".repeat(900));
    maker.append("b:1", "fourth");
    maker.finish(true)
}

/// Lines in the files and in the journal, some of each hidden.
fn truncated() -> Store {
    let mut maker = Maker::new("truncated");
    for key in KEYS {
        maker.append(key, "first");
        maker.append(key, "second");
    }
    maker.run(|chats| chats.set_history("c", vec![Message::user("new"), Message::user("er")]));
    maker.flush();
    for text in ["third", "fourth", "fifth"] {
        maker.append("a", text);
        maker.append("c", text);
    }
    maker.append("b:1", "third");
    maker.run(|chats| chats.truncate_history("a", 2));
    maker.run(|chats| chats.set_history("b:1", vec![Message::user("new")]));
    maker.append("b:1", "newer");
    maker.append("b:1", "newest");
    maker.run(|chats| chats.truncate_history("b:1", 1));
    maker.run(|chats| chats.truncate_history("c", 4));
    maker.finish(false)
}

/// Truncated, rewritten, summarised, deleted; `left` is what a power loss leaves
/// of it. Without what was not synced, rewritten files have their hidden names
/// still.
fn rewritten(left: Image) -> Store {
    let mut maker = Maker::new(match left {
        Image::AllLost => "rewritten, not renamed",
        _ => "rewritten",
    });
    for text in ["one", "two", "three", "four"] {
        maker.append("a", text);
        maker.append("c", text);
    }
    maker.run(|chats| chats.set_summary("a", "of it all"));
    maker.run(|chats| chats.truncate_history("a", 1));
    maker.append("a", "five");
    maker.run(|chats| chats.compact("a"));
    maker.append("a", "six");
    maker.run(|chats| chats.set_history("b:1", vec![Message::user("new")]));
    maker.append("b:1", "newer");
    maker.run(|chats| chats.delete_session("c"));
    maker.append("c", "again");
    maker.run(|chats| chats.upsert_session_meta("a", None, vec!["alias".into()]));
    maker.append("a", "seven");
    maker.finish_as(left, false)
}

/// Conversations taken back and cleared, with their backups, one of which was
/// there before the journal's records.
fn taken_back(left: Image) -> Store {
    let mut maker = Maker::new(match left {
        Image::AllLost => "taken back, not renamed",
        _ => "taken back",
    });
    for text in ["one", "two"] {
        maker.append("a", text);
        maker.append("b:1", text);
        maker.append("c", text);
    }
    maker.run(|chats| chats.context("b:1").clear());
    maker.append("b:1", "three");
    maker.flush();
    maker.append("b:1", "four");
    maker.restore("b:1");
    maker.append("b:1", "five");
    maker.run(|chats| chats.context("a").update_token_count(7));
    maker.checkpoint("a");
    maker.append("a", "three");
    maker.run(|chats| chats.context("a").revert_to(0));
    maker.append("a", "four");
    maker.run(|chats| chats.context("c").clear());
    maker.append("c", "five");
    maker.run(|chats| chats.delete_session("c"));
    maker.append("c", "six");
    maker.run(|chats| chats.context("a").clear());
    maker.append("a", "seven");
    maker.finish_as(left, false)
}

/// Nothing but session files, sidecars and an identity.
fn closed() -> Store {
    let mut maker = Maker::new("closed");
    for text in ["one", "two", "three"] {
        for key in KEYS {
            maker.append(key, &format!("{text} of {key}"));
        }
    }
    maker.run(|chats| chats.set_summary("a", "of a"));
    maker.close()
}

struct Maker {
    name: &'static str,
    disk: MemoryStorage,
    older: Option<MemoryStorage>,
    sim: Sim,
    commands: Vec<Command>,
}

impl Maker {
    fn new(name: &'static str) -> Self {
        let disk = MemoryStorage::new();
        let options = StoreOptions::new()
            .auto_compact(false)
            .journal_segments(8 << 10, 8 << 10);
        let sim = Sim::open(disk.clone(), &options, 0).expect("a new disk works");
        let nothing = KEYS.map(|key| (key, (Vec::new(), String::new())));
        let start = Command {
            seen: nothing.into(),
            extents: Vec::new(),
        };
        Self {
            name,
            disk,
            older: None,
            sim,
            commands: vec![start],
        }
    }

    fn checkpoint(&mut self, key: &str) {
        let before = self.disk.dump();
        let reply = self
            .sim
            .handle()
            .exact_keys()
            .context(key)
            .checkpoint(false);
        self.sim.run(reply).expect("the disk works");
        self.sim.until_quiet();
        self.note(&before);
    }

    /// Restores the newest backup of a session.
    fn restore(&mut self, key: &str) {
        let backups = self.sim.handle().exact_keys().list_backups(key);
        let backups = self.sim.run(backups).expect("the disk works");
        let newest = backups.last().expect("there is one").number;
        self.run(|chats| chats.restore_backup(key, newest));
    }

    fn append(&mut self, key: &str, text: &str) {
        self.run(|chats| chats.add_message(key, "user", text));
    }

    fn run(&mut self, call: impl FnOnce(&StoreHandle) -> Reply<()>) {
        self.older
            .get_or_insert_with(|| self.disk.image(Image::AllKept));
        if self.commands.len() == 6 {
            self.older = Some(self.disk.image(Image::AllKept));
        }
        let before = self.disk.dump();
        let reply = call(&self.sim.handle().exact_keys());
        self.sim.run(reply).expect("the disk works");
        self.sim.until_quiet();
        self.note(&before);
    }

    fn flush(&mut self) {
        let before = self.disk.dump();
        self.sim.flush().expect("the disk works");
        self.sim.until_quiet();
        self.note(&before);
    }

    fn note(&mut self, before: &BTreeMap<String, Vec<u8>>) {
        let seen = look(&self.disk).expect("the store is sound");
        let journal = self.disk.dump().into_iter();
        let journal = journal.filter(|(path, _)| path.contains("/journal/"));
        let grown = journal.filter_map(|(path, bytes)| {
            let from = before.get(&path).map_or(0, |bytes| used(bytes));
            let range = from.max(4096)..used(&bytes);
            (!range.is_empty()).then_some((path, range))
        });
        let extents = grown.collect();
        self.commands.push(Command { seen, extents });
    }

    fn finish(self, only_appends: bool) -> Store {
        self.finish_as(Image::AllKept, only_appends)
    }

    fn finish_as(self, left: Image, only_appends: bool) -> Store {
        let disk = self.disk.image(left);
        self.store(disk, only_appends)
    }

    fn close(mut self) -> Store {
        let options = StoreOptions::new();
        let spare = Sim::open(MemoryStorage::new(), &options, 0).expect("a new disk works");
        let sim = std::mem::replace(&mut self.sim, spare);
        sim.close().expect("the disk works");
        let disk = self.disk.image(Image::AllLost);
        self.store(disk, true)
    }

    fn store(self, disk: MemoryStorage, only_appends: bool) -> Store {
        let journalled = disk.dump().keys().any(|path| path.contains("/journal/"));
        Store {
            journalled,
            name: self.name,
            disk,
            older: self.older.expect("something was written"),
            commands: self.commands,
            only_appends,
        }
    }
}

/// Bytes up to the last one that is not zero.
fn used(bytes: &[u8]) -> usize {
    bytes
        .iter()
        .rposition(|byte| *byte != 0)
        .map_or(0, |last| last + 1)
}

/// What a read-only open shows.
pub(crate) fn look(disk: &MemoryStorage) -> Result<Seen> {
    let mut seen = Seen::new();
    for key in KEYS {
        seen.insert(key, look_at(disk, key)?);
    }
    Ok(seen)
}

/// What a read-only open shows of one session.
pub(crate) fn look_at(disk: &MemoryStorage, key: &str) -> Result<(Vec<String>, String)> {
    let handle = read_only(disk.clone())?.exact_keys();
    let texts = read_now(handle.history(key))?;
    let texts = texts.iter().map(|message| message.text().to_string());
    Ok((texts.collect(), read_now(handle.summary(key))?))
}
