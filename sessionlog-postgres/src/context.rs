//! What all parts of a store share.

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

/// What all parts of a store share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) options: PostgresOptions,
    pub(crate) connector: Connector,
    /// What makes the lanes' connections.
    pub(crate) writers: Connector,
    pub(crate) pool: Pool,
    pub(crate) sql: Sql,
    /// Whether there was an index for words when the store was opened.
    pub(crate) has_word_index: bool,
    /// Whether the server can notify. Without it nobody can follow changes.
    pub(crate) notifies: bool,
    /// What writers leave of sessions for their next transaction.
    pub(crate) known: Known,
    /// Whether anybody followed changes, when last seen.
    pub(crate) is_followed: AtomicBool,
    pub(crate) closed: AtomicBool,
}

/// A question under way.
pub(crate) type Asked<'c, T> = Pin<Box<dyn Future<Output = Tried<T>> + Send + 'c>>;

/// A connection out of the pool.
pub(crate) type Pooled = deadpool::managed::Object<Connector>;

impl Shared {
    /// Whether followers are to be told, as far as is known.
    pub(crate) fn is_followed(&self) -> bool {
        self.is_followed.load(Ordering::Relaxed)
    }

    /// Notes whether anybody follows, and says whether to tell them.
    pub(crate) fn note_followers(&self, is_followed: bool) -> bool {
        let is_told = is_followed && self.notifies;
        self.is_followed.store(is_told, Ordering::Relaxed);
        is_told
    }

    /// # Errors
    /// `Closed`.
    pub(crate) fn check_open(&self) -> Result<()> {
        if self.closed.load(Ordering::Acquire) {
            return Err(Error::Closed);
        }
        Ok(())
    }

    /// Whether no newer server is known than the one that a connection leads to.
    pub(crate) fn is_current(&self, connection: &Connection) -> bool {
        self.connector.fence.is_current(connection.pass)
    }

    /// What comes of `work`, which asks a connection's server, unless it takes too long. What a
    /// server says that was replaced by then is no answer.
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

    /// A connection to read with.
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

    /// Has `read` ask the database. While no server answers, or the one that did was replaced,
    /// it is asked again, for [`retry`](PostgresOptions::retry) at most; one that takes too long
    /// is told to stop.
    ///
    /// # Errors
    /// `Closed`, `Unavailable`, and what the database says.
    pub(crate) async fn read<T>(
        self: &Arc<Self>,
        read: impl for<'c> Fn(Arc<Self>, &'c Connection) -> Asked<'c, T> + Send + Sync,
    ) -> Result<T> {
        self.read_for(self.options.statement, read).await
    }

    /// The same of what reads many lines.
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
                // A server that is only slow says that it stopped. One that says nothing, or
                // the way to it, is gone: another connection may do.
                self.connector.cancel(&connection);
                let has_stopped = tokio::time::timeout(STOPS, &mut asked).await.is_ok();
                Err(if has_stopped {
                    let reason = format!("a read took over {longest:?}").into();
                    Fault::Refused(Error::Unavailable { reason })
                } else {
                    // Those that nobody used since lead the same way, most likely: each would be
                    // waited for as long.
                    let is_newer = |used: Duration| used < begun.elapsed();
                    self.pool.retain(|_, one| is_newer(one.last_used()));
                    Fault::lost(format!("the server gave no answer for {longest:?}"))
                })
            }
        };
        if asked.is_err() {
            // It may be in a transaction that failed.
            drop(take(connection));
        }
        asked
    }
}

/// How long a server may take to stop what it is told to stop.
const STOPS: Duration = Duration::from_secs(2);

/// Longer and longer pauses, and not of all at once.
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

/// Out of the pool for good.
fn take(connection: Pooled) -> Connection {
    deadpool::managed::Object::take(connection)
}
