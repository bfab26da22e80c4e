//! What an operator asks of a store that is open.

use sessionlog::Reply;

use crate::fence::Failover;
use crate::promise::Promise;
use crate::store::PostgresStore;

/// How a store and its server are now.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PostgresStatus {
    /// What the server promises of durable writes now; [`PostgresStore::promise`] is what it
    /// promised at open.
    pub promise: Promise,
    /// The last failovers that the store noticed since it was opened, the newest first, at most
    /// 16.
    pub failovers: Vec<Failover>,
}

impl PostgresStatus {
    /// What an operator should look at: [`Promise::weaknesses`], and failovers after which
    /// messages that were acknowledged may be missing.
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
    /// Asks the server how it keeps what it acknowledges now, and tells of failovers since the
    /// store was opened.
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
