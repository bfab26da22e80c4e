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
//! Writes go through a few lanes, as few as will do. What callers queued while the last
//! transaction ran goes as the next, in two round trips: one locks the sessions, in one order,
//! and the other writes and commits. Lines of sessions that this process changed last go in
//! one, which holds only if the database still has what was left. If a connection is lost
//! during a commit, the lane looks for it: each transaction leaves a number in the lane's row,
//! which it locked before all else.
//!
//! The `README` has the tables, what other databases need, and how to run it.

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

/// The statements that read, each with values for its parameters, as SQL, and the indexes that
/// it is to use. For tests.
#[doc(hidden)]
#[must_use]
pub fn statements(schema: &str) -> Vec<(String, String, Vec<&'static str>)> {
    explained::statements(schema)
}

/// Whether a statement, as [`statements`] has it, is prepared on connections that read. For
/// tests.
#[doc(hidden)]
#[must_use]
pub fn is_prepared(schema: &str, statement: &str) -> bool {
    let reads = sql::Sql::of(schema).reads();
    reads.iter().any(|sql| statement.ends_with(sql))
}
