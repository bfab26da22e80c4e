//! SQLite: WAL, rows clustered by session.

use std::ops::Range;
use std::path::PathBuf;

use parking_lot::Mutex;
use rusqlite::{Connection, OptionalExtension, Statement, params};
use sessionlog::Message;

use crate::contender::{Setup, alias_of, key_of};
use crate::engines::{Append, Ends, Engine, Reader, decode};
use crate::support::Outcome;
use crate::support::bare::Until;

/// The rows of a session lie together, so that a history is one run of pages.
/// Incremental vacuum is what gives space back without rewriting the file.
const SCHEMA: &str = "
    CREATE TABLE IF NOT EXISTS messages(
        session INTEGER NOT NULL, number INTEGER NOT NULL, line BLOB NOT NULL,
        PRIMARY KEY(session, number)) WITHOUT ROWID;
    CREATE TABLE IF NOT EXISTS sessions(session INTEGER PRIMARY KEY, key TEXT NOT NULL);
    CREATE TABLE IF NOT EXISTS aliases(
        alias TEXT PRIMARY KEY, session INTEGER NOT NULL) WITHOUT ROWID;";

/// The cache holds the working set of every workload; checkpoints come every
/// 32 MB of WAL instead of every 4, which writes hot pages once for eight times.
const PRAGMAS: &str = "
    PRAGMA cache_size = -262144;
    PRAGMA mmap_size = 1073741824;
    PRAGMA temp_store = MEMORY;
    PRAGMA wal_autocheckpoint = 8000;";

/// Pages that one step of reclaiming gives back.
const VACUUMED_AT_ONCE: usize = 4000;

pub(crate) struct Sqlite {
    connection: Connection,
    ends: Ends,
}

fn connect(file: &PathBuf) -> Outcome<Connection> {
    let connection = Connection::open(file)?;
    connection.execute_batch(PRAGMAS)?;
    Ok(connection)
}

impl Engine for Sqlite {
    type Reader = Connections;

    fn open(setup: &Setup) -> Outcome<(Self, Connections)> {
        let file = setup.file("sessions.sqlite");
        let connection = connect(&file)?;
        let synchronous = match setup.until {
            Until::Synced => "FULL",
            Until::Written => "OFF",
        };
        connection.execute_batch(&format!(
            "PRAGMA auto_vacuum = INCREMENTAL; PRAGMA journal_mode = WAL;
             PRAGMA synchronous = {synchronous};"
        ))?;
        connection.execute_batch(SCHEMA)?;
        let ends = Ends::new(setup.sessions);
        let idle = Mutex::new(Vec::new());
        Ok((Self { connection, ends }, Connections { file, idle }))
    }

    fn commit(&mut self, batch: Vec<Append>) -> Outcome<()> {
        let transaction = self.connection.unchecked_transaction()?;
        {
            let mut insert =
                transaction.prepare_cached("INSERT INTO messages VALUES(?1, ?2, ?3)")?;
            let mut name = transaction.prepare_cached("INSERT INTO sessions VALUES(?1, ?2)")?;
            for Append { session, line } in batch {
                let last = || next_number(&transaction, session);
                let place = self.ends.take(session, last)?;
                insert.execute(params![session, place.number, line])?;
                if place.is_first {
                    name.execute(params![session, key_of(session)])?;
                }
            }
        }
        transaction.commit()?;
        Ok(())
    }

    fn alias(&mut self, sessions: Range<usize>) -> Outcome<()> {
        let transaction = self.connection.unchecked_transaction()?;
        {
            let mut insert = transaction.prepare("INSERT INTO aliases VALUES(?1, ?2)")?;
            for session in sessions {
                insert.execute(params![alias_of(session), session])?;
            }
        }
        transaction.commit()?;
        Ok(())
    }

    fn flush(&mut self) -> Outcome<()> {
        drain(&mut self.connection.prepare("PRAGMA wal_checkpoint(TRUNCATE)")?)
    }

