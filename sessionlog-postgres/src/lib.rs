//! Sessions of [`sessionlog`] in PostgreSQL: for gateways that outgrow one machine.
//!
//! [`PostgresStore`] has the verbs of a [`StoreHandle`](sessionlog::StoreHandle), and stands
//! behind the same trait [`SessionStore`](sessionlog::backend::SessionStore). Many processes
//! may write to the same sessions: the order of a session's changes is the database's.
//!
//! ```no_run
//! use sessionlog_postgres::{PostgresOptions, PostgresStore};
//!
//! # fn main() -> sessionlog::Result<()> {
//! let options = PostgresOptions::new("postgres://bot@db1,db2/chats");
//! let chats = PostgresStore::open(options)?;
//! chats.add_message("telegram:123", "user", "hi").wait()?;
//! assert_eq!(chats.history("telegram:123").wait()?[0].text(), "hi");
//! chats.close().wait()
//! # }
//! ```
//!
//! Writes go through a few lanes, as few as are needed. The commands that callers queue while a
//! transaction runs go as the next transaction, in two round trips. The first locks the sessions,
//! in one order, and the second writes and commits. New lines of sessions that this process changed
//! last go in one round trip. That transaction holds only if the database still has the state that
//! was left. If a connection is lost during a commit, the lane looks for the commit: each
//! transaction leaves a number in the lane's row, which it locked before all else.
//!
//! The `README` describes the tables, the needs of other databases, and operation.

mod backend;
mod backups;
mod changes;
mod command;
mod connect;
mod connection;
mod context;
mod conversation;
pub mod copy;
mod direct;
mod dsn;
mod exchanging;
mod explained;
mod fault;
mod fence;
mod known;
mod lane;
mod leaving;
mod listing;
mod mistake;
mod options;
mod promise;
mod queue;
mod read;
mod row;
mod schema;
mod search;
mod sql;
mod status;
mod store;
mod transaction;
mod verbs;
mod write;

pub use conversation::PostgresContext;
pub use fence::Failover;
pub use leaving::PostgresRetention;
pub use options::PostgresOptions;
pub use promise::Promise;
pub use schema::{SCHEMA_VERSION, migrations_sql};
pub use status::PostgresStatus;
pub use store::PostgresStore;

/// Returns the statements that read, each with values for its parameters, as SQL, and the indexes
/// that it is to use. For tests.
#[doc(hidden)]
#[must_use]
pub fn statements(schema: &str) -> Vec<(String, String, Vec<&'static str>)> {
    explained::statements(schema)
}

/// True if a statement, as [`statements`] returns it, is prepared on connections that read. For
/// tests.
#[doc(hidden)]
#[must_use]
pub fn is_prepared(schema: &str, statement: &str) -> bool {
    let reads = sql::Sql::of(schema).reads();
    reads.iter().any(|sql| statement.ends_with(sql))
}
