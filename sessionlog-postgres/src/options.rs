//! How a store is opened.

use std::fmt;
use std::time::Duration;

use sessionlog::{BackupLimits, Durability};

/// How to reach a database, and how much a store takes on at a time.
///
/// A connection string is a URL or a list of `name=value`, as `tokio-postgres` reads it:
/// several hosts, `target_session_attrs`, `sslmode`, `sslrootcert`, `connect_timeout`,
/// keepalives. With TLS (`sslmode=require`, `verify-ca` or `verify-full`, which mean the same)
/// the certificate must be signed by somebody who is trusted, and be for this host. Unless it says otherwise, only a server that takes writes
/// will do, and a host that does not answer within five seconds is passed over.
#[derive(Clone)]
pub struct PostgresOptions {
    pub(crate) dsn: String,
    pub(crate) listen_dsn: Option<String>,
    pub(crate) schema: String,
    pub(crate) root_certificates: Option<Vec<u8>>,
    pub(crate) durability: Durability,
    pub(crate) connections: usize,
    pub(crate) lanes: usize,
    pub(crate) queued_commands: usize,
    pub(crate) queued_bytes: usize,
    pub(crate) batch_commands: usize,
    pub(crate) max_line: usize,
    pub(crate) max_batch: usize,
    pub(crate) once_ids: i64,
    pub(crate) backups: BackupLimits,
    pub(crate) wait: Duration,
    pub(crate) statement: Duration,
    pub(crate) bulk: Duration,
    pub(crate) retry: Duration,
    pub(crate) migrate: bool,
    pub(crate) partitions: Option<u32>,
    pub(crate) text_search: bool,
    pub(crate) prepare: bool,
}

impl PostgresOptions {
    /// A store in the database that a connection string names. A password that is not in it is
    /// taken from the environment, as by `psql`: `PGPASSWORD`.
    #[must_use]
    pub fn new(dsn: impl Into<String>) -> Self {
        Self {
            dsn: dsn.into(),
            listen_dsn: None,
            schema: String::from("sessionlog"),
            root_certificates: None,
            durability: Durability::Durable,
            connections: 8,
            lanes: 4,
            queued_commands: 4096,
            queued_bytes: 64 << 20,
            batch_commands: 1024,
            max_line: 16 << 20,
            max_batch: 64 << 20,
            once_ids: 256,
            backups: BackupLimits::new().count(100).bytes(256 << 20),
            wait: Duration::from_secs(10),
            statement: Duration::from_secs(10),
            bulk: Duration::from_mins(5),
            retry: Duration::from_secs(30),
            migrate: true,
            partitions: None,
            text_search: false,
            prepare: true,
        }
    }

    /// Where to listen for changes, if the other string leads to a pooler: in transaction
    /// mode a pooler passes no notifications on. Default: the same.
    #[must_use]
    pub fn listen_dsn(mut self, dsn: impl Into<String>) -> Self {
        self.listen_dsn = Some(dsn.into());
        self
    }

    /// The schema with the store's tables: a name of `a`–`z`, digits and `_`, of at most 48
    /// characters. Several stores in one database have one each. Default: `sessionlog`.
    #[must_use]
    pub fn schema(mut self, schema: impl Into<String>) -> Self {
        self.schema = schema.into();
        self
    }

    /// Certificates, as PEM, of those who vouch for the server. Default: those in the file that
    /// `sslrootcert` names, or else those that the system trusts.
    #[must_use]
    pub fn root_certificates(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.root_certificates = Some(pem.into());
        self
    }

    /// What a reply to an append means. [`Durability::Durable`]: what the operator's
    /// `synchronous_commit` promises, which the store tells at open
    /// ([`Promise`](crate::Promise)). [`Durability::Buffered`]: the database has it, and may
    /// lose it if it crashes, as with `synchronous_commit = off`. Default: durable.
    #[must_use]
    pub fn durability(mut self, level: Durability) -> Self {
        self.durability = level;
        self
    }

    /// How many connections reads may take, 1 to 1,024. Default: 8. Writes have one for
    /// each [lane](Self::lanes), and whoever follows changes has another.
    #[must_use]
    pub fn connections(mut self, most: usize) -> Self {
        self.connections = most.clamp(1, 1024);
        self
    }

    /// In how many transactions at a time it writes at most, 1 to 64; a session's commands
    /// are in one at a time. While that many commands are under way, others wait until they
    /// can go together, for 20 ms at most if a lane is free: a transaction costs about as
    /// much as ten commands. So more lanes make a store of few callers quicker, and one of
    /// many no slower; each has a connection once it was used. Default: 4.
    #[must_use]
    pub fn lanes(mut self, lanes: usize) -> Self {
        self.lanes = lanes.clamp(1, 64);
        self
    }

    /// How many commands may wait, 1 to 65,536, and how many bytes of them with those under
    /// way, 1 MiB at least. Who comes then waits. Default: 4,096, and 64 MiB.
    #[must_use]
    pub fn queue(mut self, commands: usize, bytes: usize) -> Self {
        self.queued_commands = commands.clamp(1, 65_536);
        self.queued_bytes = bytes.clamp(1 << 20, 4 << 30);
        self
    }

    /// How many commands go in one transaction at most, 1 to 16,384. Default: 1,024. With 1
    /// there is no group commit.
    #[must_use]
    pub fn batch_commands(mut self, most: usize) -> Self {
        self.batch_commands = most.clamp(1, 16_384);
        self
    }

    /// The largest message, and the largest batch of messages, encoded, bytes. Default: 16
    /// MiB and 64 MiB, as in a [`Store`](sessionlog::Store).
    #[must_use]
    pub fn limits(mut self, line: usize, batch: usize) -> Self {
        self.max_line = line.clamp(1 << 10, 32 << 20);
        self.max_batch = batch.clamp(1 << 10, 256 << 20);
        self
    }

