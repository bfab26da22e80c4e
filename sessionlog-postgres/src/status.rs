//! The state of an open store, for operators.

use sessionlog::Reply;

use crate::fence::Failover;
use crate::promise::Promise;
use crate::store::PostgresStore;

/// The present state of a store and its server.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PostgresStatus {
    /// The server's present promise for durable writes. [`PostgresStore::promise`] is the promise
    /// at open.
    pub promise: Promise,
    /// The last failovers that the store noticed since it was opened, the newest first, at most 16.
    pub failovers: Vec<Failover>,
}

impl PostgresStatus {
    /// Returns the points that an operator should look at: [`Promise::weaknesses`], and failovers
    /// that may have lost acknowledged messages.
    #[must_use]
    pub fn weaknesses(&self) -> Vec<String> {
        let mut weak = self.promise.weaknesses();
        let lost = self.failovers.iter().filter(|one| one.may_have_lost);
        weak.extend(lost.map(|one| {
            let (before, after) = one.timelines;
            format!(
                "a failover at {} (timeline {before} to {after}): no commit waited for a standby, \
                 messages that were acknowledged before may be missing",
                one.at
            )
        }));
        weak
    }
}

impl PostgresStore {
    /// Asks the server for its present promise for acknowledged writes, and returns it with the
    /// failovers since the store was opened.
    ///
    /// ```no_run
    /// # fn main() -> sessionlog::Result<()> {
    /// # let options = sessionlog_postgres::PostgresOptions::new("");
    /// # let chats = sessionlog_postgres::PostgresStore::open(options)?;
    /// for weakness in chats.status().wait()?.weaknesses() {
    ///     eprintln!("{weakness}");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Those all verbs share.
    pub fn status(&self) -> Reply<PostgresStatus> {
        let shared = self.inner.shared.clone();
        self.work(async move {
            let read = shared.read(|shared, connection| {
                Box::pin(async move {
                    let promise = Promise::read(connection, shared.connector.hosts()).await?;
                    Ok((promise, connection.pass))
                })
            });
            let (promise, pass) = read.await?;
            let fence = &shared.connector.fence;
            fence.note(pass, promise.is_replicated(), false);
            let failovers = fence.failovers();
            Ok(PostgresStatus { promise, failovers })
        })
    }
}
