//! Who is measured: the store, and what others do.

use std::fmt;
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use sessionlog::Message;
use sessionlog_postgres::{PostgresOptions, PostgresStore};
use tokio::sync::Semaphore;
use tokio_postgres::{Client, NoTls, Statement};

use crate::{Failed, TEXT};

/// Whose append it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Contender {
    /// The store.
    Store,
    /// The store, with an id for each message, which is taken once.
    Once,
    /// Each append locks its session's row, inserts, and commits.
    Naive,
    /// What the SDK's `SQLAlchemySession` does.
    Agents,
    /// Each append is one statement, which counts in the session's row and inserts.
    Cte,
    /// Each append is an insert, without a session.
    Bare,
}

impl Contender {
    pub(crate) const ALL: [Self; 6] = [
        Self::Store,
        Self::Once,
        Self::Naive,
        Self::Agents,
        Self::Cte,
        Self::Bare,
    ];

    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.to_string() == name)
    }
}

impl FromStr for Contender {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        Self::named(name).ok_or_else(|| format!("nobody is called {name}"))
    }
}

impl fmt::Display for Contender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Store => "store",
            Self::Once => "once",
            Self::Naive => "naive",
            Self::Agents => "agents",
            Self::Cte => "cte",
            Self::Bare => "bare",
        })
    }
}

/// The schema of the store.
pub(crate) const SCHEMA: &str = "bench";

/// All tables, made anew. Those of the SDK are as it makes them.
pub(crate) const TABLES: &str = "
    DROP SCHEMA IF EXISTS bench CASCADE;
    DROP SCHEMA IF EXISTS others CASCADE;
    CREATE SCHEMA others;
    CREATE TABLE others.sessions (key text PRIMARY KEY, lines bigint NOT NULL);
    CREATE TABLE others.lines (key text, n bigint, line bytea, PRIMARY KEY (key, n));
    CREATE TABLE others.bare (n bigint GENERATED ALWAYS AS IDENTITY, line bytea);
    INSERT INTO others.sessions SELECT 's' || n, 0 FROM generate_series(0, 4095) n;
    CREATE TABLE others.agent_sessions (
        session_id varchar PRIMARY KEY,
        created_at timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP,
        updated_at timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP);
    CREATE TABLE others.agent_messages (
        id serial PRIMARY KEY,
        session_id varchar NOT NULL REFERENCES others.agent_sessions ON DELETE CASCADE,
        message_data text NOT NULL,
        created_at timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP);
    CREATE INDEX idx_agent_messages_session_time ON others.agent_messages (session_id, created_at);
";

/// All of them, in one process.
#[derive(Clone)]
pub(crate) struct Contenders {
    pub(crate) store: PostgresStore,
    others: Arc<Pool>,
    /// How many ids were given.
    turns: Arc<AtomicU64>,
}

impl Contenders {
    pub(crate) async fn open(dsn: &str, connections: usize) -> Result<Self, Failed> {
        let options = PostgresOptions::new(dsn).schema(SCHEMA).lanes(connections);
        Ok(Self {
            store: PostgresStore::connect(options).await?,
            others: Arc::new(Pool::open(dsn, connections).await?),
            turns: Arc::default(),
        })
    }

    /// Has a producer's next message appended; it is durable then.
    pub(crate) async fn append(&self, contender: Contender, n: usize) -> Result<(), Failed> {
        let key = format!("s{n}");
        if contender == Contender::Store {
            return Ok(self.store.add_message(&key, "user", TEXT).await?);
        }
        if contender == Contender::Once {
            let turn = self.turns.fetch_add(1, Ordering::Relaxed);
            let id = format!("{}:{turn}", std::process::id());
            let said = vec![Message::new("user", TEXT)];
            self.store.append_once(&key, &id, said).await?;
            return Ok(());
        }
        let _free = self.others.free.acquire().await?;
        let mut connection = self.others.take()?;
        let done = match contender {
            Contender::Naive => connection.lock_and_insert(&key).await,
            Contender::Agents => connection.add_items(&key).await,
            Contender::Cte => connection.count_and_insert(&key).await,
            _ => connection.insert().await,
        };
        self.others.put_back(connection);
        Ok(done?)
    }
}

