//! State that all parts of a store share.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use sessionlog::{Error, Result};
use tokio::time::Instant;

use crate::connect::{Connector, Pool};
use crate::connection::Connection;
use crate::fault::{Fault, Tried};
use crate::known::Known;
use crate::options::PostgresOptions;
use crate::row::random;
use crate::sql::Sql;

/// State that all parts of a store share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) options: PostgresOptions,
    pub(crate) connector: Connector,
    /// The connector that makes the lanes' connections.
    pub(crate) writers: Connector,
    pub(crate) pool: Pool,
    pub(crate) sql: Sql,
    /// True if there was an index for words when the store was opened.
    pub(crate) has_word_index: bool,
    /// True if the server can notify. Without it nobody can follow changes.
    pub(crate) notifies: bool,
    /// The states in which writers left sessions, for their next transaction.
    pub(crate) known: Known,
    /// True if there were followers of changes at the last look.
    pub(crate) is_followed: AtomicBool,
    pub(crate) closed: AtomicBool,
}

/// A question under way.
pub(crate) type Asked<'c, T> = Pin<Box<dyn Future<Output = Tried<T>> + Send + 'c>>;

/// A connection out of the pool.
pub(crate) type Pooled = deadpool::managed::Object<Connector>;

impl Shared {
    /// True if followers are to be told, as far as is known.
    pub(crate) fn is_followed(&self) -> bool {
        self.is_followed.load(Ordering::Relaxed)
    }

    /// Notes whether there are followers, and returns true if they are to be told.
    pub(crate) fn note_followers(&self, is_followed: bool) -> bool {
        let is_told = is_followed && self.notifies;
        self.is_followed.store(is_told, Ordering::Relaxed);
        is_told
    }

    /// Checks that the store is open.
    ///
    /// # Errors
    /// `Closed`.
    pub(crate) fn check_open(&self) -> Result<()> {
        if self.closed.load(Ordering::Acquire) {
            return Err(Error::Closed);
        }
        Ok(())
    }

    /// True if no newer server is known than the one that a connection leads to.
    pub(crate) fn is_current(&self, connection: &Connection) -> bool {
        self.connector.fence.is_current(connection.pass)
    }

    /// Returns the result of `work`, which asks a connection's server, unless it takes too long. If
    /// the server was replaced by then, its result is no answer.
    pub(crate) async fn answered<T>(
        &self,
        connection: &Connection,
        longest: Duration,
        work: impl Future<Output = Tried<T>>,
    ) -> Tried<T> {
        let fence = &self.connector.fence;
        let replaced = || Fault::lost("the server was replaced");
        tokio::select! {
            biased;
            done = work => {
                let done = done?;
                if self.is_current(connection) { Ok(done) } else { Err(replaced()) }
            }
            () = fence.replaced(connection.pass) => {
                self.connector.cancel(connection);
                Err(replaced())
            }
            () = tokio::time::sleep(longest) => {
                Err(Fault::lost(format!("the server gave no answer for {longest:?}")))
            }
        }
    }

    /// Returns a connection to read with.
    async fn connection(&self) -> Tried<Pooled> {
        use deadpool::managed::{PoolError, TimeoutType};
        self.check_open()?;
        self.pool.get().await.map_err(|error| match error {
            PoolError::Backend(fault) => fault,
            PoolError::Timeout(TimeoutType::Wait) => {
                let reason = format!(
                    "all {} connections were in use for {:?}",
                    self.options.connections, self.options.wait
                );
                Fault::Refused(Error::Unavailable {
                    reason: reason.into(),
                })
            }
            PoolError::Timeout(_) => Fault::lost("no server answered in time"),
            PoolError::Closed | PoolError::NoRuntimeSpecified | PoolError::PostCreateHook(_) => {
                Fault::Refused(Error::Closed)
            }
        })
    }

    /// Runs `read` on the database. While no server answers, or the one that did was replaced, the
    /// read is tried again, for [`retry`](PostgresOptions::retry) at most. A server that takes too
    /// long is told to stop.
    ///
    /// # Errors
    /// `Closed`, `Unavailable`, and the errors of the database.
    pub(crate) async fn read<T>(
        self: &Arc<Self>,
        read: impl for<'c> Fn(Arc<Self>, &'c Connection) -> Asked<'c, T> + Send + Sync,
    ) -> Result<T> {
        self.read_for(self.options.statement, read).await
    }

    /// Does the same for a read of many lines.
    pub(crate) async fn read_bulk<T>(
        self: &Arc<Self>,
        read: impl for<'c> Fn(Arc<Self>, &'c Connection) -> Asked<'c, T> + Send + Sync,
    ) -> Result<T> {
        self.read_for(self.options.longest(true), read).await
    }

    async fn read_for<T>(
        self: &Arc<Self>,
        longest: Duration,
        read: impl for<'c> Fn(Arc<Self>, &'c Connection) -> Asked<'c, T> + Send + Sync,
    ) -> Result<T> {
        let deadline = Instant::now() + self.options.retry;
        let mut pause = Pause::default();
        loop {
            let fault = match self.try_to_read(longest, &read).await {
                Ok(found) => return Ok(found),
                Err(Fault::Refused(error)) => return Err(error),
                Err(fault) => fault,
            };
            if Instant::now() >= deadline {
                return Err(fault.into_error());
            }
            pause.wait(deadline).await;
        }
    }

    async fn try_to_read<T>(
        self: &Arc<Self>,
        longest: Duration,
        read: &(impl for<'c> Fn(Arc<Self>, &'c Connection) -> Asked<'c, T> + Send + Sync),
    ) -> Tried<T> {
        let connection = self.connection().await?;
        let begun = std::time::Instant::now();
        let asked = {
            let mut asked = read(self.clone(), &connection);
            let answered = self.answered(&connection, Duration::MAX, &mut asked);
            if let Ok(asked) = tokio::time::timeout(longest, answered).await {
                asked
            } else {
                // A server that is only slow confirms that it stopped. If the server says nothing,
                // it or the way to it is gone: another connection may do.
                self.connector.cancel(&connection);
                let has_stopped = tokio::time::timeout(STOPS, &mut asked).await.is_ok();
                Err(if has_stopped {
                    let reason = format!("a read took over {longest:?}").into();
                    Fault::Refused(Error::Unavailable { reason })
                } else {
                    // The connections that were not used since then most likely lead the same way.
                    // Each of them would cost the same wait.
                    let is_newer = |used: Duration| used < begun.elapsed();
                    self.pool.retain(|_, one| is_newer(one.last_used()));
                    Fault::lost(format!("the server gave no answer for {longest:?}"))
                })
            }
        };
        if asked.is_err() {
            // The connection may be in a transaction that failed.
            drop(take(connection));
        }
        asked
    }
}

/// The longest time that a server may take to stop when it is told to.
const STOPS: Duration = Duration::from_secs(2);

/// Pauses that get longer and longer, and differ between waiting tasks.
#[derive(Default)]
pub(crate) struct Pause(u32);

impl Pause {
    pub(crate) async fn wait(&mut self, deadline: Instant) {
        let most = 10_u64 << self.0.min(6);
        self.0 += 1;
        let pause = most / 2 + random().cast_unsigned() % (most / 2 + 1);
        let until = Instant::now() + Duration::from_millis(pause);
        tokio::time::sleep_until(until.min(deadline)).await;
    }
}

/// Takes a connection out of the pool for good.
fn take(connection: Pooled) -> Connection {
    deadpool::managed::Object::take(connection)
}
