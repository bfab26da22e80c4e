//! The options of a store.

use std::fmt;
use std::time::Duration;

use sessionlog::{BackupLimits, Durability};

/// The way to reach a database, and the limits of a store.
///
/// A connection string is a URL or a list of `name=value`, as `tokio-postgres` reads it: several
/// hosts, `target_session_attrs`, `sslmode`, `sslrootcert`, `connect_timeout`, keepalives. TLS is
/// `sslmode=require`, `verify-ca` or `verify-full`, which mean the same. With TLS the certificate
/// must be signed by a trusted signer, and be for this host. Unless the string says otherwise, only
/// a server that takes writes is accepted, and a host that does not answer within five seconds is
/// skipped.
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
    /// Names a store in the database of a connection string. A password that is not in the string
    /// is taken from the environment variable `PGPASSWORD`, as `psql` does.
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

    /// Sets the connection string for listening to changes. You need it if the other string leads
    /// to a pooler: in transaction mode a pooler passes no notifications on. Default: the same
    /// string.
    #[must_use]
    pub fn listen_dsn(mut self, dsn: impl Into<String>) -> Self {
        self.listen_dsn = Some(dsn.into());
        self
    }

    /// Sets the schema of the store's tables. Its name consists of `a`–`z`, digits and `_`, and has
    /// at most 48 characters. Several stores in one database have one each. Default: `sessionlog`.
    #[must_use]
    pub fn schema(mut self, schema: impl Into<String>) -> Self {
        self.schema = schema.into();
        self
    }

    /// Sets the certificates, as PEM, that vouch for the server. Default: those in the file that
    /// `sslrootcert` names, or else those that the system trusts.
    #[must_use]
    pub fn root_certificates(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.root_certificates = Some(pem.into());
        self
    }

    /// Sets the meaning of a reply to an append. [`Durability::Durable`]: the promise of the
    /// operator's `synchronous_commit`, which the store reads at open
    /// ([`Promise`](crate::Promise)). [`Durability::Buffered`]: the database has the append, and
    /// may lose it in a crash, as with `synchronous_commit = off`. Default: durable.
    #[must_use]
    pub fn durability(mut self, level: Durability) -> Self {
        self.durability = level;
        self
    }

    /// Sets the most connections that reads may take, 1 to 1,024. Default: 8. Writes have one for
    /// each [lane](Self::lanes), and following changes needs another.
    #[must_use]
    pub fn connections(mut self, most: usize) -> Self {
        self.connections = most.clamp(1, 1024);
        self
    }

    /// Sets the most transactions in which the store writes at the same time, 1 to 64. A session's
    /// commands are in one at a time. While as many commands are under way as there are lanes,
    /// others wait until they can go together. If a lane is free, they wait for 20 ms at most. A
    /// transaction costs about as much as ten commands. So more lanes make a store of few callers
    /// quicker, and a store of many callers no slower. Each lane has a connection once it was used.
    /// Default: 4.
    #[must_use]
    pub fn lanes(mut self, lanes: usize) -> Self {
        self.lanes = lanes.clamp(1, 64);
        self
    }

    /// Sets the most commands that may wait, 1 to 65,536, and the most bytes of commands that wait
    /// or are under way, 1 MiB at least. Callers that come after that wait. Default: 4,096, and 64
    /// MiB.
    #[must_use]
    pub fn queue(mut self, commands: usize, bytes: usize) -> Self {
        self.queued_commands = commands.clamp(1, 65_536);
        self.queued_bytes = bytes.clamp(1 << 20, 4 << 30);
        self
    }

    /// Sets the most commands that go in one transaction, 1 to 16,384. Default: 1,024. With 1 there
    /// is no group commit.
    #[must_use]
    pub fn batch_commands(mut self, most: usize) -> Self {
        self.batch_commands = most.clamp(1, 16_384);
        self
    }

    /// Sets the largest message, and the largest batch of messages, encoded, in bytes. Default: 16
    /// MiB and 64 MiB, as in a [`Store`](sessionlog::Store).
    #[must_use]
    pub fn limits(mut self, line: usize, batch: usize) -> Self {
        self.max_line = line.clamp(1 << 10, 32 << 20);
        self.max_batch = batch.clamp(1 << 10, 256 << 20);
        self
    }

    /// Sets the least number of message ids of each session that
    /// [`append_once`](crate::PostgresStore::append_once) remembers. The oldest are forgotten
    /// first, and there are a quarter more at most. All processes that write to the same sessions
    /// should use the same value, because the lowest value decides. Default: 256, as in a
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

    /// Sets the limits for a session's backups when it gets another one: backups over a limit are
    /// removed in the same transaction. [`prune_backups`](crate::PostgresStore::prune_backups) and
    /// [`prune_all_backups`](crate::PostgresStore::prune_all_backups) remove more of them, and
    /// backups that passed an age limit since. `BackupLimits::new()` keeps all. Default: the newest
    /// 100 of each session, and of these the newest 256 MiB.
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

    /// Sets the longest time that a read waits for a free connection, and a command for room in the
    /// queue. After that a read fails with [`Error::Unavailable`](sessionlog::Error::Unavailable),
    /// and a command with [`Error::Overloaded`](sessionlog::Error::Overloaded). Default: 10 s.
    #[must_use]
    pub fn wait(mut self, most: Duration) -> Self {
        self.wait = most;
        self
    }

    /// Sets the longest time that one statement may take. The server does not break off a commit: a
    /// commit that waits for replicas would be there without them. Default: 10 s.
    #[must_use]
    pub fn statement_timeout(mut self, most: Duration) -> Self {
        self.statement = most.max(Duration::from_millis(10));
        self
    }

    /// Sets the longest time for a statement that reads or writes many lines: a search, a copy, a
    /// fork, a deletion, and a statement that makes or restores a backup. Not less than
    /// [`statement_timeout`](Self::statement_timeout). Default: 5 minutes.
    #[must_use]
    pub fn bulk_timeout(mut self, most: Duration) -> Self {
        self.bulk = most.max(Duration::from_millis(10));
        self
    }

    /// Sets the time for which a command or a read is tried again while the database cannot be
    /// reached or asks for a retry. A lost commit is looked for during the same time. Default: 30
    /// s.
    #[must_use]
    pub fn retry(mut self, most: Duration) -> Self {
        self.retry = most;
        self
    }

    /// Returns the longest time for a statement that is bulky, or not.
    pub(crate) fn longest(&self, is_bulky: bool) -> Duration {
        if is_bulky {
            self.bulk.max(self.statement)
        } else {
            self.statement
        }
    }

    /// Sets whether opening brings the tables up to date. If not, it only checks that they are.
    /// Default: yes.
    #[must_use]
    pub fn migrate(mut self, migrate: bool) -> Self {
        self.migrate = migrate;
        self
    }

    /// Sets the number of partitions, 2 to 1,024, into which opening splits the tables of lines and
    /// of backups' lines, by hash of the session. Tables that are whole are copied, and all other
    /// processes wait until that is done. Tables that are in partitions stay as they are. After
    /// that, vacuum, indexes and backups of the database go by partition, and the last messages of
    /// a session are looked for in each. Only with [`migrate`](Self::migrate). Default: none, and
    /// existing tables stay.
    #[must_use]
    pub fn partitions(mut self, many: u32) -> Self {
        self.partitions = Some(many.clamp(2, 1024));
        self
    }

    /// Sets whether statements are prepared on connections that lead to the server itself. The
    /// store recognizes a pooler by the server process number that the pooler makes up for its
    /// client. Use `false` if a pooler passes on a server's own number, and gives the next
    /// transaction another server connection. Default: yes.
    #[must_use]
    pub fn prepare(mut self, prepare: bool) -> Self {
        self.prepare = prepare;
        self
    }

    /// Sets whether opening makes the index that
    /// [`search_words`](crate::PostgresStore::search_words) needs to be fast. The index makes each
    /// append more expensive. For a text over 65,536 characters the index has only the first
    /// 65,536. When a store takes such a text, it logs that, if the index existed when the store
    /// was opened. Default: no. Once made, the index stays.
    #[must_use]
    pub fn text_search(mut self, index: bool) -> Self {
        self.text_search = index;
        self
    }
}

/// Leaves passwords out.
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