/// Connections of those who have one for each transaction; whoever waits longest gets the next.
struct Pool {
    free: Semaphore,
    idle: Mutex<Vec<Connection>>,
}

impl Pool {
    async fn open(dsn: &str, connections: usize) -> Result<Self, Failed> {
        let mut idle = Vec::new();
        for _ in 0..connections {
            idle.push(Connection::open(dsn).await?);
        }
        Ok(Self {
            free: Semaphore::new(connections),
            idle: Mutex::new(idle),
        })
    }

    fn take(&self) -> Result<Connection, Failed> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(idle.pop().ok_or("no connection is free")?)
    }

    fn put_back(&self, connection: Connection) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.push(connection);
    }
}

/// A connection, with its statements prepared.
struct Connection {
    client: Client,
    lock: Statement,
    insert: Statement,
    count: Statement,
    find: Statement,
    make: Statement,
    add: Statement,
    touch: Statement,
    cte: Statement,
    bare: Statement,
}

impl Connection {
    async fn open(dsn: &str) -> Result<Self, Failed> {
        let (client, connection) = tokio_postgres::connect(dsn, NoTls).await?;
        tokio::spawn(connection);
        Ok(Self {
            lock: client
                .prepare("SELECT lines FROM others.sessions WHERE key = $1 FOR UPDATE")
                .await?,
            insert: client
                .prepare("INSERT INTO others.lines VALUES ($1, $2, $3)")
                .await?,
            count: client
                .prepare("UPDATE others.sessions SET lines = lines + 1 WHERE key = $1")
                .await?,
            find: client
                .prepare("SELECT session_id FROM others.agent_sessions WHERE session_id = $1")
                .await?,
            make: client
                .prepare("INSERT INTO others.agent_sessions (session_id) VALUES ($1)")
                .await?,
            add: client
                .prepare(
                    "INSERT INTO others.agent_messages (session_id, message_data) VALUES ($1, $2)",
                )
                .await?,
            touch: client
                .prepare(
                    "UPDATE others.agent_sessions SET updated_at = CURRENT_TIMESTAMP
                     WHERE session_id = $1",
                )
                .await?,
            cte: client
                .prepare(
                    "WITH counted AS (
                         INSERT INTO others.sessions VALUES ($1, 1)
                         ON CONFLICT (key) DO UPDATE SET lines = sessions.lines + 1
                         RETURNING lines)
                     INSERT INTO others.lines SELECT $1, lines - 1, $2 FROM counted",
                )
                .await?,
            bare: client
                .prepare("INSERT INTO others.bare (line) VALUES ($1)")
                .await?,
            client,
        })
    }

    async fn lock_and_insert(&mut self, key: &str) -> Result<(), tokio_postgres::Error> {
        let transaction = self.client.transaction().await?;
        let row = transaction.query_one(&self.lock, &[&key]).await?;
        let (lines, line): (i64, _) = (row.get(0), TEXT.as_bytes());
        transaction
            .execute(&self.insert, &[&key, &lines, &line])
            .await?;
        transaction.execute(&self.count, &[&key]).await?;
        transaction.commit().await
    }

    /// As the SDK: the session is made if it is not there, in a transaction within the
    /// transaction, the message inserted, and the session's time set.
    async fn add_items(&mut self, key: &str) -> Result<(), tokio_postgres::Error> {
        let mut transaction = self.client.transaction().await?;
        if transaction.query_opt(&self.find, &[&key]).await?.is_none() {
            let nested = transaction.transaction().await?;
            nested.execute(&self.make, &[&key]).await?;
            nested.commit().await?;
        }
        let data = format!("{{\"role\":\"user\",\"content\":\"{TEXT}\"}}");
        transaction.execute(&self.add, &[&key, &data]).await?;
        transaction.execute(&self.touch, &[&key]).await?;
        transaction.commit().await
    }

    async fn count_and_insert(&mut self, key: &str) -> Result<(), tokio_postgres::Error> {
        let line = TEXT.as_bytes();
        self.client.execute(&self.cte, &[&key, &line]).await?;
        Ok(())
    }

    async fn insert(&mut self) -> Result<(), tokio_postgres::Error> {
        let line = TEXT.as_bytes();
        self.client.execute(&self.bare, &[&line]).await?;
        Ok(())
    }
}