    /// How many message ids of each session
    /// [`append_once`](crate::PostgresStore::append_once) remembers, at least; the oldest go
    /// first, and a quarter more are there at most. All processes that write to the same sessions
    /// should say the same: who says least decides. Default: 256, as in a
    /// [`Store`](sessionlog::StoreOptions::once_ids). Bounds: 16 to 65,536.
    ///
    /// ```
    /// use sessionlog_postgres::PostgresOptions;
    ///
    /// // A platform that delivers again after days, in chats of many messages.
    /// let options = PostgresOptions::new("postgres://bot@db1/chats").once_ids(4096);
    /// ```
    #[must_use]
    pub fn once_ids(mut self, ids: usize) -> Self {
        self.once_ids = i64::try_from(ids).unwrap_or(i64::MAX).clamp(16, 1 << 16);
        self
    }

    /// Which backups a session keeps when it gets another one: those over a limit are removed in
    /// the same transaction. [`prune_backups`](crate::PostgresStore::prune_backups) and
    /// [`prune_all_backups`](crate::PostgresStore::prune_all_backups) remove more of them, and
    /// those that came of age since. `BackupLimits::new()` keeps all. Default: the newest 100 of
    /// each session, and of these the newest 256 MiB.
    ///
    /// ```
    /// use sessionlog::BackupLimits;
    /// use sessionlog_postgres::PostgresOptions;
    ///
    /// let limits = BackupLimits::new().count(10).bytes(64 << 20);
    /// let options = PostgresOptions::new("postgres://bot@db1/chats").backups(limits);
    /// ```
    #[must_use]
    pub fn backups(mut self, limits: BackupLimits) -> Self {
        self.backups = limits;
        self
    }

    /// How long a read waits for a free connection, and a command for room in the queue,
    /// before it fails with [`Error::Unavailable`](sessionlog::Error::Unavailable), a command
    /// with [`Error::Overloaded`](sessionlog::Error::Overloaded). Default:
    /// 10 s.
    #[must_use]
    pub fn wait(mut self, most: Duration) -> Self {
        self.wait = most;
        self
    }

    /// How long one statement may take. A commit is not broken off by the server: one that
    /// waits for replicas would be there without them. Default: 10 s.
    #[must_use]
    pub fn statement_timeout(mut self, most: Duration) -> Self {
        self.statement = most.max(Duration::from_millis(10));
        self
    }

    /// How long a statement may take that reads or writes many lines: a search, a copy, what makes
    /// or restores a backup, a fork, a deletion. Not less than
    /// [`statement_timeout`](Self::statement_timeout). Default: 5 minutes.
    #[must_use]
    pub fn bulk_timeout(mut self, most: Duration) -> Self {
        self.bulk = most.max(Duration::from_millis(10));
        self
    }

    /// How long a command or a read is tried again while the database cannot be reached or asks
    /// for it, and how long a lost commit is looked for. Default: 30 s.
    #[must_use]
    pub fn retry(mut self, most: Duration) -> Self {
        self.retry = most;
        self
    }

    /// How long a statement may take that is bulky, or not.
    pub(crate) fn longest(&self, is_bulky: bool) -> Duration {
        if is_bulky {
            self.bulk.max(self.statement)
        } else {
            self.statement
        }
    }

    /// Whether opening brings the tables up to date; else it only checks that they are.
    /// Default: yes.
    #[must_use]
    pub fn migrate(mut self, migrate: bool) -> Self {
        self.migrate = migrate;
        self
    }

    /// In how many partitions opening splits the tables of lines and of backups' lines, by hash of
    /// the session: 2 to 1,024. Tables that are whole are copied, and all other processes wait
    /// until that is done; those that are in partitions stay as they are. Vacuum, indexes and
    /// backups of the database go by partition then, and the last messages of a session are
    /// looked for in each. Only with [`migrate`](Self::migrate). Default: none, and what is there
    /// stays.
    #[must_use]
    pub fn partitions(mut self, many: u32) -> Self {
        self.partitions = Some(many.clamp(2, 1024));
        self
    }

    /// Whether statements are prepared on connections that lead to the server itself. A pooler
    /// is told by the number of a server process that it makes up for its client: say no if
    /// there is one that passes on a server's own number, and gives the next transaction
    /// another server connection. Default: yes.
    #[must_use]
    pub fn prepare(mut self, prepare: bool) -> Self {
        self.prepare = prepare;
        self
    }

    /// Whether opening makes the index that
    /// [`search_words`](crate::PostgresStore::search_words) needs to be fast. It makes each
    /// append dearer. Of a text over 65,536 characters its first 65,536 are in the index: a store
    /// that was opened when it was there logs that when it takes one. Default: no. Once made, the
    /// index stays.
    #[must_use]
    pub fn text_search(mut self, index: bool) -> Self {
        self.text_search = index;
        self
    }
}

/// Without passwords.
impl fmt::Debug for PostgresOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresOptions")
            .field("schema", &self.schema)
            .field("durability", &self.durability)
            .field("connections", &self.connections)
            .field("lanes", &self.lanes)
            .field("once_ids", &self.once_ids)
            .field("backups", &self.backups)
            .field("wait", &self.wait)
            .field("statement_timeout", &self.statement)
            .field("bulk_timeout", &self.bulk)
            .field("retry", &self.retry)
            .field("migrate", &self.migrate)
            .field("partitions", &self.partitions)
            .field("text_search", &self.text_search)
            .field("prepare", &self.prepare)
            .finish_non_exhaustive()
    }
}
