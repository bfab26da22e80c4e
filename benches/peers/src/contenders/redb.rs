//! redb: one file of B-trees, copied on write.

use std::ops::Range;
use std::sync::Arc;

use parking_lot::RwLock;
use redb::{Database, Durability, ReadableDatabase, ReadableTable, ReadableTableMetadata};
use redb::{TableDefinition, WriteTransaction};
use sessionlog::Message;

use crate::contender::{Setup, alias_of, key_of};
use crate::engines::{Append, Ends, Engine, Reader, decode, place_key};
use crate::support::Outcome;
use crate::support::bare::Until;

/// Fixed-width keys compare as numbers, and need no offsets in the pages.
const MESSAGES: TableDefinition<u64, &[u8]> = TableDefinition::new("messages");
const SESSIONS: TableDefinition<u64, &str> = TableDefinition::new("sessions");
const ALIASES: TableDefinition<&str, u64> = TableDefinition::new("aliases");

/// Everything a workload touches stays in memory.
const CACHE_BYTES: usize = 1 << 30;

/// Shared by all but compaction, which has to have it alone.
type Shared = Arc<RwLock<Database>>;

pub(crate) struct Redb {
    database: Shared,
    durability: Durability,
    ends: Ends,
}

impl Redb {
    fn transact(
        &self,
        durability: Durability,
        work: impl FnOnce(&WriteTransaction) -> Outcome<()>,
    ) -> Outcome<()> {
        let mut transaction = self.database.read().begin_write()?;
        transaction.set_durability(durability)?;
        work(&transaction)?;
        transaction.commit()?;
        Ok(())
    }
}

impl Engine for Redb {
    type Reader = Shared;

    fn open(setup: &Setup) -> Outcome<(Self, Shared)> {
        let database = redb::Builder::new()
            .set_cache_size(CACHE_BYTES)
            .create(setup.file("sessions.redb"))?;
        let database = Arc::new(RwLock::new(database));
        let engine = Self {
            database: Arc::clone(&database),
            durability: match setup.until {
                Until::Synced => Durability::Immediate,
                Until::Written => Durability::None,
            },
            ends: Ends::new(setup.sessions),
        };
        engine.transact(Durability::Immediate, |transaction| {
            transaction.open_table(MESSAGES)?;
            transaction.open_table(SESSIONS)?;
            transaction.open_table(ALIASES)?;
            Ok(())
        })?;
        Ok((engine, database))
    }

    fn commit(&mut self, batch: Vec<Append>) -> Outcome<()> {
        let mut ends = std::mem::replace(&mut self.ends, Ends::new(0));
        let result = self.transact(self.durability, |transaction| {
            let mut messages = transaction.open_table(MESSAGES)?;
            let mut new = Vec::new();
            for Append { session, line } in batch {
                let place = ends.take(session, || next_number(&messages, session))?;
                messages.insert(place_key(session, place.number), line.as_slice())?;
                if place.is_first {
                    new.push(session);
                }
            }
            if !new.is_empty() {
                let mut sessions = transaction.open_table(SESSIONS)?;
                for session in new {
                    sessions.insert(session as u64, key_of(session).as_str())?;
                }
            }
            Ok(())
        });
        self.ends = ends;
        result
    }

    fn alias(&mut self, sessions: Range<usize>) -> Outcome<()> {
        self.transact(Durability::Immediate, |transaction| {
            let mut aliases = transaction.open_table(ALIASES)?;
            for session in sessions {
                aliases.insert(alias_of(session).as_str(), session as u64)?;
            }
            Ok(())
        })
    }

    fn flush(&mut self) -> Outcome<()> {
        self.transact(Durability::Immediate, |_| Ok(()))
    }

    fn truncate(&mut self, sessions: Range<usize>, keep: usize) -> Outcome<()> {
        self.transact(Durability::Immediate, |transaction| {
            let mut messages = transaction.open_table(MESSAGES)?;
            for session in sessions {
                let end = next_number(&messages, session)?;
                let first_kept = place_key(session, end.saturating_sub(keep as u32));
                messages.retain_in(place_key(session, 0)..first_kept, |_, _| false)?;
            }
            Ok(())
        })
    }

    fn reclaim_step(&mut self) -> Outcome<bool> {
        self.database.write().compact()?;
        Ok(true)
    }

    fn close(self) -> Outcome<()> {
        Ok(())
    }
}

fn next_number(messages: &impl ReadableTable<u64, &'static [u8]>, session: usize) -> Outcome<u32> {
    let last = messages.range(of_session(session))?.next_back();
    Ok(match last {
        Some(last) => last?.0.value() as u32 + 1,
        None => 0,
    })
}

fn of_session(session: usize) -> Range<u64> {
    place_key(session, 0)..place_key(session + 1, 0)
}

impl Reader for Shared {
    fn count(&self) -> Outcome<usize> {
        let table = self.read().begin_read()?.open_table(MESSAGES)?;
        Ok(table.len()? as usize)
    }

    fn history(&self, session: usize) -> Outcome<Vec<Message>> {
        let table = self.read().begin_read()?.open_table(MESSAGES)?;
        table
            .range(of_session(session))?
            .map(|entry| decode(entry?.1.value()))
            .collect()
    }

    fn tail(&self, session: usize, count: usize) -> Outcome<Vec<Message>> {
        let table = self.read().begin_read()?.open_table(MESSAGES)?;
        let mut messages = table
            .range(of_session(session))?
            .rev()
            .take(count)
            .map(|entry| decode(entry?.1.value()))
            .collect::<Outcome<Vec<_>>>()?;
        messages.reverse();
        Ok(messages)
    }

    fn keys(&self) -> Outcome<Vec<String>> {
        let table = self.read().begin_read()?.open_table(SESSIONS)?;
        table
            .iter()?
            .map(|entry| Ok(entry?.1.value().to_owned()))
            .collect()
    }

    fn resolve(&self, alias: &str) -> Outcome<Option<String>> {
        let transaction = self.read().begin_read()?;
        let Some(session) = transaction.open_table(ALIASES)?.get(alias)? else {
            return Ok(None);
        };
        let key = transaction.open_table(SESSIONS)?.get(session.value())?;
        Ok(key.map(|key| key.value().to_owned()))
    }
}
