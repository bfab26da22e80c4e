//! raft-engine: the log of many Raft groups, each session a group.

use std::ops::Range;
use std::sync::Arc;

use protobuf::well_known_types::BytesValue;
use raft_engine::{Command, Config, Engine as Log, LogBatch, MessageExt, ReadableSize};
use sessionlog::Message;

use crate::contender::{Setup, alias_of, key_of};
use crate::engines::{Append, Ends, Engine, Reader, decode};
use crate::support::Outcome;
use crate::support::bare::Until;

/// An entry says its own index: it comes first in the value, as eight bytes.
struct Indexed;

const INDEX_BYTES: usize = 8;

impl MessageExt for Indexed {
    type Entry = BytesValue;

    fn index(entry: &BytesValue) -> u64 {
        let index = entry.value.first_chunk().expect("an entry has an index");
        u64::from_be_bytes(*index)
    }
}

/// The group that maps keys and aliases; groups of sessions come after it.
const DIRECTORY: u64 = 1;

fn group(session: usize) -> u64 {
    DIRECTORY + 1 + session as u64
}

pub(crate) struct RaftEngine {
    log: Arc<Log>,
    sync: bool,
    ends: Ends,
}

impl Engine for RaftEngine {
    type Reader = Arc<Log>;

    /// To read an entry is to read the whole batch that it came in.
    const FILLED_AT_ONCE: usize = 100;

    /// A truncation is one small command.
    const TRUNCATED_AT_ONCE: usize = 1000;

    fn open(setup: &Setup) -> Outcome<(Self, Arc<Log>)> {
        let log = Log::open(Config {
            dir: setup.dir().to_str().ok_or("a path of UTF-8")?.to_owned(),
            // A batch would have to be decompressed for each of its entries.
            batch_compression_threshold: ReadableSize(0),
            // Purging looks at the log only once it is larger than this.
            purge_threshold: ReadableSize::mb(128),
            target_file_size: ReadableSize::mb(64),
            ..Config::default()
        })?;
        let log = Arc::new(log);
        let engine = Self {
            log: Arc::clone(&log),
            sync: setup.until == Until::Synced,
            ends: Ends::new(setup.sessions),
        };
        Ok((engine, log))
    }

    fn commit(&mut self, appends: Vec<Append>) -> Outcome<()> {
        let mut batch = LogBatch::with_capacity(appends.len());
        for Append { session, line } in appends {
            let last = || Ok(next_index(&self.log, session));
            let place = self.ends.take(session, last)?;
            let entry = entry(u64::from(place.number), &line);
            batch.add_entries::<Indexed>(group(session), &[entry])?;
            if place.is_first {
                let number = (session as u32).to_be_bytes();
                let key = [b"k", number.as_slice()].concat();
                batch.put(DIRECTORY, key, key_of(session).into_bytes())?;
            }
        }
        self.log.write(&mut batch, self.sync)?;
        Ok(())
    }

    fn alias(&mut self, sessions: Range<usize>) -> Outcome<()> {
        let mut batch = LogBatch::default();
        for session in sessions {
            let alias = [b"a", alias_of(session).as_bytes()].concat();
            batch.put(DIRECTORY, alias, key_of(session).into_bytes())?;
        }
        self.log.write(&mut batch, true)?;
        Ok(())
    }

    fn flush(&mut self) -> Outcome<()> {
        Ok(self.log.sync()?)
    }

    fn truncate(&mut self, sessions: Range<usize>, keep: usize) -> Outcome<()> {
        let mut batch = LogBatch::default();
        for session in sessions {
            let last = || Ok(next_index(&self.log, session));
            let end = self.ends.of(session, last)?;
            let index = u64::from(end.saturating_sub(keep as u32));
            batch.add_command(group(session), Command::Compact { index });
        }
        self.log.write(&mut batch, true)?;
        Ok(())
    }

    fn reclaim_step(&mut self) -> Outcome<bool> {
        Ok(true)
    }

    fn close(self) -> Outcome<()> {
        Ok(self.log.sync()?)
    }
}

fn entry(index: u64, line: &[u8]) -> BytesValue {
    let mut entry = BytesValue::new();
    entry.value.reserve_exact(INDEX_BYTES + line.len());
    entry.value.extend_from_slice(&index.to_be_bytes());
    entry.value.extend_from_slice(line);
    entry
}

fn next_index(log: &Log, session: usize) -> u32 {
    log.last_index(group(session))
        .map_or(0, |last| last as u32 + 1)
}

/// The entries of a session that are left.
fn indexes(log: &Log, session: usize) -> Range<u64> {
    let first = log.first_index(group(session)).unwrap_or(0);
    first..u64::from(next_index(log, session))
}

fn fetch(log: &Log, session: usize, indexes: Range<u64>) -> Outcome<Vec<Message>> {
    let mut entries = Vec::new();
    let (first, end) = (indexes.start, indexes.end);
    if first < end {
        log.fetch_entries_to::<Indexed>(group(session), first, end, None, &mut entries)?;
    }
    entries
        .iter()
        .map(|entry| decode(&entry.value[INDEX_BYTES..]))
        .collect()
}

impl Reader for Arc<Log> {
    fn count(&self) -> Outcome<usize> {
        let sessions = self.raft_groups().into_iter().filter(|id| *id > DIRECTORY);
        Ok(sessions
            .map(|id| indexes(self, (id - DIRECTORY - 1) as usize))
            .map(|indexes| (indexes.end - indexes.start) as usize)
            .sum())
    }

    fn history(&self, session: usize) -> Outcome<Vec<Message>> {
        fetch(self, session, indexes(self, session))
    }

    fn tail(&self, session: usize, count: usize) -> Outcome<Vec<Message>> {
        let Range { start, end } = indexes(self, session);
        fetch(
            self,
            session,
            start.max(end.saturating_sub(count as u64))..end,
        )
    }

    fn keys(&self) -> Outcome<Vec<String>> {
        let mut keys = Vec::new();
        let mut sound = true;
        self.scan_raw_messages(DIRECTORY, Some(b"k"), Some(b"l"), false, |_, key| {
            match std::str::from_utf8(key) {
                Ok(key) => keys.push(key.to_owned()),
                Err(_) => sound = false,
            }
            sound
        })?;
        sound.then_some(keys).ok_or("a key of UTF-8".into())
    }

    fn resolve(&self, alias: &str) -> Outcome<Option<String>> {
        let key = self.get(DIRECTORY, &[b"a", alias.as_bytes()].concat());
        Ok(key.map(String::from_utf8).transpose()?)
    }

    /// Files whose entries are all gone are kept for reuse; others are rewritten
    /// while their log is over the threshold.
    fn reclaim(&self) -> Outcome<()> {
        self.purge_expired_files()?;
        Ok(())
    }
}
