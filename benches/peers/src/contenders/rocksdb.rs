//! RocksDB: log-structured merge trees behind one write-ahead log.

use std::ops::Range;
use std::sync::Arc;

use rocksdb::{
    BlockBasedOptions, BoundColumnFamily, Cache, DBWithThreadMode, Direction, FlushOptions,
    IteratorMode, MultiThreaded, Options, WaitForCompactOptions, WriteBatch, WriteOptions,
};
use sessionlog::Message;

use crate::contender::{Setup, alias_of, key_of};
use crate::engines::{Append, Ends, Engine, Reader, decode, place_key};
use crate::support::Outcome;
use crate::support::bare::Until;

/// Everything a workload touches stays in memory.
const CACHE_BYTES: usize = 256 << 20;

/// Of flushes and compactions, beside the writer.
const JOBS: i32 = 2;

type Database = DBWithThreadMode<MultiThreaded>;

type Entry = Result<(Box<[u8]>, Box<[u8]>), rocksdb::Error>;

pub(crate) struct RocksDb {
    store: Families,
    durable: WriteOptions,
    write: WriteOptions,
    ends: Ends,
}

/// The database, shared by writer and readers.
#[derive(Clone)]
pub(crate) struct Families(Arc<Database>);

impl Engine for RocksDb {
    type Reader = Families;

    fn open(setup: &Setup) -> Outcome<(Self, Families)> {
        let mut options = Options::default();
        options.create_if_missing(true);
        options.create_missing_column_families(true);
        options.set_max_background_jobs(JOBS);
        let mut blocks = BlockBasedOptions::default();
        blocks.set_block_cache(&Cache::new_lru_cache(CACHE_BYTES));
        options.set_block_based_table_factory(&blocks);
        let families = ["messages", "sessions", "aliases"];
        let families = families.map(|name| (name, options.clone()));
        let database = Database::open_cf_with_opts(&options, setup.dir(), families)?;
        let store = Families(Arc::new(database));
        let options = |sync| {
            let mut options = WriteOptions::default();
            options.set_sync(sync);
            options
        };
        let engine = Self {
            store: store.clone(),
            durable: options(true),
            write: options(setup.until == Until::Synced),
            ends: Ends::new(setup.sessions),
        };
        Ok((engine, store))
    }

    fn commit(&mut self, appends: Vec<Append>) -> Outcome<()> {
        let store = &self.store;
        let [messages, sessions] = ["messages", "sessions"].map(|name| store.family(name));
        let mut batch = WriteBatch::default();
        for Append { session, line } in appends {
            let place = self.ends.take(session, || store.next_number(session))?;
            batch.put_cf(&messages, bytes(session, place.number), line);
            if place.is_first {
                batch.put_cf(&sessions, number(session), key_of(session));
            }
        }
        Ok(store.0.write_opt(batch, &self.write)?)
    }

    fn alias(&mut self, sessions: Range<usize>) -> Outcome<()> {
        let aliases = self.store.family("aliases");
        let mut batch = WriteBatch::default();
        for session in sessions {
            batch.put_cf(&aliases, alias_of(session), number(session));
        }
        Ok(self.store.0.write_opt(batch, &self.durable)?)
    }

    /// Writes what is in memory to its tree, as the other engines' flushes do, and waits for
    /// the compactions that follow: their work must not run into another's window.
    fn flush(&mut self) -> Outcome<()> {
        let database = &self.store.0;
        database.flush_wal(true)?;
        let names = ["messages", "sessions", "aliases"];
        let families = names.map(|name| self.store.family(name));
        let families: Vec<_> = families.iter().collect();
        database.flush_cfs_opt(&families, &FlushOptions::default())?;
        Ok(database.wait_for_compact(&WaitForCompactOptions::default())?)
    }

    fn truncate(&mut self, sessions: Range<usize>, keep: usize) -> Outcome<()> {
        let store = &self.store;
        let messages = store.family("messages");
        let mut batch = WriteBatch::default();
        for session in sessions {
            let end = self.ends.of(session, || store.next_number(session))?;
            let kept = end.saturating_sub(keep as u32);
            batch.delete_range_cf(&messages, bytes(session, 0), bytes(session, kept));
        }
        Ok(store.0.write_opt(batch, &self.durable)?)
    }

    fn reclaim_step(&mut self) -> Outcome<bool> {
        Ok(true)
    }

    fn close(mut self) -> Outcome<()> {
        self.flush()
    }
}

fn bytes(session: usize, number: u32) -> [u8; 8] {
    place_key(session, number).to_be_bytes()
}

fn number(session: usize) -> [u8; 4] {
    (session as u32).to_be_bytes()
}

impl Families {
    fn family(&self, name: &str) -> Arc<BoundColumnFamily<'_>> {
        self.0.cf_handle(name).expect("was created")
    }

    /// The messages of a session, the newest first.
    fn newest(&self, session: usize) -> impl Iterator<Item = Outcome<(u32, Box<[u8]>)>> {
        let last = bytes(session, u32::MAX);
        let from = IteratorMode::From(&last, Direction::Reverse);
        let entries = self.0.iterator_cf(&self.family("messages"), from);
        entries
            .map(|entry| {
                let (key, value) = entry?;
                Ok((u64::from_be_bytes(key[..].try_into()?), value))
            })
            .take_while(move |entry| {
                let first = place_key(session, 0);
                entry.as_ref().map_or(true, |(key, _)| *key >= first)
            })
            .map(|entry| entry.map(|(key, value)| (key as u32, value)))
    }

    fn next_number(&self, session: usize) -> Outcome<u32> {
        let newest = self.newest(session).next().transpose()?;
        Ok(newest.map_or(0, |(number, _)| number + 1))
    }

    fn all(&self, family: &str) -> impl Iterator<Item = Entry> {
        let family = self.family(family);
        self.0.iterator_cf(&family, IteratorMode::Start)
    }
}

impl Reader for Families {
    fn count(&self) -> Outcome<usize> {
        let mut count = 0;
        for entry in self.all("messages") {
            entry?;
            count += 1;
        }
        Ok(count)
    }

    fn history(&self, session: usize) -> Outcome<Vec<Message>> {
        self.tail(session, usize::MAX)
    }

    fn tail(&self, session: usize, count: usize) -> Outcome<Vec<Message>> {
        let newest = self.newest(session).take(count);
        let mut messages = newest
            .map(|entry| decode(&entry?.1))
            .collect::<Outcome<Vec<_>>>()?;
        messages.reverse();
        Ok(messages)
    }

    fn keys(&self) -> Outcome<Vec<String>> {
        self.all("sessions")
            .map(|entry| Ok(std::str::from_utf8(&entry?.1)?.to_owned()))
            .collect()
    }

    fn resolve(&self, alias: &str) -> Outcome<Option<String>> {
        let Some(session) = self.0.get_cf(&self.family("aliases"), alias)? else {
            return Ok(None);
        };
        let key = self.0.get_cf(&self.family("sessions"), session)?;
        Ok(key.map(String::from_utf8).transpose()?)
    }

    /// Deleted ranges give their space back when the levels are merged.
    fn reclaim(&self) -> Outcome<()> {
        let messages = self.family("messages");
        self.0.flush_cf(&messages)?;
        self.0
            .compact_range_cf(&messages, None::<&[u8]>, None::<&[u8]>);
        Ok(())
    }
}