    fn truncate(&mut self, sessions: Range<usize>, keep: usize) -> Outcome<()> {
        let transaction = self.connection.unchecked_transaction()?;
        for session in sessions {
            let end = self
                .ends
                .of(session, || next_number(&transaction, session))?;
            transaction
                .prepare_cached("DELETE FROM messages WHERE session = ?1 AND number < ?2")?
                .execute(params![session, (end as usize).saturating_sub(keep)])?;
        }
        transaction.commit()?;
        Ok(())
    }

    fn reclaim_step(&mut self) -> Outcome<bool> {
        let step = format!("PRAGMA incremental_vacuum({VACUUMED_AT_ONCE})");
        drain(&mut self.connection.prepare(&step)?)?;
        let free: usize = self
            .connection
            .query_row("PRAGMA freelist_count", [], |row| row.get(0))?;
        if free > 0 {
            return Ok(false);
        }
        // The file shrinks when the WAL that says so is checkpointed.
        drain(&mut self.connection.prepare("PRAGMA wal_checkpoint(PASSIVE)")?)?;
        Ok(true)
    }

    fn close(self) -> Outcome<()> {
        self.connection.close().map_err(|(_, error)| error.into())
    }
}

/// Runs a pragma to its end: it works row by row.
fn drain(pragma: &mut Statement<'_>) -> Outcome<()> {
    let mut rows = pragma.query([])?;
    while rows.next()?.is_some() {}
    Ok(())
}

fn next_number(connection: &Connection, session: usize) -> Outcome<u32> {
    let last: Option<u32> = connection
        .prepare_cached("SELECT max(number) FROM messages WHERE session = ?1")?
        .query_row([session], |row| row.get(0))?;
    Ok(last.map_or(0, |last| last + 1))
}

/// Connections for reading: one for every thread that reads at the same time.
pub(crate) struct Connections {
    file: PathBuf,
    idle: Mutex<Vec<Connection>>,
}

impl Connections {
    fn with<T>(&self, read: impl FnOnce(&Connection) -> Outcome<T>) -> Outcome<T> {
        let idle = self.idle.lock().pop();
        let connection = match idle {
            Some(connection) => connection,
            None => connect(&self.file)?,
        };
        let result = read(&connection);
        self.idle.lock().push(connection);
        result
    }

    fn messages(&self, query: &str, session: usize, limit: usize) -> Outcome<Vec<Message>> {
        self.with(|connection| {
            let mut statement = connection.prepare_cached(query)?;
            let mut rows = statement.query([session, limit])?;
            let mut messages = Vec::new();
            while let Some(row) = rows.next()? {
                messages.push(decode(row.get_ref(0)?.as_blob()?)?);
            }
            Ok(messages)
        })
    }
}

impl Reader for Connections {
    fn count(&self) -> Outcome<usize> {
        self.with(|connection| {
            Ok(connection.query_row("SELECT count(*) FROM messages", [], |row| row.get(0))?)
        })
    }

    fn history(&self, session: usize) -> Outcome<Vec<Message>> {
        let query = "SELECT line FROM messages WHERE session = ?1 ORDER BY number LIMIT ?2";
        self.messages(query, session, i32::MAX as usize)
    }

    fn tail(&self, session: usize, count: usize) -> Outcome<Vec<Message>> {
        let query = "SELECT line FROM messages WHERE session = ?1 ORDER BY number DESC LIMIT ?2";
        let mut messages = self.messages(query, session, count)?;
        messages.reverse();
        Ok(messages)
    }

    fn keys(&self) -> Outcome<Vec<String>> {
        self.with(|connection| {
            let mut statement = connection.prepare_cached("SELECT key FROM sessions")?;
            let keys = statement.query_map([], |row| row.get(0))?;
            Ok(keys.collect::<Result<_, _>>()?)
        })
    }

    fn resolve(&self, alias: &str) -> Outcome<Option<String>> {
        let query = "SELECT key FROM aliases JOIN sessions USING(session) WHERE alias = ?1";
        self.with(|connection| {
            let mut statement = connection.prepare_cached(query)?;
            Ok(statement.query_row([alias], |row| row.get(0)).optional()?)
        })
    }
}
