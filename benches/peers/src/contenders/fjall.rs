//! fjall: log-structured merge trees behind one journal.

use std::ops::Range;
use std::time::Duration;

use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode};
use sessionlog::Message;

use crate::contender::{Setup, alias_of, key_of};
use crate::engines::{Append, Ends, Engine, Reader, decode, place_key};
use crate::support::Outcome;
use crate::support::bare::Until;

/// Everything a workload touches stays in memory.
const CACHE_BYTES: u64 = 256 << 20;

/// As often as fjall itself counts closed snapshots.
const SNAPSHOTS_UNTIL_GC: usize = 10_000;

pub(crate) struct Fjall {
    store: Keyspaces,
    persist: PersistMode,
    ends: Ends,
}

/// The database and its keyspaces, shared by writer and readers.
#[derive(Clone)]
pub(crate) struct Keyspaces {
    database: Database,
    messages: Keyspace,
    sessions: Keyspace,
    aliases: Keyspace,
}

impl Engine for Fjall {
    type Reader = Keyspaces;

    fn open(setup: &Setup) -> Outcome<(Self, Keyspaces)> {
        // Every batch says itself how it persists.
        let database = Database::builder(setup.dir())
            .cache_size(CACHE_BYTES)
            .manual_journal_persist(true)
            .open()?;
        let keyspace = |name| database.keyspace(name, KeyspaceCreateOptions::default);
        let store = Keyspaces {
            messages: keyspace("messages")?,
            sessions: keyspace("sessions")?,
            aliases: keyspace("aliases")?,
            database,
        };
        let engine = Self {
            store: store.clone(),
            persist: match setup.until {
                Until::Synced => PersistMode::SyncData,
                Until::Written => PersistMode::Buffer,
            },
            ends: Ends::new(setup.sessions),
        };
        Ok((engine, store))
    }

    fn commit(&mut self, appends: Vec<Append>) -> Outcome<()> {
        let store = &self.store;
        let mut batch = store.batch(appends.len(), self.persist);
        for Append { session, line } in appends {
            let place = self.ends.take(session, || store.next_number(session))?;
            batch.insert(&store.messages, bytes(session, place.number), line);
            if place.is_first {
                batch.insert(&store.sessions, number(session), key_of(session));
            }
        }
        Ok(batch.commit()?)
    }

    fn alias(&mut self, sessions: Range<usize>) -> Outcome<()> {
        let store = &self.store;
        let mut batch = store.batch(sessions.len(), PersistMode::SyncData);
        for session in sessions {
            batch.insert(&store.aliases, alias_of(session), number(session));
        }
        Ok(batch.commit()?)
    }

    /// Writes what is in memory to its tree, as the other engines' flushes do,
    /// and waits for the compactions that follow: their bytes count, and their
    /// work must not run into another's window.
    fn flush(&mut self) -> Outcome<()> {
        let database = &self.store.database;
        database.persist(PersistMode::SyncAll)?;
        for keyspace in self.store.keyspaces() {
            keyspace.rotate_memtable_and_wait()?;
        }
        while database.outstanding_flushes() + database.active_compactions() > 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    fn truncate(&mut self, sessions: Range<usize>, keep: usize) -> Outcome<()> {
        let store = &self.store;
        let mut batch = store.batch(sessions.len() * keep, PersistMode::SyncData);
        for session in sessions {
            let end = self.ends.of(session, || store.next_number(session))?;
            let kept = end.saturating_sub(keep as u32);
            let range = bytes(session, 0)..bytes(session, kept);
            for entry in store.messages.range(range) {
                batch.remove(&store.messages, entry.key()?);
            }
        }
        Ok(batch.commit()?)
    }

    fn reclaim_step(&mut self) -> Outcome<bool> {
        Ok(true)
    }

    /// What is in trees does not have to be replayed by the next open.
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

fn of_session(session: usize) -> Range<[u8; 8]> {
    bytes(session, 0)..bytes(session + 1, 0)
}

impl Keyspaces {
    fn batch(&self, capacity: usize, persist: PersistMode) -> fjall::OwnedWriteBatch {
        fjall::OwnedWriteBatch::with_capacity(self.database.clone(), capacity)
            .durability(Some(persist))
    }

    fn keyspaces(&self) -> [&Keyspace; 3] {
        [&self.messages, &self.sessions, &self.aliases]
    }

    fn next_number(&self, session: usize) -> Outcome<u32> {
        let last = self.messages.range(of_session(session)).next_back();
        let Some(last) = last else { return Ok(0) };
        let key: [u8; 8] = (*last.key()?).try_into()?;
        Ok(u64::from_be_bytes(key) as u32 + 1)
    }
}

impl Reader for Keyspaces {
    fn count(&self) -> Outcome<usize> {
        Ok(self.messages.len()?)
    }

    fn history(&self, session: usize) -> Outcome<Vec<Message>> {
        self.messages
            .range(of_session(session))
            .map(|entry| decode(&entry.value()?))
            .collect()
    }

    fn tail(&self, session: usize, count: usize) -> Outcome<Vec<Message>> {
        let mut messages = self
            .messages
            .range(of_session(session))
            .rev()
            .take(count)
            .map(|entry| decode(&entry.value()?))
            .collect::<Outcome<Vec<_>>>()?;
        messages.reverse();
        Ok(messages)
    }

    fn keys(&self) -> Outcome<Vec<String>> {
        self.sessions
            .iter()
            .map(|entry| Ok(std::str::from_utf8(&entry.value()?)?.to_owned()))
            .collect()
    }

    fn resolve(&self, alias: &str) -> Outcome<Option<String>> {
        let Some(session) = self.aliases.get(alias)? else {
            return Ok(None);
        };
        let key = self.sessions.get(session)?;
        Ok(key
            .map(|key| std::str::from_utf8(&key).map(str::to_owned))
            .transpose()?)
    }

    /// Tombstones and what they hide go when the levels are merged, as far as no
    /// snapshot can see them; what snapshots see is looked at after so many.
    fn reclaim(&self) -> Outcome<()> {
        self.messages.rotate_memtable_and_wait()?;
        for _ in 0..SNAPSHOTS_UNTIL_GC {
            drop(self.database.snapshot());
        }
        self.messages.major_compact()?;
        // Merged tables are deleted when the next one comes.
        Ok(self.messages.rotate_memtable_and_wait()?)
    }
}
